"""Seeded bugs of the running system (tests/seeded_bugs): cases of the recovery checker are played until one fails.

``python -m tests.campaigns.seeded [BUG ...] [--jobs N] [--json] [--page reports/seeded_bugs.md]`` tries the named bugs,
or all; it exits with 1 when one survives.

Theory of operation. The cases are those of the campaign, in an order that is shuffled and always the same, so that
cases of all kinds come early. A bug is planted in the process that plays, for the case as well as for its reference,
and taken out again when it is caught. A bug that no case catches *survives*.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from leasehold.checker.recovery.campaign import Finding, spread
from leasehold.checker.recovery.cases import campaign
from leasehold.checker.recovery.cases.campaign import RecoveryCase, scripts_of
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.spec import System, load
from tests.seeded_bugs import Bug, UnknownBug, bugs, named

SEED = 1  # of the order; any other would do


@dataclass(frozen=True, slots=True)
class Caught:
    """What became of a bug.

    Attributes:
        bug, class_: its name and class.
        cases: how many were played, the one that caught it among them.
        case: the name of that one; empty where the bug has survived.
        checks: what caught it there (lease_run.py, CHECKS), in the order in which it was found.
        words: what the first said.
        seconds: how long it took.
    """

    bug: str
    class_: str
    cases: int
    case: str = ""
    checks: tuple[str, ...] = ()
    words: str = ""
    seconds: float = 0.0

    @property
    def survived(self) -> bool:
        return not self.case


Watch = Callable[[int, int, Caught], None]  # how many bugs were tried, of how many, and the last of them


def in_order(scripts: Sequence[Script], seed: int = SEED) -> Iterator[RecoveryCase]:
    """The cases of scripts, shuffled; of each point one comes before a second one does."""
    shuffled = list(scripts)
    random.Random(seed).shuffle(shuffled)
    seen: Counter[str] = Counter()
    ranks = []
    for script in shuffled:
        seen[script.point] += 1
        ranks.append(seen[script.point])
    ranked = sorted(range(len(shuffled)), key=ranks.__getitem__)
    return (RecoveryCase(shuffled[n], lost) for n in ranked for lost in (False, True))


def catch(bug: Bug, scripts: Sequence[Script], runner: LeaseCaseRunner, most: int | None = None) -> Caught:
    """Plays cases with a bug until one fails.

    Args:
        bug: it is planted in this process meanwhile.
        scripts: of all cases.
        runner: runs them; its last reference is dropped.
        most: so many cases are enough.
    """
    begun, played = time.perf_counter(), 0
    runner.close()
    with bug.plant():
        try:
            for case in in_order(scripts):
                if most is not None and played >= most:
                    break
                played += 1
                findings = _play(runner, case)
                if findings:
                    checks = tuple(dict.fromkeys(f.check for f in findings))
                    seconds = time.perf_counter() - begun
                    return Caught(bug.name, bug.class_, played, case.name, checks, findings[0].words, seconds)
        finally:
            runner.close()
    return Caught(bug.name, bug.class_, played, seconds=time.perf_counter() - begun)


def _play(runner: LeaseCaseRunner, case: RecoveryCase) -> list[Finding]:
    try:
        return runner.play(case.script, case.lost).findings
    except Exception as error:  # a bug may spoil even the end of a case
        return [Finding("error", f"{type(error).__name__}: {error}")]


def seeded(
    system: System, names: Sequence[str] | None = None, jobs: int | None = None, watch: Watch | None = None,
    *, most: int | None = None, scripts: Sequence[Script] | None = None,
) -> list[Caught]:  # fmt: skip
    """Tries seeded bugs; the answer is in the order of the bugs.

    Args:
        system: with the constants by which it is explored.
        names: of the bugs; all where left out.
        jobs: processes; as many as there are processors where left out.
        watch: hears how far it is.
        most: cases for each bug; all where left out.
        scripts: of the system, where they are there already.

    Raises:
        UnknownBug: a name is none of a bug.
    """
    wanted = [bug.name for bug in bugs()] if names is None else [named(name).name for name in names]
    scripts = list(scripts) if scripts is not None else scripts_of(system)[1]
    found: dict[str, Caught] = {}
    # Processes of their own even for one job: what a bug leaves behind stays there.
    jobs = min(jobs or os.cpu_count() or 1, len(wanted) or 1)
    for caught in spread(partial(_catch, most), wanted, jobs, _begin, (system, scripts)):
        found[caught.bug] = caught
        if watch is not None:
            watch(len(found), len(wanted), caught)
    return [found[name] for name in wanted]


_scripts: Sequence[Script] = ()


def _begin(system: System, scripts: Sequence[Script]) -> None:
    global _scripts
    campaign.begin(system)
    _scripts = scripts


def _catch(most: int | None, name: str) -> Caught:
    return catch(named(name), _scripts, campaign.runner, most)


# What was found, for programs and as a page


def seeded_json(system: System, found: Sequence[Caught]) -> dict[str, Any]:
    return {
        "system": system.name,
        "spec_digest": system.digest,
        "bugs": len(found),
        "caught": sum(not c.survived for c in found),
        "survivors": [c.bug for c in found if c.survived],
        "seconds": round(sum(c.seconds for c in found), 3),
        "seeded": [
            {
                "bug": c.bug, "class": c.class_, "doc": named(c.bug).doc, "source": named(c.bug).source,
                "cases": c.cases, "case": c.case or None, "checks": list(c.checks), "words": c.words,
            }
            for c in found
        ],
    }  # fmt: skip


def seeded_markdown(system: System, found: Sequence[Caught]) -> str:
    """Nothing in the page differs between two runs."""
    caught = sum(not c.survived for c in found)
    lines = [
        "# Seeded bugs in the running system", "",
        "Each is planted into the real implementation, or into the simulated world, and the cases of the",
        "[recovery checker](../docs/reference/recovery.md) are played, in an order that is shuffled and always the",
        "same, until one fails. `python -m tests.campaigns.seeded --page reports/seeded_bugs.md` writes this page.", "",
        f"**{caught} of {len(found)} are caught.** Specification `{system.digest[:12]}`.", "",
        "| bug | class | what is wrong | source | cases | caught by | in the case |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for c in found:
        bug = named(c.bug)
        checks = ", ".join(c.checks) or "**nothing**"
        case = f"`{c.case}`" if c.case else ""
        lines.append(f"| {c.bug} | {c.class_} | {bug.doc} | {bug.source} | {c.cases:,} | {checks} | {case} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bugs", metavar="BUG", nargs="*", help="the bugs to try; all where left out")
    parser.add_argument("--jobs", type=int, help="processes; as many as there are processors where left out")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--page", type=Path, help="write the result to this file, as Markdown")
    asked = parser.parse_args()
    plain = load("lease")
    system = load("lease", plain.faults.settings)

    def show(tried: int, total: int, last: Caught) -> None:
        print(f"{tried} of {total}  {last.bug}: {', '.join(last.checks) or 'survives'}", file=sys.stderr, flush=True)

    try:
        found = seeded(system, asked.bugs or None, asked.jobs, show)
    except UnknownBug as error:
        parser.error(str(error))
    if asked.page is not None:
        asked.page.write_text(seeded_markdown(system, found), encoding="utf-8")
    survivors = [c.bug for c in found if c.survived]
    if asked.json:
        print(json.dumps(seeded_json(system, found), indent=2))
    else:
        print(f"{len(found) - len(survivors)} of {len(found)} seeded bugs are caught", *survivors)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
