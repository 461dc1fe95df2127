"""`python -m tests.campaigns.mutants`: mistakes are made in the implementation, and the tests have to find them.

Of each package that is named, or of all, so many mutants are drawn and judged (tests/mutation). Those that no test can
find, as nothing that anybody promises would be different, are listed with the reason in
tests/mutation/equivalent.yaml, and are not counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import click
import yaml

from tests.mutation.judging import Coverage, Judged, MutantCopy
from tests.mutation.operators import Mutant, mutants
from tests.planted.judge import ROOT, in_copies

EQUIVALENT = ROOT / "tests" / "mutation" / "equivalent.yaml"
PACKAGES = (
    "impl.core",
    "impl.compiler",
    "impl.actor",
    "impl.store",
    "impl.transport",
    "impl.identity",
    "impl.policy",
    "impl.handlers",
    "impl.migrate",
    "impl.lease",
    "impl.server",
    "impl.observe",
    "impl.events",
    "checker.explore",
    "checker.prove",
    "checker.export",
    "checker.crash",
    "checker.mutation",
    "checker.host",
    "checker.recovery",
    "checker.history",
    "checker.verify",
    "checker.conform",
    "checker.explain",
    "faults",
    "cli",
    "reports",
    "spec",
)
TESTS = ("tests",)


@dataclass
class Score:
    """What became of the mutants of a package.

    Attributes:
        all: how many there are, from which those that were judged are drawn.
        equivalent: the reasons of those that no test can find.
    """

    package: str
    all: int
    killed: list[Judged] = field(default_factory=list)
    survivors: list[Judged] = field(default_factory=list)
    equivalent: list[tuple[Mutant, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def score(self) -> float:
        judged = len(self.killed) + len(self.survivors)
        return len(self.killed) / judged if judged else 1.0

    def as_json(self) -> dict[str, Any]:
        return {
            "package": self.package,
            "all": self.all,
            "mutants": len(self.killed) + len(self.survivors),
            "killed": len(self.killed),
            "score": round(self.score, 4),
            "seconds": round(self.seconds, 1),
            "found": [_shown(judged.mutant) | {"test": judged.killed_by} for judged in sorted(self.killed, key=_place)],
            "survivors": [_shown(judged.mutant) | {"tests": judged.tests} for judged in self.survivors],
            "equivalent": [_shown(mutant) | {"reason": reason} for mutant, reason in self.equivalent],
        }


def _place(judged: Judged) -> Mutant:
    return judged.mutant


def _shown(mutant: Mutant) -> dict[str, Any]:
    return {
        "path": mutant.path,
        "line": mutant.line,
        "function": mutant.function,
        "operator": mutant.operator,
        "old": mutant.old,
        "new": mutant.new,
    }


def of_package(package: str) -> list[Mutant]:
    """All mutants of a package, or of one module.

    Raises:
        click.UsageError: there is no such package.
    """
    place = ROOT / package.replace(".", "/")
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    if not all(file.is_file() for file in files) or not files:
        raise click.UsageError(f"there is no package {package}; there are {', '.join(PACKAGES)}")
    return [mutant for file in files for mutant in mutants(str(file.relative_to(ROOT)), file.read_bytes())]


class Reasons:
    """The mutants that no test can find, and why: by the place and words of the mistake, not by its line."""

    def __init__(self) -> None:
        self._rows: list[dict[str, str]] = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or []

    def of(self, mutant: Mutant) -> str | None:
        for row in self._rows:
            asked = {name: value for name, value in row.items() if name != "reason"}
            if all(_text(getattr(mutant, name)) == _text(value) for name, value in asked.items()):
                return row["reason"]
        return None


def _text(code: str) -> str:
    return " ".join(code.split())


def page(results: dict[str, Any]) -> str:
    """The report, as Markdown."""
    lines = [
        "# Mutants of the implementation",
        "",
        "Each mutant has one mistake of a programmer ([operators](../tests/mutation/operators.py)): a comparison at",
        "its boundary, a check, a send or an fsync that is left out, two statements in the other order, a lock that is",
        "not taken, an exception that is not caught, an element that a key lacks. It is tried with the tests that run",
        "its lines. `python -m tests.campaigns.mutants --results reports/implementation_mutants.json` judges them and",
        "writes this page. Each run of all tests tries a few of those that were found again.",
        "",
        "| package | mutants there are | judged | killed | score | no test can find | seed |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    packages = list(results["packages"].values())
    for row in packages:
        lines.append(
            f"| {row['package']} | {row['all']:,} | {row['mutants']} | {row['killed']} | {row['score']:.1%} "
            f"| {len(row['equivalent'])} | {row['seed']} |"
        )
    lines += ["", "Those that were judged are drawn by chance, with the seed of their row.", "", "## Survivors", ""]
    lines += [f"- {_in_words(one)}" for row in packages for one in row["survivors"]]
    lines += ["", "## No test can find", ""]
    lines += [f"- {_in_words(one)}: {one['reason']}" for row in packages for one in row["equivalent"]]
    return "\n".join(lines) + "\n"


def _in_words(one: dict[str, Any]) -> str:
    old, new = (_text(code).replace("`", "'") for code in (one["old"], one["new"]))
    return f"{one['path']}, {one['function'] or 'the module'}, {one['operator']}: `{old[:100]}` → `{new[:100]}`"


def _keep(results: Path, seed: int, scores: Sequence[Score], again: bool) -> None:
    """Renews the results of some packages, and the page of all; `again`: what other mutants were stays as it was."""
    before = json.loads(results.read_text(encoding="utf-8"))["packages"] if results.exists() else {}
    new = {score.package: {**score.as_json(), "seed": seed} for score in scores}
    if again:
        new = {package: _merged(before[package], row) for package, row in new.items() if package in before}
    packages = {**before, **new}
    kept = {"packages": {name: packages[name] for name in (*PACKAGES, *packages) if name in packages}}
    results.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    results.with_suffix(".md").write_text(page(kept), encoding="utf-8")


def _merged(before: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The row of a package of which the survivors were tried once more; those whose code has gone are no more."""
    tried = [_known(one) for place in ("found", "survivors", "equivalent") for one in new[place]]
    rows = {p: [*(one for one in before[p] if _known(one) not in tried), *new[p]] for p in ("found", "equivalent")}
    rows["survivors"] = new["survivors"]
    killed, judged = len(rows["found"]), len(rows["found"]) + len(rows["survivors"])
    score = round(killed / judged, 4) if judged else 1.0
    return {**before, "mutants": judged, "killed": killed, "score": score, **rows}


def _known(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what a mutant is known by, wherever its line is."""
    return tuple(row[name] for name in ("path", "function", "operator", "old", "new"))


def _drawn(package: str, most: int, seed: int, only: Iterable[dict[str, Any]] | None) -> tuple[int, list[Mutant]]:
    possible = of_package(package)
    if only is not None:
        alike = ((row["line"], [m for m in possible if _known(_shown(m)) == _known(row)]) for row in only)
        return len(possible), [min(those, key=lambda m: abs(m.line - line)) for line, those in alike if those]
    return len(possible), possible if len(possible) <= most else Random(f"{seed} {package}").sample(possible, most)


@click.command(help=(__doc__ or "").partition("\n\n")[2])
@click.option("--package", "packages", multiple=True, help="a package or module, as impl.core; all where left out")
@click.option("--most", default=100, show_default=True, help="mutants of each package")
@click.option("--seed", default=1, show_default=True)
@click.option("--jobs", default=2, show_default=True)
@click.option("--tests", multiple=True, help="files and folders whose tests are tried; all where left out")
@click.option(
    "--marks", default="not slow", show_default=True, help="of the tests that are measured, as pytest -m has it"
)
@click.option("--coverage", "folder", type=click.Path(path_type=Path), help="data of an earlier run are used, or made")
@click.option("--again", type=click.Path(path_type=Path, exists=True), help="only the survivors in these results")
@click.option("--json", "as_json", is_flag=True)
@click.option("--results", type=click.Path(path_type=Path), help="renew this JSON, and the page beside it")
def main(
    packages: tuple[str, ...],
    most: int,
    seed: int,
    jobs: int,
    tests: tuple[str, ...],
    marks: str,
    folder: Path | None,
    again: Path | None,
    as_json: bool,
    results: Path | None,
) -> None:
    folder = folder or ROOT / "build" / "mutants"
    earlier = json.loads(again.read_text(encoding="utf-8"))["packages"] if again else None
    if earlier is not None and not packages:
        packages = tuple(earlier)
    wanted = {
        package: _drawn(
            package,
            most,
            seed,
            None if earlier is None else earlier[package]["survivors"],
        )
        for package in packages or PACKAGES
    }
    places = sorted({package.replace(".", "/") for package in PACKAGES})
    known = (folder / "durations").is_file()
    measured = Coverage(folder) if known else Coverage.measure(folder, tests or TESTS, places, marks)
    measured.forget_missing(tests or TESTS)
    reasons, scores = Reasons(), []
    for package, (count, drawn) in wanted.items():
        score, began = Score(package, count), time.monotonic()
        explained = {mutant: reasons.of(mutant) for mutant in drawn}
        score.equivalent = [(mutant, reason) for mutant, reason in explained.items() if reason is not None]
        judge = partial(MutantCopy.judge, measured=measured)
        tried = [mutant for mutant, reason in explained.items() if reason is None]
        for one in in_copies(judge, tried, jobs, MutantCopy):
            (score.killed if one.killed_by else score.survivors).append(one)
            say = f"killed by {one.killed_by}" if one.killed_by else f"SURVIVES {one.tests} tests: {one.mutant.new}"
            number = len(score.killed) + len(score.survivors)
            click.echo(f"{package} {number} of {len(drawn)}  {one.mutant.name}: {say}", err=True)
        score.survivors.sort(key=lambda j: j.mutant)
        score.seconds = time.monotonic() - began
        scores.append(score)
        if results is not None:  # after each package, as all take hours
            _keep(results, seed, scores, earlier is not None)
    if as_json:
        click.echo(json.dumps({"seed": seed, "packages": [score.as_json() for score in scores]}, indent=2))
    else:
        for score in scores:
            click.echo(f"{score.package}: {score.score:.1%} of {len(score.killed) + len(score.survivors)} killed")
    sys.exit(1 if any(score.score < 0.9 for score in scores) else 0)


if __name__ == "__main__":
    main()
