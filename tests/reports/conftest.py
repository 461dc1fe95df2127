"""Explorations that the tests of the reports share; `votes` has hostile words wherever a spec has words."""

from collections.abc import Callable
from pathlib import Path as FilePath

import pytest

from leasehold.checker.explore import Exploration, Limits, Snapshot, Step, explore
from leasehold.checker.explore.result import Path
from leasehold.spec.language.load import load

VOTES = FilePath(__file__).parent / "votes"
WORDS = "a </script> | \"q\" 's' <b> & `t` #35; ; --> ]]> \\ {{data}} style:\n\x07ü"


@pytest.fixture(scope="session")
def votes() -> Exploration:
    """Two voters; a question may be lost, an answer may come twice; some properties are violated."""
    return explore(load(VOTES))


@pytest.fixture(scope="session")
def fault_free() -> Exploration:
    return explore(load(VOTES, {"losses": 0}))


@pytest.fixture(scope="session")
def many() -> Exploration:
    """Nine voters, cut short."""
    return explore(load(VOTES, {"voters": 9}), Limits(states=3000))


@pytest.fixture(scope="session")
def lease() -> Exploration:
    return explore(load("lease", {"max_units": 1}))


def step(kind: str, machine: str | None, event: str, state: Snapshot, **more: object) -> Step:
    values = {"fields": {}, "sender": None, "transition": None, "before": None, "after": None, "sent": (), "driven": ()}
    return Step(kind=kind, machine=machine, event=event, state=state, **{**values, **more})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def moved() -> Callable[..., Step]:
    """Makes a step by hand, with nothing in it that is not said."""
    return step


@pytest.fixture(scope="session")
def words() -> str:
    """Words that mean something to every format that they could break."""
    return WORDS


@pytest.fixture(scope="session")
def hostile() -> Path:
    """A path whose every word is hostile, with a lost and a repeated message, a loop and a crash."""
    first = Snapshot(control={"a": WORDS, "b": "idle"}, data={f"a.{WORDS}": WORDS}, channels={}, now=0)
    later = Snapshot(control={"a": "x", "b": WORDS}, data={f"a.{WORDS}": "1"}, channels={WORDS: (WORDS,)}, now=0)
    return Path(
        initial=first,
        steps=(
            step("deliver", "b", WORDS, later, fields={WORDS: WORDS}, sender="a", transition="b/idle#x"),
            step("lose", "b", WORDS, later, sender="a"),
            step("duplicate", "b", WORDS, later, sender="a"),
            step("crash", "a", WORDS, later),
            step("something new", "a", WORDS, later),
        ),
        loop=3,
    )
