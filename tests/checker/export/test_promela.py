"""The exported Promela models: SPIN stores as many states as the explorer counts, and finds what it finds."""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.export import ExportError, ExportOptions, export_system
from leasehold.spec import System, shipped_folder
from tests.checker.explore.by_chance import by_chance
from tests.spec.language.lower.test_accepting import PAIR, WRONG
from tests.systems import TESTS, TRUTH, edited, files_of, load, written

ASKS = files_of("checker/export/systems/asks")
LAMP = files_of("checker/export/systems/lamp")
TURNED = files_of("checker/export/systems/turned")

pytestmark = pytest.mark.usefixtures("spin")


def check(folder: Path, model: str, *flags: str, live: bool = False) -> str:
    """Returns what SPIN's verifier prints of a model. It goes on after a violation, unless a run is searched for."""
    (folder / "model.pml").write_text(model)
    made = subprocess.run(["spin", *flags, "-a", "model.pml"], cwd=folder, capture_output=True, text=True, check=False)
    assert (made.returncode, "rror" in made.stdout) == (0, False), made.stdout
    safety = [] if live else ["-DSAFETY"]
    compiler = ["cc", "-w", "-DNOREDUCE", "-DVECTORSZ=4096", *safety, "-o", "pan", "pan.c"]
    subprocess.run(compiler, cwd=folder, check=True)
    options = ["-a", "-A"] if live else ["-c0"]
    ran = subprocess.run(["./pan", "-m500000", *options], cwd=folder, capture_output=True, text=True, check=False)
    assert "search depth too small" not in ran.stdout
    return ran.stdout


def stored(printed: str) -> int:
    found = re.search(r"(\d+) states, stored", printed)
    assert found is not None, printed
    return int(found[1])


def errors(printed: str) -> int:
    found = re.search(r"errors: (\d+)", printed)
    assert found is not None, printed
    return int(found[1])


@pytest.mark.parametrize(
    ("folder", "settings", "more"),
    [
        (shipped_folder("two_phase_commit"), {}, 0),
        (shipped_folder("three_phase_commit"), {}, 0),
        (shipped_folder("lease"), {"max_units": 1, "last_end": 1}, 0),
        pytest.param(shipped_folder("lease"), {"max_units": 1, "last_end": 2}, 0, marks=pytest.mark.long),
        pytest.param(
            shipped_folder("lease"),
            {"max_units": 1, "last_end": 2, "duplicates": 1, "reorders": 1},
            0,
            marks=pytest.mark.slow,
            id="lease-duplicates-reorders",
        ),
        (TRUTH / "two_phase", {}, 0),
        (TRUTH / "alternating_bit", {}, 1),  # several initial states; bounds
        (TRUTH / "simple_allocator", {}, 0),
        (TRUTH / "acp_sb", {"participants": 2}, 1),  # maps
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_spin_stores_what_the_explorer_counts(
    folder: Path, settings: dict[str, Any], more: int, tmp_path: Path
) -> None:
    system = load(folder, settings)
    printed = check(tmp_path, export_system(system, "promela").text)
    assert stored(printed) == explore(system).distinct + more
    assert errors(printed) == 0


def chance(folder: Path, seed: int, faults: str, unordered: str = "bag", share: bool = False) -> System:
    """A system that nobody thought about, whose channels have faults."""
    assert by_chance(folder, random.Random(seed), share) is not None, f"seed {seed} gives no system"
    words = (folder / "system.yaml").read_text().replace("kind: bag", f"kind: {unordered}")
    return written(folder, {"system.yaml": re.sub(r"(kind: [a-z]+(\(\d\))?)\}", rf"\1{faults}}}", words)})


@pytest.mark.parametrize(
    ("seed", "faults"),
    [
        (4, ""),
        (7, ""),
        (14, ""),
        (28, ""),
        (36, ", reorder: 1, lose: 1"),
        (9, ", lose: any, duplicate: 1"),
        (15, ", reorder: any, duplicate: 1"),
        (12, ", duplicate: any"),
    ],
)
@pytest.mark.parametrize("unordered", ["bag", pytest.param("multiset", marks=pytest.mark.long)])
def test_systems_by_chance(seed: int, faults: str, unordered: str, tmp_path: Path) -> None:
    system = chance(tmp_path / "system", seed, faults, unordered)
    if unordered not in {c.kind for c in system.channels.values()} | {"bag"}:
        return  # it is the same system
    found = explore(system, Limits(states=20_000))
    assert found.complete
    printed = check(tmp_path, export_system(system, "promela").text)
    assert stored(printed) == found.distinct
    broken = {p.name for p in found.properties if p.kind == "always" and p.verdict == "violated"}
    assert set(re.findall(r"assertion violated Holds_(\w+)", printed)) <= broken
    assert bool(errors(printed)) == bool(broken)


@pytest.mark.parametrize("back", ["", ", duplicate: 1", ", lose: 1", ", reorder: 1"])
@pytest.mark.parametrize("there", ["", ", duplicate: 1", ", lose: 1", ", reorder: 1"])
def test_a_fault_of_one_channel_reaches_the_answers_over_the_other(there: str, back: str, tmp_path: Path) -> None:
    """An answer that is sent again because its request came again has the number that it had."""
    text = {name: file.replace(" FAULTS_THERE", there).replace(" FAULTS_BACK", back) for name, file in ASKS.items()}
    system = written(tmp_path / "system", text)
    found = explore(system)
    assert found.complete
    printed = check(tmp_path, export_system(system, "promela").text)
    assert (stored(printed), errors(printed)) == (found.distinct, 0)


@pytest.mark.parametrize("seed", [4, 9, 14])
def test_systems_by_chance_that_share_variables(seed: int, tmp_path: Path) -> None:
    system = chance(tmp_path / "system", seed, "", share=True)
    found = explore(system, Limits(states=20_000))
    assert found.complete
    printed = check(tmp_path, export_system(system, "promela").text)
    assert stored(printed) == found.distinct
    broken = {p.name for p in found.properties if p.kind == "always" and p.verdict == "violated"}
    assert bool(errors(printed)) == bool(broken)


@pytest.mark.parametrize(
    ("seed", "name", "broken"),
    [
        (4, "comes", False),
        (7, "comes", True),
        (7, "bit_falls", False),
        (9, "bit_falls", True),
    ],
)
def test_what_never_comes_is_found_as_a_fair_run(seed: int, name: str, broken: bool, tmp_path: Path) -> None:
    system = chance(tmp_path / "system", seed, "")
    assert [p.verdict == "violated" for p in explore(system).properties if p.name == name] == [broken]
    printed = check(tmp_path, export_system(system, "promela").text, "-DLIVENESS", f"-DCLAIM_{name}", live=True)
    assert ("acceptance cycle" in printed) == broken


def test_a_broken_always_is_no_way_to_stay(tmp_path: Path) -> None:
    """The report of it changes nothing; were it a step of a run, a run could take it for ever."""
    system = load(TESTS / "checker/export/systems/steady")
    verdicts = {p.name: p.verdict for p in explore(system).properties}
    assert verdicts == {"never_dim": "violated", "lights_up": "exhausted"}
    text = export_system(system, "promela").text
    assert "assertion violated Holds_never_dim" in check(tmp_path, text)
    printed = check(tmp_path, text, "-DLIVENESS", "-DCLAIM_lights_up", live=True)
    assert ("acceptance cycle" in printed, errors(printed)) == (False, 0)


@pytest.mark.parametrize(
    ("initially", "more"),
    [
        ("lamp[0].n == 1 and lamp[1].n == 1", 0),  # one initial state
        ("lamp[0].n == 1 and lamp[1].n == 2", 1),  # one, in which machines differ
        ("lamp[0].n == lamp[1].n", 1),
    ],
)
def test_initial_states_that_are_set_are_one_state_more(initially: str, more: int, tmp_path: Path) -> None:
    files = edited(TURNED, ("{lamp: {}}", "{lamp: {instances: 2}}"), ("1 <= lamp.n and lamp.n <= 2", initially))
    del files["invariants.yaml"]
    system = written(tmp_path, files)
    text = export_system(system, "promela").text
    assert stored(check(tmp_path, text)) == explore(system).distinct + more
    assert ("and one more" in " ".join(text.split())) == bool(more)


def test_the_state_before_an_initial_one_owes_nothing(tmp_path: Path) -> None:
    """Nothing is asked of it, though the antecedent is true there and in no state of the system."""
    made = written(tmp_path, TURNED)
    assert [p.verdict for p in explore(made).properties] == ["exhausted", "violated"]
    text = export_system(made, "promela").text
    for name, broken in (("grows", False), ("turns", True)):
        printed = check(tmp_path, text, "-DLIVENESS", f"-DCLAIM_{name}", live=True)
        assert ("acceptance cycle" in printed) == broken


CLAIMS = """
properties:
  dark: {doc: It is dark., always: lamp.state == dark}
  stays: {doc: It never gets dark., step: old(lamp.state) == dark or lamp.state == bright}
  can_be_bright: {sometimes: lamp.state == bright}
  goes_out: {when: lamp.state == bright, leads_to: lamp.state == dark, within: 0}
ends: {never: now == 0}
"""


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ([], {"Holds_dark", "Holds_stays"}),
        (["-DSEEK_can_be_bright"], {"Not_yet_can_be_bright"}),
    ],
)
def test_a_broken_property_is_found_by_name(flags: list[str], found: set[str], tmp_path: Path) -> None:
    system = written(tmp_path, {**LAMP, "invariants.yaml": CLAIMS})
    verdicts = {p.name: p.verdict for p in explore(system).properties}
    assert (verdicts["dark"], verdicts["stays"], verdicts["can_be_bright"]) == ("violated", "violated", "witnessed")
    (tmp_path / "model.pml").write_text(export_system(system, "promela").text)
    printed = check(tmp_path, export_system(system, "promela").text, *flags)
    assert errors(printed) > 0
    trails = set()
    for name in ("Holds_dark", "Holds_stays", "Not_yet_can_be_bright"):
        alone = re.sub(rf"assert\((?!{name}\b)\w+\)", "skip", export_system(system, "promela").text)
        if f"assertion violated {name}" in check(tmp_path, alone, *flags):
            trails.add(name)
    assert found <= trails


def test_what_comes_too_late_is_found(tmp_path: Path) -> None:
    system = written(tmp_path, {**LAMP, "invariants.yaml": CLAIMS})
    assert [p.verdict for p in explore(system).properties if p.name == "goes_out"] == ["violated"]
    printed = check(tmp_path, export_system(system, "promela").text, "-DLIVENESS", "-DCLAIM_goes_out_within", live=True)
    assert errors(printed) == 1


@pytest.mark.parametrize(("within", "late"), [(1, True), (2, False)])
def test_what_the_tick_after_the_last_brings_comes_too_late(within: int, late: bool, tmp_path: Path) -> None:
    claims = f"properties: {{comes: {{when: now == 0, leads_to: now == 2, within: {within}}}}}\n"
    system = written(tmp_path, {**LAMP, "invariants.yaml": claims})
    assert [p.verdict for p in explore(system).properties] == ["violated" if late else "exhausted"]
    printed = check(tmp_path, export_system(system, "promela").text, "-DLIVENESS", "-DCLAIM_comes_within", live=True)
    assert errors(printed) == late


def test_a_stop_that_is_no_end_is_found(tmp_path: Path) -> None:
    files = {**LAMP, "system.yaml": LAMP["system.yaml"].replace("lamp}}", 'lamp, when: "now < 2"}}')}
    system = written(tmp_path, {**files, "invariants.yaml": "ends: {never: now == 0}\n"})
    assert [p.verdict for p in explore(system).properties] == ["violated"]
    assert "assertion violated Holds_deadlock_free" in check(tmp_path, export_system(system, "promela").text)


def test_slots_that_do_not_suffice_are_an_error(tmp_path: Path) -> None:
    system = load(TRUTH / "alternating_bit")
    printed = check(tmp_path, export_system(system, "promela", ExportOptions(slots=2)).text)
    assert "assertion violated Enough_slots" in printed


def test_what_cannot_be_taken_is_refused(tmp_path: Path) -> None:
    role = LAMP["roles/lamp.yaml"].replace("since: {", "many: {type: 'set[thing]'}, since: {")
    system = LAMP["system.yaml"] + "types: {thing: {count: 40}}\n"
    made = written(tmp_path, {"system.yaml": system, "roles/lamp.yaml": role})
    with pytest.raises(ExportError, match=r"a set of thing has 40 members.*have fewer"):
        export_system(made, "promela")


def test_what_promela_cannot_say_is_named() -> None:
    lease = load("lease")
    made = export_system(lease, "promela")
    assert [left.name for left in made.left_out] == [
        p.name for p in lease.properties.values() if p.kind == "always_possible"
    ]
    assert made.left_out
    for left in made.left_out:
        assert f"{left.name}: that some run leads to it" in made.text


def test_what_machines_accept_and_ignore_is_said(tmp_path: Path) -> None:
    pair = load(PAIR)
    for wrong in ({}, *({name} for name in WRONG)):
        asked = {name: p for name, p in pair.properties.items() if name not in WRONG or name in wrong}
        made = export_system(replace(pair, properties=asked), "promela")
        assert not made.left_out
        assert bool(errors(check(tmp_path, made.text))) is bool(wrong)
