import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.foo.Outer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/** A provider or a consumer of Dubbo, as the lines on its input say; program.py has the shape of all lines. */
public final class DubboClient {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Function<String, String> call;

    private static Object run(String op, JsonNode fields) {
        switch (op) {
            case "provide":
                ServiceConfig<?> service = isNested(fields)
                    ? provided(Outer.Inner.class, name -> "hello " + name)
                    : provided(Greeter.class, name -> "hello " + name);
                service.setVersion(text(fields, "version"));
                ProtocolConfig protocol = new ProtocolConfig("dubbo", fields.get("port").asInt());
                bootstrap("provider", fields).protocol(protocol).service(service).start();
                // The address that it publishes: one of the machine's that is no loopback's.
                return service.getExportedUrls().stream().filter(url -> "dubbo".equals(url.getProtocol())).findFirst()
                    .get().getAddress();
            case "refer":
                if (isNested(fields)) {
                    Outer.Inner inner = referred(Outer.Inner.class, fields);
                    call = inner::greet;
                } else {
                    Greeter greeter = referred(Greeter.class, fields);
                    call = greeter::greet;
                }
                return true;
            case "call":
                return call.apply("you");
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private static boolean isNested(JsonNode fields) {
        return fields.path("nested").asBoolean();
    }

    private static String text(JsonNode fields, String name) {
        return fields.path(name).asText(null);
    }

    private static <T> ServiceConfig<T> provided(Class<T> type, T implementation) {
        ServiceConfig<T> service = new ServiceConfig<>();
        service.setInterface(type);
        service.setRef(implementation);
        return service;
    }

    private static <T> T referred(Class<T> type, JsonNode fields) {
        ReferenceConfig<T> reference = new ReferenceConfig<>();
        reference.setInterface(type);
        reference.setVersion(text(fields, "version"));
        reference.setGroup(text(fields, "group"));
        reference.setCheck(false);
        reference.setTimeout(3000);
        // Each call counts: none is made again.
        reference.setRetries(0);
        reference.setCluster("failfast");
        bootstrap("consumer", fields).reference(reference).start();
        return reference.get();
    }

    private static DubboBootstrap bootstrap(String role, JsonNode fields) {
        ApplicationConfig application = new ApplicationConfig("drill-" + role);
        application.setQosEnable(false);
        application.setRegisterMode("interface");
        String servers = StreamSupport.stream(fields.get("servers").spliterator(), false).map(JsonNode::asText)
            .collect(Collectors.joining(","));
        String[] parts = servers.split(",", 2);
        // Without it only providers are registered.
        String options = "?register-consumer-url=" + fields.path("registerConsumer").asBoolean();
        String others = parts.length > 1 ? "&backup=" + parts[1] : "";
        RegistryConfig registry = new RegistryConfig("nacos://" + parts[0] + options + others);
        registry.setUseAsConfigCenter(false);
        registry.setUseAsMetadataCenter(false);
        return DubboBootstrap.getInstance().application(application).registry(registry);
    }

    private static void put(Map<String, Object> line) throws Exception {
        OUT.println(JSON.writeValueAsString(line));
        OUT.flush();
    }

    public static void main(String[] arguments) throws Exception {
        // What the libraries print is no answer.
        System.setOut(System.err);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode fields = JSON.readTree(line);
            try {
                put(Map.of("result", run(fields.get("op").asText(), fields)));
            } catch (Exception error) {
                put(Map.of("error", error.toString()));
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
