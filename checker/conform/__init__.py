"""Conformance of running systems: each step of a log is one that the specification allows, and what of it was shown."""
