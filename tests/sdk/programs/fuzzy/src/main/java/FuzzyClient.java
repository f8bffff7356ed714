import com.alibaba.nacos.api.NacosFactory;
import com.alibaba.nacos.api.PropertyKeyConst;
import com.alibaba.nacos.api.naming.NamingService;
import com.alibaba.nacos.api.naming.listener.AbstractFuzzyWatchEventWatcher;
import com.alibaba.nacos.api.naming.listener.FuzzyWatchChangeEvent;
import com.alibaba.nacos.api.naming.listener.FuzzyWatchLoadWatcher;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/** Watches services by patterns with nacos-client since 3.0; program.py has the shape of all lines. */
public final class FuzzyClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, FuzzyClient> CLIENTS = new HashMap<>();

    private final String name;
    private final NamingService naming;
    private final Map<String, Watcher> watchers = new HashMap<>();

    private FuzzyClient(String name, JsonNode fields) throws Exception {
        Properties properties = new Properties();
        properties.setProperty(PropertyKeyConst.SERVER_ADDR, StreamSupport
            .stream(fields.get("servers").spliterator(), false).map(JsonNode::asText).collect(Collectors.joining(",")));
        for (String key : new String[] {"namespace", "username", "password"}) {
            if (fields.has(key)) {
                properties.setProperty(key, fields.get(key).asText());
            }
        }
        this.name = name;
        this.naming = NacosFactory.createNamingService(properties);
    }

    private Object run(String op, JsonNode fields) throws Exception {
        String service = fields.path("service").asText();
        String group = fields.path("group").asText();
        Watcher watcher = watchers.computeIfAbsent(group + ">>" + service, key -> new Watcher());
        switch (op) {
            case "watch":
                naming.fuzzyWatch(service, group, watcher);
                return true;
            case "watch_keys":
                return naming.fuzzyWatchWithServiceKeys(service, group, watcher).get(30, TimeUnit.SECONDS).getData();
            case "cancel":
                naming.cancelFuzzyWatch(service, group, watcher);
                return true;
            case "register":
                naming.registerInstance(service, group, fields.get("ip").asText(), fields.get("port").asInt());
                return true;
            case "close":
                naming.shutDown();
                CLIENTS.remove(name);
                return true;
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private final class Watcher extends AbstractFuzzyWatchEventWatcher implements FuzzyWatchLoadWatcher {
        @Override
        public void onEvent(FuzzyWatchChangeEvent event) {
            boolean isNew = event.getChangeType().equals("ADD_SERVICE");
            tell(isNew ? "added" : "removed", event.getGroupName() + "@@" + event.getServiceName());
        }

        @Override
        public void onPatternOverLimit() {
            tell("changed", "patterns over limit");
        }

        @Override
        public void onServiceReachUpLimit() {
            tell("changed", "services over limit");
        }
    }

    private void tell(String event, String service) {
        put(Map.of("event", event, "client", name, "service", service, "instance", service));
    }

    private static void put(Map<String, Object> line) {
        try {
            String text = JSON.writeValueAsString(line);
            synchronized (OUT) {
                OUT.println(text);
                OUT.flush();
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode fields = JSON.readTree(line);
            String name = fields.get("client").asText();
            try {
                if (fields.get("op").asText().equals("open")) {
                    CLIENTS.put(name, new FuzzyClient(name, fields));
                    put(Map.of("result", true));
                } else {
                    put(Map.of("result", CLIENTS.get(name).run(fields.get("op").asText(), fields)));
                }
            } catch (Exception error) {
                put(Map.of("error", String.valueOf(error)));
            }
        }
        // The library's threads do not end by themselves.
        System.exit(0);
    }
}
