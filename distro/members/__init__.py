"""The member list: the state of each member, who carries keys, and who is reached by which way."""
