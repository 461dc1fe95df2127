"""`leasehold prove`: its exit codes, its signals, and that it says what a proof depends on."""

from __future__ import annotations

import contextlib
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

from leasehold.checker.prove import stopped_by_signals
from leasehold.spec import shipped_folder
from tests.cli.conftest import Run, as_json, write

MIRROR = {
    "system.yaml": "system: mirror\nroles: {mirror: {}}\nenvironment: {look: {to: mirror}}\n",
    "roles/mirror.yaml": (
        "role: mirror\ndata:\n"
        "  seen: {type: int, min: 0, explore: [0, 1]}\n  there: {type: int, min: 0, explore: [0, 1]}\n"
        "events: {look: Somebody looks.}\n"
        "states:\n  hanging: {initial: true, on: {look: {to: hanging, set: {seen: there}}}}\n"
    ),
    "invariants.yaml": "properties: {it_hangs: {always: mirror.state == hanging}}\n",
}


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return write(tmp_path / "mirror", MIRROR)


def test_a_lemma_that_a_run_violates(run: Run, tmp_path: Path) -> None:
    """All properties are proved, and yet the exit code is 1; the run is shown."""
    folder = Path(shutil.copytree(shipped_folder("two_phase_commit"), tmp_path / "commit"))
    with (folder / "lemmas.yaml").open("a") as lemmas:
        lemmas.write("  nobody_commits: {always: all(p.state != committed for p in participant)}\n")
    done = run("prove", "commit")
    assert done.returncode == 1
    assert "lemma nobody_commits is false: a run violates it" in done.stdout
    assert "(4 of them hold)" in done.stdout
    assert "nobody_commits is contradicted" in done.stdout
    found = as_json(run("prove", "commit", "--json"))
    (lemma,) = [v for v in found["lemmas"] if v["verdict"] != "proved"]
    assert (lemma["name"], lemma["verdict"], lemma["path"]["steps"] != []) == ("nobody_commits", "counterexample", True)
    assert {p["verdict"] for p in found["properties"]} == {"proved"}


@pytest.mark.parametrize("words", [(), ("--no-search",)])
def test_a_lemma_that_is_not_inductive(run: Run, mirror: Path, words: tuple[str, ...]) -> None:
    """It holds in every run, but by itself proves nothing; with what it needs it does."""
    lemma = "lemmas: {nothing_is_seen: {always: mirror.seen == 0}"
    (mirror / "lemmas.yaml").write_text(lemma + "}\n")
    done = run("prove", "mirror", *words)
    assert done.returncode == 3, done.stdout
    assert "lemma nothing_is_seen is not proved: mirror/hanging#look breaks it" in done.stdout
    (mirror / "lemmas.yaml").write_text(lemma + ", nothing_is_there: {always: mirror.there == 0}}\n")
    assert run("prove", "mirror", *words).returncode == 0


def descendants(pid: int) -> set[int]:
    """The processes below one, as /proc has them."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            found |= {child, *descendants(child)}
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
def test_sigterm_ends_the_worker_processes(tmp_path: Path) -> None:
    """As Ctrl-C does: no child is left, and the exit code is 130."""
    command = [sys.executable, "-m", "leasehold", "prove", "lease", "--jobs", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while len(children := descendants(process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        children |= descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted before it was decided\n")
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
