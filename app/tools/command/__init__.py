"""Commands of `rollcall` for operators: each loads what it needs when it runs."""
