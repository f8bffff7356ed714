"""One member in virtual time: its frontend, its calls and its disk."""
