"""Time: the clock, and the pace of long work beside an event loop."""
