"""Property lists: what actors tell each other about a ticket, and the machines carry without reading it.

The specification calls them opaque (docs/decisions/0006-opaque.md). They are plain data, names and values; a record
that has no ticket yet has something else there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read(opaque: object) -> dict[str, Any]:
    """The properties in an opaque value; none where it is no property list."""
    return {str(name): value for name, value in opaque.items()} if isinstance(opaque, Mapping) else {}
