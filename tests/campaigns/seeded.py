"""Seeded bugs of the running system (planted/running.yaml): cases of the recovery checker are played until one fails.

``python -m tests.campaigns.seeded [BUG ...] [--jobs N] [--json] [--page reports/seeded_bugs.md]`` tries the named bugs,
or all; it exits with 1 when one survives.

Theory of operation. The cases are those of the campaign, in an order that is shuffled and always the same, so that
cases of all kinds come early. A bug is planted in the process that plays, for the case as well as for its reference,
and taken out again when it is caught. A bug that no case catches *survives*. Bugs of what
any system does are tried in the campaigns of several systems. Where no campaign has such a fault, a test has to fail.
The check `step` is left out: it finds what breaks the specification before another check has to see what follows from
that, and it has tests of its own (tests/checker/recovery/test_conformance.py).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from leasehold.checker.recovery.campaign import Finding, in_processes
from leasehold.checker.recovery.cases import campaign
from leasehold.checker.recovery.cases.campaign import RecoveryCase, scripts_of
from leasehold.checker.recovery.cases.counterexample import Counterexample
from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.checker.recovery.cases.steps import Script
from leasehold.spec import System, load
from tests.planted.judge import ROOT, ended
from tests.planted.table import TESTS, Mistake, UnknownMistake, bugs, named

SEED = 1  # of the order; any other would do
SYSTEMS: Mapping[str, str | Path] = {
    "lease": "lease",
    "pipe": ROOT / "tests/impl/actor/pipe",
    "register": ROOT / "examples/register",
    "ring": ROOT / "tests/impl/actor/fixed_ring",
    "three_phase_commit_termination": "three_phase_commit_termination",
}


@dataclass(frozen=True, slots=True)
class Caught:
    """What became of a bug.

    Attributes:
        bug, class_: its name and class.
        system: in whose campaign it was tried (SYSTEMS); `tests`: a test was run with it.
        cases: how many were played, the one that caught it among them.
        case: the name of that one; empty where the bug has survived.
        checks: what caught it there (the runner's `checks`; or `test`), in the order in which it was found.
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
    system: str = "lease"

    @property
    def trial(self) -> str:
        """The name of the bug, and the system where it is not the lease."""
        return self.bug if self.system == "lease" else f"{self.bug}@{self.system}"

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
    both, once = (False, True), (False,)
    return (
        RecoveryCase(shuffled[n], lost)
        for n in ranked
        for lost in (once if isinstance(shuffled[n], Counterexample) else both)
    )


def catch(bug: Mistake, scripts: Sequence[Script], runner: CaseRunner, most: int | None = None) -> Caught:
    """Plays cases with a bug until one fails.

    Args:
        bug: it is planted in this process meanwhile.
        scripts: of all cases.
        runner: runs them; its last reference is dropped.
        most: so many cases are enough.
    """
    begun, played = time.perf_counter(), 0
    runner.close()
    with bug.planted():
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


def _play(runner: CaseRunner, case: RecoveryCase) -> list[Finding]:
    try:
        return [f for f in runner.play(case.script, case.lost).findings if f.check != "step"]
    except Exception as error:  # a bug may spoil even the end of a case
        return [Finding("error", f"{type(error).__name__}: {error}")]


def seeded(
    system: System,
    names: Sequence[str] | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
    *,
    most: int | None = None,
    scripts: Sequence[Script] | None = None,
) -> list[Caught]:
    """Tries seeded bugs; the answer is in the order of the bugs.

    Args:
        system: with the constants by which it is explored.
        names: of the bugs; all where left out.
        jobs: processes; as many as there are processors where left out.
        watch: hears how far it is.
        most: cases for each bug; all where left out.
        scripts: of the system, where they are there already.

    Raises:
        UnknownMistake: a name is none of a bug.
    """
    wanted = [bug.name for bug in bugs() if "lease" in bug.systems] if names is None else list(names)
    wanted = [named(name).name for name in wanted]
    scripts = list(scripts) if scripts is not None else scripts_of(system)[1]
    results: dict[str, Caught] = {}
    # Processes of their own even for one job: what a bug leaves behind stays there.
    jobs = min(jobs or os.cpu_count() or 1, len(wanted) or 1)
    for caught in in_processes(partial(_catch, most), wanted, jobs, _begin, (system, scripts)):
        results[caught.bug] = caught
        if watch is not None:
            watch(len(results), len(wanted), caught)
    return [results[name] for name in wanted]


_scripts: Sequence[Script] = ()


def _begin(system: System, scripts: Sequence[Script]) -> None:
    global _scripts
    campaign.begin(system)
    _scripts = scripts


def _catch(most: int | None, name: str) -> Caught:
    return catch(named(name), _scripts, campaign.runner, most)


# Other systems, and tests


def elsewhere(names: Sequence[str] | None = None, jobs: int | None = None, watch: Watch | None = None) -> list[Caught]:
    """Tries bugs in the campaigns of the other systems, and those that tests catch; arguments as for `seeded`."""
    wanted = [bug for bug in bugs() if names is None or bug.name in names]
    work = [(system, [bug.name for bug in wanted if system in bug.systems]) for system in SYSTEMS if system != "lease"]
    work += [(TESTS, [bug.name]) for bug in wanted if bug.tests]
    work = [(system, some) for system, some in work if some]
    results: list[Caught] = []
    total = sum(len(some) for _, some in work)
    for caught in in_processes(_tried, work, min(jobs or os.cpu_count() or 1, len(work) or 1)):
        results += caught
        if watch is not None:
            watch(len(results), total, caught[-1])
    place = {(system, name): n for n, (system, name) in enumerate((s, name) for s, some in work for name in some)}
    return sorted(results, key=lambda caught: place[caught.system, caught.bug])


def _tried(work: tuple[str, Sequence[str]]) -> list[Caught]:
    system, names = work
    if system == TESTS:
        return [_tested(named(name)) for name in names]
    return list(tried(system, names))


def tried(system: str, names: Sequence[str]) -> Iterator[Caught]:
    """Tries bugs in the campaign of a system (SYSTEMS), each with a runner that was made with it."""
    plain = load(SYSTEMS[system])
    model = load(SYSTEMS[system], plain.faults.settings)
    explored = scripts_of(model)
    for name in names:
        with named(name).planted():
            runner = campaign.runner_of(model, *explored.known)
        yield replace(catch(named(name), explored.scripts, runner), system=system)


def _tested(bug: Mistake) -> Caught:
    """Runs the test of a bug with it."""
    begun = time.perf_counter()
    (test,), outcomes = bug.tests, ended(bug.tests, planted=bug.name)
    caught = Caught(bug.name, bug.class_, 1, system=TESTS, seconds=time.perf_counter() - begun)
    reasons = [one.words for one in outcomes if one.how != "passed"] or ["it does not end"] * (not outcomes)
    return replace(caught, case=test, checks=("test",), words=reasons[0]) if reasons else caught


def survivors(results: Sequence[Caught]) -> list[str]:
    """The bugs that nothing has caught."""
    caught = {one.bug for one in results if not one.survived}
    return [name for name in dict.fromkeys(one.bug for one in results) if name not in caught]


# What was found, for programs and as a page


def seeded_json(system: System, results: Sequence[Caught]) -> dict[str, Any]:
    return {
        "system": system.name,
        "spec_digest": system.digest,
        "bugs": len({c.bug for c in results}),
        "caught": len({c.bug for c in results}) - len(survivors(results)),
        "survivors": survivors(results),
        "trials": len(results),
        "seconds": round(sum(c.seconds for c in results), 3),
        "seeded": [
            {
                "bug": c.bug,
                "system": c.system,
                "class": c.class_,
                "doc": named(c.bug).doc,
                "source": named(c.bug).source,
                "cases": c.cases,
                "case": c.case or None,
                "checks": list(c.checks),
                "words": c.words,
            }
            for c in results
        ],
    }


def seeded_markdown(system: System, results: Sequence[Caught]) -> str:
    """Nothing in the page differs between two runs."""
    count = len({c.bug for c in results})
    lines = [
        "# Seeded bugs in the running system",
        "",
        "Each is planted into the real implementation, or into the simulated world, and the cases of the",
        "[recovery checker](../docs/reference/recovery.md) are played, in an order that is shuffled and always the",
        "same, until one fails. `python -m tests.campaigns.seeded --page reports/seeded_bugs.md` writes this page.",
        "",
        f"**{count - len(survivors(results))} of {count} are caught.** Specification `{system.digest[:12]}`.",
        "",
        "## In the lease",
        "",
        _HEAD,
        _RULE,
        *(_row(c) for c in results if c.system == "lease"),
        "",
        "## In other systems",
        "",
        "Bugs of what any system does, and of what the lease has not: sessions (`pipe`), machines that are there from",
        "the start (`pipe`, `ring`, `register`), memberships. A bug may change nothing in a small system; another one",
        "has to catch it.",
        "",
        "| bug | system | cases | caught by | in the case |",
        "|---|---|---|---|---|",
    ]
    for c in (c for c in results if c.system not in ("lease", TESTS)):
        lines.append(f"| {c.bug} | {c.system} | {c.cases:,} | {_checks(c)} | {_case(c)} |")
    lines += ["", "## By a test", "", "No actor of a campaign lies, hangs, or has other settings after a restart.", ""]
    lines += ["| bug | the test that fails | how |", "|---|---|---|"]
    lines += [
        f"| {c.bug} | {_case(c)} | {'fails' if c.checks else '**passes**'} |" for c in results if c.system == TESTS
    ]
    others = dict.fromkeys(c.bug for c in results if "lease" not in named(c.bug).systems)
    lines += ["", "## What is wrong", "", "| bug | class | what is wrong | source |", "|---|---|---|---|"]
    lines += [f"| {b.name} | {b.class_} | {b.doc} | {b.source} |" for b in map(named, others)]
    return "\n".join(lines) + "\n"


_HEAD = "| bug | class | what is wrong | source | cases | caught by | in the case |"
_RULE = "|---|---|---|---|---|---|---|"


def _row(c: Caught) -> str:
    bug = named(c.bug)
    return f"| {c.bug} | {c.class_} | {bug.doc} | {bug.source} | {c.cases:,} | {_checks(c)} | {_case(c)} |"


def _checks(c: Caught) -> str:
    return ", ".join(c.checks) or ("**nothing**" if c.system == "lease" else "nothing here")


def _case(c: Caught) -> str:
    return f"`{c.case}`" if c.case else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bugs", metavar="BUG", nargs="*", help="the bugs to try; all where left out")
    parser.add_argument("--jobs", type=int, help="processes; as many as there are processors where left out")
    parser.add_argument("--others", action="store_true", help="leave out the campaign of the lease")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--page", type=Path, help="write the result to this file, as Markdown")
    asked = parser.parse_args()
    plain = load("lease")
    system = load("lease", plain.faults.settings)

    def show(tried: int, total: int, last: Caught) -> None:
        print(f"{tried} of {total}  {last.trial}: {', '.join(last.checks) or 'survives'}", file=sys.stderr, flush=True)

    try:
        chosen = [named(name).name for name in asked.bugs] or None
        results = elsewhere(chosen, asked.jobs, show)
        if not asked.others:
            own = None if chosen is None else [name for name in chosen if "lease" in named(name).systems]
            results = [*seeded(system, own, asked.jobs, show), *results]
    except UnknownMistake as error:
        parser.error(str(error))
    if asked.page is not None:
        asked.page.write_text(seeded_markdown(system, results), encoding="utf-8")
    count = len({c.bug for c in results})
    left = [name for name in survivors(results) if not (asked.others and "lease" in named(name).systems)]
    if asked.json:
        print(json.dumps(seeded_json(system, results), indent=2))
    else:
        print(f"{count - len(left)} of {count} seeded bugs are caught", *left)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
