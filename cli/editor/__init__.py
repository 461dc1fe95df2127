"""The language server: what editors show of a system's files while they are written."""
