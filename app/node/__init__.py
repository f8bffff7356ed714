"""One member of a cluster, or a node alone: builders of its parts, the page that wires them, its start and stop."""
