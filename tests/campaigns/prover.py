"""`python -m tests.campaigns.prover`: whatever the prover calls proved is explored, on systems made by chance.

With `--errors`, errors are seeded into the transition relation, and the command says which of them are found.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import TimeoutError
from dataclasses import asdict, dataclass, field

import click
from pebble import ProcessPool

from leasehold.cli.progress import Status
from tests.checker.prove.differential import Judged, judge
from tests.checker.prove.wrong_relations import ERRORS

LONGEST = 120  # seconds for one system


@dataclass
class Totals:
    systems: int = 0
    refused: int = 0
    given_up: list[int] = field(default_factory=list)
    claims: int = 0
    proved: int = 0
    methods: Counter[str] = field(default_factory=Counter)
    contradicted: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, seed: int, found: Judged) -> None:
        if found.refused:
            self.refused += 1
            return
        self.systems += 1
        self.claims += found.claims
        self.proved += found.proved
        self.methods += found.methods
        self.contradicted += [f"seed {seed}: {name}, {at}" for name, at in found.contradicted.items()]


def one(seed: int, error: str) -> Judged:
    """What becomes of the system of a seed; with an error in the relation, if one is named."""
    rng = random.Random(seed)
    return judge(rng, relation=ERRORS[error], every=False) if error else judge(rng)


def compare(seeds: range, jobs: int, error: str = "", *, stop: bool = False) -> Totals:
    """Compares the systems of some seeds; `stop`: until the first contradiction."""
    found, begun = Totals(), time.perf_counter()
    with ProcessPool(max_workers=jobs) as pool, Status() as status:
        waiting = {seed: pool.schedule(one, args=(seed, error), timeout=LONGEST) for seed in seeds}
        for seed, future in waiting.items():
            try:
                found.add(seed, future.result())
            except TimeoutError:
                found.given_up.append(seed)
            status.show(f"{error} {found.systems:,} systems", f"{found.proved:,} proved",
                        f"{len(found.contradicted)} contradicted")  # fmt: skip
            if stop and found.contradicted:
                pool.stop()
                break
    found.seconds = round(time.perf_counter() - begun, 1)
    return found


@click.command()
@click.option("--systems", default=100, help="How many are drawn.", show_default=True)
@click.option("--seed", default=0, help="The first seed.", show_default=True)
@click.option("--jobs", default=2, help="Processes.", show_default=True)
@click.option("--errors", is_flag=True, help="Seed errors into the relation: is each found within these systems?")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(systems: int, seed: int, jobs: int, errors: bool, as_json: bool) -> None:
    """Compares the prover with the explorer on systems made by chance."""
    seeds = range(seed, seed + systems)
    if errors:
        tried, caught = {}, {}
        for name in ERRORS:
            tried[name] = compare(seeds, jobs, name, stop=True)
            if tried[name].contradicted:
                caught[name] = tried[name].contradicted[0]
            if not as_json:
                print(f"{name}: {caught.get(name, 'not found')}", flush=True)
        if as_json:
            print(json.dumps({"errors": len(tried), "found": caught, "missed": sorted(tried.keys() - caught.keys())}))
        else:
            print(f"{len(caught)} of {len(tried)} errors found")
        sys.exit(len(caught) < len(tried))
    found = compare(seeds, jobs)
    if as_json:
        print(json.dumps(asdict(found), indent=2))
    else:
        print(f"{found.systems:,} systems, {found.claims:,} claims, {found.proved:,} proved, "
              f"{len(found.contradicted)} contradicted, {found.seconds:,.0f} s")  # fmt: skip
        print(*found.contradicted, sep="\n")
    sys.exit(bool(found.contradicted))


if __name__ == "__main__":
    main()
