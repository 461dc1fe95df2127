"""Refinement: each step is one of the abstract system, or changes nothing there; judged by an oracle, too."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.export import export_system
from leasehold.checker.prove import prove
from leasehold.faults.model import Budget
from leasehold.spec import SpecError, System, shipped_folder
from tests.checker.explore.clients import clients_by_chance
from tests.systems import TRUTH, load, written

COMMIT = """
refines:
  system: {folder}
  set: {{resource_managers: participants}}
  machines: {{resource_manager: participant}}
  map:
    resource_manager.state: >
      committed if it.state == committed else aborted if it.state == aborted else
      prepared if it.state == prepared else working
"""


def judged(system: System, budget: Budget | None = None) -> PropertyResult:
    found = [explore(system, budget=budget, engine=e).properties for e in ("reference", "packed")]  # type: ignore[arg-type]
    assert found[0] == found[1]
    return next(p for p in found[0] if p.kind == "refines")


def test_the_published_theorem() -> None:
    system = load(TRUTH / "two_phase_refines")
    assert judged(system).verdict == "exhausted"
    assert explore(system).distinct == explore(load(TRUTH / "two_phase")).distinct == 288
    assert explore(system, symmetry=True, engine="reference").why_asymmetric == (
        "the steps of tcommit, which it refines, are compared state by state",
    )


@pytest.mark.parametrize("budget", [None, Budget.parse("crash=1"), Budget.parse("lose=1,duplicate=1")])
def test_two_phase_commit_refines_transaction_commit(budget: Budget | None, tmp_path: Path) -> None:
    folder = shutil.copytree(shipped_folder("two_phase_commit"), tmp_path / "two_phase_commit")
    with (folder / "system.yaml").open("a") as file:
        file.write(COMMIT.format(folder=TRUTH / "tcommit"))
    found = judged(load(folder, {"participants": 2}), budget)
    assert (found.verdict, found.reason) == ("exhausted", "")


def test_the_counterexample_shows_both_mapped_states(tmp_path: Path) -> None:
    shutil.copytree(TRUTH, tmp_path / "truth")
    role = tmp_path / "truth/two_phase/roles/resource_manager.yaml"
    role.write_text(role.read_text().replace("choose_to_abort: {to: aborted}", "choose_to_abort: {to: committed}"))
    system = load(tmp_path / "truth/two_phase_refines", {"resource_managers": 2})
    found = judged(system)
    assert found.verdict == "violated"
    assert found.reason == (
        "a step that `tcommit` does not have: from resource_manager[0]=working, resource_manager[1]=working "
        "to resource_manager[0]=committed, resource_manager[1]=working"
    )
    assert found.path is not None
    assert [step.title for step in found.path.steps] == ["resource_manager[0]: choose_to_abort"]
    cut = explore(load(TRUTH / "two_phase_refines"), Limits(depth=0)).properties
    assert [(p.verdict, p.reason) for p in cut] == [("bounded", "stopped at depth 0")]


def test_what_the_mapping_alone_reads_is_read(tmp_path: Path) -> None:
    clients_by_chance(tmp_path / "abstract", random.Random(1), "  one: {always: all(c.n <= 1 for c in client)}\n")
    shutil.copytree(tmp_path / "abstract", tmp_path / "concrete")
    role = tmp_path / "concrete/roles/client.yaml"
    role.write_text(role.read_text().replace("{n: {type: int", "{m: bool, n: {type: int"))
    with (tmp_path / "concrete/system.yaml").open("a") as file:
        file.write("refines:\n  system: ../abstract\n  map: {client.state: it.state, client.n: 1 if it.m else it.n}\n")
    assert [w.what for w in load(tmp_path / "concrete").warnings] == []


def least(system: System) -> int | None:
    """The fewest steps to a state, or with a step, that the abstract system does not have; nothing is remembered."""
    assert system.refines is not None
    concrete, abstract = reference_of(system), reference_of(system.refines.abstract)
    initial = set(abstract.initial_states())
    layer, seen, length = list(dict.fromkeys(concrete.initial_states())), set[Any](), 0
    if any(mapped(s) not in initial for s in layer):
        return 0
    while layer:
        length += 1
        ahead = []
        for state in layer:
            for _, after in concrete.successors(state, ()):
                possible = [target for _, target in abstract.successors(mapped(state), ())]
                if mapped(after) not in [mapped(state), *possible]:
                    return length
                ahead.append(after)
        seen |= set(layer)
        layer = [s for s in dict.fromkeys(ahead) if s not in seen]
    return None


def mapped(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """The mapping of the systems below, written by hand: control states stay, and numbers are turned round."""
    return tuple(1 - value if isinstance(value, int) else value for value in state)


TURNED = """refines:
  system: ../abstract
  map: {client.state: s1 if it.state == s1 else s0, client.n: 1 - it.n}
"""


@pytest.mark.parametrize("seed", range(60))
def test_an_oracle_finds_the_same(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    claims = "  one: {always: all(c.n <= 1 for c in client)}\n"
    alike = random.Random(seed).random() < 0.3  # the same role, so that some refine it
    text = clients_by_chance(tmp_path / "abstract", random.Random(seed), claims)
    assert text.refines is None
    clients_by_chance(tmp_path / "concrete", random.Random(seed) if alike else rng, claims)
    for folder, more in (("abstract", "initially: all(c.n == 1 for c in client)\n"), ("concrete", TURNED)):
        role = tmp_path / folder / "roles/client.yaml"
        with (tmp_path / folder / "system.yaml").open("a") as file:
            file.write(more)
        if folder == "abstract":
            words = role.read_text().replace("max: 1}}\nevents", "max: 1, initial: any}}\nevents")
            role.write_text(turned(words) if alike else words)
    system = load(tmp_path / "concrete")
    found, fewest = judged(system), least(system)
    assert found.verdict == ("exhausted" if fewest is None else "violated")
    assert fewest is None or (found.path is not None and len(found.path) == fewest)


def turned(role: str) -> str:
    """A role in which the event's number is the other one, wherever it is read."""
    return (
        role.replace("n: event.v", "n: 1 - event.v")
        .replace("event.v == n", "1 - event.v == n")
        .replace("event.v != n", "1 - event.v != n")
    )


def test_other_readings_say_that_they_leave_it_out() -> None:
    system = load(TRUTH / "two_phase_refines", {"resource_managers": 2})
    for target in ("promela", "tla"):
        assert "refines" in {left.name for left in export_system(system, target).left_out}
    assert prove(system).others == ["refines"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "{system: ../tcommit, map: {resource_manager.stat: it.state}}",
            (
                "has no variable `resource_manager.stat`",
                "did you mean `resource_manager.state`?",
                "leaves out resource_manager.state",
            ),
        ),
        ("{system: ../tcommit, map: {}}", ("leaves out resource_manager.state",)),
        (
            "{system: ../tcommit, machines: {resource_manager: transaction_manager}, "
            "map: {resource_manager.state: it.state}}",
            ("nothing here has the 3 machines of `resource_manager` of `tcommit`", "as many of: resource_manager"),
        ),
        (
            "{system: ../tcommit, map: {resource_manager.state: transaction_manager.state}}",
            ("`resource_manager.state` is a state of resource_manager", "with other values"),
        ),
        ("{system: ../two_phase, map: {resource_manager.state: it.state}}", ("has messages",)),
        ("{system: ../no_such, map: {resource_manager.state: it.state}}", ("LH703",)),
        ("{system: ., map: {resource_manager.state: it.state}}", ("a system refines itself",)),
    ],
)
def test_what_is_wrong_is_named(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copytree(TRUTH, tmp_path / "truth")
    file = tmp_path / "truth/two_phase_refines/system.yaml"
    lines = file.read_text()
    file.write_text(lines[: lines.index("refines:\n")] + f"refines: {text}\n")
    with pytest.raises(SpecError) as error:
        load(file.parent)
    assert [word for word in words if word not in str(error.value)] == []


BOX = """role: box
data: {{held: "seq[{slot}, {most}]"}}
events: {{put: {{fields: {{one: {slot}}}}}, take: It gives the first away.}}
states:
  there:
    initial: true
    on:
      put: {{stay: true, when: len(held) < {most}, set: {{held: "append(held, event.one)"}}}}
      take: {{stay: true, set: {{held: rest(held)}}}}
    ignore: {{put: it is full}}
"""
SAME_BOX = "refines: {system: ../abstract, map: {box.state: box.state, box.held: box.held}}\n"


def box(folder: Path, slot: str, most: int, more: str = SAME_BOX) -> System:
    """A box that holds so many, in the order in which they come."""
    text = f"system: box\nroles: {{box: {{}}}}\ntypes: {{{slot}: {{members: [a, b]}}}}\n"
    files = {
        "system.yaml": f"{text}environment: {{put: {{to: box}}, take: {{to: box}}}}\n{more}",
        "roles/box.yaml": BOX.format(slot=slot, most=most),
        "invariants.yaml": "properties: {}\n",
    }
    return written(folder, files)


def test_a_sequence_that_may_be_longer_is_refused(tmp_path: Path) -> None:
    """For a type of this system its length decides; for one that both have, the step that shows it."""
    box(tmp_path / "abstract", "slot", 2, "")
    with pytest.raises(SpecError, match=r"LH605: `box.held` is seq\[slot, 2\], and this is seq\[place, 3\]"):
        box(tmp_path / "longer", "place", 3)
    found = judged(box(tmp_path / "alike", "slot", 3))
    assert found.verdict == "violated"
    assert found.reason.endswith("from box=there, box.held=[a, a] to box=there, box.held=[a, a, a]")
    for most in (1, 2):
        assert judged(box(tmp_path / str(most), "place", most)).verdict == "exhausted"
