"""`python -m tests.campaigns.watched`: random runs of correct systems under faults; nothing in their events is wrong.

It exits with 1 where `verify` reports anything: that is a false alarm, or a bug of the system.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import click

from tests.watched.batch import BatchVerification
from tests.watched.sources import LEASE, SYSTEMS, Batch, source_of

SIZES = {LEASE: 40}  # histories in one database
SIZE_OF_OTHERS = 160


@dataclass
class Judged:
    """Results of a batch.

    Attributes:
        seeds: of its runs.
        runs, cuts, events: how many; a run is what the verifier calls so: one lease.
        faults: how many histories had each kind of fault.
        alarms: what was reported, by seed.
    """

    seeds: list[int] = field(default_factory=list)
    runs: int = 0
    cuts: int = 0
    events: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    alarms: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def judged(batch: Batch) -> Judged:
    """Plays a batch, and verifies its events."""
    result = Judged()
    verification = BatchVerification(batch.known, batch.properties)
    for played in batch.runs:
        verification.history(str(played.seed), played.history, played.complete)
        result.seeds.append(played.seed)
        result.faults.update(played.faults)
    for alarm in verification.asked():
        result.alarms[alarm.history].append(str(alarm))
    for seed, faults in verification.faults.items():
        if faults:
            result.alarms[seed] += map(str, faults)
    result.runs, result.cuts, result.events = verification.runs, verification.cuts, verification.events
    verification.close()
    return result


def done_before(log: Path | None) -> dict[str, set[int]]:
    """Seeds of which a log has the result, by system."""
    seeds: dict[str, set[int]] = defaultdict(set)
    if log is not None and log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            seeds[entry["system"]].update(entry["seeds"])
    return seeds


def in_turn(sources: dict[str, Iterator[Batch]]) -> Iterator[tuple[str, Batch]]:
    """Batches of one system after the other, but every second one is of the lease."""
    others = {name: batches for name, batches in sources.items() if name != LEASE}
    lease = sources.get(LEASE, iter(()))
    while sources:
        for name in list(others) or [LEASE]:
            for system, batches in ((LEASE, lease), (name, sources.get(name, iter(())))):
                batch = next(batches, None)
                if batch is None:
                    others.pop(system, None)
                    sources.pop(system, None)
                else:
                    yield system, batch


def summed(log: Path) -> str:
    """Returns what a log has, as a table."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for line in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        skewed = " (clocks differ)" if "clocks differ" in entry["setting"] else ""
        of = sums[entry["system"] + skewed]
        of.update({"histories": len(entry["seeds"]), "alarms": len(entry["alarms"]), "seconds": entry["seconds"]})
        of.update({name: entry[name] for name in ("runs", "cuts", "events")})
    total: Counter[str] = Counter()
    for of in sums.values():
        total.update(of)
    heads = ("histories", "runs", "events", "cuts", "alarms")
    lines = ["| system | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for name, of in [*sums.items(), ("**all**", total)]:
        lines.append(f"| {name} | " + " | ".join(f"{of[head]:,}" for head in heads) + " |")
    return "\n".join(lines)


PAGE = """# Random runs that are watched

Random runs of correct systems under faults are played by real actors in simulation, and verified from their signed
events alone, with the cuts, tables and queries of [`leasehold verify`](../docs/reference/verify.md). Whatever is
reported is an alarm: there is nothing to report. A *history* is one random run, and a run in it one lease. Histories
of the lease have crashes, power cuts, partitions, lost and doubled messages, disks and handlers that fail; where
clocks differ, properties that speak of time are not asked, as they may be violated by that alone. Those of other
systems have a crash, and lose or double messages; properties that the explorer finds violated are not asked.

`python -m tests.campaigns.watched --seed S --log FILE` plays on; with `--page` it writes this page from FILE.

{table}
"""


@click.command(help=(__doc__ or "").replace("`", ""))
@click.argument("systems", nargs=-1, type=click.Choice(SYSTEMS))
@click.option("--seed", default=0, show_default=True, help="of the first run of each system")
@click.option("--runs", type=int, help="how many of each system; without end where left out")
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="add a line for each batch to this file; runs that it has are not repeated",
)
@click.option("--summary", is_flag=True, help="only say what the log has")
@click.option(
    "--page", type=click.Path(path_type=Path, dir_okay=False), help="only write what the log has to this page"
)
def main(
    systems: tuple[str, ...], seed: int, runs: int | None, log: Path | None, summary: bool, page: Path | None
) -> None:
    if page is not None and log is not None:
        page.write_text(PAGE.format(table=summed(log)), encoding="utf-8")
        return
    if summary and log is not None:
        click.echo(summed(log))
        return
    logging.disable(logging.CRITICAL)
    done, alarms = done_before(log), 0

    def seeds(system: str) -> Iterable[int]:
        every = count(seed) if runs is None else range(seed, seed + runs)
        return (one for one in every if one not in done[system])

    def batches(system: str) -> Iterator[Batch]:
        yield from source_of(system).batches(
            seeds(system), SIZES.get(system, SIZE_OF_OTHERS)
        )  # explored when it is its turn

    for system, batch in in_turn({system: batches(system) for system in systems or SYSTEMS}):
        started = time.process_time()
        result = judged(batch)
        alarms += len(result.alarms)
        line: dict[str, Any] = {"system": system, "setting": batch.setting, **vars(result)}
        line["seconds"] = round(time.process_time() - started, 2)
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        shown = f"{system} {batch.setting}".strip()
        click.echo(f"{shown}: {len(result.seeds)} histories, {len(result.alarms)} with alarms, {line['seconds']} s")
        for of, alarms_of_seed in result.alarms.items():
            click.echo(f"  seed {of}: {'; '.join(alarms_of_seed)}")
    sys.exit(1 if alarms else 0)


if __name__ == "__main__":
    main()
