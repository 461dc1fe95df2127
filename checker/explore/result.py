"""The results of an exploration as plain immutable values: for the terminal, for JSON and for reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.spec.language.model import Property, System

Verdict: TypeAlias = Literal["exhausted", "witnessed", "violated", "bounded", "unasked"]
# "initial", "deliver", "duplicate", "local", "tick", "clock", "lose", "crash", "recover", "retry", or the kind of a
# change that a fault adds to the lowered form (`Change.kind`), such as "partition".
ActionKind: TypeAlias = str
AT_VIOLATION = "stopped at a violation"  # why an exploration is not complete


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a step put on its way."""

    message: str
    sender: str  # machine, such as `broker` or `participant[1]`
    receiver: str
    fields: Mapping[str, str]  # values as the language writes them


@dataclass(frozen=True, slots=True)
class Driven:
    """A subsidiary machine that a step moved along with its parent."""

    machine: str
    event: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One global state, readable. `data` has `machine.field`; `channels` only those that are not empty."""

    control: Mapping[str, str]  # machine: control state
    data: Mapping[str, str]
    channels: Mapping[str, tuple[str, ...]]
    now: int | None = None
    titles: Mapping[str, str] = field(default_factory=dict)  # machine: what it is shown to be in, where not by name

    @property
    def shown(self) -> dict[str, str]:
        """Returns where each machine is, as reports call it."""
        return {**self.control, **self.titles}


@dataclass(frozen=True, slots=True)
class Step:
    """One action and the state after it.

    `deliver` consumes a message, `duplicate` receives one again (its reply is sent again, no transition is taken),
    `local` consumes a local event, `tick` a due timer; `clock` is time passing and `lose` a message lost. The event of
    a `crash` is its point, also where a message or local event was being consumed: the transition names that one.
    """

    kind: ActionKind
    machine: str | None
    event: str
    fields: Mapping[str, str]
    sender: str | None  # of the message that was consumed
    transition: str | None  # name of the transition taken, such as `broker/ticketing#granted`; None: ignored
    before: str | None  # the machine's control state before and after
    after: str | None
    sent: tuple[Sent, ...]
    driven: tuple[Driven, ...]
    state: Snapshot
    copied: bool = False  # the message that was received stays on its way, and comes again

    def changes(self, before: Snapshot) -> dict[str, Any]:
        """The changes to the state before: `state` and `data`; `channels` and `now` only where they are new.

        `channels` has all that is on its way afterwards.
        """
        after, earlier = self.state, before.control
        changes: dict[str, Any] = {
            "state": {machine: state for machine, state in after.control.items() if earlier.get(machine) != state},
            "data": {name: value for name, value in after.data.items() if before.data.get(name, "") != value},
        }
        if after.channels != before.channels:
            changes["channels"] = {name: list(messages) for name, messages in after.channels.items()}
        if after.now != before.now:
            changes["now"] = after.now
        return changes

    @property
    def title(self) -> str:
        """`broker: granted(units=1)`; the words that a person reads first."""
        if self.machine is None:
            return self.event
        event, lead = self.event, ""
        if self.kind == "crash":
            if self.transition is None:
                return f"{self.machine}: {event}"
            event, lead = self.transition.partition("#")[2].partition(".")[0], f"{event}, on "
        arguments = ", ".join(f"{k}={v}" for k, v in self.fields.items())
        text = f"{lead}{event}({arguments})" if arguments else f"{lead}{event}"
        sender = f" from {self.sender}" if self.sender else ""
        notes = {"duplicate": " (received again)", "lose": " (lost)"}
        note = notes.get(self.kind, "") + (", which comes again" if self.copied else "")
        return f"{self.machine}: {text}{sender}{note}"


@dataclass(frozen=True, slots=True)
class Path:
    """A path from an initial state, step by step; `loop` is the index of the step that an endless run returns to."""

    initial: Snapshot
    steps: tuple[Step, ...]
    loop: int | None = None

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def final(self) -> Snapshot:
        """The state at its end."""
        return self.steps[-1].state if self.steps else self.initial

    def moves(self) -> Iterator[tuple[Snapshot, Step]]:
        """The steps, each with the state before it."""
        before = self.initial
        for step in self.steps:
            yield before, step
            before = step.state


@dataclass(frozen=True, slots=True)
class PropertyResult:
    """The verdict on one property.

    exhausted: holds in every state within the explored bounds; witnessed: a `sometimes` was reached; violated: a path
    shows the contrary (for a `sometimes` that nothing reaches there is none); bounded: not contradicted, but the
    exploration was cut short. `failed` has the parts of a violated claim that are false at the end of the path, where
    it joins several with `and`. `binding` has the values of the property's variables for which it is violated or, of a
    `sometimes`, not seen yet or witnessed last; empty where it has none, or holds for all.
    """

    name: str
    kind: str  # that of a property, or deadlock, range, guards
    verdict: Verdict
    doc: str = ""
    source: str = ""
    path: Path | None = None
    reason: str = ""
    failed: tuple[str, ...] = ()
    binding: Mapping[str, str] = field(default_factory=dict)


def verdict_on(p: Property, verdict: Verdict, path: Path | None = None, reason: str = "") -> PropertyResult:
    """The verdict on a property of the specification; its reason begins with the values of its variables."""
    if not p.binding or verdict == "exhausted" or (verdict == "bounded" and p.kind != "sometimes"):
        return PropertyResult(p.name, p.kind, verdict, p.doc, p.source, path, reason)
    variables = "for " + ", ".join(f"{name}={value}" for name, value in p.binding.items())
    reason = f"{variables}: {reason}" if reason else variables
    return PropertyResult(p.name, p.kind, verdict, p.doc, p.source, path, reason, (), p.binding)


def of_all_bindings(results: Sequence[PropertyResult]) -> list[PropertyResult]:
    """One verdict for each property: of its verdicts for bindings of its variables, the one that counts.

    That is a violation with a path of the fewest steps; else one that is not decided; else the farthest witness. Of
    several the first.
    """
    by_name: dict[str, list[PropertyResult]] = {}
    for result in results:
        by_name.setdefault(result.name, []).append(result)

    def steps(result: PropertyResult) -> int:
        return 0 if result.path is None else len(result.path)

    def counts(some: list[PropertyResult]) -> PropertyResult:
        violated = [r for r in some if r.verdict == "violated"]
        bounded = [r for r in some if r.verdict == "bounded"]
        return min(violated, key=steps) if violated else bounded[0] if bounded else max(some, key=steps)

    return [counts(some) for some in by_name.values()]


@dataclass(frozen=True, slots=True)
class Cell:
    """One reachable control state of the product, with a shortest path to it (as a state's number)."""

    control: tuple[str, ...]  # one control state for each machine of the product, in order
    states: int  # how many global states lie in it
    depth: int
    first: int


@dataclass(frozen=True, slots=True)
class Orbits:
    """The orbits that the distinct states of an exploration under symmetry stand for.

    Attributes:
        groups: roles whose instances may change places, those that do so together side by side.
        states: how many states the orbits have together.
    """

    groups: tuple[tuple[str, ...], ...]
    states: int


@dataclass(frozen=True)
class Exploration:
    """Everything that one exploration found."""

    system: System
    engine: str  # packed or reference
    complete: bool  # every reachable state within the bounds was visited
    why_incomplete: str
    distinct: int
    generated: int
    edges: int
    depth: int
    initial: int
    cut: int  # states outside the state constraint or the explored ranges: generated, neither counted nor expanded
    seconds: float
    peak_memory_bytes: int
    product_machines: tuple[str, ...]
    product_states: int
    cells: Sequence[Cell]
    properties: tuple[PropertyResult, ...]
    taken: Mapping[str, int]  # transition name: how often it was taken
    vacuous: tuple[str, ...]  # properties whose antecedent is true nowhere (all, if there is no state); ends never met
    cell_edges: Sequence[tuple[int, int, str]] = ()  # steps between cells: index of source, of target, `role#event`
    engine_reason: str = ""  # why this one
    checkpoint: str = ""  # the file from which the search can go on, if it left one
    orbits: Orbits | None = None  # under symmetry: states, steps and cells are then those of one state for each orbit
    why_asymmetric: tuple[str, ...] = ()  # where symmetry was asked for: sentences about what it was not used for
    fairness: Fairness = Fairness.SPEC  # under which what is asked about endless runs was decided
    graph: Any = field(repr=False, default=None)  # checker.explore.liveness.Graph, where something was decided on it
    paths: Any = field(repr=False, default=None)  # checker.explore.paths.Paths: rebuilds the path to a state's number

    @property
    def states_per_second(self) -> float:
        return self.distinct / self.seconds if self.seconds > 0 else 0.0

    @property
    def unvisited_transitions(self) -> tuple[str, ...]:
        return tuple(t.name for r in self.system.roles.values() for t in r.transitions() if not self.taken.get(t.name))

    @property
    def holds(self) -> bool:
        return all(p.verdict != "violated" for p in self.properties)

    @property
    def interrupted(self) -> bool:
        return self.why_incomplete.startswith("interrupted")  # and perhaps why there is no checkpoint

    def path_to(self, cell: Cell) -> Path:
        """A shortest path from an initial state to the cell."""
        path: Path = self.paths.to(cell.first)
        return path
