"""Deciding: which properties hold of every reachable state and step, and the proofs of it."""
