"""Where an actor's memory still names something: every object that it holds is looked at.

An actor lives for years, and its leases for minutes. What it keeps of a lease beside its record, such as a refusal or a
pause, has to go with the record, or its memory grows with every lease that ever was. `mentions` needs no list of such
places: it follows all references from an object, and finds the texts and bytes that contain a name.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from leasehold.impl.core.core import Program
from leasehold.spec import System

# What is shared with the process, and what belongs to Python; nothing in it is an actor's own.
_SHARED: tuple[type, ...] = (
    types.ModuleType,
    type,
    types.CodeType,
    types.BuiltinFunctionType,
    types.FrameType,
    asyncio.AbstractEventLoop,
    logging.Logger,
    Program,
    System,
)


def mentions(root: object, name: str, beside: tuple[object, ...] = ()) -> list[str]:
    """The places below an object whose text or bytes contain a name, as paths such as `.outbox.refusals[...]`.

    Args:
        root: where to begin.
        name: as a whole: `tenant:1` is not in `tenant:12`.
        beside: objects that are not looked into.
    """
    wanted = re.compile(rf"(?<![\w:.-]){re.escape(name)}(?!\d)")
    seen = {id(one): one for one in beside}
    found: list[str] = []
    waiting: deque[tuple[str, Any]] = deque([("", root)])  # the shortest path is found first
    while waiting:
        path, one = waiting.popleft()
        if isinstance(one, str | bytes):
            if wanted.search(one if isinstance(one, str) else one.decode("latin-1")):
                found.append(path)
            continue
        if id(one) in seen or isinstance(one, _SHARED):
            continue
        seen[id(one)] = one  # kept, so that no other object gets its address
        waiting += ((path + step, below) for step, below in _below(one))
    return sorted(set(found))


def _below(one: Any) -> Iterator[tuple[str, Any]]:
    """Yields what an object refers to, each with the step to it."""
    if isinstance(one, Mapping):
        for key, value in tuple(dict.items(one) if isinstance(one, dict) else one.items()):
            yield "{key}", key
            yield f"[{key!r:.40}]", value
    if isinstance(one, types.FunctionType):  # its globals are a module's
        for number, cell in enumerate(one.__closure__ or ()):
            yield f".<{one.__name__}>{one.__code__.co_freevars[number]}", _content(cell)
        yield ".<defaults>", one.__defaults__
        return
    if isinstance(one, types.MethodType):
        yield ".<self>", one.__self__
        return
    named = dict(getattr(one, "__dict__", {}))
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            named.setdefault(slot, getattr(one, slot, None))
    for name, value in named.items():
        yield f".{name}", value
    if not named:
        yield from (("[]", below) for below in gc.get_referents(one))
    elif isinstance(one, list | tuple | set | frozenset):
        yield from (("[]", below) for below in one)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has none yet
        return None
