"""Time: the clock, and the pace of long work next to an event loop."""
