"""Crash points as the specification gives them (paper, sections 3.2 and 5.1)."""

import pytest

from leasehold.faults import CrashPoint, crash_points
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
