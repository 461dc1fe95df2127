"""Explains leases, and runs of any system, from the events of their actors."""
