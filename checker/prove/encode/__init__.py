"""Encoding: a system's states, steps and properties as solver terms."""
