"""Stored proofs: found again for the same system alone, with all that was proved, and nothing that was not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.checker.explore import PropertyResult
from leasehold.checker.prove import Setting, StoredProof, store, stored
from leasehold.checker.prove.decide import proof_store
from leasehold.checker.prove.decide.assumptions import assumptions
from leasehold.checker.prove.decide.guards import GuardFinding
from leasehold.checker.prove.decide.proof import ClaimVerdict, Proof
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.checker.prove.encode.transitions import TransitionRelation
from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.typing.syntax import Syntax
from tests.systems import load


@pytest.fixture(scope="module")
def system() -> System:
    return load("two_phase_commit", {"participants": 2})


def all_proved(system: System, method: str = "induction", **more: Any) -> Proof:
    """A proof of all properties about states and steps, and of all lemmas."""
    asked = [p for p in system.properties.values() if p.kind in ("always", "step")]
    kinds = {"always": "always", "step": "step"}
    verdicts = [ClaimVerdict(p.name, kinds[p.kind], "proved", method) for p in asked]  # type: ignore[arg-type]
    verdicts += [ClaimVerdict(name, "lemma", "proved", f"{method} of a lemma") for name in system.lemmas]
    others = [p.name for p in system.properties.values() if p not in asked]
    values: dict[str, Any] = {
        "others": others,
        "helpers": 3,
        "any_number": ["participant"],
        "steps": 41,
        "questions": 17,
        "scope": FaultScope(),
        "guards": [GuardFinding("overlap", "a and b", "words", {"n": "1"})],
        "lemmas": [CandidateLemma("found", "a.n > 1", "a.n > 0"), CandidateLemma("other", "", "true")],
        "assumptions": assumptions(system, Setting(), searches=True),
    }
    return Proof(system, verdicts, **(values | more))


def only(proof: Proof, *names: str) -> Proof:
    """The proof of these properties alone; of the others it is not known."""
    kept = [v if v.name in names else replace(v, verdict="undecided", method="") for v in proof.verdicts]
    return replace(proof, verdicts=kept)


# The name of a stored proof


def changes(value: Any) -> Iterator[Any]:
    """Yields other values of the same kind."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, str):
        yield f"{value}x"
    elif isinstance(value, Mapping):
        items = list(value.items())
        if items:
            yield dict(items[1:])
            yield {**value, "another": items[0][1]}
        if len(items) > 1:
            yield dict(reversed(items))
    elif isinstance(value, frozenset):
        yield value | {"another"}
        if value:
            yield frozenset(list(value)[1:])
    elif isinstance(value, tuple):
        if value:
            yield value[1:]
            yield (*value, value[0])
        if len(set(map(str, value))) > 1:
            yield tuple(reversed(value))


def changed(value: Any, seen: set[tuple[type, str]]) -> Iterator[tuple[str, Any]]:
    """Yields copies of a part of a system with one change, for each field of each class once; and what has changed."""
    if is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            inner = getattr(value, f.name)
            if isinstance(inner, Place | Syntax):
                continue
            if (type(value), f.name) not in seen and (found := list(changes(inner))):
                seen.add((type(value), f.name))
                for other in found:
                    yield f"{type(value).__name__}.{f.name}", replace(value, **{f.name: other})
            for name, part in changed(inner, seen):
                yield name, replace(value, **{f.name: part})
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            for name, part in changed(inner, seen):
                yield name, {**value, key: part}
    elif isinstance(value, tuple):
        for n, inner in enumerate(value):
            for name, part in changed(inner, seen):
                yield name, (*value[:n], part, *value[n + 1 :])


ABOUT_OTHERS = {
    "System.expectations",
    "System.warnings",
    "System.migrations",
    "Faults.budget",
    "Faults.settings",
    "Faults.modes",
    "Faults.check",
}


@pytest.mark.parametrize("name", ["constructs/begins", "constructs/captures", "constructs/pool", "truth/peterson"])
def test_each_part_of_a_system_is_in_the_name(name: str) -> None:
    """Another system has another proof, wherever the two differ, but for words and what the prover does not read."""
    system = load(Path(__file__).parents[2] / name)
    here = proof_store._file(system)
    assert here is not None
    tried: dict[str, int] = {}
    for what, other in changed(system, set()):
        kind = what.partition(".")[0]
        if kind in ("Expectation", "Migration", "Diagnostic") or what.endswith(".doc"):
            continue
        alike = proof_store._file(other) == here
        if what in ABOUT_OTHERS:
            assert alike, what
        else:
            assert not alike, what
        tried[what] = tried.get(what, 0) + 1
    assert {"System.digest", "System.roles", "Role.states", "Transition.target", "Property.kind"} <= tried.keys()
    assert len(tried) > 60


def test_another_lemma_or_value_is_another_proof(system: System) -> None:
    name = next(iter(system.lemmas))
    others = [
        load("two_phase_commit", {"participants": 3}),
        replace(system, lemmas={}),
        replace(system, lemmas={n: p for n, p in system.lemmas.items() if n != name}),
        replace(system, lemmas={**system.lemmas, name: replace(system.lemmas[name], when=None, claim=x.TRUE)}),
    ]
    assert len({proof_store._file(other) for other in (system, *others)}) == 5


def test_a_proof_of_a_system_with_definitions_is_stored() -> None:
    """The trees of their texts have no form that lasts; the texts are in the name."""
    system = load("contention")
    assert system.definitions
    proved = store(all_proved(system), Setting())
    assert proved is not None
    assert proved == stored(system)


def test_a_changed_word_is_the_same_proof(system: System) -> None:
    properties = {name: replace(p, doc=f"{p.doc} More.") for name, p in system.properties.items()}
    assert proof_store._file(replace(system, doc="Other words.", properties=properties)) == proof_store._file(system)


@pytest.mark.parametrize(("part", "value"), [("FORM", 0), ("_SOURCES", [["a.py", "other"]])])
def test_what_makes_proofs_is_in_the_name(
    part: str, value: Any, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = proof_store._file(system)
    monkeypatch.setattr(proof_store, part, value)
    assert proof_store._file(system) != here
    monkeypatch.setattr(proof_store, "_SOURCES", [])
    assert proof_store._file(system) is None
    assert stored(system) is None


# What is stored


def test_a_stored_proof_has_all_of_the_proof(system: System) -> None:
    made = all_proved(system)
    name = next(iter(system.properties))
    made = replace(made, verdicts=[replace(v, vacuous="no case") if v.name == name else v for v in made.verdicts])
    assert stored(system) is None
    kept = store(made, Setting())
    assert kept is not None
    assert kept == stored(system)
    assert kept.whole
    again = kept.proof(system)
    assert sorted(again.verdicts, key=str) == sorted(made.verdicts, key=str)
    assert set(again.others) == set(made.others)
    for part in ("helpers", "any_number", "steps", "questions", "guards", "lemmas", "assumptions", "for_what"):
        assert getattr(again, part) == getattr(made, part), part
    assert (again.scope, again.kept, again.holds) == (FaultScope.of(system), kept.made, True)
    assert kept.faults == made.scope.words
    assert kept.what == made.for_what
    assert kept.vacuous == {name: "no case"}
    assert stored(load("two_phase_commit", {"participants": 3})) is None


@pytest.mark.parametrize(
    "setting",
    [
        Setting(sizes={"participant": 2}),
        Setting(values={"participants": 2}),
        Setting(scope=FaultScope()),
        Setting(relation=type("Other", (TransitionRelation,), {})),
    ],
)
def test_what_was_asked_in_part_is_not_stored(setting: Setting, system: System) -> None:
    assert store(all_proved(system), setting) is None
    assert stored(system) is None


def test_nothing_is_stored_where_nothing_is_proved(system: System) -> None:
    assert store(only(all_proved(system)), Setting()) is None
    assert stored(system) is None


def test_what_is_proved_later_comes_to_what_was_before(system: System) -> None:
    """The later method counts; what is not known again stays; another scope is another proof."""
    one, two, *_ = [v.name for v in all_proved(system).properties]
    store(only(all_proved(system, "first", helpers=1), one, two), Setting())
    found = store(only(all_proved(system, "second", helpers=2), two), Setting())
    assert found == stored(system)
    assert found is not None
    assert (found.proved, found.whole, found.helpers) == ({one: "first", two: "second"}, False, 2)
    whole = store(all_proved(system, "third", helpers=3), Setting())
    assert whole is not None
    assert (set(whole.proved.values()), whole.whole, whole.helpers) == ({"third"}, True, 3)
    found = store(only(all_proved(system, "fourth", helpers=4), one), Setting())
    assert found is not None
    assert (found.proved[one], found.proved[two], found.whole, found.helpers) == ("fourth", "third", True, 3)
    assert found.lemmas == whole.lemmas
    other = store(only(all_proved(system, any_number=[]), one), Setting())
    assert other is not None
    assert set(other.proved) == {one}


@pytest.mark.parametrize(
    "left", ["a property", "a lemma", "not asked", "vacuity", "explored vacuity", "guards", "none"]
)
def test_a_proof_is_whole_when_nothing_is_left(left: str, system: System) -> None:
    made = all_proved(system)
    first, last = made.verdicts[0], made.verdicts[-1]
    assert last.kind == "lemma"
    verdicts = {
        "a property": [replace(first, verdict="undecided"), *made.verdicts[1:]],
        "a lemma": [*made.verdicts[:-1], replace(last, verdict="undecided")],
        "not asked": made.verdicts[1:],
        "explored vacuity": [replace(first, vacuous="none", vacuity_explored=True), *made.verdicts[1:]],
    }.get(left, made.verdicts)
    opened = {"vacuity_open": [first.name] if left == "vacuity" else [], "guards_open": left == "guards"}
    found = store(replace(made, verdicts=verdicts, **opened), Setting())
    assert found is not None
    assert found.whole is (left == "none")
    assert found.vacuous == {}


def test_a_file_that_is_not_as_it_was_written_is_none(system: System) -> None:
    """Cut short, too long, of other claims than the system has, or without a lemma of a whole proof."""
    kept, file = store(all_proved(system), Setting()), proof_store._file(system)
    assert kept is not None
    assert file is not None
    good = file.read_bytes()
    lemma = next(iter(system.lemmas))
    wrong = [
        good[:-9],
        b"",
        b"[]",
        b"{}",
        good + b" " * proof_store.MOST_BYTES,
        *map(
            msgspec.json.encode,
            (
                msgspec.structs.replace(kept, proved={}),
                msgspec.structs.replace(kept, proved={**kept.proved, "no_such_property": "induction"}),
                msgspec.structs.replace(kept, proved={**kept.proved, lemma: "induction"}),
                msgspec.structs.replace(kept, lemmas={n: m for n, m in kept.lemmas.items() if n != lemma}),
            ),
        ),
    ]
    for content in wrong:
        file.write_bytes(content)
        assert stored(system) is None, content[:80]
    part = msgspec.structs.replace(kept, lemmas={}, whole=False)
    file.write_bytes(msgspec.json.encode(part))
    assert stored(system) == part
    file.write_bytes(good)
    assert stored(system) == kept


def test_what_is_explored_beside_a_proof(system: System) -> None:
    """A violation is stronger than a proof, and a proof than what holds within bounds; liveness is never proved."""
    kept = StoredProof(proved={"p": "induction"}, any_number=[], faults=FaultScope().words, what="", made="")
    narrow = msgspec.structs.replace(kept, faults=FaultScope(crash=False).words)

    def result(verdict: str, kind: str = "always", name: str = "p") -> PropertyResult:
        return PropertyResult(name, kind, verdict)  # type: ignore[arg-type]

    for verdict in ("exhausted", "bounded", "unasked", "violated"):
        strongest = verdict if verdict == "violated" else "proved"
        assert kept.strongest(result(verdict)) == strongest
        assert kept.strongest(result(verdict, "step")) == strongest
        assert kept.strongest(result(verdict, "leads_to")) == verdict
        assert kept.strongest(result(verdict, name="q")) == verdict
    found = [result("violated"), result("violated", "leads_to"), result("violated", name="q"), result("exhausted")]
    assert kept.contradicted(found) == narrow.contradicted(found) == ["p"]
    assert kept.contradicted(found, Budget.parse("crash=1,lose=2")) == ["p"]
    assert kept.contradicted(found, Budget.parse("crash=1,skew=1")) == []
    assert narrow.contradicted(found, Budget.parse("lose=1")) == []
