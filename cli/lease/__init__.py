"""Verbs of the lease: its demo, and whom its actors trust."""
