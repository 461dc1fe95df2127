"""A handler that does nothing, and does it well: for a service manager whose guest needs no word of its units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.impl.handlers.handler import Action, Done


class Null:
    """The handler."""

    async def act(self, action: Action) -> Done:
        return Done(True, f"nothing to do for {action.verb}")

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        return None

    async def close(self) -> None:
        pass
