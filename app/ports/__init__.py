"""Protocols of the parts of a node that its frontends use, by caller: a frontend never imports the node."""
