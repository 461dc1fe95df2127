"""A search that left off goes on in another process as if it never had."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Checkpointing, EngineError, Limits, explore
from leasehold.checker.explore.packed import CheckpointError, checkpoint, library
from leasehold.faults import Budget
from tests.checker.explore.test_engines import TINY, TRUTH, assert_found_alike, library_loaded_anew
from tests.cli.conftest import Run, interrupted, run
from tests.systems import load

__all__ = ["run"]

pytestmark = pytest.mark.skipif(not library.FILE.exists(), reason="the C engine was not built")

LARGE = [str(TRUTH / "two_phase"), "--set", "resource_managers=9"]


@pytest.mark.parametrize(("system", "settings", "budget"), [
    ("lease", TINY, None),
    ("lease", TINY, Budget(crash=1, duplicate=1)),
    ("three_phase_commit_termination", {"participants": 2}, Budget(halt=1)),
    (TRUTH / "two_phase", {"resource_managers": 4}, None),
    (TRUTH / "alternating_bit", {}, None),
], ids=str)  # fmt: skip
def test_going_on(system: str | Path, settings: Mapping[str, Any], budget: Budget | None, tmp_path: Path) -> None:
    model, place = load(system, settings), tmp_path / "left"
    whole = explore(model, budget=budget, engine="packed")
    for number, depth in enumerate((0, 3, 8)):
        part = explore(model, Limits(depth=depth, keeping=Checkpointing(place, resume=number > 0)), budget=budget)
        assert part.why_incomplete == f"stopped at depth {depth}"
        assert part.checkpoint == str(place)
    found = explore(model, Limits(keeping=Checkpointing(place, resume=True)), budget=budget)
    assert_found_alike(whole, found)
    assert not place.exists()


def test_periodic_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leasehold.checker.explore.packed import search

    place, kept = tmp_path / "left", tmp_path / "kept"
    model = load(TRUTH / "two_phase", {"resource_managers": 7})
    with monkeypatch.context() as patched:
        save = checkpoint.save

        def save_once(at: Path, *some: Any) -> None:
            save(at, *some)
            shutil.copy(at, kept)
            patched.setattr(search, "KEEP_EVERY", math.inf)

        patched.setattr(search, "KEEP_EVERY", 0.0)
        patched.setattr(search, "SLICE", 0.005)
        patched.setattr(search, "save", save_once)
        found = explore(model, Limits(keeping=Checkpointing(place)))
    assert (found.complete, found.distinct, found.checkpoint) == (True, 296_448, "")
    assert not place.exists()  # it is of no use any more
    again = explore(model, Limits(keeping=Checkpointing(kept, resume=True)))  # as if the process had died
    assert (again.complete, again.distinct, again.generated) == (True, 296_448, 2_744_706)


def test_a_checkpoint_stays_until_its_search_is_done(tmp_path: Path) -> None:
    place = tmp_path / "left"
    model = load("two_phase_commit")
    explore(model, Limits(depth=4, keeping=Checkpointing(place)))
    found = explore(model, Limits(states=600, keeping=Checkpointing(place, resume=True)))
    assert found.why_incomplete.startswith("stopped after")
    assert found.checkpoint == str(place)
    assert place.exists()
    assert explore(model, Limits(keeping=Checkpointing(place, resume=True))).complete
    assert not place.exists()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "where", ["explore.packed.search.graph_of", "explore.graph.liveness.decide", "explore.resources.TO_DECIDE"]
)
def test_leaving_off_once_all_is_visited(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C while edges are put in order or the graph is judged, and as it is too large: nothing is lost."""
    place, model, large = tmp_path / "left", load("lease", TINY), where.endswith("TO_DECIDE")
    with monkeypatch.context() as patched:
        patched.setattr(f"leasehold.checker.{where}", 1 << 30 if large else _interrupt)
        part = explore(model, Limits(keeping=Checkpointing(place)))
    assert (part.complete, part.graph, part.checkpoint) == (False, None, str(place))
    says = r"stopped at its limit of [\d,]+ MB of memory: the search is done, but to decide .* MB more"
    assert re.fullmatch(says if large else "interrupted", part.why_incomplete)
    assert {p.verdict for p in part.properties if p.kind == "leads_to"} == {"bounded"}
    assert {p.verdict for p in part.properties if p.kind == "step"} == {"exhausted"}
    found = explore(model, Limits(keeping=Checkpointing(place, resume=True)))
    assert_found_alike(explore(model, engine="packed"), found)
    assert not place.exists()


def test_steps_are_given_back_where_no_checkpoint_follows(tmp_path: Path) -> None:
    model, budget = load("lease", TINY), Budget(crash=1)
    alone = explore(model, budget=budget, engine="packed")
    kept = explore(model, Limits(keeping=Checkpointing(tmp_path / "left")), budget=budget, engine="packed")
    assert_found_alike(alone, kept)
    arrays = ("begins", "targets", "edge_changes")
    assert not any(len(alone.paths.labels.kernel.array(name)) for name in arrays)
    assert all(len(kept.paths.labels.kernel.array(name)) for name in arrays)


def test_what_is_done_leaves_nothing_among_the_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_CACHE", str(tmp_path))
    model, folder = load("two_phase_commit"), tmp_path / "checkpoints"
    with monkeypatch.context() as patched:
        patched.setattr("leasehold.checker.explore.graph.liveness.decide", _interrupt)
        part = explore(model, Limits(keeping=Checkpointing()))
    assert [str(file) for file in folder.iterdir()] == [part.checkpoint]
    assert explore(model, Limits(keeping=Checkpointing())).complete  # from the beginning
    assert not list(folder.iterdir())


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "notes"
    place.write_text("mine")
    with pytest.raises(CheckpointError, match="is there, and is no checkpoint"):
        explore(load("two_phase_commit"), Limits(keeping=Checkpointing(place)))
    assert place.read_text() == "mine"


def test_a_periodic_checkpoint_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leasehold.checker.explore.packed import search

    def fail(*_: object) -> None:
        raise CheckpointError("no room")

    monkeypatch.setattr(search, "KEEP_EVERY", 0.0)
    monkeypatch.setattr(search, "SLICE", 0.005)
    monkeypatch.setattr(search, "save", fail)
    found = explore(
        load(TRUTH / "two_phase", {"resource_managers": 6}), Limits(keeping=Checkpointing(tmp_path / "left"))
    )
    assert (found.complete, found.distinct) == (True, 50_816)


def test_ctrl_c_leaves_a_checkpoint(tmp_path: Path, run: Run) -> None:
    """The search is in another process: it is interrupted while it runs, and goes on in a third."""
    place = tmp_path / "left"
    words = ["explore", *LARGE, "--checkpoint", str(place)]
    done = interrupted(*words, cwd=tmp_path)
    assert done.returncode == 130
    assert "not complete: interrupted\n" in done.stdout
    assert f"--resume goes on from {place}\n" in done.stdout
    states = re.search(r"([\d,]+) distinct states", done.stdout)
    more = run(*words, "--resume", "--depth", "1", "--json")
    found = json.loads(more.stdout)
    assert states is not None
    assert found["distinct"] == int(states[1].replace(",", "")) > 1_000
    assert found["why_incomplete"] == "stopped at depth 1"


def test_nobody_waits_in_vain_for_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none can be written, or the engine leaves none, that is said before the search."""
    model = load("two_phase_commit")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="no checkpoint can be written"):
        explore(model, Limits(keeping=Checkpointing(tmp_path / "file" / "left")))
    with pytest.raises(EngineError, match="the reference engine neither leaves checkpoints"):
        explore(model, Limits(keeping=Checkpointing(tmp_path / "left")), engine="reference")
    monkeypatch.setattr(library, "FILE", tmp_path / "not_built")
    with library_loaded_anew(), pytest.raises(EngineError, match=r"the reference engine .*, but the C engine was not"):
        explore(model, Limits(keeping=Checkpointing(tmp_path / "left")))


@pytest.mark.parametrize("other", [
    {"settings": {"participants": 2}}, {"budget": Budget(crash=1)}, {"name": "three_phase_commit"},
], ids=str)  # fmt: skip
def test_a_checkpoint_of_another_search(other: dict[str, Any], tmp_path: Path) -> None:
    place = tmp_path / "left"
    explore(load("two_phase_commit"), Limits(depth=2, keeping=Checkpointing(place)))
    before = place.read_bytes()
    system = load(other.get("name", "two_phase_commit"), other.get("settings", {}))
    with pytest.raises(CheckpointError, match="is of another search"):
        explore(system, Limits(keeping=Checkpointing(place, resume=True)), budget=other.get("budget"))
    assert place.read_bytes() == before


@pytest.mark.parametrize("symmetry", [False, True], ids=["without symmetry", "with symmetry"])
def test_a_checkpoint_is_of_states_or_of_orbits(symmetry: bool, tmp_path: Path) -> None:
    """Both in one search would be counts of neither."""
    place, model = tmp_path / "left", load(TRUTH / "two_phase", {"resource_managers": 3})
    explore(model, Limits(depth=2, keeping=Checkpointing(place)), symmetry=symmetry)
    before, on = place.read_bytes(), Limits(keeping=Checkpointing(place, resume=True))
    with pytest.raises(CheckpointError, match="is of another search"):
        explore(model, on, symmetry=not symmetry)
    assert place.read_bytes() == before
    assert explore(model, on, symmetry=symmetry).distinct == explore(model, symmetry=symmetry).distinct


@pytest.mark.parametrize("damage", ["nothing", "empty", "noise", "half", "no archive"])
def test_what_is_no_checkpoint(damage: str, tmp_path: Path) -> None:
    place = tmp_path / "left"
    explore(load("two_phase_commit"), Limits(depth=2, keeping=Checkpointing(place)))
    whole = place.read_bytes()
    if damage == "nothing":
        place.unlink()
    else:
        place.write_bytes({"empty": b"", "noise": b"\x93NUMPY" + bytes(90), "half": whole[: len(whole) // 2]}.get(
            damage, b"no archive"
        ))  # fmt: skip
    with pytest.raises(CheckpointError, match=r"there is no checkpoint|cannot be read as a checkpoint"):
        explore(load("two_phase_commit"), Limits(keeping=Checkpointing(place, resume=True)))


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="no checkpoint can be written"):
        explore(load("two_phase_commit"), Limits(depth=2, keeping=Checkpointing(tmp_path / "file" / "left")))


def test_the_reference_leaves_none(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="neither leaves checkpoints"):
        explore(load("two_phase_commit"), Limits(keeping=Checkpointing(resume=True)), engine="reference")


def test_on_disk(tmp_path: Path) -> None:
    """What grows lies in files that are gone with the search."""
    for system, settings, budget in (
        (TRUTH / "two_phase", {"resource_managers": 6}, None), ("lease", TINY, Budget(crash=1)),
    ):  # fmt: skip
        model = load(system, settings)
        whole = explore(model, budget=budget, engine="packed")
        found = explore(model, Limits(disk=tmp_path), budget=budget, engine="packed")
        assert_found_alike(whole, found)
        assert list(tmp_path.iterdir()) == []
