"""Where a message that is sent again may have changed, the relation may lack steps: nothing of messages is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.prove.decide.induction import induct
from tests.systems import load

SAYS_A_SHARED_NUMBER = {
    "system.yaml": """
system: again
roles: {a: {}, b: {}}
shared: {n: {type: int, initial: 0, explore: [0, 2]}}
channels:
  c: {from: a, to: b, kind: mailbox}
  d: {from: b, to: a, kind: mailbox}
environment: {go: {to: a}, more: {to: b}}
""",
    "messages.yaml": """
messages:
  ask: {from: a, to: b, fields: {n: {type: int, explore: [0, 2]}}}
  done: {from: b, to: a, answer: true}
""",
    "roles/a.yaml": """
role: a
tasks: {ask: {send: ask, with: {n: shared.n}}}
events: {go: {}}
states:
  idle: {initial: true, on: {go: {to: asking}}, ignore: {done: It asked nothing.}}
  asking: {tasks: [ask], on: {done: {to: over}}, ignore: {go: It asks.}}
  over: {ignore: {go: It has asked., done: It was told.}}
""",
    "roles/b.yaml": """
role: b
data: {k: {type: int, initial: 0, explore: [0, 4]}}
tasks: {done: {send: done}}
events: {more: {}}
states:
  idle: {initial: true, on: {ask: {to: served}, more: {stay: true, set: {shared.n: shared.n + 1, k: k + 1}}}}
  served: {tasks: [done], ignore: {ask: It has served., more: It has served.}}
""",
    "invariants.yaml": """
properties:
  never_negative: {always: b.k >= 0}
  small_questions: {always: all(m.n >= 0 for m in pending(ask))}
""",
}


@pytest.mark.parametrize("lemmas", ["", "lemmas: {never_three: {always: b.k != 3}}"])
def test_a_lemma_that_is_not_proved_takes_away_no_proof_that_does_without_it(lemmas: str, tmp_path: Path) -> None:
    files = SAYS_A_SHARED_NUMBER | ({"lemmas.yaml": lemmas} if lemmas else {})
    (tmp_path / "roles").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = induct(load(tmp_path))
    assert {n: how for n, how in found.proved.items() if found.claims[n].written} == {"never_negative": "induction"}
    assert (found.whole, found.side_conditions) == (False, False)
    assert "small_questions" not in found.proved


def test_a_proof_with_lemmas_about_states_stands(tmp_path: Path) -> None:
    """Though a property and a lemma speak of messages, and no round asks about states alone first."""
    files = SAYS_A_SHARED_NUMBER | {
        "roles/b.yaml": SAYS_A_SHARED_NUMBER["roles/b.yaml"]
        .replace("data: {", "data: {x: {type: int, explore: [0, 0]}, y: {type: int, explore: [0, 0]}, ")
        .replace("k: k + 1}", "k: k + 1, x: y}"),
        "invariants.yaml": SAYS_A_SHARED_NUMBER["invariants.yaml"] + "  x_is_0: {always: b.x == 0}\n",
        "lemmas.yaml": "lemmas: {y_is_0: {always: b.y == 0}, small: {always: all(m.n >= 0 for m in pending(ask))}}",
    }
    (tmp_path / "roles").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = induct(load(tmp_path))
    by = {n: how for n, how in found.proved.items() if found.claims[n].written}
    assert by == {"never_negative": "induction", "x_is_0": "induction, with lemmas about states"}
    assert "small_questions" not in found.proved
    assert (found.whole, found.side_conditions) == (False, False)
