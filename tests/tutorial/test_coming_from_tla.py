"""What docs/howto/coming_from_tla.md says of this language, tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.graph.fairness import Fairness
from leasehold.spec import System
from tests.systems import written

ROLE = """role: m
data: {n: {type: int, min: 0, max: 3}, s: "set[p]", f: "map[p, int]"}
events: {go: {fields: {who: p}}}
states:
  a:
    initial: true
    on: {go: {to: a, when: n < 3, set: {n: n + 1, s: "s | {event.who}", "f[event.who]": n}}}
    ignore: {go: it is enough}
"""
CLAIMS = """properties:
  implies: {always: not m.n == 1 or m.n <= 3}
  equivalent: {always: (m.n == 1) == (m.n == 1)}
  within: {always: 0 <= m.n <= 3}
  quantified: {always: "m.s <= p and all(m.f[q] <= 3 for q in p) and not any(m.f[q] > 3 for q in p)"}
  primed: {step: m.n == old(m.n) + 1}
  unchanged: {step: "count(m.f[q] != old(m.f[q]) for q in p) <= 1"}
  eventually_possible: {always_possible: m.n == 3}
  somewhere: {sometimes: m.n == 3}
  for_each: {for: {q: p, k: [0, 2]}, when: "m.f[q] == k", leads_to: "m.f[q] >= k"}
  again_and_again: {when: m.n == 3, always_eventually: m.n == 3}
  in_the_end: {for: {k: [0, 3]}, when: m.n == k, eventually_always: m.n >= k}
"""


def system(folder: Path, more: str = "", claims: str = CLAIMS) -> System:
    return written(folder, {
        "system.yaml": f"system: s\nroles: {{m: {{}}, p: {{instances: 2}}}}\nenvironment: {{go: {{to: m}}}}\n{more}",
        "roles/m.yaml": ROLE, "roles/p.yaml": "role: p\nstates: {there: {initial: true}}\n", "invariants.yaml": claims,
    })  # fmt: skip


def test_the_words_on_the_right_mean_those_on_the_left(tmp_path: Path) -> None:
    found = explore(system(tmp_path))
    assert {p.verdict for p in found.properties} == {"exhausted", "witnessed"}
    below = sum(s[1] < 3 for s in found.paths.states)  # m.n
    assert found.generated == 1 + 2 * below  # two witnesses in each
    assert found.depth == 3


def test_invariants_are_not_evaluated_outside_a_constraint(tmp_path: Path) -> None:
    claims = "properties: {small: {always: m.n < 3}}\n"
    assert [p.verdict for p in explore(system(tmp_path / "all", "", claims)).properties] == ["violated"]
    bounded = explore(system(tmp_path / "some", "constraint: m.n < 3\n", claims))
    assert [p.verdict for p in bounded.properties] == ["exhausted"]
    assert bounded.cut > 0


STRONG = """role: m
events: {go: on, back: back, leave: out}
states:
  a: {initial: true, tasks: [work], on: {go: {to: b}, leave: {to: c}}}
  b: {tasks: [rest], on: {back: {to: a}}, ignore: {leave: not here}}
  c: {ignore: {leave: it has}}
tasks: {work: {call: handler.work, answers: [go]}, rest: {call: handler.rest, answers: [back]}}
"""


@pytest.mark.parametrize(("fair", "fairness", "verdict"), [
    ("true", Fairness.SPEC, "violated"), ("strong", Fairness.SPEC, "exhausted"), ("true", Fairness.STRONG, "exhausted"),
])  # fmt: skip
def test_fairness_is_weak_or_strong(fair: str, fairness: Fairness, verdict: str, tmp_path: Path) -> None:
    """The way out is possible again and again."""
    made = written(tmp_path, {
        "system.yaml": f"system: s\nroles: {{m: {{}}}}\nenvironment: {{leave: {{to: m, fair: {fair}}}}}\n",
        "roles/m.yaml": STRONG, "invariants.yaml": "properties: {ends: {when: m.state == a, leads_to: m.state == c}}\n",
    })  # fmt: skip
    assert [p.verdict for p in explore(made, fairness=fairness).properties] == [verdict]
