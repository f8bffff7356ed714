"""The gRPC frontend for SDKs of Nacos 2.x and for members, on the event loop."""
