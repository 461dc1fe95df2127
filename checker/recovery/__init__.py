"""The recovery checker: crashes and other faults of real actors, in simulation or as processes."""
