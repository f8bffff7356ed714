"""The members of the cluster: where their list comes from, their names and addresses, and what they report."""
