"""What a client's demand for a lease says, in full."""

from __future__ import annotations

from typing import Any

UNSAID: dict[str, Any] = {"properties": {}, "configuration": {}, "local": {}}


def demand(units: Any, end: int, start: int = 0) -> dict[str, Any]:
    """The fields of `demand`."""
    return {"units": units, "start": start, "end": end, "type": "", **UNSAID}


def extension(units: int, end: int) -> dict[str, Any]:
    """The fields of `extend`."""
    return {"units": units, "end": end, **UNSAID}
