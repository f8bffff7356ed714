"""The messages of Nacos 2.x: protobuf envelope and JSON bodies."""
