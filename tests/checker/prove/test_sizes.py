"""Sizes of sets whose number of members is unknown: what a step sends has the size that it had."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.prove import prove
from leasehold.checker.prove.decide.induction import ANY
from leasehold.checker.prove.encode.properties import claims as claims_of
from tests.checker.prove.test_recovery_and_constants import written
from tests.systems import load

SENT = {
    "system": "constants: {n: {type: int, value: 3, min: 1, max: 9}}\nroles: {a: {}, b: {}, w: {instances: n}}\n"
    "channels: {c: {from: a, to: b, kind: mailbox}}\nenvironment: {go: {to: a}}\n",
    "messages": 'messages: {m: {from: a, to: b, fields: {s: {type: "set[w]"}}}}\n',
    "roles/a": 'role: a\ndata: {s: {type: "set[w]"}, k: {type: int, min: 0}}\n'
    'events: {go: {fields: {s: {type: "set[w]"}}}}\nstates:\n'
    "  s: {initial: true, on: {go: {to: s, when: len(event.s) <= 2, set: {s: event.s, k: len(event.s)}, also: say}},\n"
    "      ignore: {go: too many}}\n"
    "tasks: {say: {send: m, to: b, with: {s: s}}}\n",
    "roles/b": "role: b\nstates: {w: {initial: true, ignore: {m: no}}}\n",
    "roles/w": "role: w\nstates: {w: {initial: true}}\n",
}
TRUE = "all(len(q.s) <= 2 for q in pending(m))"
LATEST = "all(len(q.s) == a.k for q in pending(m) if q.latest)"


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (TRUE, "proved"),
        (LATEST, "proved"),
        ("all(len(q.s) <= 1 for q in pending(m))", "counterexample"),
        ("all(len(q.s) == a.k for q in pending(m))", "counterexample"),
        ("all(len(w - q.s) == 1 for q in pending(m))", "counterexample"),
    ],
)
def test_sizes_of_what_is_sent(claim: str, verdict: str, tmp_path: Path) -> None:
    system = load(written(tmp_path / "sent", SENT, claim))
    (found,) = prove(system, jobs=1, small=system).properties
    assert found.verdict == verdict, found.reason


def test_what_a_step_sends_has_no_size_of_its_own(tmp_path: Path) -> None:
    """It is that of the set that is sent, and of no message the size changes that it had: no axioms compare them."""
    encoding = ANY.encoding(load(written(tmp_path / "sent", SENT, TRUE)))
    (claim,) = (c for c in claims_of(encoding) if c.name == "claim")
    (step,) = (s for s in encoding.relation.steps(encoding.before) if s.name == "a/s#go")
    facts = encoding.sorts.cardinals.facts
    known = [*step.given, encoding.now(claim)]
    assert len(list(facts([*known, encoding.then(claim, step)]))) == len(list(facts(known)))
