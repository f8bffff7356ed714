"""An operator's questions and actions: why an instance has its state, drains, switches, comparisons of contents."""
