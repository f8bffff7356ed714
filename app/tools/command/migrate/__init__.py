"""``rollcall migrate``: the move of clients from a Nacos to this cluster over a link, step by step."""
