"""`python -m tests.durations REPORT...`: writes down which tests are long and which are slow, as runs have measured.

A report is what `pytest --durations=0 --durations-min=1` prints of a whole run, of the usual tests or of the long ones.
tests/long.txt and tests/slow.txt are read where tests are collected (conftest.py); a mark in a test's file comes first.
Of a test with parameters the cheapest always stays among those that `.ci/run` runs. Two cases are mostly asked for the
difference between them, so neither is slow that takes less than a minute. A test that no report has stays where it is.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent
LONG_SECONDS, SLOW_SECONDS = 1.5, 3.0  # on two cores with three workers
PAIR_SECONDS = 60.0  # the same as SLOW_SECONDS, of a test with two cases
MEASURED = re.compile(r"\s*([\d.]+)s (?:call|setup|teardown)\s+(tests/\S.*?)\s*")


def measured(reports: Iterable[Path]) -> Counter[str]:
    """The seconds of each test that is in a report; but of those whose parameters are paths of one machine."""
    seconds: Counter[str] = Counter()
    for report in reports:
        for line in report.read_text(encoding="utf-8").splitlines():
            match = MEASURED.fullmatch(line)
            if match is not None and "[/" not in match[2] and " at 0x" not in match[2]:
                seconds[match[2]] += float(match[1])
    return seconds


def cases_of(names: Iterable[str]) -> Counter[str]:
    """The number of cases of each test, by its name without one, in the files of some tests."""
    command = ["pytest", "-n", "0", "-m", "", "--collect-only", "-q", *sorted({n.partition("::")[0] for n in names})]
    found = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=True).stdout
    return Counter(line.partition("[")[0] for line in found.splitlines() if "::" in line)


def chosen(seconds: Counter[str], cases: Counter[str]) -> tuple[list[str], list[str]]:
    """The long tests and the slow ones, of those that were measured and have so many cases."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in seconds:
        alike[name.partition("[")[0]].append(name)
    costly = (sorted(names, key=lambda name: (seconds[name], name))[1:] for names in alike.values())
    least = {name: PAIR_SECONDS if cases[name.partition("[")[0]] <= 2 else SLOW_SECONDS for name in seconds}
    slow = {name for names in costly for name in names if seconds[name] >= least[name]}
    long = {name for name, spent in seconds.items() if spent >= LONG_SECONDS and name not in slow}
    return sorted(long), sorted(slow)


def main() -> None:
    seconds = measured(map(Path, sys.argv[1:]))
    cases = cases_of(name for name, spent in seconds.items() if spent >= SLOW_SECONDS)
    for name, slowest in zip(("long", "slow"), chosen(seconds, cases), strict=True):
        before = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        tests = sorted({*slowest, *(test for test in before if test not in seconds)})
        (FOLDER / f"{name}.txt").write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
        print(f"{len(tests)} tests are {name}")


if __name__ == "__main__":
    main()
