"""What a seeded bug is, and how the implementation is changed while it is planted."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from leasehold.impl.core.core import Core
from leasehold.impl.core.stepping import Step

Planted = AbstractContextManager[None]

PAPER = "paper, section 5.1"
TODAY = "seen today"
RUNTIME = "a mistake that the runtime's own rules exclude"
LEASE = ("lease",)
EVERY = (*LEASE, "pipe", "register", "ring")  # of what any system does: its records, messages and recovery

# As in section 5.1 of the paper; `recovery`, what goes wrong in the order of recovery itself; shapes of other systems.
CLASSES = (
    "serialization", "checkpointing", "communication", "idempotency", "resource handlers", "policies", "recovery",
    "sessions", "standing systems", "memberships", "contracts",
)  # fmt: skip


class UnknownBug(ValueError):
    """No seeded bug has this name. The message says which is near."""


@dataclass(frozen=True, slots=True)
class Bug:
    """A seeded bug.

    Attributes:
        name: its name.
        class_: one of CLASSES.
        doc: the mistake in a sentence.
        source: who made it.
        plant: within what it answers, all actors of this process have it.
        systems: those whose campaigns try it (tests/campaigns/seeded.py, SYSTEMS).
        tests: the test that catches it, where actors of a campaign meet nothing of the kind: a liar, a hanging policy.
    """

    name: str
    class_: str
    doc: str
    source: str
    plant: Callable[[], Planted]
    systems: tuple[str, ...] = LEASE
    tests: str = ""


_ALL: dict[str, Bug] = {}


def bug(
    class_: str, source: str = PAPER, *, systems: tuple[str, ...] = LEASE, tests: str = ""
) -> Callable[[Callable[[], Planted]], Callable[[], Planted]]:
    """Registers what plants a bug under its own name; its docstring says what is wrong."""
    assert class_ in CLASSES, class_

    def register(plant: Callable[[], Planted]) -> Callable[[], Planted]:
        name = plant.__name__
        assert name not in _ALL, name
        _ALL[name] = Bug(name, class_, " ".join((plant.__doc__ or "").split()), source, plant, systems, tests)
        return plant

    return register


def bugs() -> tuple[Bug, ...]:
    """All seeded bugs, class by class."""
    return tuple(sorted(_ALL.values(), key=lambda b: CLASSES.index(b.class_)))


def named(name: str) -> Bug:
    """The bug of a name.

    Raises:
        UnknownBug: there is none.
    """
    if name in _ALL:
        return _ALL[name]
    near = difflib.get_close_matches(name, _ALL, 1)
    raise UnknownBug(f"no bug is named {name[:80]!r}" + (f"; did you mean {near[0]}?" if near else ""))


# How the implementation is changed


@contextmanager
def patched(owner: type | ModuleType, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """A method of a class, or a function of a module, is another one; `make` is given it as it was."""
    before = owner.__dict__[name]
    setattr(owner, name, make(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def together(*planted: Planted) -> Iterator[None]:
    """Several changes that make one bug."""
    with ExitStack() as stack:
        for one in planted:
            stack.enter_context(one)
        yield


@contextmanager
def stepping(make: Callable[[Core, Step], Step]) -> Iterator[None]:
    """Machines step otherwise; `make` is given a role's core, and its step as it was compiled."""

    # Each core has its step as an attribute of its own. A property of the class goes before it.
    def get(core: Core) -> Step:
        return make(core, core.__dict__["step"])

    def put(core: Core, step: Step) -> None:
        core.__dict__["step"] = step

    assert "step" not in Core.__dict__
    Core.step = property(get, put)  # type: ignore[assignment]
    try:
        yield
    finally:
        del Core.step
