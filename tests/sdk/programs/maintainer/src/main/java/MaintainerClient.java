import com.alibaba.nacos.api.PropertyKeyConst;
import com.alibaba.nacos.api.exception.NacosException;
import com.alibaba.nacos.api.exception.runtime.NacosRuntimeException;
import com.alibaba.nacos.common.utils.JacksonUtils;
import com.alibaba.nacos.maintainer.client.ai.AiMaintainerFactory;
import com.alibaba.nacos.maintainer.client.ai.AiMaintainerService;
import com.alibaba.nacos.maintainer.client.config.ConfigMaintainerFactory;
import com.alibaba.nacos.maintainer.client.config.ConfigMaintainerService;
import com.alibaba.nacos.maintainer.client.naming.NamingMaintainerFactory;
import com.alibaba.nacos.maintainer.client.naming.NamingMaintainerService;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/**
 * Makes the calls of nacos-maintainer-client that the lines on its input name; program.py has the shape of all lines.
 *
 * <p>A method is named by its signature, as "listInstances(Service,String,boolean)", and gets its arguments as JSON.
 */
public final class MaintainerClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, MaintainerClient> CLIENTS = new HashMap<>();

    private final Object library;
    private final Map<String, Method> methods = new TreeMap<>();

    private MaintainerClient(Object library, Class<?> kind) {
        this.library = library;
        for (Method method : kind.getMethods()) {
            if (!Modifier.isStatic(method.getModifiers())) {
                methods.put(signature(method), method);
            }
        }
    }

    private static String signature(Method method) {
        return Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName)
            .collect(Collectors.joining(",", method.getName() + "(", ")"));
    }

    private static void open(String name, JsonNode fields) throws Exception {
        Properties properties = new Properties();
        properties.setProperty(PropertyKeyConst.SERVER_ADDR, StreamSupport
            .stream(fields.get("servers").spliterator(), false).map(JsonNode::asText).collect(Collectors.joining(",")));
        for (String key : new String[] {"username", "password"}) {
            if (fields.has(key)) {
                properties.setProperty(key, fields.get(key).asText());
            }
        }
        String kind = fields.get("kind").asText();
        switch (kind) {
            case "naming":
                CLIENTS.put(name, new MaintainerClient(
                    NamingMaintainerFactory.createNamingMaintainerService(properties), NamingMaintainerService.class));
                break;
            case "config":
                CLIENTS.put(name, new MaintainerClient(
                    ConfigMaintainerFactory.createConfigMaintainerService(properties), ConfigMaintainerService.class));
                break;
            default:
                AiMaintainerService ai = AiMaintainerFactory.createAiMaintainerService(properties);
                Method part = AiMaintainerService.class.getMethod(kind);
                CLIENTS.put(name, new MaintainerClient(part.invoke(ai), part.getReturnType()));
        }
    }

    private Object run(String op, JsonNode fields) throws Exception {
        if (op.equals("methods")) {
            return new ArrayList<>(methods.keySet());
        }
        Method method = methods.get(op);
        if (method == null) {
            throw new IllegalArgumentException(op);
        }
        Type[] types = method.getGenericParameterTypes();
        JsonNode given = fields.get("arguments");
        Object[] arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            arguments[i] = given == null ? sample(types[i]) : JacksonUtils.toObj(given.get(i).toString(), types[i]);
        }
        return method.invoke(library, arguments);
    }

    /** A value for a call whose arguments do not matter, because it is refused. */
    private static Object sample(Type type) throws Exception {
        if (type == String.class) {
            return "sample";
        }
        if (type == byte[].class) {
            return new byte[] {1};
        }
        if (type instanceof Class && ((Class<?>) type).isEnum()) {
            return ((Class<?>) type).getEnumConstants()[0];
        }
        String text = type == boolean.class || type == Boolean.class ? "true" : "1";
        boolean isPlain = type instanceof Class
            && (((Class<?>) type).isPrimitive() || Number.class.isAssignableFrom((Class<?>) type) || type == Boolean.class);
        if (isPlain) {
            return JacksonUtils.toObj(text, type);
        }
        return JacksonUtils.toObj(type.getTypeName().startsWith(List.class.getName()) ? "[]" : "{}", type);
    }

    private static String said(Throwable error) {
        if (error instanceof NacosException) {
            return ((NacosException) error).getErrCode() + " " + error;
        }
        if (error instanceof NacosRuntimeException) {
            return ((NacosRuntimeException) error).getErrCode() + " " + error;
        }
        return String.valueOf(error);
    }

    private static void put(String key, Object value) throws Exception {
        // The library's own writer: it knows the forms of its answers.
        OUT.println("{\"" + key + "\":" + JacksonUtils.toJson(value) + "}");
        OUT.flush();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode fields = JSON.readTree(line);
            String op = fields.get("op").asText();
            String name = fields.get("client").asText();
            try {
                if (op.equals("open")) {
                    open(name, fields);
                    put("result", true);
                } else {
                    put("result", CLIENTS.get(name).run(op, fields));
                }
            } catch (InvocationTargetException error) {
                put("error", said(error.getCause()));
            } catch (Exception error) {
                put("error", said(error));
            }
        }
        // The library's threads do not all end by themselves.
        Runtime.getRuntime().halt(0);
    }
}
