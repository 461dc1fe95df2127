"""`python -m tests.campaigns.prover`: whatever the prover calls proved is explored, on systems made by chance.

With `--errors`, errors are seeded into the prover (planted/prover.yaml), and the command says after how many systems
each is found.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, TypeAlias

import click
import z3

from leasehold.checker.prove.decide.set_aside import map_in_workers
from leasehold.cli.progress import Status
from tests.checker.prove.differential import Judged, compared, draw, judge
from tests.checker.prove.drawn_sources import SOURCES
from tests.planted.table import mistakes

ERRORS = mistakes("prover.yaml")
SCALARS = next(iter(SOURCES))  # the source of systems, unless another is named
LONGEST = 600  # seconds for one system, on a machine that others use


@dataclass
class Totals:
    """What became of the systems of some seeds.

    Attributes:
        refused: systems that the loader or the prover does not take.
        given_up: seeds of systems that took too long.
        claims, proved, open, methods, aimed, contradicted: as in `Judged`.
        features: how many systems have each.
        cpu_seconds: of the processes.
    """

    systems: int = 0
    refused: int = 0
    given_up: list[int] = field(default_factory=list)
    claims: int = 0
    proved: int = 0
    open: int = 0
    contradicted: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    methods: Counter[str] = field(default_factory=Counter)
    aimed: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, judged: Judged | None) -> None:
        """Counts the system of a seed; None: it took too long."""
        if judged is None:
            self.given_up.append(seed)
            return
        self.cpu_seconds += judged.seconds
        if judged.refused:
            self.refused += 1
            return
        self.systems += 1
        self.claims += judged.claims
        self.proved += judged.proved
        self.open += judged.open
        self.methods += judged.methods
        self.aimed += judged.aimed
        self.features += judged.features
        self.contradicted += [f"seed {seed}: {name}, {at}" for name, at in judged.contradicted.items()]

    @property
    def as_json(self) -> dict[str, Any]:
        """Of plain values: `asdict` makes no dict of a Counter."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}

    @property
    def lines(self) -> list[str]:
        """In words."""
        listed = {"proved by": self.methods, "claims aimed at": self.aimed, "systems with": self.features}
        return [
            f"{self.systems:,} systems ({self.refused:,} refused), {self.claims:,} claims, {self.proved:,} proved, "
            f"{self.open:,} not decided, {len(self.contradicted)} contradicted, {self.seconds:,.0f} s, "
            f"{self.cpu_seconds:,.0f} s of processors",
            *(
                f"{label}: {', '.join(f'{n:,} {name}' for name, n in counts.most_common())}"
                for label, counts in listed.items()
            ),
            *([f"took too long: {', '.join(map(str, self.given_up))}"] if self.given_up else []),
            *self.contradicted,
        ]


def one(drawing: tuple[int, str]) -> Judged:
    """Returns what becomes of the system that a source draws from a seed."""
    z3.z3.Z3_DEBUG = False  # checks of the types of arguments
    seed, source = drawing
    return judge(Random(seed), source=SOURCES[source])


def compare(seeds: range, jobs: int, source: str = SCALARS) -> Totals:
    """Compares the systems of some seeds."""
    totals, begun = Totals(), time.perf_counter()
    drawings = ((seed, source) for seed in seeds)
    with Status() as status, closing(map_in_workers(one, drawings, LONGEST, jobs)) as answers:
        for (seed, _), judged in answers:
            totals.add(seed, judged)
            status.show(
                f"{totals.systems:,} systems",
                f"{totals.claims:,} claims",
                f"{totals.proved:,} proved",
                f"{len(totals.contradicted)} contradicted",
            )
    totals.seconds = round(time.perf_counter() - begun, 1)
    return totals


@dataclass(frozen=True)
class Hunt:
    """Whether an error in the relation was found.

    Attributes:
        seed: of the system that shows it; None: no system did.
        systems: how many were tried.
        kinds: of the steps at which claims are aimed that are proved and violated.
    """

    seed: int | None
    systems: int
    kinds: str = ""


# The seed of a system, its source, and the errors that are looked for in it
Wanted: TypeAlias = tuple[int, str, Sequence[str]]
Found: TypeAlias = dict[str, str]  # errors that a system shows: kinds of steps whose claims are proved and violated


def shown(wanted: Wanted) -> tuple[Found, float]:
    """Returns which errors in the relation a system shows, and the seconds that it takes."""
    z3.z3.Z3_DEBUG = False
    errors, began = Found(), time.process_time()
    seed, source, names = wanted
    rng = Random(seed)
    drawn = draw(rng, SOURCES[source])
    state = rng.getstate()
    for name in names if not isinstance(drawn, str) else ():
        rng.setstate(state)
        with ERRORS[name].planted():
            judged = compared(drawn, rng, every=False)
        if judged.contradicted:
            errors[name] = ", ".join(sorted({violation.kind for violation in judged.contradicted.values()}))
    return errors, time.process_time() - began


@dataclass
class Hunted:
    """What became of errors.

    Attributes:
        each: by name.
        given_up: seeds of systems that took longer than `LONGEST`.
        cpu_seconds: of the processes.
    """

    each: dict[str, Hunt]
    given_up: list[int] = field(default_factory=list)
    cpu_seconds: float = 0.0

    @property
    def missed(self) -> list[str]:
        return sorted(name for name, hunt in self.each.items() if hunt.seed is None)


def source_of(error: str) -> str:
    """The source of the systems that have the words in which an error was made."""
    class_ = ERRORS[error].class_
    return class_ if class_ in SOURCES else SCALARS


def hunts(seeds: range, jobs: int, names: Sequence[str], tell: bool) -> Hunted:
    """Looks for each of some errors until a system shows it."""
    result = Hunted({})
    errors = result.each

    def wanted() -> Iterator[Wanted]:
        for seed in seeds:
            for source in SOURCES:
                left = [n for n in names if source_of(n) == source and n not in errors]
                if left:  # what is found then is looked for no longer
                    yield seed, source, left

    with Status() as status, closing(map_in_workers(shown, wanted(), LONGEST, jobs)) as answers:
        for n, ((seed, *_), answer) in enumerate(answers, 1):
            if answer is None:
                result.given_up.append(seed)
                continue
            shows, seconds = answer
            result.cpu_seconds += seconds
            for name, kinds in shows.items():
                if tell:
                    print(f"{name}: seed {seed}, system {seeds.index(seed) + 1}, {kinds}", flush=True)
                if name not in errors or seed < (errors[name].seed or 0):
                    errors[name] = Hunt(seed, seeds.index(seed) + 1, kinds)
            status.show(f"{n:,} systems", f"{len(errors)} of {len(names)} errors found")
    errors |= {name: Hunt(None, len(seeds)) for name in names if name not in errors}
    return result


@click.command()
@click.option("--systems", default=100, help="How many are drawn; with --errors, at most for each.", show_default=True)
@click.option("--seed", default=0, help="The first seed.", show_default=True)
@click.option("--jobs", default=2, help="Processes.", show_default=True)
@click.option("--source", type=click.Choice(list(SOURCES)), default=SCALARS, help="Of the systems.", show_default=True)
@click.option("--errors", is_flag=True, help="Seed errors into the relation: after how many systems is each found?")
@click.option("--only", multiple=True, type=click.Choice(list(ERRORS)), help="With --errors: this one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(systems: int, seed: int, jobs: int, source: str, errors: bool, only: tuple[str, ...], as_json: bool) -> None:
    """Compares the prover with the explorer on systems made by chance."""
    seeds = range(seed, seed + systems)
    if errors:
        hunted = hunts(seeds, jobs, only or list(ERRORS), not as_json)
        caught = len(hunted.each) - len(hunted.missed)
        if as_json:
            print(json.dumps({"errors": len(hunted.each), "found": caught, "missed": hunted.missed, **asdict(hunted)}))
        else:
            print(
                f"{caught} of {len(hunted.each)} errors found, {hunted.cpu_seconds:,.0f} s of processors; "
                f"not found: {', '.join(hunted.missed) or 'none'}; systems that took too long: "
                f"{', '.join(map(str, hunted.given_up)) or 'none'}"
            )
        sys.exit(bool(hunted.missed))
    totals = compare(seeds, jobs, source)
    print(json.dumps(totals.as_json, indent=2) if as_json else "\n".join(totals.lines))
    sys.exit(bool(totals.contradicted))


if __name__ == "__main__":
    main()
