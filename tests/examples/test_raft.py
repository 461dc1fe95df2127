"""Raft: the mistakes that its properties find, what its page claims, and a cluster that goes on without its leader.

Sections are those of Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (USENIX ATC 2014).
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.faults.model import Budget
from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import load
from tests.checker.conform.walks import judged, known, walked
from tests.systems import edited, written

RAFT = Path(__file__).parents[2] / "examples" / "raft"
FILES = {str(path.relative_to(RAFT)): path.read_text() for path in RAFT.rglob("*.yaml")}
BARE = {name: text for name, text in FILES.items() if name not in {"expected.yaml", "crash.yaml", "lemmas.yaml"}}

# A mistake, edits of the specification, constants that show it, and the property that is violated first.
MISTAKES = [
    (
        "two votes in a term (5.2)",
        [("(voted_for == none or voted_for == who)", "true")],
        {"terms": 1},
        "one_vote_a_term",
    ),
    (
        "an entry that conflicts stays (5.3)",
        [("log[msg.previous] != msg.entry", "log[msg.previous] == none")],
        {"duel": True},
        "state_machine_safety",
    ),
    (
        "an entry committed without a majority (5.3)",
        [("* 2 > nodes), default=0)", "> 0), default=0)")],
        {"terms": 1},
        "what_is_committed_is_at_a_majority",
    ),
    (
        "a candidate with an old log (5.4.1)",
        [
            (
                "and (other_last > last_term or other_last == last_term and other_length >= len(log))",
                "and other_length + other_last >= 0",
            )
        ],
        {"duel": True},
        "leader_completeness",
    ),
]


@pytest.mark.parametrize(
    ("edits", "settings", "violated"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES]
)
def test_a_mistake_is_found(
    edits: list[tuple[str, str]], settings: dict[str, Any], violated: str, tmp_path: Path
) -> None:
    found = explore(written(tmp_path, edited(BARE, *edits), settings))
    assert violated in {p.name for p in found.properties if p.verdict == "violated"}


def test_a_node_that_forgets_its_vote_gives_a_term_two_leaders() -> None:
    found = explore(load(RAFT, {"terms": 1}), budget=Budget(amnesia=1))
    (violated,) = (p for p in found.properties if p.name == "election_safety")
    assert violated.path is not None
    assert len(violated.path.steps) == 8


@pytest.mark.long
def test_an_entry_of_an_earlier_term_is_committed_and_lost_where_copies_of_it_are_counted() -> None:
    """Figure 8, with three nodes: the run `figure_8` of expected.yaml as far as to the first violation."""
    system = load(RAFT, {"terms": 4, "duel": True, "commit_old_terms": True})
    found = explore(system, Limits(stop_at_violation=True, finish_level=True))
    paths = {p.name: len(p.path.steps) for p in found.properties if p.verdict == "violated" and p.path is not None}
    assert paths == {"leader_completeness": 27}


def test_a_command_lives_on_when_its_leader_is_killed() -> None:
    async def run() -> list[tuple[str, tuple[int, ...], int]]:
        program = compile_system(load(RAFT, {"entries": 3}))
        async with SystemCluster(program) as cluster:

            async def tell(node: int, event: str, **fields: int) -> None:
                await cluster.actors[f"node-{node}"].tell(program.only_run, f"node[{node}]", event, fields)
                await cluster.settle()

            await tell(0, "timeout")
            await tell(0, "command", value=7)
            await cluster.kill("node-0")
            await tell(1, "timeout")
            await tell(1, "command", value=8)
            await cluster.start("node-0")
            for _ in range(3):  # it hears of the term, of the entries, and of what is committed
                await tell(1, "beat")
            seen = [cluster.held(program.only_run, f"node[{n}]") for n in range(3)]
            views = [(held.state, held.core.view(held.record)) for held in seen if held is not None]
            return [(state, tuple(view["commands"]), view["commit"]) for state, view in views]

    nodes = asyncio.run(run())
    assert nodes == [("follower", (7, 8), 2), ("leader", (7, 8), 2), ("follower", (7, 8), 2)]


@pytest.mark.parametrize("seed", range(3))
def test_what_nodes_do_conforms(seed: int) -> None:
    """Whatever clients, timers, crashes and the network do: each step is one that the specification allows."""
    findings, logs = judged(known("examples/raft"), walked("examples/raft", seed))
    assert findings == []
    assert all(log.steps > 3 and not log.not_judged for log in logs)


def test_the_page_says_how_long_the_specification_is() -> None:
    def lines(*names: str) -> int:
        return sum(1 for name in names for line in FILES[name].splitlines() if line.strip() and line.strip()[0] != "#")

    page = " ".join((RAFT / "README.md").read_text().split())
    (said,) = re.findall(r"and the role have (\d+), and `invariants.yaml` (\d+)", page)
    assert said == (str(lines("system.yaml", "messages.yaml", "roles/node.yaml")), str(lines("invariants.yaml")))
