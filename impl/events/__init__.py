"""The account of what actors did, as a chain of events that are committed with their records."""
