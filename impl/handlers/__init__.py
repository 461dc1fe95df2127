"""Handlers: what brings units up and down, at both ends of a lease."""
