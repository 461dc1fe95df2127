"""The last transitions of every lease, and what failed: why it is where it is. A restart begins it anew."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from leasehold.impl.notices import Kind, Notice
from leasehold.impl.store.store import Key

MACHINES, EACH = 10_000, 16


class History:
    """Subscribes to an actor's notices, and keeps the last few of each machine that is not forgotten."""

    def __init__(self) -> None:
        self._of: OrderedDict[Key, deque[dict[str, Any]]] = OrderedDict()

    def __call__(self, notice: Notice) -> None:
        key = Key(notice.lease, notice.machine)
        step: dict[str, Any]
        if notice.kind is Kind.TRANSITION:
            step = {"transition": notice.name, "from": notice.data["from"], "to": notice.data["to"]}
        elif notice.kind is Kind.ANSWERED and not notice.data["well"]:
            step = {"failure": notice.name, "words": notice.data["words"]}
        elif notice.kind is Kind.FORGET:
            self._of.pop(key, None)
            return
        else:
            return
        if key not in self._of:
            self._of[key] = deque(maxlen=EACH)
            if len(self._of) > MACHINES:
                self._of.popitem(last=False)
        else:
            self._of.move_to_end(key)
        self._of[key].append({"at": notice.now, **step})

    def of(self, key: Key) -> list[dict[str, Any]]:
        """The last transitions of a machine, the newest last."""
        return list(self._of.get(key, ()))
