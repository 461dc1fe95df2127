"""Handlers bring units up and down, at both ends of a lease."""
