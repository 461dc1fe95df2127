"""The demo as a picture on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from leasehold.impl.fleet import ROLES, SITE, TENANT

if TYPE_CHECKING:
    from leasehold.cli.demo import Demo

STYLE = {"up": "green", "down": "bold red", "recovering": "yellow"}
NEWS = 10


def picture(demo: Demo) -> Group:
    """Actors, leases with their units, and what happened last."""
    found = demo.summary()
    head = Text.assemble(
        ("leasehold demo  ", "bold"),
        f"{found['leases']} leases, {found['extensions']} extensions, {found['closes']} ended, "
        f"{found['crashes']} crashes, ",
        (f"{len(found['violations'])} violations", "bold red" if found["violations"] else "green"),
        f"   {found['seconds']:.0f} s",
    )
    keys = Text("kill an actor: t(enant) b(roker) s(ite), or kill -9 from elsewhere; q ends", style="dim")
    parts: list[Any] = [head, keys, Text(), _actors(demo), Text(), _leases(demo), Text()]
    parts += [Text(f"{second:6.1f} s  {words}") for second, words in demo.news[-NEWS:]]
    parts += [Text(f"violated: {words}", style="bold red") for words in found["violations"][-3:]]
    return Group(*parts)


def _actors(demo: Demo) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for name in ("actor", "process", "is", "incarnation", "machines", "messages waiting", "crashes"):
        table.add_column(name, justify="left" if name in ("actor", "is") else "right")
    for name in ROLES:
        about = demo.watcher.last.abouts.get(name)
        state = demo.state(name)
        shown = [str(about[key]) if about else "" for key in ("epoch", "machines", "messages_waiting")]
        process = str(demo.fleet.processes[name].pid) if state != "down" else ""
        table.add_row(name, process, Text(state, style=STYLE[state]), *shown, str(demo.crashes[name]))
    return table


def _leases(demo: Demo) -> Table:
    look = demo.watcher.last
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for column in ("lease", *ROLES, "term", "unit processes"):
        table.add_column(column)
    lasting = [lease for lease in demo.story.plans if not demo.watcher.over(lease)]
    for lease in lasting[-12:]:
        rows = {name: (look.leases.get(name) or {}).get(lease) for name in ROLES}
        states = [_state(demo, name, row) for name, row in rows.items()]
        known = rows[TENANT] or rows[SITE]
        end = max((known["data"][name] for name in known["times"]), default=0) if known else 0
        left = f"{(end - look.now) * demo.fleet.tick_seconds:.0f} s" if end > look.now else ""
        units = "  ".join(f"{unit}:{look.units[unit]['pid']}" for unit in look.running(lease))
        table.add_row(lease, *states, left, units)
    if not lasting:
        table.add_row("none", *("" for _ in ROLES), "", "")
    return table


def _state(demo: Demo, name: str, row: dict[str, Any] | None) -> Text:
    if demo.watcher.last.leases.get(name) is None:
        return Text("?", style="red")
    return Text(row["state"] if row else "-")
