"""What worlds go through, and members that lack one rule each."""
