"""The exhaustive campaign: every case of the explored graph, replayed by real actors in simulation."""
