"""The member list: the state of each member, the members that carry keys, and the paths to them."""
