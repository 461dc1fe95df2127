"""Random runs: plans of demands and faults, made from a seed, played in simulation and shrunk when they fail."""
