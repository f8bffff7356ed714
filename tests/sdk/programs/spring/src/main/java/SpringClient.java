import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.client.loadbalancer.LoadBalanced;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestTemplate;

/** A provider or a consumer of Spring Cloud Alibaba, as the lines on its input say; program.py has their shape. */
public final class SpringClient {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String PROVIDER = "spring-provider";
    private static RestTemplate http;

    /** An application that offers one word. */
    @EnableAutoConfiguration
    @RestController
    static class Provider {
        @GetMapping("/greet")
        String greet() {
            return "hello you";
        }
    }

    /** An application that calls others by the names of their services. */
    @EnableAutoConfiguration
    static class Consumer {
        @Bean
        @LoadBalanced
        RestTemplate http() {
            return new RestTemplate();
        }
    }

    private static Object run(String op, JsonNode fields) {
        switch (op) {
            case "provide":
                String port = fields.get("port").asText();
                start(Provider.class, WebApplicationType.SERVLET, fields, Map.of(
                    "spring.application.name", PROVIDER,
                    "server.address", "127.0.0.1",
                    "server.port", port,
                    "spring.cloud.nacos.discovery.ip", "127.0.0.1"));
                return "127.0.0.1:" + port;
            case "refer":
                http = start(Consumer.class, WebApplicationType.NONE, fields, Map.of(
                    "spring.application.name", "spring-consumer",
                    "spring.cloud.nacos.discovery.register-enabled", "false",
                    // Each call takes what the SDK knows at that time.
                    "spring.cloud.loadbalancer.cache.enabled", "false")).getBean(RestTemplate.class);
                return true;
            case "call":
                return http.getForObject("http://" + PROVIDER + "/greet", String.class);
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private static ConfigurableApplicationContext start(
            Class<?> application, WebApplicationType type, JsonNode fields, Map<String, Object> settings) {
        String servers = StreamSupport.stream(fields.get("servers").spliterator(), false).map(JsonNode::asText)
            .collect(Collectors.joining(","));
        return new SpringApplicationBuilder(application).web(type).properties(settings)
            .properties("spring.cloud.nacos.discovery.server-addr=" + servers, "spring.main.banner-mode=off").run();
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
