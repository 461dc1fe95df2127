"""A search that left off goes on in another process as if it never had."""

from __future__ import annotations

import json
import math
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore import Checkpointing, EngineError, Limits, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.packed import CheckpointError, checkpoint, library
from leasehold.checker.explore.packed.checkpoint import key_of
from leasehold.checker.explore.step import Action
from leasehold.faults.model import Budget
from leasehold.faults.model.catalogue import budgeted
from leasehold.spec import System
from tests.checker.explore.test_engines import TINY, TRUTH, assert_found_alike, library_loaded_anew
from tests.cli.conftest import Run, interrupted, run
from tests.mutants.deviations import deviating
from tests.mutants.mutant import mutants
from tests.systems import files_of, load, written

__all__ = ["run"]

pytestmark = pytest.mark.skipif(not library.FILE.exists(), reason="the C engine was not built")

LARGE = [str(TRUTH / "two_phase"), "--set", "resource_managers=9"]


@pytest.mark.parametrize(
    ("system", "settings", "budget"),
    [
        ("lease", TINY, None),
        ("lease", TINY, Budget(crash=1, duplicate=1)),
        ("three_phase_commit_termination", {"participants": 2}, Budget(halt=1)),
        (TRUTH / "two_phase", {"resource_managers": 4}, None),
        (TRUTH / "alternating_bit", {}, None),
    ],
    ids=str,
)
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
    """Ctrl-C while edges are put in order or the graph is judged, and a graph that is too large, lose nothing."""
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
    assert f"--resume goes on from {place} (" in done.stdout
    states = re.search(r"([\d,]+) distinct states", done.stdout)
    more = run(*words, "--resume", "--depth", "1", "--json")
    found = json.loads(more.stdout)
    assert states is not None
    assert found["distinct"] == int(states[1].replace(",", "")) > 1_000
    assert found["why_incomplete"] == "stopped at depth 1"


def test_nobody_waits_in_vain_for_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that cannot be written, or that the engine does not leave, is refused before the search."""
    model = load("two_phase_commit")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="no checkpoint can be written"):
        explore(model, Limits(keeping=Checkpointing(tmp_path / "file" / "left")))
    with pytest.raises(EngineError, match="the reference engine neither leaves checkpoints"):
        explore(model, Limits(keeping=Checkpointing(tmp_path / "left")), engine="reference")
    monkeypatch.setattr(library, "FILE", tmp_path / "not_built")
    with library_loaded_anew(), pytest.raises(EngineError, match=r"the reference engine .*, but the C engine was not"):
        explore(model, Limits(keeping=Checkpointing(tmp_path / "left")))


@pytest.mark.parametrize(
    "other",
    [
        {"settings": {"participants": 2}},
        {"budget": Budget(crash=1)},
        {"name": "three_phase_commit"},
    ],
    ids=str,
)
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
        place.write_bytes(
            {"empty": b"", "noise": b"\x93NUMPY" + bytes(90), "half": whole[: len(whole) // 2]}.get(
                damage, b"no archive"
            )
        )
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
    """All that grows lies in files that are gone with the search."""
    for system, settings, budget in (
        (TRUTH / "two_phase", {"resource_managers": 6}, None),
        ("lease", TINY, Budget(crash=1)),
    ):
        model = load(system, settings)
        whole = explore(model, budget=budget, engine="packed")
        found = explore(model, Limits(disk=tmp_path), budget=budget, engine="packed")
        assert_found_alike(whole, found)
        assert list(tmp_path.iterdir()) == []


# What a checkpoint is known by, and what is in it

VALVE = files_of("checker/explore/systems/valve")
GROWING = files_of("checker/explore/systems/growing")


def with_claim(system: System, name: str, **parts: Any) -> System:
    return replace(system, properties={**system.properties, name: replace(system.properties[name], **parts)})


def with_datum(system: System, role: str, name: str, **parts: Any) -> System:
    of = system.roles[role]
    changed = replace(of, data={**of.data, name: replace(of.data[name], **parts)})
    return replace(system, roles={**system.roles, role: changed})


def test_each_part_of_a_search_is_in_its_key(tmp_path: Path) -> None:
    """Two searches that differ in one part never have one key, also where their text is the same."""
    plain = written(tmp_path, VALVE)
    names, no, some = list(plain.properties), plain.properties["kept"].when, plain.properties["never"].when
    assert plain.ends is not None
    low, high = plain.roles["valve"].data["level"].explore or (no, no)
    others = {
        "text": replace(plain, digest="0" * 64),
        "constant": replace(plain, constants={"most": replace(plain.constants["most"], value=3)}),
        "no property": replace(plain, properties={}),
        "without one": replace(plain, properties={n: plain.properties[n] for n in names[1:]}),
        "another order": replace(plain, properties={n: plain.properties[n] for n in names[::-1]}),
        "claim": with_claim(plain, "fresh", claim=no),
        "kind": with_claim(plain, "fresh", kind="sometimes"),
        "name": replace(
            plain,
            properties={
                **{n: plain.properties[n] for n in names[:-1]},
                "nowhere": replace(plain.properties["never"], name="nowhere"),
            },
        ),
        "antecedent": with_claim(plain, "kept", when=some),
        "no antecedent": with_claim(plain, "kept", when=None),
        "ticks": with_claim(plain, "shuts", within=1),
        "other ticks": with_claim(plain, "shuts", within=2),
        "no ends": replace(plain, ends=None),
        "empty ends": replace(plain, ends=()),
        "an end": replace(plain, ends=plain.ends[:1]),
        "the other end": replace(plain, ends=plain.ends[1:]),
        "what an end says": replace(plain, ends=(replace(plain.ends[0], holds=no), *plain.ends[1:])),
        "an end's name": replace(plain, ends=(replace(plain.ends[0], name="weary"), *plain.ends[1:])),
        "constraint": replace(plain, constraint=no),
        "no constraint": replace(plain, constraint=None),
        "explored to": with_datum(plain, "valve", "level", explore=(low, low)),
        "explored from": with_datum(plain, "valve", "level", explore=(high, high)),
        "no explored range": with_datum(plain, "valve", "level", explore=None),
    }
    keys = {name: key_of(reference_of(system), symmetry=False) for name, system in {"": plain, **others}.items()}
    keys["symmetry"] = key_of(reference_of(plain), symmetry=True)
    alike = [(a, b) for a, b in combinations(keys, 2) if keys[a] == keys[b]]
    assert alike == []
    again = written(tmp_path / "elsewhere", VALVE)
    assert key_of(reference_of(again), symmetry=False) == keys[""]


BUDGETS = [
    "none",
    *(f"{name}={count}" for name in ("crash", "lose", "skew", "halt", "partition", "drift") for count in (1, 2)),
    "power_cut=1",
    "duplicate=1",
    "reorder=1",
    "amnesia=1",
    "lose=any",
    "duplicate=any",
    "reorder=any",
    "byzantine=one",
    "byzantine=other",
    "crash=1,lose=1",
    "crash=1,power_cut=1",
]


def test_each_part_of_a_budget_is_in_the_key_of_a_search(tmp_path: Path) -> None:
    text = GROWING["system.yaml"] + "clock: {horizon: 90}\n"
    messages = GROWING["messages.yaml"].replace("v: int", "v: {type: int, max: 9, explore: [0, 9]}")
    other = GROWING["roles/other.yaml"].replace("MAX", "9")
    one = GROWING["roles/one.yaml"].replace("n < 12", "n < 12 and now >= 0")  # a clock that nobody reads cannot differ
    changed = {"system.yaml": text, "messages.yaml": messages, "roles/other.yaml": other, "roles/one.yaml": one}
    files = {**GROWING, **changed}
    system = written(tmp_path, files)
    keys = {words: key_of(reference_of(system, Budget.parse(words)), symmetry=False) for words in BUDGETS}
    keys["no budget"] = key_of(reference_of(system), symmetry=False)
    assert [(a, b) for a, b in combinations(keys, 2) if keys[a] == keys[b]] == []
    assert {name for words in BUDGETS for name in Budget.parse(words).given} == set(budgeted())


def test_a_mistaken_machine_has_another_key() -> None:
    """Its steps are others, though nothing of the specification differs."""
    mistaken = next(m for m in mutants() if m.deviation is not None)
    system, budget = load("lease", TINY), Budget(crash=1)
    worlds = [reference_of(system, budget), deviating(mistaken.deviation)(system, budget)]
    assert len({key_of(world, symmetry=False) for world in worlds}) == 2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_comes_back_from_a_checkpoint(value: Any) -> None:
    """With its type too: true is not 1, and no set is a tuple."""
    text = json.dumps(checkpoint.coded(value))
    assert repr(sorted_sets(checkpoint.decoded(json.loads(text)))) == repr(sorted_sets(value))


def sorted_sets(value: Any) -> Any:
    """The value in a form of which the text is the same for equal values."""
    match value:
        case tuple():
            return tuple(map(sorted_sets, value))
        case frozenset():
            return {"set": sorted(map(repr, map(sorted_sets, value)))}
    return value


def test_every_part_of_an_action_comes_back_from_a_checkpoint() -> None:
    """The actions are those of a system under faults, and one in which each part is another than usual."""
    world = reference_of(load("contention", {"leases": 2, "max_units": 1}), Budget.parse("crash=1,duplicate=1,lose=1"))
    system, layout = world.system, world.layout
    reads, met = checkpoint.Actions(system, layout), set[str]()
    state = world.initial_states()[0]
    for turn in range(60):
        steps = list(world.successors(state))
        for action, _ in steps:
            met.add(action.kind)
            coded = json.loads(json.dumps(checkpoint.coded_action(action, layout)))
            assert reads.decoded(coded) == action
        state = steps[turn * 7 % len(steps)][1]
    assert met >= {"crash", "recover", "deliver", "duplicate", "lose", "local"}
    transition = next(iter(system.roles["broker"].transitions()))
    unusual = Action(
        "deliver",
        "broker",
        1,
        "extend",
        (True, 1, None, ("a", frozenset({0})), frozenset({(1, "b")})),
        1,
        transition,
        layout.lanes[-1],
        2,
        copy=True,
        group=("deliver", ("x", 3)),
        point="crash:x/y#z",
        done=(True, False),
        passes=True,
        fault=True,
        cost=(0, 2, 2),
    )
    usual = Action("", None, 0, "")
    assert all(getattr(unusual, name) != getattr(usual, name) for name in Action._fields)
    found = reads.decoded(json.loads(json.dumps(checkpoint.coded_action(unusual, layout))))
    differ = [name for name in Action._fields if getattr(found, name) != getattr(unusual, name)]
    assert differ == []
    assert found.transition is transition


def kept_seconds(place: Path) -> float:
    with zipfile.ZipFile(place) as archive:
        return float(json.loads(archive.read("about.npy").partition(b"\n")[2])["seconds"])


@pytest.mark.parametrize(
    ("files", "budget", "symmetry"),
    [
        (VALVE, None, False),
        (GROWING, None, False),
        (GROWING, "crash=1", False),
        ("two_phase", None, True),
    ],
    ids=["bounds", "at fault", "at fault under faults", "orbits"],
)
def test_going_on_from_every_depth(files: Any, budget: str | None, symmetry: bool, tmp_path: Path) -> None:
    """Whatever was found before a search left off is found after it, and counted once."""
    if isinstance(files, str):
        model = load(TRUTH / files, {"resource_managers": 3})
    else:
        model = written(tmp_path / "system", {n: text.replace("MAX", "9000") for n, text in files.items()})
    faults = Budget.parse(budget) if budget else None
    whole = explore(model, budget=faults, engine="packed", symmetry=symmetry)
    place = tmp_path / "left"
    seconds = 0.0
    for depth in range(0, whole.depth, max(1, whole.depth // 7)):
        on = Limits(depth=depth, keeping=Checkpointing(place, resume=depth > 0))
        part = explore(model, on, budget=faults, symmetry=symmetry)
        assert (part.complete, part.checkpoint) == (False, str(place))
        before, seconds = seconds, kept_seconds(place)
        assert seconds > before
    found = explore(model, Limits(keeping=Checkpointing(place, resume=True)), budget=faults, symmetry=symmetry)
    assert_found_alike(whole, found)
    assert found.orbits == whole.orbits
    assert found.seconds > seconds
    assert {p.verdict for p in whole.properties} >= ({"exhausted", "violated"} if files is VALVE else set())
    assert (whole.cut > 0) == (files is VALVE)
    assert ("at fault" in whole.why_incomplete) == (files is GROWING)
