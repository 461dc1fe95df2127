"""A world in one process for real actors: its time, its network, its disks and its units, all of which may fail."""
