"""The members of the cluster: the source of their list, their names and addresses, and their reports."""
