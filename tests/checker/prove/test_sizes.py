"""Sizes of sets whose number of members is unknown: what a step sends has the size that it had."""

from __future__ import annotations

import shutil
from itertools import combinations, product
from pathlib import Path

import pytest
import z3

from leasehold.checker.explore import explore
from leasehold.checker.prove import Certificate, Setting, prove
from leasehold.checker.prove.decide.induction import ANY, induct
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.values import Sorts
from leasehold.spec import load as load_anew
from leasehold.spec.language.types import Instance
from tests.checker.prove.claimed import claimed
from tests.systems import load

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
    system = load(claimed(tmp_path, "sent", claim))
    (found,) = prove(system, jobs=1, small=system).properties
    assert found.verdict == verdict, found.reason


def test_what_a_step_sends_has_no_size_of_its_own(tmp_path: Path) -> None:
    """It is that of the set that is sent, and of no message the size changes that it had: no axioms compare them."""
    encoding = ANY.encoding(load(claimed(tmp_path, "sent", TRUE)))
    (claim,) = (c for c in claims_of(encoding) if c.name == "claim")
    (step,) = (s for s in encoding.relation.steps(encoding.before) if s.name == "a/s#go")
    facts = encoding.sorts.cardinals.facts
    known = [*step.given, encoding.now(claim)]
    assert len(list(facts([*known, encoding.then(claim, step)]))) == len(list(facts(known)))


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("a.k == len(a.s)", "proved"),
        ("len(w - a.s) == n - a.k", "proved"),
        ("len(a.s) < n", "counterexample"),
        ("a.k == len(w - a.s)", "counterexample"),
    ],
)
def test_one_more_element_makes_a_set_one_larger(claim: str, verdict: str, tmp_path: Path) -> None:
    system = load(claimed(tmp_path, "grown", claim))
    (found,) = [v for v in prove(system, jobs=1, small=system).properties if v.name == "claim"]
    assert found.verdict == verdict, found.reason


MAJORITY = Path(__file__).parent / "systems" / "majority"


def test_two_majorities_have_a_common_member() -> None:
    """So nobody else is elected, whatever the number of nodes, by nodes that vote once."""
    found = induct(load(MAJORITY), jobs=1)
    assert found.proved.keys() >= {"one_leader", "a_leader_has_a_majority"}


def test_two_halves_need_not_have_one(tmp_path: Path) -> None:
    folder = shutil.copytree(MAJORITY, tmp_path / "halves")
    for name in ("roles/node.yaml", "lemmas.yaml"):
        text = (folder / name).read_text()
        assert "> nodes" in text
        (folder / name).write_text(text.replace("> nodes", ">= nodes"))
    halves = load_anew(folder, {"nodes": 2})
    assert "one_leader" not in induct(halves, Setting(limit_seconds=3), jobs=1).proved
    assert {p.name for p in explore(halves).properties if p.verdict == "violated"} == {"one_leader"}


def test_a_certificate_says_what_one_more_element_does(tmp_path: Path) -> None:
    """Its goals are over named variables of the state after a step, in whose definitions the sums are."""
    system = load(claimed(tmp_path, "grown", "a.k == len(a.s)"))
    conditions = [*Certificate(system, ANY, induct(system, jobs=1)).conditions()]
    assert {"a/s#come", "a/s#go"} <= {condition.name for condition in conditions}
    for condition in conditions:
        solver = z3.Solver()
        solver.from_string(condition.script.replace("(reset)", ""))
        assert solver.check() == z3.unsat, condition.name


def ground(words: z3.ExprRef, values: range) -> z3.ExprRef:
    """A formula whose quantifiers are about these values, without them."""
    if z3.is_quantifier(words):
        each = product(map(z3.IntVal, values), repeat=words.num_vars())
        cases = [ground(z3.substitute_vars(words.body(), *reversed(case)), values) for case in each]
        return z3.And(cases) if words.is_forall() else z3.Or(cases)
    return words.decl()(*(ground(part, values) for part in words.children())) if words.children() else words


@pytest.mark.parametrize("machines", [1, 2, 3])
def test_what_is_known_of_sizes_is_true_of_all_small_sets(machines: int) -> None:
    """The axioms hold for any two sets of up to three machines with their true sizes, and with no others."""
    sorts, w = Sorts(), Instance("w", machines)
    sorts.sizes["w"] = z3.Int("n")
    one, other = (z3.Function(name, z3.IntSort(), z3.BoolSort()) for name in ("one", "other"))
    sizes = [sorts.count(w, holds) for holds in (one, other)]
    subtracted = sorts.cardinals.subtracted([sizes[0] + 1 == sizes[1]])
    multiplied = [2 * size > z3.Int("n") for size in sizes]
    facts = sorts.cardinals.facts([*sizes, *multiplied], subtracted=subtracted)
    known = [ground(fact, range(-1, machines + 1)) for fact in facts]
    sets = [{i for i in range(machines) if bits >> i & 1} for bits in range(2**machines)]
    for a, b in product(sets, repeat=2):
        solver = z3.Solver()
        solver.add(z3.Int("n") == machines, *known)
        solver.add(*(one(i) == (i in a) for i in range(machines)), *(other(i) == (i in b) for i in range(machines)))
        assert solver.check(sizes[0] == len(a), sizes[1] == len(b)) == z3.sat, (a, b)
        if a < b and len(b - a) == 1:
            assert solver.check(sizes[1] - sizes[0] != 1) == z3.unsat, (a, b)


AGGREGATES = [
    "len(a.s)",
    "len(a.t)",
    "len(w - a.s)",
    "len(a.s & a.t)",
    "len(a.s | a.t)",
    "count(v.x > 0 for v in w)",
    "count(v.y > 0 for v in w)",
    "count(v in a.s and v.x > 0 for v in w)",
    *(f"{of}(v.{data} for v in w)" for of in ("sum", "min", "max") for data in "xy"),
    *(f"sum(v.{data} for v in w if v in {of})" for data in "xy" for of in ("a.s", "a.t")),
]


def test_no_two_counts_share_their_number(tmp_path: Path) -> None:
    """Each is of its own set, numbers and kind: in some state any two differ, so their equality is refutable."""
    pairs = list(combinations(AGGREGATES, 2))
    folder = claimed(tmp_path, "aggregates", "true")
    equal = (f'  equal_{n}: {{always: "({one}) == ({other})"}}\n' for n, (one, other) in enumerate(pairs))
    (folder / "invariants.yaml").write_text("properties:\n" + "".join(equal))
    encoding = ANY.encoding(load(folder))
    goals = {claim.name: z3.Not(encoding.now(claim)) for claim in claims_of(encoding)}
    assert goals.keys() >= {f"equal_{n}" for n in range(len(pairs))}
    shared = []
    for n, pair in enumerate(pairs):
        solver = z3.Solver()
        solver.set("rlimit", 200_000)
        solver.add(goals[f"equal_{n}"], *encoding.sorts.cardinals.facts([goals[f"equal_{n}"]]))
        shared += [pair] if solver.check() == z3.unsat else []
    assert shared == []
