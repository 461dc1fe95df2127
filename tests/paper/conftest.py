"""Fixtures of the tests of the paper: explored settings of the lease, changed specs, and walks along chosen steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any, TypeAlias

import pytest
import yaml

from leasehold.checker.explore import Exploration, PropertyResult, Step, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.step import Action
from leasehold.faults.model import Budget
from leasehold.spec import System, shipped_folder
from tests.systems import load

Edit: TypeAlias = tuple[str, str, Any]  # file, dotted path in it, new value (None removes it)
Changed: TypeAlias = Callable[..., Exploration]

SHORT = {"last_end": 2}  # all 92 cells


@pytest.fixture(scope="session")
def lease() -> Exploration:
    """The lease with time, closes in every state and lazy close."""
    return explore(load("lease", SHORT))


@pytest.fixture(scope="session")
def timeless() -> Exploration:
    return explore(load("lease", {"expiry": False}))


@pytest.fixture(scope="session")
def close_active_only() -> Exploration:
    """The paper's setting, as far as it says: no expiry, and only an active lease is closed."""
    return explore(load("lease", {"expiry": False, "close_early": False}))


@pytest.fixture(scope="session")
def systems() -> dict[str, System]:
    return {name: load(name) for name in ("lease", "contention", "two_phase_commit", "three_phase_commit")}


@pytest.fixture
def changed(tmp_path: FilePath) -> Changed:
    """Explores a copy of the lease's spec in which something was changed."""

    def changed(*edits: Edit, budget: Budget | None = None, **settings: Any) -> Exploration:
        folder = tmp_path / "lease"
        shutil.copytree(shipped_folder("lease"), folder)
        (folder / "expected.yaml").unlink()
        for file, where, value in edits:
            tree = yaml.load((folder / file).read_text(), Loader=yaml.BaseLoader)
            put(tree, where, value)
            (folder / file).write_text(yaml.safe_dump(tree, sort_keys=False))
        return explore(load(folder, {**SHORT, **settings}), budget=budget)

    return changed


def put(tree: Any, where: str, value: Any) -> None:
    """Changes or removes what is there already; a new key may be added to a mapping that is there."""
    *way, last = where.split(".")
    for key in way:
        tree = tree[int(key)] if isinstance(tree, list) else tree[key]
    key = int(last) if isinstance(tree, list) else last
    if value is None:
        del tree[key]
    else:
        tree[key] = value


class Walk:
    """A global state that goes where it is told. Steps are named by their titles: `broker: granted(units=1, ...)`.

    `, which comes again` after a message's title leaves a copy of it on its way.
    """

    def __init__(self, system: System) -> None:
        self.world = reference_of(system)
        self.paths = Paths(self.world, [], [])
        (self.state,) = self.world.initial_states()
        self.steps: list[Step] = []

    def possible(self) -> dict[str, tuple[Action, State, Step]]:
        found = {}
        for action, after in self.world.successors(self.state):
            step = self.paths.describe(self.state, action, after)
            found[step.title] = (action, after, step)
        return found

    def take(self, *titles: str) -> Step:
        """Takes the steps with these titles, or their beginnings where only one fits; a copy must be asked for.

        Of the fields those that matter are enough: `demand(units=1, end=4)` says nothing of the start.
        """
        for title in titles:
            here = self.possible()
            fitting = [title] if title in here else [t for t in here if _fits(title, t)]
            assert len(fitting) == 1, f"{title!r} is not one of {sorted(here)}"
            _, self.state, step = here[fitting[0]]
            self.steps.append(step)
        return self.steps[-1]

    @property
    def control(self) -> dict[str, str]:
        return dict(self.paths.snapshot(self.state).control)

    @property
    def data(self) -> dict[str, str]:
        return dict(self.paths.snapshot(self.state).data)

    @property
    def under_way(self) -> list[str]:
        return sorted(m for messages in self.paths.snapshot(self.state).channels.values() for m in messages)


def _fits(title: str, found: str) -> bool:
    """Returns whether a title, or its beginning, with some of the fields, is that of a step."""
    head, _, fields = title.partition("(")
    given, brackets, rest = fields.partition(")")
    if "comes again" in found and "comes again" not in title:
        return False
    if not brackets:
        return found.startswith(title)
    name, _, all_fields = found.partition("(")
    said, _, after = all_fields.partition(")")
    return name == head and set(given.split(", ")) <= set(said.split(", ")) and after.startswith(rest)


@pytest.fixture
def walk() -> Callable[..., Walk]:
    def walk(name: str = "lease", /, **settings: Any) -> Walk:
        return Walk(load(name, settings))

    return walk


def all_steps(system: System) -> Iterator[tuple[State, Action, State]]:
    """Every step of the graph."""
    world = reference_of(system)
    seen = set(world.initial_states())
    waiting: Sequence[State] = list(seen)
    while waiting:
        later = []
        for state in waiting:
            for action, after in world.successors(state):
                yield state, action, after
                if after not in seen:
                    seen.add(after)
                    later.append(after)
        waiting = later


@pytest.fixture(scope="session")
def steps_of() -> Callable[[System], Iterator[tuple[State, Action, State]]]:
    return all_steps


@pytest.fixture(scope="session")
def verdict() -> Callable[[Exploration, str], PropertyResult]:
    def verdict(found: Exploration, name: str) -> PropertyResult:
        return next(p for p in found.properties if p.name == name)

    return verdict


# A lease of one unit until 3, brought up: what most walks begin with.
TICKETED = [
    "service_manager: demand(units=1, end=3)",
    "broker: ticket",
    "broker: granted(units=1, properties=0)",
    "service_manager: update_ticket",
]
REDEEMED = [*TICKETED, "service_manager: redeem_now", "authority: redeem"]
PLACED = [*REDEEMED, "authority: placed(units={unit[0]})"]
JOINED = ["service_manager: update_lease", "guest[0]: joined", "service_manager: joined"]
ACTIVE = [*PLACED, "unit[0]: up", "authority: primed", *JOINED]
TICKET_EXTENDED = [
    *ACTIVE,
    "service_manager: extend(units=1, end=4)",
    "broker: extend_ticket",
    "broker: granted(units=1, properties=0)",
    "service_manager: update_ticket",
]
# The same lease grows to a second unit.
GROWING = [
    *ACTIVE,
    "service_manager: extend(units=2, end=4)",
    "broker: extend_ticket",
    "broker: granted(units=2, properties=0)",
    "service_manager: update_ticket",
    "service_manager: extend_now",
    "authority: extend_lease",
    "authority: placed(units={unit[0], unit[1]})",
]
# A lease of two units from the first on.
TWO_PLACED = [
    "service_manager: demand(units=2, end=4)",
    "broker: ticket",
    "broker: granted(units=2, properties=0)",
    "service_manager: update_ticket",
    "service_manager: redeem_now",
    "authority: redeem",
    "authority: placed(units={unit[0], unit[1]})",
]
TWO_ACTIVE = [
    *TWO_PLACED,
    "unit[0]: up",
    "unit[1]: up",
    "authority: primed",
    "service_manager: update_lease",
    "guest[0]: joined",
    "guest[1]: joined",
    "service_manager: joined",
]
EXTENSION_ASKED = [*TICKET_EXTENDED, "service_manager: extend_now"]
# The same with a ticket until 7 (`last_end=5`): the lease is over, its guest has left, and its holder waits.
WAITING = [
    *(title.replace("end=4", "end=7") for title in EXTENSION_ASKED),
    "now 1",
    "service_manager: tick",
    "guest[0]: left",
    "now 2",
    "now 3",
]


@pytest.fixture(scope="session")
def ways() -> dict[str, list[str]]:
    """Ways from the first state to well-known places."""
    return {
        "ticketed": TICKETED,
        "redeemed": REDEEMED,
        "placed": PLACED,
        "active": ACTIVE,
        "growing": GROWING,
        "two placed": TWO_PLACED,
        "two active": TWO_ACTIVE,
        "ticket extended": TICKET_EXTENDED,
        "extension asked": EXTENSION_ASKED,
        "waiting": WAITING,
    }
