"""`python -m tests.campaigns.readings`: the readings of each property agree, on the cuts that events of actors make.

The definition, the explorer's functions and SQL are asked of the same cuts, in each database; runs have faults, and
some have a seeded bug. It exits with 1 where two readings differ.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from leasehold.checker.verify.system import CutsOfSystem
from tests.checker.verify.databases import KINDS, database
from tests.watched.readings import Agreement, compared
from tests.watched.seeded import history_of, known_trials, seeds_of
from tests.watched.sources import SYSTEMS, History

# Of what any system does, so that systems without bugs of their own are violated, too.
BUGS = (
    "received_numbers_not_saved",
    "sent_numbers_not_saved",
    "duplicate_executed",
    "stale_executed",
    "commit_not_durable",
    "dirty_flag_cleared",
    "sent_numbers_from_received",
    "said_again_under_a_new_number",
)


@dataclass
class Group:
    """Histories of one setting of a system."""

    known: CutsOfSystem
    histories: list[tuple[History, bool]] = field(default_factory=list)
    with_bugs: int = 0


def groups(system: str, runs: int) -> Iterator[Group]:
    """Runs of a system: so many correct ones, as many with bugs of any system, and those of its own bugs."""
    plain = [("", seed) for _, seed in zip(range(runs), seeds_of(system), strict=False)]
    planted = [(BUGS[n % len(BUGS)], seed) for n, (_, seed) in enumerate(plain)]
    own = [(bug, one.seed) for bug, one in known_trials().items() if one.system == system and one.seed >= 0]
    groups_by_system: dict[int, Group] = {}
    for bug, seed in (*plain, *planted, *own):
        known, history, complete = history_of(bug, system, seed)
        group = groups_by_system.setdefault(id(known), Group(known))
        group.histories.append((history, complete))
        group.with_bugs += bool(bug)
    yield from groups_by_system.values()


def agreement(group: Group, kinds: Sequence[str]) -> Agreement:
    """The readings of a group, compared in databases of these kinds."""
    system, layout = group.known.system, group.known.layout
    with contextlib.ExitStack() as stack:
        databases = {kind: stack.enter_context(database(kind, system, layout)) for kind in kinds}
        return compared(group.known, group.histories, databases)


PAGE = """# Readings that agree

On the same cuts of the events of real actors, each property is decided by the specification's definition
([evaluate.py](../spec/language/render/evaluate.py)), by the explorer's functions, and by its query in {databases}.
Histories are random runs under faults, and runs with seeded bugs; *held* and *violated* (or shown, of coverage) are
verdicts about a property and a cut, the same in each reading unless they are counted under *differ*.
`python -m tests.campaigns.readings --page FILE` plays them again; the tests of every run play a few.

{table}
"""
TITLES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB"}
HEADS = ("histories", "with_bugs", "cuts", "held", "violated", "differ")


def page_of(figures: Mapping[str, Counter[str]], kinds: Sequence[str]) -> str:
    """The figures of each system, and their sum, as a page."""
    rows = {**figures, "**all**": sum(figures.values(), Counter[str]())}
    lines = ["| system | " + " | ".join(HEADS).replace("_", " ") + " |", "|---|" + "---:|" * len(HEADS)]
    lines += [f"| {name} | " + " | ".join(f"{of[head]:,}" for head in HEADS) + " |" for name, of in rows.items()]
    return PAGE.format(databases=", ".join(TITLES[kind] for kind in kinds), table="\n".join(lines))


@click.command(help=(__doc__ or "").replace("`", ""))
@click.argument("systems", nargs=-1, type=click.Choice(SYSTEMS))
@click.option("--runs", default=8, show_default=True, help="correct runs of each system; there are as many with bugs")
@click.option("--database", "kinds", multiple=True, type=click.Choice(KINDS), help="these alone; all if left out")
@click.option("--json", "as_json", is_flag=True, help="print JSON, a line for each setting of a system")
@click.option("--page", type=click.Path(path_type=Path), help="write the figures to this page, after each setting")
def main(systems: tuple[str, ...], runs: int, kinds: tuple[str, ...], as_json: bool, page: Path | None) -> None:
    logging.disable(logging.CRITICAL)
    kinds, differ = kinds or KINDS, 0
    figures: dict[str, Counter[str]] = {}
    for system in systems or SYSTEMS:
        for group in groups(system, runs):
            begun = time.perf_counter()
            agreed = agreement(group, kinds)
            differ += len(agreed.differ)
            line = {
                "system": system,
                "databases": list(kinds),
                "histories": len(group.histories),
                "with_bugs": group.with_bugs,
                "cuts": agreed.cuts,
                "held": agreed.verdicts["held"],
                "violated": agreed.verdicts["violated"],
                "properties_with_both": len(agreed.both),
                "differ": agreed.differ,
                "seconds": round(time.perf_counter() - begun, 1),
            }
            of = figures.setdefault(system, Counter())
            of.update({head: line[head] for head in HEADS if head != "differ"})
            of["differ"] += len(agreed.differ)
            if page is not None:
                page.write_text(page_of(figures, kinds), encoding="utf-8")
            if as_json:
                click.echo(json.dumps(line))
                continue
            click.echo(
                f"{system}: {line['histories']} histories ({group.with_bugs} with bugs), {agreed.cuts} cuts, verdicts "
                f"{agreed.verdicts['held']} held and {agreed.verdicts['violated']} violated in each of "
                f"{len(kinds) + 2} readings, {len(agreed.both)} properties with both; {len(agreed.differ)} differ"
            )
            for difference in agreed.differ:
                click.echo(f"  {difference}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
