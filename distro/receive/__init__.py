"""The reception of datums from peers, and the decision on each."""
