import com.alibaba.nacos.api.NacosFactory;
import com.alibaba.nacos.api.PropertyKeyConst;
import com.alibaba.nacos.api.naming.NamingMaintainFactory;
import com.alibaba.nacos.api.naming.NamingMaintainService;
import com.alibaba.nacos.api.naming.NamingService;
import com.alibaba.nacos.api.naming.listener.NamingEvent;
import com.alibaba.nacos.api.naming.pojo.Instance;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/** Does with nacos-client what the lines on its input say; program.py has the shape of all lines. */
public final class JavaClient {
    private static final String GROUP = "DEFAULT_GROUP";
    private static final ObjectMapper JSON =
        new ObjectMapper().disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, JavaClient> CLIENTS = new HashMap<>();

    private final String name;
    private final NamingService naming;
    private final NamingMaintainService maintain;

    private JavaClient(String name, JsonNode fields) throws Exception {
        Properties properties = new Properties();
        properties.setProperty(PropertyKeyConst.SERVER_ADDR, StreamSupport
            .stream(fields.get("servers").spliterator(), false).map(JsonNode::asText).collect(Collectors.joining(",")));
        if (fields.has("namespace")) {
            properties.setProperty(PropertyKeyConst.NAMESPACE, fields.get("namespace").asText());
        }
        if (fields.has("username")) {
            properties.setProperty(PropertyKeyConst.USERNAME, fields.get("username").asText());
            properties.setProperty(PropertyKeyConst.PASSWORD, fields.get("password").asText());
        }
        this.name = name;
        this.naming = NacosFactory.createNamingService(properties);
        this.maintain = NamingMaintainFactory.createMaintainService(properties);
    }

    private Object run(String op, JsonNode fields) throws Exception {
        String service = fields.path("service").asText();
        switch (op) {
            case "register":
                naming.registerInstance(service, GROUP, instanceOf(fields));
                return true;
            case "batch":
                List<Instance> all = StreamSupport.stream(fields.get("instances").spliterator(), false)
                    .map(JavaClient::instanceOf).collect(Collectors.toList());
                // Since 2.1.1, and this is compiled with older ones too.
                NamingService.class.getMethod("batchRegisterInstance", String.class, String.class, List.class)
                    .invoke(naming, service, GROUP, all);
                return true;
            case "change":
                maintain.updateInstance(service, GROUP, instanceOf(fields));
                return true;
            case "deregister":
                naming.deregisterInstance(service, GROUP, instanceOf(fields));
                return true;
            case "list":
                return naming.getAllInstances(service, GROUP, new ArrayList<>(), false);
            case "select":
                Instance chosen = naming.selectOneHealthyInstance(service, GROUP);
                return chosen.getIp() + ":" + chosen.getPort();
            case "services":
                return naming.getServicesOfServer(1, 100, GROUP).getData();
            case "subscribe":
                subscribe(service);
                return true;
            case "close":
                naming.shutDown();
                maintain.shutDown();
                CLIENTS.remove(name);
                return true;
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private static Instance instanceOf(JsonNode fields) {
        Instance instance = new Instance();
        instance.setIp(fields.get("ip").asText());
        instance.setPort(fields.get("port").asInt());
        instance.setClusterName(fields.path("cluster").asText("DEFAULT"));
        instance.setWeight(fields.path("weight").asDouble(1.0));
        if (fields.has("metadata")) {
            instance.setMetadata(JSON.convertValue(fields.get("metadata"), Map.class));
        }
        return instance;
    }

    // The library gives its listener all instances each time.
    private void subscribe(String service) throws Exception {
        Map<String, Object> known = new HashMap<>();
        naming.subscribe(service, GROUP, event -> {
            Map<String, Object> now = new HashMap<>();
            for (Instance one : ((NamingEvent) event).getInstances()) {
                now.put(one.getIp() + ":" + one.getPort(), List.of(one.getWeight(), one.getMetadata()));
            }
            synchronized (known) {
                now.forEach((where, what) -> {
                    if (!known.containsKey(where)) {
                        tell("added", service, where);
                    } else if (!Objects.equals(known.get(where), what)) {
                        tell("changed", service, where);
                    }
                });
                known.keySet().stream().filter(where -> !now.containsKey(where))
                    .forEach(where -> tell("removed", service, where));
                known.clear();
                known.putAll(now);
            }
        });
    }

    private void tell(String event, String service, String instance) {
        put(Map.of("event", event, "client", name, "service", service, "instance", instance));
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
            String op = fields.get("op").asText();
            String name = fields.get("client").asText();
            try {
                if (op.equals("open")) {
                    CLIENTS.put(name, new JavaClient(name, fields));
                    put(Map.of("result", true));
                } else {
                    put(Map.of("result", CLIENTS.get(name).run(op, fields)));
                }
            } catch (Exception error) {
                put(Map.of("error", error.toString()));
            }
        }
        // The library's threads do not all end by themselves.
        Runtime.getRuntime().halt(0);
    }
}
