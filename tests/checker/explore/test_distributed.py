"""Several processes count what one counts, and say the same of properties."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.packed import distributed, library, workers
from leasehold.checker.explore.packed.partition import Partition
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.checker.explore.test_engines import TINY, TRUTH
from tests.checker.explore.test_explore import Make, made
from tests.cli.conftest import Run, interrupted, run
from tests.systems import files_of, load

pytest.importorskip("distributed")
__all__ = ["made", "run"]  # fixtures
pytestmark = pytest.mark.skipif(not library.FILE.exists(), reason="the C engine was not built")

FIGURES = (
    "complete", "why_incomplete", "distinct", "generated", "edges", "depth", "initial", "cut", "product_machines",
    "product_states", "taken", "vacuous",
)  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with workers.local_workers(3) as found:
        yield found


def assert_alike(
    system: System, client: Any, budget: Budget | None = None, limits: Limits | None = None, warm: int = 20
) -> Exploration:
    whole = explore(system, limits, budget=budget, engine="packed")
    found = distributed.explore_distributed(system, client, limits, budget=budget, warm=warm)
    for name in FIGURES:
        assert getattr(found, name) == getattr(whole, name), name
    assert {c.control: (c.states, c.depth) for c in found.cells} == {
        c.control: (c.states, c.depth) for c in whole.cells
    }
    for mine, theirs in zip(found.properties, whole.properties, strict=True):
        if theirs.kind in ("leads_to", "always_possible"):
            assert (mine.verdict, mine.path) == ("bounded", None)
            continue
        assert (mine.name, mine.verdict) == (theirs.name, theirs.verdict)
        assert (mine.path is None) == (theirs.path is None)
        if mine.path is not None and theirs.path is not None:
            assert len(mine.path) == len(theirs.path), mine.name
    return found


@pytest.mark.parametrize(("system", "settings", "budget"), [
    (TRUTH / "two_phase", {}, None),
    pytest.param(
        "three_phase_commit_termination", {"participants": 2}, Budget(halt=1), marks=pytest.mark.slow
    ),
    pytest.param("lease", TINY, Budget(crash=1), marks=pytest.mark.long),
], ids=str)  # fmt: skip
def test_counts(system: str | Path, settings: Mapping[str, Any], budget: Budget | None, client: Any) -> None:
    assert_alike(load(system, settings), client, budget, warm=200 if budget is None else 2_500)


@pytest.mark.slow
def test_counts_of_many_states(client: Any) -> None:
    found = assert_alike(load(TRUTH / "two_phase", {"resource_managers": 7}), client, warm=1_000)
    assert (found.distinct, found.generated) == (296_448, 2_744_706)


@pytest.mark.parametrize("limits", [Limits(depth=0), Limits(depth=6)], ids=str)
def test_limits(limits: Limits, client: Any) -> None:
    assert_alike(load("two_phase_commit"), client, limits=limits)


WIDE = files_of("checker/explore/systems/wide")["roles/m.yaml"]


def test_a_limit_of_memory(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "TURN", 0.0)
    found = distributed.explore_distributed(load("two_phase_commit"), client, Limits(memory=3_000_000))
    assert (found.complete, found.why_incomplete) == (False, "stopped at its limit of 1 MB of memory for a process")
    assert {p.verdict for p in found.properties} <= {"bounded", "witnessed"}


@pytest.mark.slow
def test_values_that_are_met_on_the_way(made: Make, client: Any) -> None:
    """Numbers of values outgrow their places again and again: states are packed anew, in all processes."""
    claims = "properties: {low: {always: m.at < 25}, far: {sometimes: m.at == 29}}"
    found = assert_alike(load(made(WIDE, "environment: {go: {to: m}}", claims)), client)
    low = next(p for p in found.properties if p.name == "low")
    assert low.path is not None
    assert len(low.path) == 25


@pytest.mark.long
def test_a_worker_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    level = distributed.DistributedSearch._level
    with workers.local_workers(2) as client:
        one, _ = client.run(os.getpid).values()

        def die(self: Any, *arguments: Any) -> str:
            if self.level == 4:
                os.kill(one, signal.SIGKILL)
            return level(self, *arguments)

        monkeypatch.setattr(distributed.DistributedSearch, "_level", die)
        with pytest.raises(workers.WorkersError, match="a worker was lost"):
            distributed.explore_distributed(load("two_phase_commit"), client, warm=10)


@pytest.mark.slow
def test_the_command(run: Run) -> None:
    done = run("explore", "two_phase_commit", "--workers", "2")
    assert done.returncode == 0
    assert "kept by 2 processes" in (done.stdout + done.stderr)
    assert "it asks for all steps at once" in (done.stdout + done.stderr)


@pytest.mark.long
def test_ctrl_c_is_for_the_one_that_leads(tmp_path: Path) -> None:
    """A terminal sends it to all processes."""
    words = ["explore", str(TRUTH / "two_phase"), "--set", "resource_managers=9", "--workers", "2"]
    done = interrupted(*words, cwd=tmp_path)
    assert done.returncode == 130
    assert "not complete: interrupted\n" in done.stdout


@pytest.mark.parametrize(("words", "says"), [
    (["--workers", "2", "--symmetry"], "--symmetry is for a search by one process"),
    (["--workers", "2", "--resume"], "--resume is for a search by one process"),
    (["--workers", "2", "--engine", "reference"], "--engine is for a search by one process"),
    (["--workers", "2", "--fairness", "none"], "--fairness is for a search by one process"),
    (["--workers", "2", "--cluster", "tcp://127.0.0.1:1"], "give one of the two"),
    pytest.param(
        ["--cluster", "nowhere"], "--cluster: no scheduler answers at nowhere", marks=pytest.mark.long
    ),
], ids=str)  # fmt: skip
def test_what_does_not_go_together(words: list[str], says: str, run: Run) -> None:
    done = run("explore", "two_phase_commit", *words)
    assert (done.returncode, says in " ".join((done.stdout + done.stderr).split())) == (2, True)


@pytest.mark.long
def test_a_partition_owns_what_falls_to_it() -> None:
    """Each state belongs to exactly one of the processes, and these share them about evenly."""
    parts = [Partition(1, me, 4) for me in range(4)]
    for part in parts:
        part.kernel.processes(part.me, part.processes)
    owners = [parts[0].kernel.owner([1 << 63 | n]) for n in range(4_000)]
    assert owners == [parts[3].kernel.owner([1 << 63 | n]) for n in range(4_000)]
    assert all(900 < owners.count(me) < 1_100 for me in range(4))
