"""The language in which systems of interacting recoverable state machines are written, and its loader."""
