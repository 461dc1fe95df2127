"""The report of tests/benchmarks/shirako.py as Markdown."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.benchmarks.shirako import Point

_HEAD = """\
# What leasing costs: the method of the Shirako paper

Irwin, Chase, Grit, Yumerefendi, Becker, Yocum: "Sharing Networked Resources with Brokered Leases" (USENIX 2006),
section 5.3, measures the overhead factor alpha: the milliseconds of real time that lease management takes for each tick
of the virtual clock. This is that experiment with Leasehold.

![overhead over the term and over the number of leases](shirako.svg)

## What is done

A site has N = {units} units. Every t ticks one service manager asks a broker for all of them, in l leases of N / l
units each, for a term of t ticks and without extensions; so in every term all units go from leases that end to new
ones (a *flip*). The virtual clock goes on as soon as the actors have nothing left to do at a time. A measured term is
its t ticks, at the last of which the old leases are closed and their units torn down, and the flip: demand, ticket,
redemption, setup and join of the new leases. After each flip it is checked that every unit is held by exactly one of
the new leases. The fastest of {repeats} terms counts, as other work of the machine only adds.

As in the paper, the handlers of units do nothing and take no time: what is measured is leasing itself. All three
actors run in one process on one thread, each with its own store and its own transport; every message is signed and
verified, and every step is committed before anybody sees it.

Unlike the paper:

- The clock does not tick while work is under way, so a flip falls on one tick, and alpha is the cost of a whole term
  over its ticks. The paper's actors poll what is under way on every tick; these are told, and a tick at which nothing
  is due costs little.
- The machine is shared with other work, so the picture shows the processor time of the process, user's and system's.
  The tables give real time too: beside what others took, it has the waits for the disk.
- Leases that are over are forgotten after {forget} ticks (600 unless one says otherwise), so that the shortest terms
  do not gather them. Forgetting is part of what is measured.
- The third setup, with HTTP, is one process on one machine as well: nothing here crosses a network.

The setups: stores in memory and a transport in memory (as the paper's "local communication"); a SQLite file for each
actor (write-ahead log, `synchronous = FULL`: each commit is one fsync) with the transport in memory; the same SQLite
files with HTTP on loopback (aiohttp at both ends).
"""


def page(points: Sequence[Point], units: int, repeats: int, forget_ticks: int) -> str:
    """The report; names no machine and no folder."""
    lines = [
        _HEAD.format(units=units, repeats=repeats, forget=forget_ticks),
        "## Overhead for each tick",
        "",
    ]
    for setup in dict.fromkeys(p.setup for p in points):
        lines += [f"### {setup[0].upper()}{setup[1:]}", "", *_table([p for p in points if p.setup == setup]), ""]
    lines += ["## The shortest term that can be kept up", "", *_shortest(points, units), ""]
    lines += ["## The machine", "", *_machine(), "", "## Again", "", *_again()]
    return "\n".join(lines) + "\n"


def _table(points: Sequence[Point]) -> list[str]:
    terms = sorted({p.term_ticks for p in points})
    by_leases_and_term = {(p.leases, p.term_ticks): p for p in points}
    lines = [
        "Milliseconds of real time for each tick, by the term t in ticks; in parentheses the processor time.",
        "",
        "| leases | " + " | ".join(f"t = {t}" for t in terms) + " |",
        "|---:" * (len(terms) + 1) + "|",
    ]
    for leases in sorted({p.leases for p in points}):
        row = [by_leases_and_term[leases, t] for t in terms]
        lines.append(f"| {leases} | " + " | ".join(f"{_short(p.wall_ms)} ({_short(p.cpu_ms)})" for p in row) + " |")
    return lines


def _shortest(points: Sequence[Point], units: int) -> list[str]:
    """Returns what follows from the shortest measured term: all of its time is overhead."""
    term = min(p.term_ticks for p in points)
    setups = list(dict.fromkeys(p.setup for p in points))
    lines = [
        f"At t = {term} a term is little but its flip. So alpha t is the shortest term that one processor can keep up",
        "(in the paper t'), and N / (alpha t) the units that change hands in a second (there r', per millisecond);",
        f"N = {units}, and alpha in processor time.",
        "",
        "| leases | " + " | ".join(setups) + " |",
        "|---:" * (len(setups) + 1) + "|",
    ]
    ms_by_setup = {(p.setup, p.leases): p.cpu_ms * term for p in points if p.term_ticks == term}
    for leases in sorted({p.leases for p in points}):
        cells = (
            f"{_short(ms)} ms, {1000 * units / ms:,.0f} units/s" for ms in (ms_by_setup[s, leases] for s in setups)
        )
        lines.append(f"| {leases} | " + " | ".join(cells) + " |")
    return lines


def _machine() -> list[str]:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return [
        f"{cpu}, {os.cpu_count()} processors, shared with other work; {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}, SQLite {sqlite3.sqlite_version}."
    ]


def _again() -> list[str]:
    return [
        "`python tests/benchmarks/shirako.py` measures all of this again and writes this page and its picture (with",
        "matplotlib); `--quick` measures nine points of each setup in a fraction of the time and writes nothing.",
    ]


def _short(number: float) -> str:
    """Three figures."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
