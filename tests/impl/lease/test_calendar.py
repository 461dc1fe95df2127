"""The calendar against a dumb twin that tries every time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.lease.broker import Calendar, Holding
from leasehold.impl.policy.policy import Lease

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


def test_calendars_that_hold_otherwise_differ() -> None:
    calendar = Calendar.rebuilt([lease("a", 1, 5), lease("b", 2, 5)])
    for other in ([lease("a", 2, 5), lease("b", 1, 5)], [lease("a", 1, 5), lease("b", 2, 6)], [lease("a", 1, 5)]):
        assert calendar != Calendar.rebuilt(other)
    assert calendar != {"a": 1, "b": 2}
    same = Calendar.rebuilt([lease("b", 2, 5), lease("a", 1, 5)])
    assert calendar == same
    same._held += 1
    assert calendar != same, "one that has lost count is none that the records make"
