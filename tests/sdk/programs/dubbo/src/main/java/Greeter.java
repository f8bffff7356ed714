/** What the provider offers. */
public interface Greeter {
    String greet(String name);
}
