"""Access control: the access that every route and every gRPC request type declares, and the one decision on it."""
