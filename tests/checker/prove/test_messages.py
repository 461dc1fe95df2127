"""Claims about messages on their way: in each state that is explored, the prover's terms have the explorer's values.

The place of a message in a fifo, its rank in a mailbox, its kind and its two machines, on each kind of channel.
"""

from __future__ import annotations

from typing import Any

import pytest
import z3

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.prove.decide.induction import Setting
from leasehold.checker.prove.encode.lemma import lemma_scope, parsed
from leasehold.checker.prove.encode.terms import Bindings, term
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.checker.prove.test_relations import Written, walk
from tests.systems import files_of, written

LETTERS = files_of("checker/prove/systems/letters")
KINDS = ("mailbox", "fifo", "bag", "multiset", "set")
SEVERAL = (
    "all(m.sender == box[0] for m in pending(letter))",
    "any(m.sender == box[1] and m.receiver == desk[0] for m in pending(way))",
    "all(m.receiver != desk[1] for m in pending(card))",
    "any(m.receiver == desk[0] for m in pending(letter))",
    "all(m.sender.state == gone for m in pending(card))",
    "all(count(m.sender == b for m in pending(letter)) <= 1 for b in box)",
    "all(count(m.sender == b and m.receiver == d for m in pending(way)) <= 1 for b in box for d in desk)",
    "all(m.sender != n.sender or m == n for m in pending(letter) for n in pending(letter))",
    "all(m.kind == letter for m in pending(way))",
    "any(m.kind == n.kind and m.sender != n.sender for m in pending(way) for n in pending(way))",
    "all(m.number >= 1 for m in pending(way))",
    "any(m.number <= 0 for m in pending(way))",
)
ORDERS = (
    "any(m.number < n.number for m in pending(letter) for n in pending(card) if m.sender == n.sender)",
    "any(m.number >= n.number for m in pending(letter) for n in pending(card) "
    "if m.sender == n.sender and m.receiver == n.receiver)",
    "all(m.number != n.number for m in pending(letter) for n in pending(card) "
    "if m.sender == n.sender and m.receiver == n.receiver)",
)
PLACES = (
    "all(m.number == 1 for m in pending(letter))",
    "any(m.number == 1 for m in pending(card))",
    "any(m.number != 1 for m in pending(way))",
    "all(m.number <= 1 for m in pending(card))",
    "any(1 < m.number for m in pending(card) if m.sender == box[0])",
    "all(m.number < 2 for m in pending(way) if m.receiver == desk[1])",
    "any(2 <= m.number for m in pending(way))",
    "any(m.number < 1 for m in pending(way))",
    "all(any(n.number == 1 and n.sender == m.sender and n.receiver == m.receiver for n in pending(way)) "
    "for m in pending(way))",
)
CLAIMS = {
    "mailbox": (*SEVERAL, ORDERS[2], "any(m.latest for m in pending(letter))"),
    "fifo": (*SEVERAL, *ORDERS[1:], *PLACES),
    **dict.fromkeys(("bag", "multiset", "set"), (*SEVERAL, *ORDERS, *PLACES)),
}


def letters(kind: str, folder: Any) -> System:
    system = LETTERS["system.yaml"].replace("KIND", kind)
    return written(folder, {**LETTERS, "system.yaml": system})


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_about_messages_has_the_explorers_value(kind: str, tmp_path: Any) -> None:
    system = letters(kind, tmp_path)
    world = reference_of(system, Budget())
    encoding = Setting({"box": 2, "desk": 2}).encoding(system)
    state = Written(system, world, encoding)
    scope, before = lemma_scope(system), encoding.before
    claims = [parsed(text, scope) for text in CLAIMS[kind]]
    meant = [term(claim, Bindings(encoding.sorts, before, encoding.constants)) for claim in claims]
    asked = [world.function(claim) for claim in claims]
    seen: set[tuple[str, bool]] = set()
    states = {cells for _, _, cells in walk(world, 200)}
    for cells in sorted(states, key=repr)[:: max(1, len(states) // 40)]:
        solver = z3.Solver()
        solver.set("timeout", 20_000)
        solver.add(*encoding.given, *state.machines(cells, before), *state.exactly(cells, before))
        assert solver.check() == z3.sat
        for text, found, holds in zip(CLAIMS[kind], meant, asked, strict=True):
            value = bool(holds(cells, (), -1))
            seen.add((text, value))
            solver.push()
            solver.add(found != z3.BoolVal(value))
            assert solver.check() == z3.unsat, (text, value, cells)
            solver.pop()
    both = [text for text in CLAIMS[kind] if {(text, True), (text, False)} <= seen]
    assert len(both) >= 9
