"""`python -m tests.benchmarks.partial_order [SYSTEM]`: the states that partial order reduction would leave.

The table is that of docs/decisions/0056-partial-order-reduction.md. Without a system it measures all of CASES, and
SPIN, in about half an hour; `--set` and `--faults` are as for `leasehold explore`. The figures favour the reduction:
stubborn.py knows of each step what no analysis of a specification knows. Each search is compared with that of all
states, and raises AssertionError where it loses a verdict, an end or, if it keeps them, a shortest path.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leasehold.checker.explore.reduction import reduction_of
from leasehold.checker.export import export_system
from leasehold.faults.model import Budget
from leasehold.spec import System, load
from tests.benchmarks.measure import say
from tests.benchmarks.stubborn import OUT, Steps, goals_of, members, toward, union

ROOT = Path(__file__).parents[2]
MOST_STATES = 500_000


@dataclass(frozen=True)
class Case:
    """A system that is measured, or one of its variants."""

    system: str
    settings: dict[str, str] = field(default_factory=dict)
    faults: str = ""

    def load(self) -> System:
        return load(ROOT / self.system if "/" in self.system else self.system, self.settings)

    def __str__(self) -> str:
        more = [f"{k}={v}" for k, v in self.settings.items()] + [self.faults] * bool(self.faults)
        return ", ".join([self.system.rsplit("/", 1)[-1], *more])


def _truth(name: str, **settings: int) -> Case:
    return Case(f"tests/truth/{name}", {k: str(v) for k, v in settings.items()})


CASES = [
    Case("two_phase_commit"),
    Case("two_phase_commit", {"participants": "4"}),
    Case("three_phase_commit"),
    Case("three_phase_commit", {"participants": "4"}),
    Case("three_phase_commit_termination"),
    Case("lease", {"expiry": "false"}),
    Case("lease", {"held_joins": "true", "max_units": "1"}),
    Case("spec/systems/starter", {"clients": "4"}),
    Case("examples/mutex", {"grants": "1"}),
    *(Case(f"examples/{name}") for name in ("outbox", "ring", "saga", "saga_mended", "waiting_list")),
    Case("examples/register", {"mixed": "false", "clients": "1"}),
    _truth("abd_register"),
    _truth("acp_nb_wrong"),
    _truth("acp_sb"),
    _truth("alternating_bit"),
    _truth("cache_directory", caches=5),
    _truth("chandy_misra"),
    _truth("dijkstra_scholten", nodes=4),
    _truth("dining_philosophers", philosophers=7),
    _truth("lamport_mutex"),
    _truth("lamport_mutex", processes=3, max_clock=3),
    _truth("lock", processes=4),
    _truth("lock_server", clients=5),
    _truth("maekawa", processes=3),
    _truth("paxos"),
    _truth("paxos_commit", resource_managers=2, acceptors=1),
    _truth("paxos_commit", resource_managers=2, acceptors=2),
    _truth("peterson"),
    _truth("quorum_election"),
    _truth("ricart_agrawala"),
    _truth("server_allocator"),
    _truth("simple_allocator"),
    _truth("tcommit", resource_managers=5),
    _truth("tcommit", resource_managers=8),
    _truth("token_ring"),
    _truth("token_snapshot"),
    _truth("two_phase", resource_managers=5),
    *(Case("tests/benchmarks/pairs", {"pairs": str(n)}) for n in (2, 3, 4)),
    Case("two_phase_commit", {"participants": "2"}, "crash=1"),
    Case("two_phase_commit", {"participants": "2"}, "lose=1,duplicate=1"),
    Case("three_phase_commit", {"participants": "2"}, "crash=1"),
    Case("examples/outbox", faults="crash=1"),
    Case("examples/ring", faults="crash=1"),
    Case("examples/waiting_list", faults="crash=1"),
]


@dataclass
class Measured:
    """Numbers of states that searches visit; `alone`: of the searches for one claim each, together."""

    all: int
    ample: int
    ends: int
    visible: int
    goals: int
    alone: int
    claims: int
    longer: tuple[int, int]  # shortest paths that `visible` makes longer, of those there are
    unseen: tuple[int, int]  # transitions that `visible` does not take, of those that are taken
    orbits: int | None
    orbit_goals: int | None


def measured(case: Case, most: int = MOST_STATES) -> Measured:
    """Measures a system.

    Raises:
        ValueError: it has more states than `most`.
    """
    return measure(Steps(case.load(), Budget.parse(case.faults) if case.faults else None, most))


def measure(steps: Steps) -> Measured:
    """Measures a system of which all states are known; raises AssertionError if a search decides something wrongly."""
    every = steps.search(lambda n: steps.masks[n])
    goals, cases = goals_of(steps)
    seen = union(goal.visible for goal in [*goals, *cases])
    ample, ends = steps.search(steps.ample), steps.search(steps.stubborn)
    visible = steps.search(lambda n: steps.stubborn(n, seen), ignored=False)
    driven = toward(steps, [*goals, *cases], ends=True)
    alone = [toward(steps, [goal], ends=False) for goal in goals]
    stuck = {n for n in every.depths if not steps.masks[n]}
    for search in (ample, ends, visible, driven):
        assert stuck <= search.depths.keys(), "an end of runs is lost"
    depths = {goal.name: goal.depth(every) for goal in goals}
    for goal in [*goals, *cases]:
        assert goal.depth(driven) == goal.depth(every), f"{goal.name} is decided wrongly, or by a longer path"
        assert (goal.depth(visible) is None) == (goal.depth(every) is None), f"{goal.name} is decided wrongly"
    for goal, search in zip(goals, alone, strict=True):
        assert goal.depth(search) == goal.depth(every), f"{goal.name} is decided wrongly alone"
    reached = [goal for goal in goals if depths[goal.name] is not None]
    taken = _transitions(steps, every.taken)
    orbits, orbit_goals = _orbits(steps)
    return Measured(
        len(every.depths),
        len(ample.depths),
        len(ends.depths),
        len(visible.depths),
        len(driven.depths),
        sum(len(search.depths) for search in alone),
        len(goals),
        (sum(goal.depth(visible) != goal.depth(every) for goal in reached), len(reached)),
        (len(taken - _transitions(steps, visible.taken)), len(taken)),
        orbits,
        orbit_goals,
    )


def _transitions(steps: Steps, taken: int) -> set[str]:
    return {t.name for a in members(taken) if (t := steps.actions[a].transition) is not None}


def _orbits(steps: Steps) -> tuple[int | None, int | None]:
    """The orbits of the states, and how many of them are visited with goals; both None where machines differ."""
    canonical = reduction_of(steps.world, True, asked=True).canonical
    if canonical is None:
        return None, None
    first: dict[Any, int] = {}
    form = [first.setdefault(canonical.form(state[:-1]), n) for n, state in enumerate(steps.states)]
    full = steps.enabled
    goals, cases = goals_of(steps)
    steps.enabled = [{a: frozenset(t if t == OUT else form[t] for t in ts) for a, ts in e.items()} for e in full]
    search = toward(steps, [*goals, *cases], ends=True)
    steps.enabled = full
    return len(first), len(search.depths)


# SPIN


def commit_in_promela(participants: int, atomic: bool) -> str:
    """Two-phase commit as spec/systems has it, with a process for each machine.

    With `atomic` a step is the same as there; else, each statement is one.
    """
    begin, end = ("atomic {", "}") if atomic else ("", "")
    every = range(participants)

    def tell(message: str) -> str:
        return " ".join(f"orders{i}!{message};" for i in every)

    def count(i: int, message: str, flag: str, then: str) -> str:
        others = " && ".join(f"{flag}[{j}]" for j in every if j != i) or "true"
        noted = f"{flag}[{i}] = 1"
        choice = f"if :: {others} -> {noted}; {then} :: else -> {noted} fi"
        return f"  :: {begin} answers{i}?{message} -> {choice} {end}"

    late = [f"  :: answers{i}?{vote}" for i in every for vote in ("agree", "disagree")]
    lines = ["mtype = {ask, commit, abort, agree, disagree, acknowledge};"]
    lines += [f"chan orders{i} = [2] of {{mtype}}; chan answers{i} = [2] of {{mtype}};" for i in every]
    lines += [f"byte coordinator; byte participant[{participants}]; /* 1: committed, 2: aborted */"]
    lines += [f"active proctype Coordinator() {{ bool agreed[{participants}]; bool done[{participants}];"]
    lines += [f"  xs orders{i}; xr answers{i};" for i in every]
    lines += [f"  {begin} skip; {tell('ask')} {end}", "  do"]
    lines += [count(i, "agree", "agreed", f"coordinator = 1; {tell('commit')} goto committing") for i in every]
    abort = f"coordinator = 2; {tell('abort')} goto aborting"
    lines += [f"  :: {begin} answers{i}?disagree -> {abort} {end}" for i in every]
    lines += [f"  :: {begin} true -> {abort} {end}", "  od;", "committing: do"]
    lines += [count(i, "acknowledge", "done", "goto over") for i in every]
    lines += ["  od;", "aborting: do", *(count(i, "acknowledge", "done", "goto over") for i in every), *late]
    lines += ["  od;", "over: do", *late, "  od", "}"]
    for i in every:
        give_up = f":: {begin} orders{i}?abort -> goto aborting {end}"
        lines += [
            f"active proctype Participant{i}() {{ xr orders{i}; xs answers{i};",
            f"  if :: orders{i}?ask {give_up} fi;",
            f"  if :: {begin} true -> answers{i}!agree {end}",
            f"  :: {begin} true -> answers{i}!disagree; goto refused {end} {give_up} fi;",
            f"  if :: {begin} orders{i}?commit -> participant[{i}] = 1; answers{i}!acknowledge; goto over {end}",
            f"  {give_up} fi;",
            f"refused: {begin} orders{i}?abort;",
            f"aborting: participant[{i}] = 2; answers{i}!acknowledge; {end}",
            "over: false }",
        ]
    return "\n".join(lines)


def states_in_spin(model: str, reduced: bool) -> int:
    """The states that SPIN stores of a model."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.pml").write_text(model, encoding="utf-8")
        flags = ["-O1", "-w", "-DSAFETY", "-DVECTORSZ=4096", *([] if reduced else ["-DNOREDUCE"])]
        subprocess.run(["spin", "-a", "model.pml"], cwd=folder, capture_output=True, check=True)
        subprocess.run(["cc", *flags, "-o", "pan", "pan.c"], cwd=folder, check=True)
        run = ["./pan", "-E", "-m1000000", "-c0"]
        printed = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+) states, stored", printed)
    assert found is not None, printed
    return int(found[1])


# The table


def times(whole: int, part: int | None) -> str:
    return "–" if part is None else f"{whole / part:.2f}"


HEAD = (
    "| system | states | ample | ends | visible | goals | one claim at a time | longer paths | unseen transitions "
    "| symmetry | symmetry and goals |\n|---|" + "---:|" * 10
)


def row(case: Case, m: Measured) -> str:
    """A row of the table: how many times fewer states are visited; of `one claim at a time` by all such searches."""
    gains = [times(m.all, n) for n in (m.ample, m.ends)]
    claims = [times(m.all, n if m.claims else None) for n in (m.visible, m.goals)]
    alone = f"{times(m.all, m.alone)} ({m.claims})" if m.claims else "–"
    lost = [f"{n} of {of}" for n, of in (m.longer, m.unseen)]
    symmetric = [times(m.all, n) for n in (m.orbits, m.orbit_goals)]
    return f"| {' | '.join([str(case), f'{m.all:,}', *gains, *claims, alone, *lost, *symmetric])} |"


def spin_rows() -> Iterator[str]:
    """The rows about SPIN: a model, its states without and with partial order reduction."""
    for n in (3, 4):
        settings = {"participants": str(n)}
        models = {
            "exported": export_system(load("two_phase_commit", settings), "promela").text,
            "by hand, a step is atomic": commit_in_promela(n, atomic=True),
            "by hand, each statement is a step": commit_in_promela(n, atomic=False),
        }
        for name, model in models.items():
            whole, reduced = (states_in_spin(model, reduced) for reduced in (False, True))
            yield f"| {n} participants, {name} | {whole:,} | {reduced:,} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("system", nargs="?", help="a shipped system, or a folder from the repository's root on")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--faults", default="")
    asked = parser.parse_args()
    settings = dict(s.split("=", 1) for s in asked.set)
    print(HEAD)
    for case in [Case(asked.system, settings, asked.faults)] if asked.system else CASES:
        say(str(case))
        print(row(case, measured(case)), flush=True)
    if not asked.system and shutil.which("spin"):
        print("\n| two-phase commit in SPIN | states | reduced |\n|---|---:|---:|")
        for text in spin_rows():
            print(text, flush=True)


if __name__ == "__main__":
    main()
