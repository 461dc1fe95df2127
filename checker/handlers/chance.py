"""Sequences by chance, made and shortened by Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from leasehold.checker.handlers.player import fault_calls
from leasehold.checker.handlers.sequence import CHANGE, DOWN, ERRORS, FRESH, WHO, HandlerFault, HandlerStep
from leasehold.checker.handlers.sequence import Sequence as Steps

Calls = Mapping[str, Mapping[str, int]]
Points = Mapping[str, Sequence[tuple[str, int]]]


class _Shown(AssertionError):
    """A sequence shows a fault."""


@st.composite
def sequences(draw: Any, verbs: tuple[str, ...], units: int, calls: Calls, changing: Points, longest: int) -> Steps:
    """Sequences: a unit is changed where it was set up to the end, as by machines, and lost where it may be up."""
    wanted, steps = [FRESH] * units, list[HandlerStep]()
    made = [False] * units
    for _ in range(draw(st.integers(1, longest))):
        unit = draw(st.integers(0, units - 1))
        up = wanted[unit] not in (*DOWN, FRESH)
        fitting = [verb for verb in verbs if verb not in CHANGE or made[unit]]
        verb = draw(st.sampled_from(fitting or list(verbs)))
        kind = draw(
            st.sampled_from(("none", "none", "kill", "kill", "beside", "others", "error", "cancel", "old", "lose"))
        )
        step = HandlerStep(verb, unit)
        if kind == "kill":
            step = HandlerStep(verb, unit, fault=draw(_kills(calls.get(verb, {}), changing.get(verb, ()))))
        elif kind == "error" and (failing := dict(fault_calls(calls.get(verb, {})))):
            call = draw(st.sampled_from(sorted(failing)))
            fault = HandlerFault(
                "error", call=call, nth=draw(st.integers(1, failing[call])), errno=draw(st.sampled_from(ERRORS))
            )
            step = HandlerStep(verb, unit, fault=fault)
        elif kind == "cancel":
            step = HandlerStep(verb, unit, fault=HandlerFault("cancel", at=draw(_MOMENTS)))
        elif kind == "beside":
            later = [other for other in verbs if other not in CHANGE or (made[unit] and verb not in DOWN)]
            step = HandlerStep(verb, unit, beside=draw(st.sampled_from(later or list(verbs))))
        elif kind == "others" and units > 1:
            others = tuple(u for u in range(units) if u != unit and (verb not in CHANGE or made[u]))
            step = HandlerStep(verb, unit, others=others)
        elif kind == "old" and wanted[unit] != FRESH:
            step = HandlerStep(verb, unit, old=True)
        elif kind == "lose" and up:
            step = HandlerStep("lose", unit)
        steps.append(step)
        if step.verb != "lose" and not step.old:
            for one in step.units:
                wanted[one] = step.beside or step.verb
                if wanted[one] not in CHANGE:
                    made[one] = wanted[one] not in DOWN and not step.fault
    return Steps(tuple(steps))


_MOMENTS = st.integers(1, 22).map(lambda n: n / 20)


def _kills(calls: Mapping[str, int], changing: Sequence[tuple[str, int]]) -> st.SearchStrategy[HandlerFault]:
    who = st.sampled_from(sorted(WHO))
    ways = [st.builds(HandlerFault, kind=st.just("kill"), who=who, at=_MOMENTS)]

    def at(call: str, nth: st.SearchStrategy[int]) -> st.SearchStrategy[HandlerFault]:
        return st.builds(HandlerFault, kind=st.just("kill"), who=who, call=st.just(call), nth=nth)

    if calls:
        ways.append(st.sampled_from(sorted(calls)).flatmap(lambda call: at(call, st.integers(1, calls[call]))))
    if changing:
        ways.append(st.sampled_from(changing).flatmap(lambda point: at(point[0], st.just(point[1]))))
    return st.one_of(ways)


def try_by_chance(
    fails: Callable[[Steps], str],
    *,
    verbs: tuple[str, ...],
    units: int,
    calls: Calls,
    changing: Points,
    most: int,
    longest: int,
    seed: int,
) -> None:
    """Has sequences tried until one fails, and then ever shorter ones.

    Args:
        fails: plays a sequence and returns the kind of fault that it shows, or nothing; always the same for one.
        verbs: of the handler.
        units: that there are.
        calls: how often a process of each verb makes each system call.
        changing: the calls of each verb that change something, each with which of a process it is.
        most: sequences, at most.
        longest: sequence, in steps.
        seed: of the chance.
    """
    found = list[str]()

    @_seeded(seed)
    @settings(
        max_examples=max(1, most),
        deadline=None,
        database=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(sequences(verbs, units, calls, changing, longest))
    def play(steps: Steps) -> None:
        kind = fails(steps)
        if kind and (not found or kind == found[0]):
            found.append(kind)
            raise _Shown(kind)

    try:
        play()
    except (_Shown, HypothesisException, BaseExceptionGroup):
        if not found:
            raise


_seeded = seed
