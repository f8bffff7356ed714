"""``rollcall simulate``: what is asked for, the runs, and the verdict."""
