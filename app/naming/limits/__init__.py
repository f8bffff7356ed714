"""How much this member may come to hold by its clients' writes: the limits, what counts against them, refusals."""
