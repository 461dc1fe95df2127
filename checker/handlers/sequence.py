"""A sequence of actions with faults: what the harness tries, shrinks, keeps in a file and plays again.

Theory of operation. A sequence is plain data. Numbers of actions, tasks, incarnations and leases follow from the order
of its steps, so a step that is left out leaves a sequence that can be played. A unit's *wanted state* after a step is
the verb of its last action (the toggle principle: the last action counts); before the first one it is `fresh`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from leasehold.impl import files
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.words import choices

FRESH = "fresh"
UP, CHANGE, DOWN = ("setup", "join"), ("modify",), ("teardown", "leave")
Who = Literal["all", "actor", "tool"]
WHO: Mapping[Who, str] = {
    "all": "the actor and its tools",
    "actor": "the actor alone, whose tools go on",
    "tool": "the process that makes the call",
}
ERRORS = ("EIO", "ENOSPC", "ENOMEM")


class FindingKind(StrEnum):
    """A kind of fault of a handler, with its meaning."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> FindingKind:
        member = str.__new__(cls, name)
        member._value_, member.meaning = name, meaning
        return member

    FAILS = "fails", "an action fails though nothing disturbs it"
    NOT_REPEATABLE = "not_repeatable", "an action fails when it is repeated, or where there is nothing to do"
    STUCK = "stuck", "after a fault, no repetition of an action ends well, or it does not end at all"
    MADE_TWICE = "made_twice", "there is more than one clean action makes"
    HALF_MADE = "half_made", "an action says done, and something is missing"
    LEFT_OVER = "left_over", "a teardown says done, and something lives on"
    LEAK = "leak", "each round, or each fault, leaves files behind"
    DATA_LOST = "data_lost", "what the guest has written is gone although its unit was never torn down"
    RESTARTED = "restarted", "what was up is started again by an action that need not"
    PAST_LEASE = "past_lease", "a lease finds something of the one before"
    OLD_ACTION = "old_action", "an action with an old number changes something"
    LAST_ACTION = "last_action", "the state is not that of the last action: an older one has won"
    OTHER_UNIT = "other_unit", "an action changes another unit"
    SAME_ADDRESS = "same_address", "two units have one address"
    TOLD_ANEW = "told_anew", "what a holder is told of its unit is another although nothing has changed it"
    WRONG_PROBE = "wrong_probe", "the handler's probe says something else than there is"


class HandlerFault(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault that strikes an action under way.

    Attributes:
        kind: `kill`: SIGKILL; `error`: a system call fails; `cancel`: the time limit of the action is over.
        who: is killed (WHO).
        call: the system call at which it strikes; empty: at a moment.
        nth: which of those calls, of a process.
        errno: of the error, by name.
        at: the moment, as a share of the time that the action takes undisturbed.
        program: whose execution it strikes, where `call` is `execve`; empty: of any program.
    """

    kind: Literal["kill", "error", "cancel"]
    who: Who = "all"
    call: Annotated[str, Meta(pattern=r"^[a-z0-9_]*$")] = ""
    nth: Annotated[int, Meta(ge=1)] = 1
    errno: Annotated[str, Meta(pattern=r"^E[A-Z0-9]+$")] = "EIO"
    at: Annotated[float, Meta(ge=0, le=4)] = 0.5
    program: str = ""

    def __str__(self) -> str:
        place = f"at its {_ordinal(self.nth)} {self.call}" if self.call else f"at {self.at:.0%} of its time"
        if self.kind == "cancel":
            return f"cancelled at {self.at:.0%} of its time"
        if self.program:
            return f"in which {self.program} cannot be executed ({self.errno})"
        if self.kind == "error":
            return f"whose {_ordinal(self.nth)} {self.call} fails with {self.errno}"
        return f"killed {place} ({WHO[self.who]})"


class HandlerStep(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An action, or what befalls a unit.

    Attributes:
        verb: of the action; `lose`: the unit's processes are killed.
        unit: its number.
        others: further units on which the same incarnation does the same at the same time.
        beside: a verb that another incarnation does on the same unit at the same time, with the next number.
        old: the action has a number that is older than the unit's newest, as of a past incarnation.
        fault: strikes it.
    """

    verb: str
    unit: Annotated[int, Meta(ge=0, le=7)] = 0
    others: tuple[int, ...] = ()
    beside: str = ""
    old: bool = False
    fault: HandlerFault | None = None

    @property
    def units(self) -> tuple[int, ...]:
        return (self.unit, *self.others)

    @property
    def disturbed(self) -> bool:
        return self.fault is not None or bool(self.beside)

    def __str__(self) -> str:
        units = "units " + ", ".join(map(str, self.units)) if self.others else f"unit {self.unit}"
        if self.verb == "lose":
            return f"the processes of {units} are killed"
        text = f"{self.verb} of {units}"
        text += " with an old number" if self.old else ""
        text += f", beside {self.beside} with the next number" if self.beside else ""
        return text + (f", {self.fault}" if self.fault else "")


class Sequence(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Steps, in order; at the end of a play each unit is torn down as well."""

    steps: tuple[HandlerStep, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.steps)) or "nothing"

    @property
    def key(self) -> bytes:
        """Equal for equal sequences."""
        return msgspec.json.encode(self)

    @property
    def follows(self) -> bool:
        """Returns whether a unit is changed only once it was set up to the end, as by machines."""
        made = set[int]()
        for step in self.steps:
            if step.old or step.verb == "lose":
                continue
            if step.verb in CHANGE and not made.issuperset(step.units):
                return False
            if step.beside in CHANGE and (step.verb in DOWN or step.unit not in made):
                return False
            last = step.beside or step.verb
            if last not in CHANGE:
                made.difference_update(step.units)
                made.update(step.units if last not in DOWN and step.fault is None else ())
        return True

    def check(self, verbs: tuple[str, ...], units: int) -> None:
        """Checks whether a handler with these verbs can be asked for it.

        Raises:
            HandlerError: it cannot; with the step.
        """
        for number, step in enumerate(self.steps, 1):
            for verb in (step.verb, step.beside):
                if verb and verb != "lose" and verb not in verbs:
                    raise HandlerError(f"step {number}: the handler has no {verb[:60]!r}{choices(verb, verbs)}")
            if max(step.units) >= units:
                raise HandlerError(f"step {number}: there are {units} units, from 0 on, and none is {max(step.units)}")

    def vectors(self, units: int) -> Iterator[tuple[str, ...]]:
        """The wanted states of all units after each step, with those of the end: each unit torn down."""
        wanted = [FRESH] * units
        for step in self.steps:
            if step.verb != "lose" and not step.old:
                for unit in step.units:
                    wanted[unit] = step.beside or step.verb
            yield tuple(wanted)


class HandlerFinding(Struct, frozen=True, omit_defaults=True):
    """A fault of a handler that was seen.

    Attributes:
        step: after which, from 1 on; 0: at the end, when all is torn down.
        difference: what differs from what is right, a line each.
        said: the handler's own words.
    """

    kind: str
    step: int
    words: str
    difference: tuple[str, ...] = ()
    said: str = ""


class Replay(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A sequence with what it is for, as a file that can be played again.

    Attributes:
        handler: as it was named.
        verbs, units: that were tried.
        data: the lease's record that actions were given.
        properties, modified: of units, at first and once they were modified.
        found: the kind of fault that it shows.
    """

    handler: str
    digest: str
    verbs: tuple[str, ...]
    units: int
    data: dict[str, object] = {}
    properties: dict[str, object] = {}
    modified: dict[str, object] = {}
    found: str = ""
    steps: tuple[HandlerStep, ...] = ()


def write_replay(path: Path, replay: Replay) -> None:
    """Writes a file that can be played again."""
    path.write_bytes(msgspec.yaml.encode(replay))


def read_replay(path: Path) -> Replay:
    """Reads such a file.

    Raises:
        HandlerError: it is none.
    """
    try:
        return msgspec.convert(files.read_yaml(path), Replay)
    except files.Unreadable as error:
        raise HandlerError(str(error)) from None
    except msgspec.ValidationError as error:
        raise HandlerError(f"{path}: it is no sequence of the harness: {error}") from None


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
