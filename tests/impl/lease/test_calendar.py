"""The calendar against dumb twins: one that tries every time, and one that looks at every holding."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.lease import steps
from leasehold.impl.lease.calendar import Calendar, Holding, holding_of
from leasehold.impl.policy.policy import Lease
from tests.impl.lease.naive_calendar import NaiveCalendar

HOLDINGS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), max_size=6)


def lease(name: str, units: int, until: int, state: str = "ticketed") -> Lease:
    return Lease(name, "broker", state, {"counted": units, "term_end": until, "start": 0}, {})


@given(HOLDINGS, st.integers(1, 12))
def test_when_room_comes(holdings: list[tuple[int, int]], units: int) -> None:
    calendar = Calendar.rebuilt(lease(str(i), *holding) for i, holding in enumerate(holdings))
    capacity = max(sum(u for u, _ in holdings), units)

    def free(at: int) -> int:
        return capacity - sum(u for u, until in holdings if until > at)

    at = next(t for t in range(11) if free(t) >= units)
    assert calendar.room_comes(units, capacity) == (at, free(at) - units)


TERMS = st.tuples(st.integers(0, 9), st.integers(1, 6))  # a start and a length


@given(st.lists(st.tuples(st.integers(1, 4), TERMS), max_size=6), st.integers(1, 4), TERMS, st.integers(0, 9))
def test_from_when_on_there_is_room_for_the_rest_of_a_term(
    drawn: list[tuple[int, tuple[int, int]]], units: int, term: tuple[int, int], now: int
) -> None:
    start, end, capacity = term[0], max(sum(term), now + 1), 6
    holdings = {str(i): Holding(u, b + lasts, b) for i, (u, (b, lasts)) in enumerate(drawn)}
    calendar = Calendar()
    for lease_, holding in holdings.items():
        calendar.put(lease_, holding)

    def held(at: int) -> set[str]:
        """A holding whose term is over counts at all times to come: only its record may end it."""
        return {n for n, h in holdings.items() if h.start <= at and (at < h.until or h.until <= now)}

    def fits(at: int) -> bool:
        return units + sum(holdings[name].units for name in held(at)) <= capacity

    times = range(max(start, now), end)
    rooms = (at for at in times if all(map(fits, range(at, end))))
    assert calendar.room_from(units, capacity, start, end, now) == next(rooms, None)
    assert set(calendar.in_the_way(start, end, now)) == set().union(*map(held, times))


@given(HOLDINGS, st.randoms(use_true_random=False))
def test_equal_whatever_came_before(holdings: list[tuple[int, int]], chance: object) -> None:
    """A calendar that has seen leases come, change and go equals the one that the records make."""
    leases = [lease(str(i), *holding) for i, holding in enumerate(holdings)]
    calendar = Calendar.rebuilt(lease(one.name, 7, 20, "extending") for one in leases)
    calendar.note(lease("gone", 3, 3))
    assert not leases or calendar != Calendar.rebuilt(leases)
    calendar.note(lease("gone", 0, 3, "closed"))
    chance.shuffle(leases)  # type: ignore[attr-defined]
    for one in leases:
        calendar.note(one)
    assert calendar == Calendar.rebuilt(leases)
    assert calendar.held == sum(units for units, _ in holdings)


CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.tuples(st.integers(1, 4), TERMS)), max_size=9)


@given(CHANGES, st.integers(0, 9), st.lists(TERMS, min_size=1, max_size=3), st.integers(1, 4))
def test_what_came_before_changes_no_answer(
    changes: list[tuple[str, Any]], now: int, terms: list[tuple[int, int]], units: int
) -> None:
    """A calendar answers as one that has only what is there now: reservations come, change and are given up."""
    calendar, holdings = Calendar(), dict[str, Holding]()
    for name, drawn in changes:
        calendar.all_begun(now // 2)
        holdings.pop(name, None)
        if drawn is not None:
            of, (start, lasts) = drawn
            holdings[name] = Holding(of, start + lasts, start)
        calendar.put(name, holdings.get(name))
    fresh = Calendar()
    for name, holding in holdings.items():
        fresh.put(name, holding)

    def answers(asked: Calendar) -> list[Any]:
        most = [asked.most(start, start + lasts, now, name) for start, lasts in terms for name in ("", "a", "b")]
        ways = [asked.in_the_way(start, start + lasts, now) for start, lasts in terms]
        rooms = [asked.room_from(units, 6, start, start + lasts, now) for start, lasts in terms]
        held = [asked.held, *(asked.of(name) for name in "abc"), asked.room_comes(units, max(asked.held, units))]
        return [asked.all_begun(now), most, ways, rooms, held]

    assert answers(calendar) == answers(fresh)
    assert calendar.all_begun(now) == all(holding.start <= now for holding in holdings.values())


def test_calendars_that_hold_otherwise_differ() -> None:
    calendar = Calendar.rebuilt([lease("a", 1, 5), lease("b", 2, 5)])
    for other in ([lease("a", 2, 5), lease("b", 1, 5)], [lease("a", 1, 5), lease("b", 2, 6)], [lease("a", 1, 5)]):
        assert calendar != Calendar.rebuilt(other)
    assert calendar != {"a": 1, "b": 2}
    same = Calendar.rebuilt([lease("b", 2, 5), lease("a", 1, 5)])
    assert calendar == same
    same._held += 1
    assert calendar != same, "one that has lost count is none that the records make"


@given(
    st.lists(st.tuples(st.integers(1, 4), TERMS), max_size=5), TERMS, st.integers(0, 9), st.sampled_from(["", "0", "x"])
)
def test_the_most_that_is_held_in_a_term(
    drawn: list[tuple[int, tuple[int, int]]], term: tuple[int, int], now: int, without: str
) -> None:
    """Time by time; what is in the way of the term comes in the order in which it ends, and by name."""
    start, end = term[0], max(sum(term), now + 1)
    holdings = {str(i): Holding(u, b + lasts, b) for i, (u, (b, lasts)) in enumerate(drawn)}
    calendar = Calendar()
    for name, holding in reversed(holdings.items()):
        calendar.put(name, holding)

    def held(at: int) -> int:
        others = [h for name, h in holdings.items() if name != without]
        return sum(h.units for h in others if h.start <= at and (at < h.until or h.until <= now))

    for _ in range(2):  # what it has looked up once changes nothing
        assert calendar.most(start, end, now, without) == max(map(held, range(max(start, now), end)), default=0)
        assert calendar.all_begun(now) == all(h.start <= now for h in holdings.values())
    found = calendar.in_the_way(start, end, now)
    assert list(found) == sorted(found, key=lambda name: (holdings[name].until, name))
    assert all(found[name] == holdings[name] == calendar.holding(name) for name in found)


def test_a_record_holds_what_its_site_may_still_have_for_it() -> None:
    data = {"counted": 3, "units": 1, "term_end": 9, "start": 2}
    for state in ("nascent", "ticketing", "ticketed", "extending", "closed"):
        counts = state in ("ticketed", "extending")
        assert holding_of(Lease("a", "broker", state, data, {})) == (Holding(3, 9, 2) if counts else None)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "HALF", 2)


MANY = st.lists(
    st.tuples(st.integers(0, 30), st.none() | st.tuples(st.integers(1, 9), st.integers(0, 40), st.integers(1, 20))),
    min_size=1,
    max_size=60,
)
ASKED = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6)


@given(MANY, ASKED, st.integers(1, 60))
def test_it_answers_as_one_that_looks_at_every_holding(
    changes: list[tuple[int, tuple[int, int, int] | None]], asked: list[tuple[int, int, int]], units: int
) -> None:
    """At each time that is asked for: as actors do, that of the clock never falls; terms may be of no length."""
    calendar, naive = Calendar(), NaiveCalendar()
    for number, drawn in changes:
        holding = None if drawn is None else Holding(drawn[0], drawn[1] + drawn[2], drawn[1])
        calendar.put(str(number), holding)
        naive.put(str(number), holding)
    assert (calendar.held, calendar._holdings) == (naive.held, naive._holdings)
    capacity = max(calendar.held // 2, units)
    assert calendar.room_comes(units, max(capacity, calendar.held)) == naive.room_comes(
        units, max(capacity, calendar.held)
    )
    assert calendar.room_comes(units, capacity) == naive.room_comes(units, capacity)
    for now, start, end in sorted(asked):
        for without in ("", "0", str(changes[-1][0])):
            assert calendar.most(start, end, now, without) == naive.most(start, end, now, without)
        assert calendar.all_begun(now) == naive.all_begun(now)
        ways = naive.in_the_way(start, end, now)
        assert list(calendar.in_the_way(start, end, now).items()) == list(ways.items())
        assert calendar.soonest_in_the_way(start, end, now, 3) == (dict(list(ways.items())[:3]), len(ways))
        assert calendar.room_from(units, capacity, start, end, now) == naive.room_from(units, capacity, start, end, now)
