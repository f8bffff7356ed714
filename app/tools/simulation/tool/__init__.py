"""``rollcall simulate``: the request, the runs, and the verdict."""
