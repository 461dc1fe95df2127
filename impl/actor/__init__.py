"""The actor: one loop around the core."""
