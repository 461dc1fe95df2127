"""Durable records: an interface, its twin in memory, and stores that survive."""
