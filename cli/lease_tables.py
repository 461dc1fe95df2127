"""Leases as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from leasehold.cli.explain_text import clock_of, span


def lease_table(rows: Sequence[dict[str, Any]], abouts: Sequence[dict[str, Any]]) -> Table:
    """A row for each lease, a column for each actor: its state, units and how long its term lasts."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("lease")
    names = [about["name"] for about in abouts]
    for name in names:
        table.add_column(name)
    by_lease: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        by_lease.setdefault(row["lease"], {}).setdefault(row["actor"], []).append(row)
    now, tick = abouts[0]["now"], abouts[0]["tick_seconds"]
    for lease in sorted(by_lease, key=_order):
        cells = [", ".join(_cell(row, now, tick) for row in by_lease[lease].get(name, ())) for name in names]
        table.add_row(lease, *cells)
    if not by_lease:
        table.add_row("no leases", *("" for _ in names))
    return table


def one_lease(machines: Sequence[dict[str, Any]], abouts: Sequence[dict[str, Any]]) -> Group:
    """A lease at each actor: every field of its record, its peers, its units."""
    parts: list[Any] = []
    for machine in machines:
        now, tick = clock_of(machine, abouts)
        parts.append(Text(f"{machine['machine']} at {machine['actor']}: {machine['state']}", style="bold"))
        table = Table(box=None, show_header=False, padding=(0, 2))
        for name, value in machine["data"].items():
            table.add_row(name, _time(value, now, tick) if name in machine["times"] and value else str(value))
        table.add_row(
            "peers", ", ".join(f"{role}: {peer or 'not known yet'}" for role, peer in machine["peers"].items())
        )
        for unit in machine["units"]:
            facts = ", ".join(f"{name} {value}" for name, value in unit["facts"].items())
            table.add_row(unit["unit"], unit["state"] + (f" ({facts})" if facts else ""))
        parts.append(table)
    return Group(*parts)


def _order(lease: str) -> tuple[str, int, str]:
    origin, _, number = lease.rpartition(":")
    return (origin, int(number), "") if number.isdigit() else (lease, 0, lease)


def _cell(row: dict[str, Any], now: int, tick: float) -> str:
    data = row["data"]
    end = max((data[name] for name in row["times"]), default=0)
    if not end or row["over"]:
        return str(row["state"])
    return f"{row['state']}, {span(end - now, tick)}" if end > now else f"{row['state']}, past its end"


def _time(value: int, now: int, tick: float) -> str:
    when = f"in {span(value - now, tick)}" if value > now else f"{span(now - value, tick)} ago"
    return f"{value} ({when})"
