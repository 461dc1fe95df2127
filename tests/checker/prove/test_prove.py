"""The prover: what it proves holds, what is wrong is not proved, and what it cannot say it says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import prove
from leasehold.checker.prove.decide.guards import guard_findings
from leasehold.checker.prove.decide.induction import Setting, induct
from leasehold.faults.model import Budget
from leasehold.spec import System, shipped_folder
from tests.checker.prove import certificate_reader
from tests.systems import TESTS, load

SYSTEMS = TESTS / "checker/prove/systems"


def test_two_phase_commit_for_any_number_of_participants() -> None:
    """Each property, with all faults, whatever the number."""
    found = prove(load("two_phase_commit"))
    assert found.holds, [v for v in found.verdicts if v.verdict != "proved"]
    assert found.any_number == ["participant"]
    assert {v.name for v in found.properties} >= {"agreement", "commit_needs_all", "decisions_stand"}
    assert all(v.verdict == "proved" for v in found.verdicts)


@pytest.mark.slow
def test_the_lease() -> None:
    """With losses and without, for any number of units and guests, any terms, and any number of faults."""
    system = load("lease")
    found = prove(system, jobs=2)
    assert found.holds, [(v.name, v.reason) for v in found.verdicts if v.verdict != "proved"]
    assert found.any_number == ["unit", "guest"]
    assert found.held == ["duplicates=0", "reorders=0"]  # faults of channels; a proof has any number of both
    asked = {p.name for p in system.properties.values() if p.kind in ("always", "step")}
    assert {v.name for v in found.properties} == asked - {"site_gives_what_a_ticket_grants"}  # of a liar
    assert (len(found.properties), len(found.lemma_verdicts)) == (123, 112)


@pytest.mark.long
def test_three_phase_commit() -> None:
    """With lemmas that the prover itself has found."""
    found = prove(load("three_phase_commit"))
    assert found.holds, [(v.name, v.reason) for v in found.verdicts if v.verdict != "proved"]
    assert found.any_number == ["participant"]


@pytest.mark.slow
def test_several_leases() -> None:
    """Never more tickets than units, no unit held by two leases, and no guests of two on one."""
    found = prove(load("contention"), small=None)
    assert found.holds, [(v.name, v.reason) for v in found.verdicts if v.verdict != "proved"]


# A lease of one unit neither grows nor shrinks; that of two units has cases of each.
ABOUT_TWO_UNITS = {
    "a_smaller_ticket_is_told_to_the_broker",
    "the_site_is_not_asked_before_the_victims_are_left",
    "victims_are_named_in_the_latest_request",
    "units_are_added_where_nothing_is_lost",
    "a_smaller_lease_is_told_once_where_nothing_is_lost",
    "more_units_are_asked_for_in_turn_where_nothing_is_lost",
}
ABOUT_LOSSES = {"no_guests_wait_for_units_of_an_ended_lease"}  # that its site has ended before its term


@pytest.mark.parametrize(
    ("name", "settings", "faults", "vacuous"),
    [
        ("two_phase_commit", {"participants": "2"}, "crash=1", set()),
        ("lease", {"max_units": "1", "last_end": "2"}, "crash=1", ABOUT_TWO_UNITS),
        ("lease", {"max_units": "2", "last_end": "2"}, "", set()),
        ("contention", {"last_end": "1"}, "", None),
        ("contention", {"leases": "1", "max_units": "2", "lazy_close": "false"}, "", ABOUT_LOSSES),
    ],
)
def test_lemmas_hold_where_they_can_be_explored(
    name: str, settings: dict[str, str], faults: str, vacuous: set[str] | None
) -> None:
    """The other reading agrees, and no lemma is true for want of cases where there are two units.

    Args:
        vacuous: lemmas without a case; None: leases that are not extended leave many.
    """
    system = load(name, settings)
    asked = replace(system, properties=dict(system.lemmas))
    found = explore(asked, budget=Budget.parse(faults) if faults else None)
    assert found.complete
    verdicts = {p.name: p.verdict for p in found.properties if p.name in system.lemmas}
    assert set(verdicts.values()) == {"exhausted"}, verdicts
    assert vacuous is None or set(found.vacuous) & set(system.lemmas) == vacuous


def with_change(tmp_path: Path, name: str, file: str, old: str, new: str) -> System:
    """A system with a mistake."""
    folder = tmp_path / name
    shutil.copytree(shipped_folder(name), folder)
    text = (folder / file).read_text()
    assert text.count(old) == 1
    (folder / file).write_text(text.replace(old, new))
    return load(folder, {"participants": "2"})


def test_a_mistake_is_not_proved(tmp_path: Path) -> None:
    """A coordinator that commits although one disagrees: contradicted, by the shortest run that the explorer finds."""
    right = "disagree: {to: aborting}"
    wrong = with_change(
        tmp_path, "two_phase_commit", "roles/coordinator.yaml", right, right.replace("aborting", "committing")
    )
    found = prove(wrong, jobs=1, small=wrong)
    verdicts = {v.name: v for v in found.verdicts}
    assert verdicts["commit_needs_all"].verdict == "counterexample"
    assert verdicts["commit_needs_all"].path is not None
    assert len(verdicts["commit_needs_all"].path.steps) < 16
    assert verdicts["decisions_stand"].verdict == "proved"
    assert not found.holds


def test_without_lemmas_it_is_undecided() -> None:
    """A property that is not inductive is neither proved nor contradicted, and the reason is told."""
    system = replace(load("two_phase_commit", {"participants": "2"}), lemmas={})
    found = prove(system)
    verdicts = {v.name: v for v in found.verdicts}
    assert verdicts["agreement"].verdict == "undecided"
    assert "breaks it from a state that no lemma excludes" in verdicts["agreement"].reason
    assert verdicts["decisions_stand"].verdict == "proved"
    assert not found.holds


@pytest.mark.slow
def test_lemmas_are_found() -> None:
    """Lemmas from explored states of two participants prove it for any number."""
    system = replace(load("two_phase_commit"), lemmas={})
    small = replace(load("two_phase_commit", {"participants": "2"}), lemmas={})
    found = prove(system, Setting(limit_seconds=20), small=small)
    verdicts = {v.name: v for v in found.verdicts}
    assert found.holds, [(v.name, v.reason) for v in found.verdicts if v.verdict != "proved"]
    assert verdicts["agreement"].method == "induction, with lemmas from explored states"
    assert verdicts["decisions_stand"].method == "induction"
    again = prove(replace(system, lemmas={c.name: c.of(system) for c in found.lemmas}))
    assert again.holds  # these lemmas are all that it takes


def test_a_lemma_that_is_wrong_proves_nothing() -> None:
    """It is taken out, and nothing that needs it stays."""
    system = load("two_phase_commit")
    false = replace(next(iter(system.lemmas.values())), claim=system.properties["all_may_commit"].claim, when=None)
    found = induct(replace(system, lemmas={"false": false}))
    assert "false" not in found.proved
    assert "agreement" not in found.proved
    assert "decisions_stand" in found.proved


@pytest.mark.long
def test_a_number_of_instances_that_is_fixed() -> None:
    found = induct(load("two_phase_commit", {"participants": "2"}), Setting(sizes={"participant": 2}))
    assert {"agreement", "commit_needs_all"} <= found.proved.keys()


def _cli(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leasehold", "prove", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)


def test_the_command() -> None:
    done = _cli("two_phase_commit", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["proved"], found["undecided"], found["counterexamples"]) == (14, 0, 0)
    assert all(p["verdict"] == "proved" and p["method"] for p in found["properties"])
    assert found["instances"] == "any"
    wrong = _cli("two_phase_commit", "--instances", "participants=3")
    assert wrong.returncode == 2
    assert "did you mean `participant`?" in wrong.stderr


@pytest.mark.long
def test_another_solver_accepts_the_certificate(tmp_path: Path) -> None:
    """cvc5 finds every condition unsatisfiable; and one that is not, it does not."""
    cvc5 = pytest.importorskip("cvc5")
    file = tmp_path / "two_phase_commit.smt2"
    assert _cli("two_phase_commit", "--certificate", str(file)).returncode == 0
    scripts = _scripts(file)
    assert len(scripts) == 45
    assert {_answer(cvc5, script) for script in scripts} == {"unsat"}
    assert _missing("two_phase_commit", file) == []
    head, _, _ = scripts[0].rpartition("(assert")  # without the last of them, which is the claim itself
    assert _answer(cvc5, f"{head}(check-sat)") != "unsat"
    assert not _accepts(cvc5, re.sub(r"\(assert \|(guard|before) [^|]*\|\)\n", "", scripts[1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lease", "contention"])
def test_another_solver_accepts_every_certificate(name: str, tmp_path: Path) -> None:
    cvc5 = pytest.importorskip("cvc5")
    file = tmp_path / "certificate.smt2"
    assert _cli(name, "--certificate", str(file)).returncode == 0
    scripts = _scripts(file)
    assert len(scripts) > 100
    assert [script for script in scripts if not _accepts(cvc5, script)] == []
    if name == "lease":
        assert _missing(name, file) == []


@pytest.mark.long
def test_a_condition_that_a_certificate_lacks_is_found(tmp_path: Path) -> None:
    """Without the condition of a fault, or with a claim left out of one, the independent reader says so."""
    file = tmp_path / "two_phase_commit.smt2"
    assert _cli("two_phase_commit", "--no-search", "--certificate", str(file)).returncode == 0
    folder, text = shipped_folder("two_phase_commit"), file.read_text()
    index = json.loads(file.with_name(f"{file.name}.json").read_text())
    assert certificate_reader.missing(folder, index, text) == []
    whole = index["conditions"]
    index["conditions"] = [c for c in whole if c["name"] != "answers loses a message"]
    lacks = certificate_reader.missing(folder, index, text)
    assert lacks[:2] == ["no condition: answers loses a message", "the index and the scripts differ"]
    index["conditions"] = whole
    other = f"{int(index['spec_digest'][0] == '0')}{index['spec_digest'][1:]}"
    lacks = certificate_reader.missing(folder, index | {"spec_digest": other}, text)
    assert lacks == ["the index is of another specification"]
    lacks = certificate_reader.missing(folder, index, text.replace(index["spec_digest"], other))
    assert lacks == ["the scripts are of another specification"]
    whole[1]["unchanged"].remove("agreement")
    whole[2]["establishes_of_step"].remove("votes_are_cast")
    assert certificate_reader.missing(folder, index, text)[:2] == [
        "coordinator/idle#begin does not establish agreement",
        "coordinator/asking#agree does not establish votes_are_cast",
    ]


def test_the_conditions_of_the_lease() -> None:
    """The transition relation has the steps that an independent reader of the YAML lists, and no others."""
    encoding = Setting().encoding(load("lease"))
    names = [certificate_reader.INITIAL, *(step.name for step in encoding.relation.steps(encoding.before))]
    assert sorted(names) == sorted(certificate_reader.required_conditions(shipped_folder("lease")))


def _missing(name: str, file: Path) -> list[str]:
    """Returns what an independent reader finds that the certificate of a shipped system lacks."""
    index = json.loads(file.with_name(f"{file.name}.json").read_text())
    return certificate_reader.missing(shipped_folder(name), index, file.read_text())


def _scripts(file: Path) -> list[str]:
    """The conditions of a certificate, each a script of its own."""
    return [part for part in file.read_text().split("(reset)\n") if "(check-sat)" in part]


def _accepts(cvc5, script: str) -> bool:  # type: ignore[no-untyped-def]
    """Returns whether a condition is unsatisfiable: whole, or else with each claim alone in the last assertion."""
    if _answer(cvc5, script, 10) == "unsat":
        return True
    head, _, goals = script.rpartition("(assert (not (and true ")
    claims = re.findall(r"\|[^|]+\||[^\s|()]+", goals.partition(")))")[0])
    alone = (f"{head}(assert (not {claim}))\n(check-sat)\n" for claim in claims)
    return bool(claims) and all(_answer(cvc5, one) == "unsat" for one in alone)


def _answer(cvc5, script: str, seconds: int = 60) -> str:  # type: ignore[no-untyped-def]
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(1000 * seconds))
    solver.setOption("enum-inst", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "certificate")
    symbols, said = parser.getSymbolManager(), ""
    while not (command := parser.nextCommand()).isNull():
        said += command.invoke(solver, symbols)
    return said.strip()


def test_guards_are_asked_for_all_data() -> None:
    """Explored ranges hide it: two guards both hold for a great number."""
    found = guard_findings(Setting().encoding(load(SYSTEMS / "lamp")))
    assert ("overlap", "light/off#press and light/off#press.2") in {(f.kind, f.where) for f in found}
    assert not guard_findings(Setting().encoding(load("lease")))


def test_sums_over_any_number_of_leases() -> None:
    """A broker never tickets more than it has, over any number of leases."""
    system = load(SYSTEMS / "pool")
    found = induct(system)
    assert {"inventory_is_never_exceeded", "idle_holds_nothing"} <= found.proved.keys()
    assert "never_one_alone" not in found.proved
    greedy = replace(system, environment={n: replace(o, when=None) for n, o in system.environment.items()})
    assert "inventory_is_never_exceeded" not in induct(greedy).proved


def test_a_search_for_counterexamples_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says what was not seen, and a large system does not fill the memory."""
    monkeypatch.setattr("leasehold.checker.prove.prover.MOST_EXPLORED", 5)
    system = load("two_phase_commit", {"participants": 1})
    system = replace(system, lemmas={})
    found = prove(system, Setting(limit_seconds=0.1), jobs=1, small=system)
    assert found.explored
    assert all("(stopped after " in words for words in found.explored)
