"""Tools next door: what runs beside a node and never in one."""
