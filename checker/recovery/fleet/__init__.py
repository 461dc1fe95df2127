"""A system as processes, driven and killed at random, and judged by its own properties."""
