"""This process on its machine: data lock, limit of open files, CPU and memory, ready line, a local cluster."""
