"""Results as values: the words of a step, the verdict that counts of several, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore import explore
from leasehold.checker.explore.result import (
    Path,
    PropertyResult,
    Snapshot,
    Step,
    Verdict,
    of_all_bindings,
    verdict_on,
)
from leasehold.spec.language.expression import TRUE
from leasehold.spec.language.model import Property
from tests.systems import load

AT = Snapshot({"a": "idle", "b": "busy"}, {}, {})
STEP = Step("deliver", "b[1]", "ask", {}, None, "b/idle#ask.2", "idle", "busy", (), (), AT)


@pytest.mark.parametrize(
    ("parts", "title"),
    [
        ({}, "b[1]: ask"),
        ({"fields": {"n": "2", "who": "a"}}, "b[1]: ask(n=2, who=a)"),
        ({"sender": "a"}, "b[1]: ask from a"),
        ({"sender": "a", "fields": {"n": "2"}, "copied": True}, "b[1]: ask(n=2) from a, which comes again"),
        ({"kind": "duplicate", "sender": "a", "transition": None}, "b[1]: ask from a (received again)"),
        ({"kind": "lose", "sender": "a", "fields": {"n": "2"}}, "b[1]: ask(n=2) from a (lost)"),
        ({"kind": "lose", "sender": "a", "copied": True}, "b[1]: ask from a (lost), which comes again"),
        ({"kind": "local", "event": "go"}, "b[1]: go"),
        ({"kind": "tick", "event": "tick"}, "b[1]: tick"),
        ({"kind": "clock", "machine": None, "event": "now 3", "transition": None}, "now 3"),
        ({"kind": "partition", "machine": None, "event": "partition: a | b", "fields": {"n": "1"}}, "partition: a | b"),
        (
            {"kind": "crash", "event": "crash:b/idle#before-commit", "transition": None},
            "b[1]: crash:b/idle#before-commit",
        ),
        (
            {"kind": "crash", "event": "crash:b/busy#after-commit", "sender": "a", "fields": {"n": "2"}},
            "b[1]: crash:b/busy#after-commit, on ask(n=2) from a",
        ),
        (
            {"kind": "crash", "event": "crash:b/busy#after-tell", "transition": "b/idle#go"},
            "b[1]: crash:b/busy#after-tell, on go",
        ),
        ({"kind": "recover", "event": "recover:b", "transition": None}, "b[1]: recover:b"),
    ],
)
def test_the_words_of_a_step(parts: dict[str, Any], title: str) -> None:
    assert replace(STEP, **parts).title == title


def test_a_machine_is_shown_by_its_title_where_it_has_one() -> None:
    assert AT.shown == AT.control
    assert replace(AT, titles={"b": "busy after x"}).shown == {"a": "idle", "b": "busy after x"}
    assert len(Path(AT, (STEP, STEP))) == 2


VERDICTS: tuple[Verdict, ...] = ("exhausted", "witnessed", "violated", "bounded", "unasked")


def property_of(kind: Any, binding: dict[str, str]) -> Property:
    return Property("p", kind, TRUE, doc="It holds.", source="3.1", binding=binding)


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("kind", ["always", "sometimes", "leads_to"])
def test_a_verdict_names_the_binding_for_which_it_was_found(kind: str, verdict: Verdict) -> None:
    """A verdict is of every binding; only a witness that is not seen yet is one of some binding."""
    binding, path = {"c": "client[1]", "v": "2"}, Path(AT, (STEP,))
    named = verdict not in ("exhausted", "bounded") or (verdict == "bounded" and kind == "sometimes")
    for reason in ("", "why"):
        alone = verdict_on(property_of(kind, {}), verdict, path, reason)
        assert alone == PropertyResult("p", kind, verdict, "It holds.", "3.1", path, reason)
        found = verdict_on(property_of(kind, binding), verdict, path, reason)
        words = "for c=client[1], v=2" + (f": {reason}" if reason else "")
        wanted = replace(alone, binding=binding, reason=words) if named else alone
        assert found == wanted


results = st.builds(
    lambda name, verdict, steps, reason: PropertyResult(
        name, "always", verdict, path=None if steps is None else Path(AT, (STEP,) * steps), reason=reason
    ),
    st.sampled_from("pqr"),
    st.sampled_from(VERDICTS),
    st.none() | st.integers(0, 4),
    st.sampled_from("xyz"),
)


@given(st.lists(results, max_size=8))
def test_of_all_bindings_the_verdict_that_counts_is_taken(several: list[PropertyResult]) -> None:
    """A shortest violation, else what is open, else the farthest; of equal ones the first, in the order of names."""
    found = of_all_bindings(several)
    assert [r.name for r in found] == list(dict.fromkeys(r.name for r in several))
    for one in found:
        mine = [r for r in several if r.name == one.name]
        violated = [r for r in mine if r.verdict == "violated"]
        bounded = [r for r in mine if r.verdict == "bounded"]
        ranked = sorted(violated, key=lambda r: len(r.path or ())) if violated else bounded
        assert one is (ranked or sorted(mine, key=lambda r: -len(r.path or ())))[0]


def test_what_follows_from_an_exploration() -> None:
    found = explore(load("two_phase_commit", {"participants": 1}))
    names = {t.name for r in found.system.roles.values() for t in r.transitions()}
    assert (found.holds, found.interrupted) == (True, False)
    assert set(found.unvisited_transitions) == names - {n for n, times in found.taken.items() if times}
    assert found.unvisited_transitions
    never = next(n for n, times in found.taken.items() if times)
    assert never in replace(found, taken={**found.taken, never: 0}).unvisited_transitions
    for verdict in VERDICTS:
        first, *rest = found.properties
        changed = replace(found, properties=(replace(first, verdict=verdict), *rest))
        assert changed.holds == (verdict != "violated")
    for why, interrupted in (("interrupted", True), ("interrupted; no room", True), ("stopped at depth 3", False)):
        assert replace(found, complete=False, why_incomplete=why).interrupted == interrupted
    assert replace(found, seconds=0.0).states_per_second == 0.0
    assert replace(found, seconds=2.0).states_per_second == found.distinct / 2
    for cell in found.cells:
        path = found.path_to(cell)
        assert len(path) == cell.depth
        last = path.steps[-1].state if path.steps else path.initial
        assert tuple(last.control[name] for name in found.product_machines) == cell.control
