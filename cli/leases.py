"""Running leases as a person reads them: tables, and why a lease is where it is in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from leasehold.impl.words import counted


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
    for lease in sorted(by_lease, key=lease_order):
        cells = [", ".join(lease_cell(row, now, tick) for row in by_lease[lease].get(name, ())) for name in names]
        table.add_row(lease, *cells)
    if not by_lease:
        table.add_row("no leases", *("" for _ in names))
    return table


def query_table(answers: Sequence[dict[str, Any]], none: str) -> Table:
    """A row for each stock of a broker, and each type of a site: how many units there are, and are free when.

    Args:
        answers: of actors.
        none: what it says where there is no row.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("actor", "as", "type", "site", "units", "free"):
        table.add_column(name)
    for answer in answers:
        now, tick = answer["now"], answer["tick_seconds"]
        for role, said in answer["answers"].items():
            for entry in said["inventory"]:
                free = "; ".join(_free(period, now, tick) for period in entry["free"][:3]) or "none"
                more = len(entry["free"]) - 3
                table.add_row(
                    answer["name"],
                    role,
                    entry["type"],
                    str(entry.get("site", answer["name"])),
                    str(entry["units"]),
                    f"{free}; and {more} later times" if more > 0 else free,
                )
    if not table.rows:
        table.add_row(none, *[""] * 5)
    return table


def _free(period: Mapping[str, int], now: int, tick: float) -> str:
    if period["from"] <= now:
        return f"{period['units']} now"
    return f"{period['units']} in {span(period['from'] - now, tick)}"


def client_table(rows: Sequence[dict[str, Any]], actors: Sequence[str]) -> Table:
    """A row for each client of each actor: what it may do, what it has, and what is left of its quota.

    Args:
        rows: the clients.
        actors: whose client each is.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("client", "of", "may", "leases", "left", "units x ticks", "left", "in each"):
        table.add_column(name)
    for row, actor in zip(rows, actors, strict=True):
        leases = str(row["leases"]), _left_of(row["leases_most"], row["leases"])
        used = "" if row["unit_ticks"] is None else str(row["unit_ticks"])
        charged = used, _left_of(row["unit_ticks_most"], row["unit_ticks"])
        period = "" if row["per"] is None else f"{row['per']} ticks"
        table.add_row(row["client"], actor, ", ".join(row["may"]), *leases, *charged, period)
    if not rows:
        table.add_row("no clients")
    return table


def slice_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row for each slice: what its leases share, and which these are."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("slice", "properties", "configuration", "local", "leases"):
        table.add_column(name)
    for row in rows:
        lists = (row.get(kind, {}) for kind in ("properties", "configuration", "local"))
        shown = [", ".join(f"{name}={value}" for name, value in of.items()) for of in lists]
        table.add_row(row["slice"], *map(Text, shown), ", ".join(sorted(row["leases"], key=lease_order)))
    if not rows:
        table.add_row("no slices")
    return table


def _left_of(most: int | None, used: int | None) -> str:
    return "any number" if most is None or used is None else str(max(0, most - used))


def unit_table(rows: Sequence[dict[str, Any]], abouts: Sequence[dict[str, Any]]) -> Table:
    """A row for each unit: its state, since when, its lease, what its record says besides, and what happened last."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    several = len({row["actor"] for row in rows}) > 1
    for name in ("unit", *(["actor"] if several else []), "state", "for", "lease", "data", "last"):
        table.add_column(name)
    for row in rows:
        lasted, fields, last = unit_cells(row, abouts)
        actor = [row["actor"]] if several else []
        table.add_row(row["unit"], *actor, row["state"], lasted, row["lease"], fields, last)
    if not rows:
        table.add_row("no units")
    return table


def unit_cells(row: dict[str, Any], abouts: Sequence[dict[str, Any]]) -> tuple[str, str, str]:
    """Returns how long a unit is in its state, what its record says besides, and what happened to it last."""
    now, tick = clock_of(row, abouts)
    lasted = "" if row["since"] is None else span(now - row["since"], tick)
    fields = [
        name if value is True else f"{name} {_time(value, now, tick) if name in row['times'] else row['shown'][name]}"
        for name, value in row["data"].items()
        if value
    ]
    last = "; ".join([*_left(row, now, tick), *(_step(step) for step in _last(row["history"]))])
    return lasted, ", ".join(fields), last


def _left(unit: dict[str, Any], now: int, tick: float) -> Iterator[str]:
    """Yields words on what still lives of a unit that should be down."""
    if left := unit.get("left"):
        yield f"{left['words']}: still there, for {span(now - left['since'], tick)} though it should be down"


def _last(history: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The last transition, and the failure that led to it."""
    failed = len(history) > 1 and "failure" in history[-2]
    return history[-2:] if failed else history[-1:]


def one_lease(machines: Sequence[dict[str, Any]], abouts: Sequence[dict[str, Any]]) -> Group:
    """A lease at each actor: every field of its record, its peers, its units."""
    parts: list[Any] = []
    for machine in machines:
        now, tick = clock_of(machine, abouts)
        parts.append(Text(f"{machine['machine']} at {machine['actor']}: {machine['state']}", style="bold"))
        table = Table(box=None, show_header=False, padding=(0, 2))
        for name, value in machine["data"].items():
            timed = name in machine["times"] and value
            table.add_row(name, _time(value, now, tick) if timed else machine["shown"][name])
        table.add_row(
            "peers", ", ".join(f"{role}: {peer or 'not known yet'}" for role, peer in machine["peers"].items())
        )
        for unit in machine["units"]:
            facts = ", ".join(f"{name} {value}" for name, value in unit["facts"].items())
            table.add_row(unit["unit"], unit["state"] + (f" ({facts})" if facts else ""))
        parts.append(table)
    return Group(*parts)


def lease_order(lease: str) -> tuple[str, int, str]:
    """The key by which leases are sorted: their origin, and the number that it gave them."""
    origin, _, number = lease.rpartition(":")
    return (origin, int(number), "") if number.isdigit() else (lease, 0, lease)


def lease_cell(row: dict[str, Any], now: int, tick: float) -> str:
    """Returns the state of a lease at an actor, and how long its term lasts."""
    data = row["data"]
    end = max((data[name] for name in row["times"]), default=0)
    if not end or row["over"]:
        return str(row["state"])
    return f"{row['state']}, {span(end - now, tick)}" if end > now else f"{row['state']}, past its end"


def _time(value: int, now: int, tick: float) -> str:
    when = f"in {span(value - now, tick)}" if value > now else f"{span(now - value, tick)} ago"
    return f"{value} ({when})"


def explained(machine: dict[str, Any], abouts: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One machine of a lease: its state, and everything that it waits for."""
    now, tick = clock_of(machine, abouts)
    since = machine["since"]
    lasted = f", for {span(now - since, tick)}" if since is not None else ""
    was = "was" if machine["forgotten"] is not None else "is"
    yield f"{machine['lease']} at {machine['actor']} ({machine['machine']}) {was} {machine['state']}{lasted}."
    if machine["doc"]:
        yield f"  {machine['doc']}"
    if machine["forgotten"] is not None:
        when = _time(machine["forgotten"], now, tick)
        yield f"  It was over, and is forgotten since tick {when}{_why(machine, now, tick)}."
        return
    if machine["wish"]:
        yield f"  {_wish(machine['wish'], machine['client'] or 'Somebody', now, tick)}"
    if not machine["over"]:
        yield from (f"  {line}" for line in _held(machine))
    yield from (f"  {line}" for line in _reasons(machine["data"]))
    for message in machine["messages"]:
        yield f"  {_message(message, machine['over'])}"
    if machine["refused"]:
        message, reason = machine["refused"]
        yield f"  Its {message} was refused: {reason}."
    for asked in machine["asks"]:
        if asked["call"].startswith("policy."):
            yield f"  It waits for its policy to decide: {asked['task']}{_undecided(machine, now, tick)}."
    for task in machine["handlers"]:
        yield f"  Its handler is at work: {task}."
    if not machine["over"]:
        yield from (f"  {line}" for line in _refused(machine["history"], now, tick))
    if machine["restarts"] and not machine["over"]:
        times = counted(machine["restarts"], "time")
        yield f"  Its actor has restarted {times} since, and begun its calls and messages again."
    for unit in machine["units"]:
        doing = f"; its handler is at work: {', '.join(unit['handlers'])}" if unit["handlers"] else ""
        known = "".join(f", {name} {value}" for name, value in unit["facts"].items() if name in ("pid", "address"))
        yield f"  Unit {unit['unit']} is {unit['state']}{known}{doing}{_unit_waits(unit, now, tick)}."
        yield from (f"    {line}" for line in _left(unit, now, tick))
        failures = [step for step in unit["history"] if "failure" in step]
        yield from (f"    {span(now - step['at'], tick)} ago: {_step(step)}" for step in failures[-2:])
    if machine["over"]:
        yield f"  It is over, and will be forgotten{_why(machine, now, tick)}."
    elif machine["leaves"]:
        stays = all(one["to"] == [machine["state"]] for one in machine["leaves"])
        waits = f"It waits {waits_text(machine, now, tick)}, for:"
        yield f"  {'It stays in this state, and takes:' if stays else waits}"
        yield from (f"    {leave_text(one, machine['peers'], now, tick)}" for one in machine["leaves"])


def units_of(machine: dict[str, Any]) -> list[dict[str, Any]]:
    """The units that a holder knows it has: number, name, site, and whether each is lost."""
    data = machine["data"]
    if not isinstance(data.get("lease_units"), list):
        return []
    properties = data.get("unit_properties", [])
    units = []
    for number in data["lease_units"]:
        facts = properties[number] if number < len(properties) and isinstance(properties[number], dict) else {}
        units.append(
            {
                "number": number,
                "name": facts.get("name", str(number)),
                "site": facts.get("site", ""),
                "lost": number in data.get("lease_lost", ()),
            }
        )
    return units


def _held(machine: dict[str, Any]) -> Iterator[str]:
    """Yields words on the units that a lease has, as its holder or its site knows."""
    units = units_of(machine)
    if units:
        lost = ", ".join(unit["name"] for unit in units if unit["lost"])
        also = f"; lost, and not repaired yet: {lost}" if lost else ""
        yield f"It has {counted(len(units), 'unit')}: {', '.join(unit['name'] for unit in units)}{also}."
    missing = machine["data"].get("lost")
    if isinstance(missing, list) and missing:
        yield f"Lost, and being set up again: {machine['shown']['lost']}."


# What the reasons in records of a lease are about, by field.
_REASONS = {
    "ticket_reason": "Its broker said of the ticket",
    "lease_reason": "Its site said of the lease",
    "reason": "It said",
}


def _reasons(data: dict[str, Any]) -> Iterator[str]:
    """Yields what was said of what is denied, smaller than wanted, or over."""
    for name, label in _REASONS.items():
        if isinstance(data.get(name), str) and data[name]:
            yield f"{label}: {data[name]}."


_ENDS = ("closing", "closed", "failed")


def _why(machine: dict[str, Any], now: int, tick: float) -> str:
    """Returns what brought a machine to its end, as far as its actor knows since it started: `: ...`."""
    steps = [step for step in machine["history"] if "transition" in step]
    cause = None
    for step in reversed(steps):
        if step["to"] not in _ENDS:
            break
        cause = step
    if cause is None:
        end = max((machine["data"][name] for name in machine["times"]), default=0)
        return ": its time was over" if end and machine["since"] is not None and machine["since"] >= end else ""
    event = cause["transition"].partition("#")[2].partition(".")[0]
    came = {"tick": "its time was over", "close": "it was closed"}.get(event, f"{event} came")
    silent = _silent(cause, machine) or ("" if cause is steps[-1] else _silent(steps[-1], machine))
    return f": {came} when it was {cause['from']}, {span(now - cause['at'], tick)} ago{silent}"


def _silent(step: dict[str, Any], machine: dict[str, Any]) -> str:
    """Returns words on who had not answered when time went on."""
    unanswered = step.get("unanswered", ())
    return "".join(
        f"; {machine['peers'].get(one['to']) or one['to']} had not answered {one['message']}" for one in unanswered
    )


def _refused(history: Sequence[dict[str, Any]], now: int, tick: float) -> Iterator[str]:
    """Yields words on what a machine has refused since its last step, such as an answer of its policy."""
    for step in (step for step in history[-1:] if "refused" in step):
        often = f"{counted(step['times'], 'time')}, the last time " if step["times"] > 1 else ""
        why = step["words"].rstrip(".")
        yield f"It has refused {step['refused']} {often}{span(now - step['at'], tick)} ago: {why}."


def clock_of(machine: dict[str, Any], abouts: Sequence[dict[str, Any]]) -> tuple[int, float]:
    """The time at a machine's actor, and the length of its ticks in seconds."""
    about = next((a for a in abouts if a["name"] == machine["actor"]), abouts[0])
    return about["now"], about["tick_seconds"]


def span(ticks: int, tick_seconds: float) -> str:
    """A number of ticks as a person says it: `12 s`, `3 min`, `2.5 h`."""
    seconds = ticks * tick_seconds
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h" if seconds < 172_800 else f"{seconds / 86_400:.3g} days"


def _wish(wish: dict[str, Any], who: str, now: int, tick: float) -> str:
    group = wish.get("group")
    if wish.get("ended") and group:
        return f"Its group {group['id']} is over: {wish['ended']}."
    left = f"for another {span(wish['until'] - now, tick)}" if wish["until"] > now else "no longer"
    kind = f" of type {wish['type']}" if wish.get("type") else ""
    later = f", from {_time(wish['start'], now, tick)} on" if wish.get("start", 0) > now else ""
    waits = f", and its guests wait for {', '.join(wish['after'])}" if wish.get("after") else ""
    units = counted(wish["units"], "unit")
    others = f", with the others of group {group['id']}, {group['count']} leases, or not at all" if group else ""
    return f"{who} wants {units}{kind} {left}, in terms of {span(wish['term'], tick)}{later}{waits}{others}."


def _message(message: dict[str, Any], over: bool) -> str:
    head = f"It says {message['message']} ({message['number']}) to {message['to']}: "
    if message["times"] is not None:
        head += f"sent {counted(message['times'], 'time')}, "
    if message["taken"]:
        return f"{head}taken." if over else f"{head}taken, and not answered yet."
    if message["taken"] is None:
        return f"{head}whether it was taken is not known."
    why = f": {message['reason']}" if message["reason"] else ""
    again = f"; again in {message['again_seconds']:.1f} s" if message["again_seconds"] is not None else ""
    return f"{head}not taken{why}{again}."


def _step(step: dict[str, Any]) -> str:
    if "refused" in step:
        return f"refused {step['refused']}: {step['words']}"
    if "failure" in step:
        return f"{step['failure']}: {step['words']}"
    return f"{step['transition']} ({step['from']} -> {step['to']})"


def waits_text(waiting: Mapping[str, Any], now: int, tick: float) -> str:
    """Since when a machine is in its state, and until when at most."""
    since = waiting["since"]
    begun = f"since tick {_time(since, now, tick)}" if since is not None else "since a tick that is not known"
    timers = [one for one in waiting["leaves"] if one["cause"] == "timer"]
    due = [one["due"] for one in timers if one["due"] is not None]
    if due:
        return f"{begun}, until tick {_time(min(due), now, tick)} at the latest"
    return f"{begun}, and {'time alone does not end that' if timers else 'no timer ends that'}"


def _undecided(machine: dict[str, Any], now: int, tick: float) -> str:
    """Returns what a policy that has not decided yet waits for, as it says: `: ...`."""
    if (undecided := machine["undecided"]) is None:
        return ""
    end = "" if undecided["until"] is None else f"; until tick {_time(undecided['until'], now, tick)} at the latest"
    return f": {undecided['words']}{end}"


# Who brings an event that leads out of a state, by its cause.
_BRINGS = {
    "policy": "as its policy decides ({task})",
    "handler": "as its handler says ({task})",
    "subsidiary": "as its units come there ({task})",
    "parent": "as its parent drives it",
    "client": "as a client or its policy says",
}
_BRINGER = {"policy": "its policy ({task})", "handler": "its handler ({task})", "subsidiary": "its units ({task})"}


def _unit_waits(unit: dict[str, Any], now: int, tick: float) -> str:
    """Returns for whom a unit waits, since when and until when at most; empty where it is at rest until it is told."""
    bringers = (_BRINGER[one["cause"]].format(task=one["task"]) for one in unit["leaves"] if one["cause"] in _BRINGER)
    whom = ", ".join(dict.fromkeys(bringers))
    timed = any(one["cause"] == "timer" for one in unit["leaves"])
    return f"; it waits {waits_text(unit, now, tick)}, for {whom or 'the clock'}" if whom or timed else ""


def bringers_of(one: Mapping[str, Any], peers: Mapping[str, str]) -> list[str]:
    """Returns the actors that may bring an event that leads out of a state, as far as they are known."""
    return [*dict.fromkeys(peer for name, peer in peers.items() if peer and name.partition("[")[0] == one["from"])]


# For whom a machine waits, by the cause of the event, where that is no neighbour.
_AWAITED = {
    "timer": "the clock",
    "policy": "its policy",
    "handler": "its handler",
    "subsidiary": "its units",
    "parent": "its lease",
    "client": "a client",
}


def awaited(leaves: Sequence[Mapping[str, Any]], peers: Mapping[str, str]) -> list[str]:
    """Returns for whom a machine waits: actors, its own parts, the clock; clients where it waits for nobody else."""
    urgent = [one for one in leaves if one["cause"] not in ("client", "parent")] or leaves
    named = ([_AWAITED[one["cause"]]] if one["cause"] in _AWAITED else _known(one, peers) for one in urgent)
    return [*dict.fromkeys(name for names in named for name in names)]


def _known(one: Mapping[str, Any], peers: Mapping[str, str]) -> list[str]:
    return bringers_of(one, peers) or [f"{one['from']} (not known yet)"]


def leave_text(one: Mapping[str, Any], peers: Mapping[str, str], now: int, tick: float) -> str:
    """Returns an event that leads out of a state: who brings it, where it leads, and when."""
    whose = bringers_of(one, peers)
    known = f" ({', '.join(whose)})" if whose else ""
    origin = "" if one["from"] == "here" else f" of {one['from']}{known}"
    text = f"{one['event']}{origin} -> {', '.join(one['to'])}"
    if one["due"] is not None:
        return f"{text}, at tick {_time(one['due'], now, tick)}"
    brings = _BRINGS.get(one["cause"])
    return f"{text}, {brings.format(task=one['task'])}" if brings else text
