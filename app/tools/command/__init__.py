"""Commands of `rollcall` for operators: each loads its modules when it runs."""
