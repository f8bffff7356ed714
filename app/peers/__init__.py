"""Every call to another member of the cluster."""
