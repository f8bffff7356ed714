"""Door 2: gRPC for SDKs of Nacos 2.x and for members, on the worker's event loop."""
