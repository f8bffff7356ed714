"""One service of live members that differ, brought together by their own rules."""
