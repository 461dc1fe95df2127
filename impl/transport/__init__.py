"""Transports carry messages between actors: at least once, in any order."""
