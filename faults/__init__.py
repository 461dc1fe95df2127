"""Faults, in two rooms: `model`, of systems that are explored or proved, and `simulation`, of real actors."""
