"""`leasehold prove`: its exit codes, its signals, and that it says what a proof depends on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import pytest
import z3

from leasehold.checker.prove import ANY, stopped_by_signals
from leasehold.checker.prove.decide.cti import counterexample_to_induction
from leasehold.checker.prove.decide.induction import induct
from leasehold.spec import load, shipped_folder
from tests.cli.conftest import Run, as_json, descendants, is_alive
from tests.systems import files_of, write

MIRROR = files_of("cli/systems/mirror")


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return write(tmp_path / "mirror", MIRROR)


@pytest.mark.long
def test_a_lemma_that_a_run_violates(run: Run, tmp_path: Path) -> None:
    """All properties are proved, and yet the exit code is 1; the run is shown."""
    folder = Path(shutil.copytree(shipped_folder("two_phase_commit"), tmp_path / "commit"))
    with (folder / "lemmas.yaml").open("a") as lemmas:
        lemmas.write("  nobody_commits: {always: all(p.state != committed for p in participant)}\n")
    done = run("prove", "commit")
    assert done.returncode == 1
    assert "lemma nobody_commits is false: a run violates it" in done.stdout
    assert f"({len(load(shipped_folder('two_phase_commit')).lemmas)} of them hold)" in done.stdout
    assert "nobody_commits is contradicted" in done.stdout
    found = as_json(run("prove", "commit", "--json"))
    (lemma,) = [v for v in found["lemmas"] if v["verdict"] != "proved"]
    assert (lemma["name"], lemma["verdict"], lemma["path"]["steps"] != []) == ("nobody_commits", "counterexample", True)
    assert {p["verdict"] for p in found["properties"]} == {"proved"}


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--no-search",)])
def test_a_lemma_that_is_not_inductive(run: Run, mirror: Path, words: tuple[str, ...]) -> None:
    """It holds in every run, but by itself proves nothing; with what it needs it does."""
    lemma = "lemmas: {nothing_is_seen: {always: mirror.seen == 0}"
    (mirror / "lemmas.yaml").write_text(lemma + "}\n")
    done = run("prove", "mirror", *words)
    assert done.returncode == 3, done.stdout
    assert "lemma nothing_is_seen is not proved: mirror/hanging#look breaks it" in done.stdout
    shown = "lemma nothing_is_seen is not inductive; a counterexample to induction:\n  nothing_is_seen holds here"
    assert (shown in done.stdout) == (not words)
    (mirror / "lemmas.yaml").write_text(lemma + ", nothing_is_there: {always: mirror.there == 0}}\n")
    assert run("prove", "mirror", *words).returncode == 0


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
@pytest.mark.long
def test_sigterm_ends_the_worker_processes(tmp_path: Path) -> None:
    """SIGTERM acts like Ctrl-C: no child is left, and the exit code is 130."""
    command = [sys.executable, "-m", "leasehold", "prove", "lease", "--jobs", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while len(children := descendants(process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        children |= descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("interrupted before it was decided: induction proves nothing before its last round")
    assert len(children) >= 2
    while any(map(is_alive, children)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in children if is_alive(pid)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_breaks_the_solver_off(number: signal.Signals) -> None:
    """One query in this process, which would take a minute."""
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    x, y, z = z3.Ints("x y z")
    solver.add(x**3 + y**3 + z**3 == 33, x > 10, y > 10)
    began = time.monotonic()
    Timer(0.3, os.kill, (os.getpid(), number)).start()
    with pytest.raises(KeyboardInterrupt), stopped_by_signals():
        solver.check()
    assert time.monotonic() - began < 30
    assert z3.Solver().check() == z3.sat  # the next query is not broken off


VACUOUS = """\
properties:
  it_hangs: {always: mirror.state == hanging}
  what_never_is: {when: mirror.seen > 1, always: mirror.there == 7}
  what_is: {when: mirror.seen == 0, always: mirror.there == 0}
  what_is_never_done: {when: took(mirror.look) and old(mirror.seen) > 1, step: mirror.there == 7}
"""
LEMMAS = "lemmas: {nothing_is_seen: {always: mirror.seen == 0}, nothing_is_there: {always: mirror.there == 0}}\n"


@pytest.mark.long
def test_a_proof_says_what_is_vacuous(run: Run, mirror: Path) -> None:
    """`check` does the same, by the same word, of the same properties."""
    (mirror / "invariants.yaml").write_text(VACUOUS)
    (mirror / "lemmas.yaml").write_text(LEMMAS)
    words = {
        "what_never_is": "no state has its antecedent",
        "what_is_never_done": "no step has its antecedent",
    }
    done = run("prove", "mirror")
    assert done.returncode == 0, done.stdout
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for name, kind in (("what_never_is", "always"), ("what_is_never_done", "step")):
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert line.startswith(f"{name} {kind} proved, but vacuous ")
        assert line.endswith(words[name])
    assert done.stdout.count("vacuous") == 2
    for again in (("--fresh",), ()):
        found = as_json(run("prove", "mirror", "--json", *again))
        assert {p["name"]: p["vacuous"] for p in found["properties"] if "vacuous" in p} == words
        assert {p["verdict"] for p in found["properties"]} == {"proved"}
    checked = run("check", "mirror")
    for name, why in words.items():
        assert f"{name} is proved, but vacuous: {why}" in checked.stdout
    found = as_json(run("check", "mirror", "--json"))
    assert set(found["vacuous"]) == set(words)
    assert {p["name"]: p["vacuous"] for p in found["properties"] if "vacuous" in p} == words


@pytest.mark.long
def test_what_is_vacuous_in_explored_states_alone(run: Run, mirror: Path) -> None:
    """Nothing proves that the antecedent is never true, as a lemma is missing; such a proof is not kept as whole."""
    (mirror / "invariants.yaml").write_text(
        "properties: {it_hangs: {when: mirror.seen == 1, always: mirror.state == hanging}}\n"
    )
    done = run("prove", "mirror")
    assert done.returncode == 0
    assert "proved, but vacuous" in done.stdout
    assert "no explored state has its antecedent" in done.stdout
    assert as_json(run("prove", "mirror", "--json"))["kept"] is None
    unknown = run("prove", "mirror", "--no-search")
    assert "not known whether they are vacuous: it_hangs" in unknown.stdout


@pytest.mark.long
def test_a_kept_proof_is_shown(run: Run, mirror: Path) -> None:
    """The same is said again, without the solver; --fresh, --no-faults, or another lemma makes another."""
    (mirror / "lemmas.yaml").write_text(LEMMAS)
    first = as_json(run("prove", "mirror", "--json"))
    assert first["kept"] is None
    second = as_json(run("prove", "mirror", "--json"))
    assert len(second["kept"]) == len("2026-01-31")
    assert "and kept; --fresh proves it anew" in run("prove", "mirror").stdout
    for found in (first, second):
        for v in (*found["properties"], *found["lemmas"]):
            del v["seconds"]
        del found["kept"], found["seconds"], found["explored"]
    assert first == second
    for words in (("--fresh",), ("--no-faults",)):
        assert as_json(run("prove", "mirror", "--json", *words))["kept"] is None
    (mirror / "lemmas.yaml").write_text(LEMMAS.replace("nothing_is_there", "there_is_nothing"))
    assert as_json(run("prove", "mirror", "--json"))["kept"] is None


PIPES = files_of("cli/systems/pipes")


@pytest.mark.long
def test_a_proof_says_what_it_depends_on(run: Run, tmp_path: Path) -> None:
    """Values of constants, numbers of machines, faults that are left out, clocks, settings: in text and in JSON."""
    write(tmp_path / "pipes", PIPES)
    done = run("prove", "pipes", "--limit", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [
        "machines: reader 1, writer any number from 1 on",
        "constants: most = 3 (bounds a type, a first value, a number of machines or of faults), writers any from 1 on, "
        "eager any",
        "faults left out: crashes and faults of the network but those that channels declare, as channel pipe is a fifo",
        "assumed: nobody is Byzantine: every role follows its text; stores last: no actor comes back without what it "
        "has committed; events from outside come as `environment` says, "
        "with fields within their types; all actors' clocks agree; `reachable` is arbitrary: in any state, any two "
        "machines may be apart",
        "methods: queries of at most 7 s, induction, k-induction over at most 3 steps, lemmas from explored states",
    ]
    assert done.stdout.splitlines()[2 : 2 + len(lines)] == lines
    refused = run("prove", "pipes", "--instances", "writer=0")
    assert (refused.returncode, "takes ROLE=N" in refused.stderr) == (2, True)
    (tmp_path / "pipes/system.yaml").write_text(PIPES["system.yaml"].replace("{instances: writers}", "{instances: 1}"))
    refused = run("prove", "pipes", "--instances", "writer=2")
    assert refused.returncode == 2
    assert "--instances: writer has 1, as no constant alone is their number" in refused.stderr
    write(tmp_path / "pipes", PIPES)
    made = as_json(run("prove", "pipes", "--json", "--instances", "writer=2", "--no-search"))["assumptions"]
    assert made["machines"] == {"reader": "1", "writer": "2 (--instances)"}
    assert made["constants"]["writers"] == "2 (--instances)"
    assert made["faults_left_out"].endswith("as channel pipe is a fifo")
    assert made["most_steps"] == 0
    without = as_json(run("prove", "two_phase_commit", "--json", "--no-faults", "--no-search"))["assumptions"]
    assert without["faults_left_out"].endswith(", as --no-faults asks")
    checked = run("check", "pipes")
    assert f"  {lines[0]}\n" in checked.stdout
    assert as_json(run("check", "pipes", "--json"))["proof"]["assumptions"]["limit_seconds"] == 7


@pytest.mark.long
def test_what_the_time_does_not_suffice_for(run: Run, tmp_path: Path) -> None:
    """Nothing is proved that was not asked in full; the reason is `time`, and the exit code that of the undecided."""
    shutil.copytree(shipped_folder("two_phase_commit"), tmp_path / "commit")
    done = run("prove", "commit", "--json", "--time", "0.001")
    found = as_json(done)
    assert done.returncode == 3, done.stderr
    every = [*found["properties"], *found["lemmas"]]
    assert {v["verdict"] for v in every} == {"undecided"}
    assert all(v["reason"].startswith("time: ") for v in every)
    assert found["guards_unknown"]
    assert "guards: the time ended before all were checked" in run("prove", "commit", "--time", "0.001").stdout
    enough = run("prove", "commit", "--json", "--time", "10m")
    assert enough.returncode == 0
    assert as_json(enough)["kept"] is None  # what was cut short is not kept as whole
    assert not as_json(enough)["guards_unknown"]


def test_the_limit_of_a_query_is_a_reason(run: Run, mirror: Path) -> None:
    """A setting's end is the earlier of two, and a solver never has more time than is left."""
    ends = ANY.limited(50.0)
    assert 0 < ends.limited(500.0).seconds_left <= 50
    assert ends.limited(0.0).is_over
    assert not ANY.is_over
    over = induct(load(mirror), ANY.limited(0.0))
    assert not over.proved
    assert all(reason.startswith("time: ") for reason in over.undecided.values())


GUARDED = files_of("cli/systems/guarded")


@pytest.mark.long
def test_what_a_constant_is_set_to(run: Run, tmp_path: Path) -> None:
    """With --set it is proved for this value, and says so; without it for any, and what breaks it shows the value."""
    write(tmp_path / "guarded", GUARDED)
    done = run("prove", "guarded", "--set", "guarded=true")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[1].startswith("for guarded=true, all values")
    assert "constants: guarded = true (--set)\n" in done.stdout
    assert done.stderr == ""
    found = as_json(run("prove", "guarded", "--set", "guarded=true", "--json"))
    assert (found["set"], found["assumptions"]["constants"]) == ({"guarded": True}, {"guarded": "= true (--set)"})
    without = run("prove", "guarded", "--set", "guarded=false")
    assert without.returncode == 1
    assert "warning LH412: with guarded = false: a/out on `take`" in without.stderr
    whatever = run("prove", "guarded")  # and the proof for one value was not kept as one for any
    assert whatever.returncode == 3
    assert "constants: guarded any\n" in whatever.stdout
    assert "    constants: guarded = true\n" in whatever.stdout
    (one, _) = as_json(run("prove", "guarded", "--json"))["properties"]
    assert (one["constants"], one["counterexample_to_induction"][1]) == (
        {"guarded": True},
        "  constants: guarded = true",
    )


@pytest.mark.long
def test_a_lemma_has_its_counterexample_to_induction(run: Run, tmp_path: Path) -> None:
    """As a property has: the constants, the state, the step, and what the explorer finds; on the screen and as JSON."""
    lemma = "lemmas: {one_at_a_time: {always: count(p.state == holding for p in a) <= 1}}\n"
    write(tmp_path / "guarded", {**GUARDED, "lemmas.yaml": lemma})
    found = as_json(run("prove", "guarded", "--json"))
    (made,) = found["lemmas"]
    (one, _) = found["properties"]
    assert (made["name"], made["verdict"], made["constants"]) == ("one_at_a_time", "undecided", {"guarded": True})
    lines = made["counterexample_to_induction"]
    assert lines[:2] == ["one_at_a_time holds here, with all that is proved:", "  constants: guarded = true"]
    assert [line.replace("one_at_a_time", "one") for line in lines] == one["counterexample_to_induction"]
    printed = run("prove", "guarded").stdout
    title = "lemma one_at_a_time is not inductive; a counterexample to induction:\n"
    assert title + "".join(f"  {line}\n" for line in lines) in printed


def test_numbers_that_are_set(run: Run, tmp_path: Path) -> None:
    """A constant that counts machines fixes how many there are."""
    shutil.copytree(shipped_folder("two_phase_commit"), tmp_path / "commit")
    words = ["prove", "commit", "--set", "participants=2", "--no-search", "--time", "0.01"]
    made = as_json(run(*words, "--json"))
    assert made["assumptions"]["machines"]["participant"] == "2 (--set)"
    assert made["for"].startswith("participant=2, ")
    refused = run(*words, "--instances", "participant=3")
    assert refused.returncode == 2
    assert "--instances participant=3 and --set participants=2 contradict each other" in refused.stderr


def test_a_counterexample_to_induction_with_other_constants(tmp_path: Path) -> None:
    """The setting that is shown, where none has the declared values, has others, and names them."""
    bounded = GUARDED["invariants.yaml"].replace("always: count", "when: not guarded, always: count")
    folder = write(tmp_path / "guarded", {**GUARDED, "invariants.yaml": bounded})
    system = load(folder)
    cti = counterexample_to_induction(system, ANY, "one", "a/out#take", set(), system)
    assert cti.before is not None
    assert cti.words[1] == "  constants: guarded = false"
    assert cti.contradicted is not None  # and the explorer was asked with these
