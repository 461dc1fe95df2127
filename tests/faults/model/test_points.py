"""Crash points as the specification gives them (paper, sections 3.2 and 5.1)."""

from itertools import product

import pytest

from leasehold.faults.model import CrashPoint, crash_points
from leasehold.faults.model.points import point_name, work_done
from leasehold.spec import SHIPPED
from tests.systems import load


def points(name: str, **settings: object) -> dict[str, CrashPoint]:
    return {p.name: p for p in crash_points(load(name, settings))}


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_done_before_is_said_of_points_within_the_work_alone(name: str) -> None:
    """At the others nothing of the work is done, or all: several lists lead to one such point."""
    for point in points(name).values():
        _, _, where = point.name.partition("#")
        tasks = where.removeprefix("recovering-").removeprefix("after-")
        within = tasks not in ("commit", "before-commit", "before-acknowledge", "recovering")
        assert point.done == (tuple(tasks.split("+")) if within else ())


def test_a_task_with_several_targets_may_be_done_in_part() -> None:
    """How many there are is a constant."""
    assert "crash:authority/priming#after-some-setup" in points("lease", max_units=2)
    assert "crash:authority/priming#after-some-setup" not in points("lease", max_units=1)


def test_a_message_to_the_one_of_equal_index_is_not_sent_in_part() -> None:
    """`pairs: same`: of two leases, each has its own broker's record."""
    names = points("contention", leases=2, max_units=2)
    assert "crash:authority/priming#after-some-setup" in names
    assert "crash:service_manager/ticketing#after-commit" in names
    assert [name for name in names if "some-ask_for_ticket" in name or "some-tell" in name] == []


def described(role: str, state: str, name: str = "lease", **settings: object) -> dict[str, tuple[str, ...]]:
    """The points of a state, without what they begin with, and the points of the model with the same effects."""
    head = f"crash:{role}/{state}#"
    found = [p for p in points(name, **settings).values() if (p.role, p.state) == (role, state)]
    assert all(p.name.startswith(head) for p in found)
    return {p.name.removeprefix(head): tuple(e.removeprefix(head) for e in p.effects) for p in found}


def test_points_of_a_state_without_work() -> None:
    """Recovery is over when it begins; a message that is ignored or refused is acknowledged."""
    rest = {"before-commit": ("before-commit",), "recovering": ("before-commit",)}
    assert described("unit", "idle", max_units=1) == rest
    assert described("authority", "nascent", max_units=1) == {**rest, "before-acknowledge": ("before-acknowledge",)}


def test_a_message_that_is_only_ignored_or_refused_is_acknowledged_too() -> None:
    """Where no message leads into the state, and none out of it."""
    assert "before-acknowledge" in described("service_manager", "nascent", max_units=1)
    assert "before-acknowledge" in described("coordinator", "idle", "two_phase_commit")


def test_points_of_a_state_that_sends() -> None:
    """What was sent to one is sent; when all work is done only the acknowledgement is left."""
    assert described("authority", "closed", max_units=2) == {
        "before-commit": ("before-commit",),
        "after-commit": ("after-commit",),
        "before-acknowledge": ("before-acknowledge",),
        "recovering": ("recovering",),
    }


def test_points_of_several_tasks_are_all_parts_of_the_work() -> None:
    """What the model does not see, a call of the policy, makes no difference to it."""
    found = described("authority", "modifying", max_units=2)
    call, driven = "place_extension", ("modify", "replace", "release")
    levels = [("", call), *(("", f"some-{task}", task) for task in driven)]
    whole = "+".join((call, *driven))
    within = {"+".join(filter(None, chosen)) for chosen in product(*levels)} - {"", whole}
    assert {*found} == {
        "before-commit",
        "before-acknowledge",
        "after-commit",
        "recovering",
        *(f"{head}-{part}" for part in within for head in ("after", "recovering-after")),
    }
    all_seen = "+".join(driven)
    for part in within - {call, all_seen}:
        for head in ("after", "recovering-after"):
            assert found[f"{head}-{part}"] == (f"{head}-{part.removeprefix(f'{call}+')}",)
    assert found[f"after-{call}"] == ("after-commit",)
    assert found[f"recovering-after-{call}"] == ("recovering",)
    assert {*found[f"after-{all_seen}"]} == {"before-acknowledge", "before-commit"}, "by a message, and by a unit's end"
    assert found[f"recovering-after-{all_seen}"] == ("before-commit",)


def test_points_of_one_unit_are_not_passed_in_part() -> None:
    assert not any("some-" in name for name in described("authority", "modifying", max_units=1))


@pytest.mark.parametrize(
    ("where", "done", "name"),
    [
        ("before-commit", (), "before-commit"),
        ("after-commit", (), "after-commit"),
        ("after-commit", ("tell",), "after-tell"),
        ("after-commit", ("some-setup", "tell"), "after-some-setup+tell"),
        ("recovering", (), "recovering"),
        ("recovering", ("tell",), "recovering-after-tell"),
    ],
)
def test_the_name_of_a_point(where: str, done: tuple[str, ...], name: str) -> None:
    assert point_name("broker", "ticketed", where, done) == f"crash:broker/ticketed#{name}"


@pytest.mark.parametrize(
    ("pieces", "done"),
    [
        ((), ()),
        ((("a", False),), ()),
        ((("a", True),), ("a",)),
        ((("a", True), ("a", False)), ("some-a",)),
        ((("a", True), ("a", True)), ("a",)),
        ((("a", False), ("b", True), ("a", True), ("c", False)), ("some-a", "b")),
    ],
)
def test_the_part_of_a_work_list_that_was_done(pieces: tuple[tuple[str, bool], ...], done: tuple[str, ...]) -> None:
    assert work_done(pieces) == done
