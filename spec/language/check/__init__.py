"""The phase of checking: what the linter says of a model."""
