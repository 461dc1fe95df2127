"""Simulation of real actors in one process: their time, network, disks and units, all of which may fail."""
