"""`python -m tests.campaigns.losses`: runs of `leasehold demo` in which units die, judged from outside.

It exits with 1 when something is wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import click

from tests.campaigns.demo import said

SUMS = ("leases", "extensions", "crashes", "lost", "repaired", "replaced", "let_go", "told", "leaked")
MOSTS = ("worst_seconds", "starts_at_once")


ABOUT = """
A service manager, a broker and a site run as processes, and each unit is two more. Units are killed from outside
(`SIGKILL`, the first process or both) at random moments, while leases begin, are renewed, grow, shrink and end. A judge
reads /proc: each unit has to be repaired (another process, for the same lease) or replaced (by a unit that the lease
did not have) within 15 s, and its holder told; a lease lets go of a unit only where it is over, smaller, or may have no
other. Nothing of a killed unit may be left. A host that reboots loses all units at once, and no more than four may be
started at the same time (`at_once`). `python -m tests.campaigns.losses --seed {seed} --page reports/losses.md` repeats
the runs and writes this page.
"""
SETTINGS = """
Probes come every 0.5 s, and two misses count. A unit is set up again twice at most for one lease, and a lease gets
other units twice at most for one ticket. The two cores were busy with other work as well.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Runs of one kind.

    Attributes:
        title: at the head of its column.
        words: of the command.
        runs: how many; each has a seed of its own.
    """

    title: str
    words: tuple[str, ...]
    runs: int


KINDS = (
    Kind("one at a time", ("--lose-units", "--leases", "20", "--units", "8"), 3),
    Kind("and every actor is killed once", ("--lose-units", "--crash", "--leases", "12"), 2),
    Kind("a host reboots, twice", ("--reboot",), 3),
    Kind("all of it", ("--lose-units", "--reboot", "--crash", "--leases", "20"), 2),
)


def run(kind: Kind, seed: int) -> dict[str, Any]:
    """The summary of one run."""
    return said("demo", "--json", *kind.words, "--seed", str(seed))


def added(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns what several runs have come to."""
    totals: dict[str, Any] = {"runs": len(runs), "seconds": round(sum(one["seconds"] for one in runs))}
    totals |= {name: sum(one[name] for one in runs) for name in SUMS}
    totals |= {name: max(one[name] for one in runs) for name in MOSTS}
    return {**totals, "violations": [violation for one in runs for violation in one["violations"]]}


def report(columns: dict[str, dict[str, Any]], seed: int) -> str:
    """The results as a Markdown page."""
    total = added(list(columns.values())) | {"runs": sum(one["runs"] for one in columns.values())}
    every = {**columns, "all": total}
    rows = [
        ("runs", "runs"),
        ("seconds", "seconds"),
        ("leases", "leases"),
        ("extensions", "extensions"),
        ("actors killed", "crashes"),
        ("units lost", "lost"),
        ("repaired", "repaired"),
        ("replaced", "replaced"),
        ("let go", "let_go"),
        ("holders told, of those repaired or replaced", "told"),
        ("seconds until mended and told, at most", "worst_seconds"),
        ("units being started at once, at most", "starts_at_once"),
        ("processes leaked", "leaked"),
    ]
    lines = [
        "# Units that die while they are up",
        "",
        fill(ABOUT.format(seed=seed).strip(), 118),
        "",
        "|  | " + " | ".join(every) + " |",
        "| --- |" + " ---: |" * len(every),
    ]
    for title, name in rows:
        lines.append(f"| {title} | " + " | ".join(f"{one[name]:,}" for one in every.values()) + " |")
    counts = " | ".join(f"**{len(one['violations'])}**" for one in every.values())
    lines += [f"| **violations** | {counts} |", ""]
    lines += [f"- {violation}" for violation in total["violations"]]
    lines += [*([""] if total["violations"] else []), fill(SETTINGS.strip(), 118)]
    return "\n".join(lines) + "\n"


@click.command(help=(__doc__ or "").replace("`", ""))
@click.option("--seed", default=1, show_default=True, help="of the first run of each kind")
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="write the results to this page")
def main(seed: int, page: Path | None) -> None:
    columns: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        runs = []
        for number in range(kind.runs):
            runs.append(run(kind, seed + number))
            click.echo(f"{kind.title}: {json.dumps(runs[-1])}")
        columns[kind.title] = added(runs)
    if page is not None:
        page.write_text(report(columns, seed), encoding="utf-8")
    sys.exit(1 if any(one["violations"] for one in columns.values()) else 0)


if __name__ == "__main__":
    main()
