"""What can be wrong with what the core is given; whose fault it is stands in the class's first word."""

from __future__ import annotations


class CoreError(Exception):
    """Something that the core was given does not fit its specification."""


class RecordError(CoreError):
    """Stored bytes are no record of this specification. The store's fault, or a record of another specification.

    Attributes:
        digest: of the specification that wrote it, where that could be read.
    """

    def __init__(self, words: str, digest: str = "") -> None:
        super().__init__(words)
        self.digest = digest


class MessageError(CoreError):
    """A peer's message does not fit the specification. The peer's fault; nothing was changed."""
