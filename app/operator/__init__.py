"""An operator's actions on single instances: explain the state of one, and drain one."""
