"""Runs benchmarks and writes their sections of reports/benchmarks.md: ``python -m tests.benchmarks [NAME...]``.

A benchmark is a module of this folder with a function `benchmark(quick) -> Section`. With no name all of `ALL` run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks import page
from tests.benchmarks.measure import Missing, Section

ALL = (
    "exploring",
    "engines",
    "dispatch",
    "durable",
    "durable_dbos",
    "recovery",
    "size",
    "idle",
    "calendars",
    "end_to_end",
    "containers",
    "verify",
    "verify_long",
    "verify_units",
    "watched",
    "discovery",
    "ring",
)


def measure(name: str, quick: bool) -> Section:
    """Runs a benchmark.

    Raises:
        Missing: it cannot run here.
    """
    section: Section = importlib.import_module(f"tests.benchmarks.{name}").benchmark(quick)
    return section


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measures, and writes the figures.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which; left out: {', '.join(ALL)}")
    parser.add_argument("--quick", action="store_true", help="tiny runs, to see that they work; writes no page")
    parser.add_argument("--json", action="store_true", help="prints the figures as JSON instead of Markdown")
    given = parser.parse_args()
    there = {path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef benchmark(" in path.read_text()}
    for name in given.names:
        if name not in there:
            parser.error(f"there is no benchmark {name[:60]!r}; there are {', '.join(sorted(there))}")
    logging.disable(logging.WARNING)  # what libraries say while they are pressed is not asked for here
    for name in given.names or ALL:
        print(name, file=sys.stderr, flush=True)
        try:
            section = measure(name, given.quick)
        except Missing as missing:
            print(f"  not measured: {missing}", file=sys.stderr)
            continue
        print(json.dumps(page.plain(section)) if given.json else page.text(section, page.machine()), flush=True)
        if not given.quick:
            page.write(section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
