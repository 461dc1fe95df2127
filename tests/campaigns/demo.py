"""`python -m tests.campaigns.demo`: with each combination of flags of the demo, judge, `verify` and `conform` agree.

The judge looks at processes from outside; the other two know the events alone. It exits with 1 where any of them finds
something wrong. `--seeds 10` takes about an hour on two cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click

FLAGS = ("--crash", "--lose-units", "--reboot", "--partition")
COMBINATIONS = tuple(
    tuple(flag for flag, there in zip(FLAGS, chosen, strict=True) if there)
    for chosen in product((False, True), repeat=len(FLAGS))
)
LEASES = 3
ACTORS = ("tenant", "broker", "site")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What is said of one run; nothing is wrong where all are empty.

    Attributes:
        judge: violations that the demo's judge, and the verifier that follows it, have found.
        verify: violations and faults of `leasehold verify`.
        conform: findings of `leasehold conform`.
    """

    judge: tuple[str, ...]
    verify: tuple[str, ...]
    conform: tuple[str, ...]

    @property
    def agree(self) -> bool:
        return not (self.judge or self.verify or self.conform)


def run(flags: Sequence[str], seed: int, folder: Path, leases: int = LEASES) -> Verdicts:
    """One run of the demo in a folder that is empty, and what is said of it."""
    units = ("--units", "12") if "--reboot" in flags else ()
    arguments = ("--json", *flags, *units, "--leases", str(leases), "--seed", str(seed), "--dir", str(folder))
    summary = said("demo", *arguments)
    sources = [f"sqlite:{folder / actor}.db" for actor in ACTORS]
    trust = ("--trust", str(folder / "trust.yaml"), "--json")
    verified, conforms = (said(verb, *sources, *trust) for verb in ("verify", "conform"))
    findings = (*(v["property"] for v in verified["violations"]), *(f["reason"] for f in verified["faults"]))
    return Verdicts(tuple(summary["violations"]), findings, tuple(f["reason"] for f in conforms["findings"]))


def said(*arguments: str) -> dict[str, Any]:
    """The answer of a verb, in JSON."""
    command = [sys.executable, "-m", "leasehold", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ended.stdout:
        raise click.ClickException(f"{' '.join(command)}: {ended.stderr}")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=10, show_default=True)
@click.option("--first", type=int, default=1, show_default=True, help="The first seed.")
def main(seeds: int, first: int) -> None:
    """Run each combination of flags with each seed."""
    wrong = 0
    for flags in COMBINATIONS:
        for seed in range(first, first + seeds):
            with tempfile.TemporaryDirectory(prefix="leasehold-demo-") as folder:
                verdicts = run(flags, seed, Path(folder))
            wrong += not verdicts.agree
            click.echo(f"{' '.join(flags) or 'no flag'}, seed {seed}: {'agree' if verdicts.agree else verdicts}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
