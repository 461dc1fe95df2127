"""Specifications to programs: the machines of a system as Python source."""
