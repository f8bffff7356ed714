"""What this process is to its machine: data lock, open files, load, ready line, a local cluster."""
