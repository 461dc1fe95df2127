"""The recovery checker: crashes and other faults of real actors, in simulation or as processes."""


class UnknownCase(ValueError):
    """A text names no case. The message says what is wrong, and which name is near."""
