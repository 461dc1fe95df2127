"""Discovering lemmas that make properties inductive."""
