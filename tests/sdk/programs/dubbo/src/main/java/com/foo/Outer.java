package com.foo;

/** Holds an interface whose name as a service has a dollar sign. */
public final class Outer {
    private Outer() {
    }

    /** What the provider offers. */
    public interface Inner {
        String greet(String name);
    }
}
