"""What handlers raise."""

from __future__ import annotations


class HandlerError(Exception):
    """An action ended badly, or a handler's settings cannot be used. The message says what and why."""


class Stale(HandlerError):
    """An action older than one that the unit has seen: whoever asks for it is a past incarnation. Nothing was done."""
