"""The prover: claims about every reachable state and step, for all values and without bounds, by z3."""
