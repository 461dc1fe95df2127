"""The lease under ever larger budgets of faults, for as long as there is time and memory.

``python -m tests.benchmarks.deep [--hours 1] [--memory 16]`` writes reports/deep.md, anew after each budget.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from leasehold.checker.crash.analysis import deepen
from leasehold.impl.words import counted
from leasehold.reports.crash_terminal import Completed
from leasehold.spec import load
from tests.benchmarks import page
from tests.benchmarks.measure import say

REPORT = page.PAGE.parent / "deep.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--memory", type=float, default=16.0, help="GB that each search may hold")
    asked = parser.parse_args()
    settings = load("lease").faults.settings
    budgets: list[Completed] = []
    for report in deepen(load("lease", settings), asked.hours * 3600, memory=int(asked.memory * 1e9)):
        budgets.append(Completed.of(report))
        say(f"{budgets[-1].faults}: {budgets[-1].states:,} states, {budgets[-1].seconds:,.0f} s, {budgets[-1].verdict}")
        limits = f"--hours {asked.hours:g} --memory {asked.memory:g}G"
        REPORT.write_text(_page(limits, settings, budgets), encoding="utf-8")
        del report  # its graph need not stay beside the next one


def _page(limits: str, settings: Mapping[str, str], budgets: Sequence[Completed]) -> str:
    constants = ", ".join(f"`{name}={value}`" for name, value in settings.items())
    whole = counted(sum(b.complete for b in budgets), "budget")
    most = max(b.states for b in budgets)
    enough = next(n for n, b in enumerate(budgets) if b.states == most)
    rest = f" After `{budgets[enough].faults}` more faults led to no more states." if enough < len(budgets) - 1 else ""
    lines = [
        "# The lease under ever larger budgets of faults",
        "",
        f"What `leasehold crash deep lease {limits}` finds, with {constants}: one fault more at",
        "a time. Of each budget every state is visited, every property decided, and whether each fair run comes back",
        f"to a state that is reached without faults. Finished: {whole}.{rest}",
        "`python -m tests.benchmarks.deep` repeats it.",
        "",
        "| faults | states | seconds | verdict |",
        "|---|---:|---:|---|",
        *(f"| `{b.faults}` | {b.states:,} | {b.seconds:,.0f} | {b.verdict} |" for b in budgets),
        "",
        page.machine(),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
