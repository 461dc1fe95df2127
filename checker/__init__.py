"""The checker: explores, proves and tests what the specs describe."""
