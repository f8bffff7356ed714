"""The form of messages between members, and the calls that carry them."""
