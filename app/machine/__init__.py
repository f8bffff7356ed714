"""The machine under a node: its files, certificates, process and limits."""
