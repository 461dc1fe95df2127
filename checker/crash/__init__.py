"""Crashes: every case of them, what follows it, and whether the system converges."""
