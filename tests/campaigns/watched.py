"""`python -m tests.campaigns.watched`: random runs of correct systems under faults, in whose events nothing may be wrong.

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
from functools import cache
from itertools import count
from pathlib import Path

import click

from leasehold.checker.recovery.lease.random_runs.plan import RunPlan, plan_of
from leasehold.checker.recovery.lease.random_runs.run import compiled
from leasehold.checker.verify.cuts import CutsOfSystem
from tests.watched.batch import BatchVerification, timeless
from tests.watched.random_leases import history_of

BATCH = 40  # histories in one database

Setting = tuple[int, bool, bool]  # units, whether the site is lazy, whether clocks differ


@dataclass
class Counts:
    """What was judged.

    Attributes:
        histories, runs, cuts, events: how many.
        skewed: the histories in which clocks differ, and properties that speak of time are not asked.
        faults: how many histories have a fault of each kind.
        alarms: what was reported, by seed.
    """

    histories: int = 0
    runs: int = 0
    cuts: int = 0
    events: int = 0
    skewed: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    alarms: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


@cache
def known(units: int, lazy: bool) -> CutsOfSystem:
    return CutsOfSystem(compiled(units, lazy)[1].system)


def judged(setting: Setting, plans: list[RunPlan], counts: Counts) -> None:
    """Plays plans of one setting, and judges their events."""
    units, lazy, skewed = setting
    of = known(units, lazy)
    batch = BatchVerification(of, timeless(of.system) if skewed else None)
    for plan in plans:
        batch.history(str(plan.seed), history_of(plan))
        counts.faults.update({act.kind for act in plan.acts} - {"demand", "flex", "prolong", "stop"})
    for seed, violation in batch.asked():
        counts.alarms[seed].append(f"{violation.property} in {violation.run}, cut {violation.cut}")
    for seed, faults in batch.faults.items():
        if faults:
            counts.alarms[seed] += map(str, faults)
    counts.histories += len(plans)
    counts.skewed += len(plans) * skewed
    counts.runs += batch.result.runs
    counts.cuts += batch.result.cuts
    counts.events += batch.result.events
    batch.close()


def batches(seeds: Iterable[int]) -> Iterator[tuple[Setting, list[RunPlan]]]:
    """Plans of the same setting, as many as a database takes; at the end what is left."""
    waiting: dict[Setting, list[RunPlan]] = defaultdict(list)
    for plan in map(plan_of, seeds):
        setting = plan.units, plan.lazy, any(act.kind == "skew" for act in plan.acts)
        waiting[setting].append(plan)
        if len(waiting[setting]) == BATCH:
            yield setting, waiting.pop(setting)
    yield from waiting.items()


def done_before(log: Path | None) -> set[int]:
    """The seeds of which a log has the result."""
    if log is None or not log.exists():
        return set()
    return {seed for line in log.read_text(encoding="utf-8").splitlines() for seed in json.loads(line)["seeds"]}


@click.command(help=(__doc__ or "").replace("`", ""))
@click.option("--seed", default=0, show_default=True, help="of the first run")
@click.option("--step", default=1, show_default=True, help="from a seed to the next")
@click.option("--runs", type=int, help="how many; without end where left out")
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="add a line for each batch to this file; what it has is not repeated",
)
def main(seed: int, step: int, runs: int | None, log: Path | None) -> None:
    logging.disable(logging.CRITICAL)
    counts, begun = Counts(), time.perf_counter()
    done = done_before(log)
    seeds = count(seed, step) if runs is None else range(seed, seed + runs * step, step)
    for setting, plans in batches(seed for seed in seeds if seed not in done):
        one = Counts()
        started = time.process_time()
        judged(setting, plans, one)
        line = {
            "seeds": [plan.seed for plan in plans], "units": setting[0], "lazy": setting[1], "skewed": setting[2],
            "histories": one.histories, "runs": one.runs, "cuts": one.cuts, "events": one.events,
            "faults": dict(one.faults), "alarms": one.alarms, "cpu_seconds": round(time.process_time() - started, 2),
        }  # fmt: skip
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        for name in ("histories", "runs", "cuts", "events", "skewed"):
            setattr(counts, name, getattr(counts, name) + getattr(one, name))
        counts.faults.update(one.faults)
        counts.alarms.update(one.alarms)
        for of, words in one.alarms.items():
            click.echo(f"seed {of}: {'; '.join(words)}")
    seconds = time.perf_counter() - begun
    click.echo(
        f"{counts.histories} histories ({counts.skewed} of them where clocks differ), {counts.runs} runs, "
        f"{counts.cuts} cuts, {counts.events} events in {seconds:.0f} s: {len(counts.alarms)} with alarms"
    )
    sys.exit(1 if counts.alarms else 0)


if __name__ == "__main__":
    main()
