"""What an operator asks of a node about one instance, and has it do with one: why it is as it is, and its leaving."""
