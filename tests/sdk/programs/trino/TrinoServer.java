import com.fasterxml.jackson.databind.ObjectMapper;
import io.trino.filesystem.FileEntry;
import io.trino.filesystem.FileIterator;
import io.trino.filesystem.Location;
import io.trino.filesystem.TrinoFileSystem;
import io.trino.filesystem.TrinoFileSystemFactory;
import io.trino.filesystem.local.LocalFileSystem;
import io.trino.plugin.hive.InternalHiveConnectorFactory;
import io.trino.spi.Plugin;
import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorContext;
import io.trino.spi.connector.ConnectorFactory;
import io.trino.spi.security.ConnectorIdentity;
import io.trino.testing.MaterializedResult;
import io.trino.testing.MaterializedRow;
import io.trino.testing.StandaloneQueryRunner;
import io.trino.testing.TestingSession;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A Trino server in this process, whose catalog "hive" has the metastore at the URI of the first argument.
 *
 * Each line of the input is a call {"op", "client", "statement"}; its answer is {"result"}, the rows, or {"error"}.
 */
public class TrinoServer {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        try (StandaloneQueryRunner server = new StandaloneQueryRunner(
                TestingSession.testSessionBuilder().setCatalog("hive").setSchema("default").build())) {
            server.installPlugin(new LocalHive());
            server.createCatalog("hive", "hive", Map.of("hive.metastore.uri", arguments[0]));
            out.println("{\"event\": \"ready\", \"client\": \"\", \"instance\": \"\"}");
            out.flush();
            answer(server, out);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static void answer(StandaloneQueryRunner server, PrintStream out) throws IOException {
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer;
            try {
                MaterializedResult result = server.execute((String) json.readValue(line, Map.class).get("statement"));
                answer = Map.of("result", result.getMaterializedRows().stream()
                        .map(MaterializedRow::getFields).collect(Collectors.toList()));
            } catch (RuntimeException error) {
                answer = Map.of("error", String.valueOf(error.getMessage()));
            }
            out.println(json.writeValueAsString(answer));
            out.flush();
        }
    }

    /** The connector for Hive, which reads the files of this machine without Hadoop's libraries. */
    private static class LocalHive implements Plugin, ConnectorFactory {
        @Override
        public Iterable<ConnectorFactory> getConnectorFactories() {
            return List.of(this);
        }

        @Override
        public String getName() {
            return "hive";
        }

        @Override
        public Connector create(String catalog, Map<String, String> config, ConnectorContext context) {
            return InternalHiveConnectorFactory.createConnector(
                    catalog, config, context, binder -> {}, Optional.empty(), Optional.of(new LocalFiles()), Optional.empty());
        }
    }

    /** Trino's own local file system, whose scheme is "local", under the scheme "file". */
    private static class LocalFiles implements TrinoFileSystemFactory {
        private final TrinoFileSystem files = new LocalFileSystem(Path.of("/"));

        @Override
        public TrinoFileSystem create(ConnectorIdentity identity) {
            return (TrinoFileSystem) Proxy.newProxyInstance(
                    TrinoFileSystem.class.getClassLoader(),
                    new Class<?>[] {TrinoFileSystem.class},
                    (self, method, arguments) -> {
                        String asked = String.valueOf(arguments[0]);
                        for (int number = 0; number < arguments.length; number++) {
                            if (arguments[number] instanceof Location location) {
                                arguments[number] = under("local://", location);
                            }
                        }
                        try {
                            // What is found is named as the folder was: the metastore leaves out the empty host.
                            return named(asked.startsWith("file:///") ? "file://" : "file:", method.invoke(files, arguments));
                        } catch (InvocationTargetException error) {
                            throw error.getCause();
                        }
                    });
        }

        private static Object named(String start, Object found) {
            if (found instanceof Set<?> folders) {
                return folders.stream().map(one -> under(start, (Location) one)).collect(Collectors.toSet());
            }
            return found instanceof FileIterator entries ? new NamedFiles(start, entries) : found;
        }

        private static Location under(String start, Location location) {
            String path = location.path();
            return Location.of(start + (path.startsWith("/") ? path : "/" + path));
        }
    }

    private record NamedFiles(String start, FileIterator entries) implements FileIterator {
        @Override
        public boolean hasNext() throws IOException {
            return entries.hasNext();
        }

        @Override
        public FileEntry next() throws IOException {
            FileEntry entry = entries.next();
            return new FileEntry(
                    LocalFiles.under(start, entry.location()), entry.length(), entry.lastModified(), entry.blocks());
        }
    }
}
