"""Two- and three-phase commit when actors stop: what blocks, what does not, and what that costs.

Two-phase commit waits for its coordinator. Skeen's termination protocol does not, as long as a site that is not heard
of is down: with a partition, or with sites that come back after the others have decided and failed, it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest

from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import explore
from leasehold.checker.explore.breadth_first import Exploration
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import Path
from leasehold.checker.explore.step import Action
from leasehold.faults.model import Budget
from tests.systems import load

TWO, THREE, TERMINATION = "two_phase_commit", "three_phase_commit", "three_phase_commit_termination"
DECISIONS = {"agreement", "decisions_stand"}


@cache
def found(name: str, budget: str, **settings: object) -> Exploration:
    system = load(name, {"participants": 2, **settings})
    return explore(system, budget=Budget.parse(budget)) if budget else explore(system)


def violated(of: Exploration) -> set[str]:
    assert of.complete
    return {p.name for p in of.properties if p.verdict == "violated"}


def path(of: Exploration, name: str) -> Path:
    (one,) = [p for p in of.properties if p.name == name]
    assert one.verdict == "violated"
    assert one.path is not None
    return one.path


def titles(of: Path) -> list[str]:
    return [step.title for step in of.steps]


def test_two_phase_commit_blocks_when_its_coordinator_is_gone_for_good() -> None:
    """The witness: a participant has agreed, and nobody is left who could tell it what was decided."""
    halted = found(TWO, "halt=1")
    witness = path(halted, "prepared_ends")
    assert titles(witness) == [
        "coordinator: begin",
        "participant[0]: ask from coordinator",
        "participant[0]: able",
        "coordinator: halt:coordinator",
        "participant[1]: ask from coordinator (lost)",
    ]
    assert witness.loop == len(witness.steps), "nothing more happens"
    assert witness.steps[-1].state.control["participant[0]"] == "prepared"
    assert not violated(halted) & DECISIONS


@pytest.mark.parametrize("budget", ["", "crash=2", "power_cut=1"])
def test_two_phase_commit_waits_for_a_coordinator_that_comes_back(budget: str) -> None:
    assert violated(found(TWO, budget)) == set()


@pytest.mark.parametrize("budget", ["halt=1", "halt=3", "partition=1"])
def test_two_phase_commit_waits_for_nobody_but_the_coordinator(budget: str) -> None:
    assert not violated(found(TWO, budget)) & {*DECISIONS, "prepared_ends_beside_a_coordinator"}


def test_two_phase_commit_recovers_by_its_states_tasks() -> None:
    """After two crashes at any points it is back within 16 steps, in which 12 messages are received."""
    back = convergence(found(TWO, ""), found(TWO, "crash=2"))
    assert back.converges
    assert (back.worst_steps, back.worst_exchanges) == (16, 12)


def test_the_third_phase_alone_does_not_help() -> None:
    """It makes a decision possible without the coordinator; somebody has to make it."""
    halted = found(THREE, "halt=1")
    assert titles(path(halted, "prepared_ends"))[3:] == [
        "coordinator: halt:coordinator",
        "participant[1]: ask from coordinator (lost)",
    ]
    assert not violated(halted) & {*DECISIONS, "nobody_is_uncertain_beside_a_commit"}


@pytest.mark.parametrize("budget", ["", "halt=1", "halt=2", "crash=1"])
def test_three_phase_commit_with_termination_neither_blocks_nor_disagrees(budget: str) -> None:
    assert violated(found(TERMINATION, budget)) == set()


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "participants"), [("halt=3", 2), ("crash=1,halt=1", 2), ("halt=1", 3)])
def test_nor_with_more_faults_or_participants(budget: str, participants: int) -> None:
    assert violated(found(TERMINATION, budget, participants=participants)) == set()


def test_the_participants_finish_without_their_coordinator() -> None:
    """They are at an end, both ways, while the coordinator is gone before it has decided."""
    of = found(TERMINATION, "halt=1")
    world, ends = of.paths.world, set()
    assert world.faulty
    up = world.up[world.layout.of["coordinator", 0].name]
    at = [world.by_name[role, i].cell for role, i in (("coordinator", 0), ("participant", 0), ("participant", 1))]
    for state in of.paths.states:
        if state[up] is None and not any(True for _ in world.successors(state, (0,))):
            ends.add(tuple(state[cell] for cell in at))
    assert ends >= {("preparing", "committed", "committed"), ("preparing", "aborted", "aborted")}
    assert {(one, two) for _, one, two in ends} <= {
        ("working", "working"),
        ("committed", "committed"),
        ("aborted", "aborted"),
    }


def test_a_restarted_coordinator_learns_what_was_decided_without_it() -> None:
    """With one crash, all runs end as runs without faults do: its questions are asked again, and answered."""
    back = convergence(found(TERMINATION, ""), found(TERMINATION, "crash=1"))
    assert back.converges
    assert (back.worst_steps, back.worst_exchanges) == (23, 19)


def test_three_phase_commit_is_wrong_when_the_network_is_parted() -> None:
    """Each side takes the other to be down, leaves it out, and decides by what it knows."""
    parted = found(TERMINATION, "partition=1")
    assert {"agreement", "coordinator_agrees"} <= violated(parted)
    assert "prepared_ends" not in violated(parted)
    way = path(parted, "agreement")
    assert len(way.steps) == 16
    assert titles(way)[9:] == [
        "partition: participant[1] | coordinator, participant[0]",
        "coordinator: missed(peer=participant[1])",
        "participant[1]: lost",
        "participant[1]: away(peer=participant[0])",
        "participant[0]: prepare(without={participant[1]}) from coordinator",
        "coordinator: ready(without={participant[1]}) from participant[0]",
        "participant[0]: commit from coordinator",
    ]
    decisions = [(s.machine, s.after) for s in way.steps if s.after in ("committed", "aborted") and s.before != s.after]
    assert decisions == [("participant[1]", "aborted"), ("participant[0]", "committed")]


def test_two_phase_commit_is_right_when_the_network_is_parted() -> None:
    """Three-phase commit pays for its gain: two-phase commit waits until the partition heals."""
    assert violated(found(TWO, "partition=1")) == set()


# What is too deep for a search is walked: each step is one that the system has


def walk(of: Reference, steps: Iterable[str]) -> dict[str, str]:
    """Takes the steps that are named; answers where the machines are then."""
    (state,) = of.initial_states()
    for wanted in steps:
        after = [new for action, new in of.successors(state) if name(of, action) == wanted]
        assert after, f"{wanted} is not possible"
        state = after[0]
    return {f"{role}{i}" if role == "participant" else role: state[m.cell] for (role, i), m in of.by_name.items()}


def name(of: Reference, action: Action) -> str:
    """`participant0 able`, `participant0 crash`, `coordinator agree<0`."""
    actor = action.role if action.role != "participant" else f"participant{action.instance}"
    if action.kind in ("crash", "recover", "halt"):
        return f"{actor} {action.kind}" if action.transition is None else ""
    return f"{actor} {action.event}" + (f"<{action.sender}" if action.sender >= 0 else "")


VOTED = [
    "coordinator begin",
    "participant0 ask<0",
    "participant0 able",
    "participant1 ask<0",
    "participant1 able",
    "coordinator agree<0",
    "coordinator agree<1",
]


def test_no_rule_saves_a_site_that_comes_back_when_all_who_know_are_down() -> None:
    """Three faults: one that could commit stops for a while; the other aborts without it, and stops; it comes back."""
    world = reference_of(load(TERMINATION, {"participants": 2}), Budget.parse("crash=1,halt=2"))
    assert walk(
        world,
        [
            *VOTED,
            "participant0 prepare<0",
            "participant0 crash",
            "coordinator halt",
            "participant1 lost",
            "participant1 away",
            "participant1 halt",
            "participant0 recover",
            "participant0 lost",
            "participant0 away",
        ],
    ) == {"coordinator": "preparing", "participant0": "committed", "participant1": "aborted"}


LEFT_OUT = [
    *VOTED,
    "participant1 prepare<0",
    "coordinator ready<1",
    "participant0 crash",
    "coordinator missed",
    "participant1 prepare<0",
    "coordinator ready<1",
    "coordinator halt",
    "participant0 recover",
]


def test_a_participant_that_was_left_out_must_not_lead() -> None:
    """The coordinator has gone on without it and has decided; what it knows is old. Two faults, 19 steps."""
    naive = reference_of(load(TERMINATION, {"participants": 2, "returned_may_lead": True}), Budget(crash=1, halt=1))
    taken = [
        *LEFT_OUT,
        "participant0 lost",
        "participant1 align<0",
        "participant1 commit<0",
        "participant0 aligned<1",
    ]
    assert len(taken) == 19
    assert walk(naive, taken) == {"coordinator": "committing", "participant0": "aborted", "participant1": "committed"}

    right = reference_of(load(TERMINATION, {"participants": 2}), Budget(crash=1, halt=1))
    with pytest.raises(AssertionError, match="participant0 lost is not possible"):
        walk(right, taken)
    assert walk(right, [*LEFT_OUT, "participant1 lost", "participant0 decided<1"]) == {
        "coordinator": "committing",
        "participant0": "committed",
        "participant1": "committed",
    }
