"""The verbs of clients and operators: they talk to running actors through their control sockets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from leasehold.checker.explain.machines import KnownMachines
from leasehold.checker.history.chains import read_chain
from leasehold.checker.history.fold import MachineOf
from leasehold.cli.common import Exit, F, as_option, console, json_option, print_json, verb
from leasehold.cli.leases import client_table, lease_table, one_lease, query_table, slice_table, unit_table, units_of
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import AnyEvent
from leasehold.impl.server.client import Client, ClientError, NotFound, Unreachable, sockets
from leasehold.impl.server.event_source import ActorSource
from leasehold.impl.words import choices

RECENT = 20_000  # events of a running actor that are read, unless all are asked for
LAST = 6  # of what has happened to a unit
LIMIT_SECONDS = 5.0  # a hung actor should not make the others wait
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_TICKS = re.compile(r"[0-9]+")
# What a machine did with an event for which it took no transition.
_UNTAKEN = {"ignored": "ignored it", "unmoved": "did not take it: no guard holds"}


def at_options(command: F) -> F:
    """--at, --as and --json."""
    return click.option(
        "--at",
        "at",
        type=click.Path(path_type=Path),
        default=Path(),
        envvar="LEASEHOLD_AT",
        show_envvar=True,
        help="An actor's control socket, its configuration, or a folder of sockets; default: the current folder.",
    )(as_option(json_option(command)))


# A verb of a client: 2 where no actor answers, 1 where one refuses.
client_verb = partial(verb, refusals={Unreachable: Exit.BAD_SPEC, ClientError: Exit.VIOLATED})


def warn(error: ClientError) -> None:
    """Prints why an actor does not answer, where the others may."""
    click.echo(f"leasehold: {error}", err=True)


def told(as_json: bool, value: object, text: str) -> None:
    """Prints a result as JSON, or in words."""
    if as_json:
        print_json(value)
    else:
        click.echo(text)


def answering(at: Path) -> list[tuple[Client, dict[str, Any]]]:
    """The actors at a place that answer, and what each says of itself; the others are named."""
    actors: list[tuple[Client, dict[str, Any]]] = []
    silent: list[ClientError] = []
    for client in (Client(path, LIMIT_SECONDS) for path in sockets(at)):
        try:
            actors.append((client, client.get("about")))
        except ClientError as error:
            silent.append(error)
    if not actors:
        raise silent[0]
    for why in silent:
        warn(why)
    return actors


def answering_for(at: Path, target: str) -> list[tuple[Client, dict[str, Any]]]:
    """Returns those of the answering actors that may have what a word names: a lease or run, or else a unit."""
    actors = answering(at)
    if _kind(target) == "leases":
        return actors
    having = [(client, about) for client, about in actors if about["units"]]
    if not having:
        names = ", ".join(about["name"] for _, about in actors)
        raise NotFound(f"no actor at {at} has units ({names}), and a lease is named ACTOR:NUMBER, not {target[:80]!r}")
    return having


def taker(at: Path, lease: str = "") -> tuple[Client, dict[str, Any]]:
    """The actor that takes demands; of several, the one whose lease it is."""
    actors = answering(at)
    takers = [(client, about) for client, about in actors if about["takes_demands"]]
    takers.sort(key=lambda one: one[1]["name"] != lease.rpartition(":")[0])
    if not takers:
        names = ", ".join(about["name"] for _, about in actors)
        raise ClientError(f"no actor at {at} takes demands ({names}); name the socket of a service manager with --at")
    return takers[0]


def moment(text: str, about: dict[str, Any], option: str) -> int:
    """A time in ticks: `10m` from now, `2031-01-31T12:00Z`, or a number of the clock's ticks."""
    tick_seconds: float = about["tick_seconds"]
    try:
        if duration := _DURATION.fullmatch(text):
            return int(about["now"]) + max(1, round(float(duration[1]) * _UNITS[duration[2]] / tick_seconds))
        if _TICKS.fullmatch(text):
            return int(text)
        return round(datetime.fromisoformat(text).astimezone().timestamp() / tick_seconds)
    except OverflowError:
        raise click.UsageError(f"{option} is {text[:60]!r}, a time that no clock has") from None
    except ValueError:
        raise click.UsageError(
            f"{option} takes a duration such as 10m, a time such as 2031-01-31T12:00Z, or a number of ticks, "
            f"not {text[:60]!r}"
        ) from None


def length(text: str, about: dict[str, Any], option: str) -> int:
    """A number of ticks: `90s`, or the number itself."""
    if _TICKS.fullmatch(text):
        return moment(text, about, option)
    return moment(text, about, option) - int(about["now"])


@client_verb()
@click.option("--units", type=click.IntRange(1), required=True, help="How many units.")
@click.option("--until", help="The end of the demand: 2h, 2031-01-31T12:00Z, or a tick.", required=True)
@click.option("--term", default="60s", show_default=True, help="The length of a term; the lease is renewed in time.")
@click.option("--start", help="When the units are needed first; default: now.")
@click.option("--type", "kind", help="The type of the units; needed where the broker has several.")
@click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="For the broker's policy.")
@click.option("--configuration", metavar="NAME=VALUE", multiple=True, help="For the site: what the units are for.")
@click.option(
    "--local",
    metavar="NAME=VALUE",
    multiple=True,
    help="For the holder's own policies and handlers; no other actor sees it.",
)
@click.option("--after", multiple=True, metavar="LEASE", help="Guests do not join before this lease is active.")
@click.option("--broker", help="The broker that is asked; default: that of the holder's settings, or one it trusts.")
@click.option("--site", help="The site at which the units are to be; default: the broker chooses.")
@click.option("--least", type=click.IntRange(1), help="Units with which you are content at first; default: --units.")
@click.option("--least-term", help="The length of a first term with which you are content; default: --term.")
@click.option("--latest-start", help="Until when the first term may begin; then it ends as much later.")
@click.option("--group", metavar="ID", help="The leases without which this one is of no use; all come, or none.")
@click.option("--of", "count", type=click.IntRange(2), metavar="COUNT", help="How many leases the group has.")
@click.option("--slice", metavar="NAME", help="The slice whose properties the lease shares (`leasehold slice`).")
@click.option("--lease", help="The lease's name, TENANT:NUMBER; default: a new one.")
@at_options
def demand(
    units: int,
    until: str,
    term: str,
    start: str | None,
    kind: str | None,
    properties: tuple[str, ...],
    configuration: tuple[str, ...],
    local: tuple[str, ...],
    after: tuple[str, ...],
    broker: str | None,
    site: str | None,
    least: int | None,
    least_term: str | None,
    latest_start: str | None,
    group: str | None,
    count: int | None,
    slice: str | None,
    lease: str | None,
    at: Path,
    as_json: bool,
) -> None:
    """Ask for units: a new lease, which is renewed until the demand is over.

    Returns when the demand is durable; `leasehold show` follows the lease. With --start the units are
    reserved for a term that begins then. With --group nothing is used before all
    leases of the group have their tickets; if one is denied, the others are closed.

    Example:  leasehold demand --units 2 --until 2h
              leasehold demand --units 4 --until 30m --term 5m --at tenant.sock
              leasehold demand --units 1 --start 1h --until 3h --type gpu --configuration image=web
              leasehold demand --units 1 --until 1h --broker market --site rack-2
              leasehold demand --units 8 --least 2 --until 1h --latest-start 6h
              leasehold demand --units 4 --until 1h --group job --of 2 --broker market
    """
    if (group is None) != (count is None):
        raise click.UsageError("--group and --of go together: a group has an id, and a number of leases")
    client, about = taker(at)
    answer = client.post(
        "demand",
        units=units,
        until=moment(until, about, "--until"),
        term=length(term, about, "--term"),
        start=moment(start, about, "--start") if start else None,
        lease=lease,
        type=kind,
        properties=fields_given(properties) or None,
        configuration=fields_given(configuration) or None,
        local=fields_given(local) or None,
        after=list(after) or None,
        broker=broker,
        site=site,
        least=least,
        least_term=length(least_term, about, "--least-term") if least_term else None,
        latest_start=moment(latest_start, about, "--latest-start") if latest_start else None,
        group={"id": group, "count": count} if group is not None else None,
        slice=slice,
    )
    told(as_json, answer, answer["lease"])


@client_verb()
@at_options
@click.option("--all", "show_all", is_flag=True, help="Also leases that are over.")
@click.option("--slice", metavar="NAME", help="Those of a slice alone, as their holder knows it.")
def leases(at: Path, as_json: bool, show_all: bool, slice: str | None) -> None:
    """List leases, with their state at each actor that answers.

    Example:  leasehold leases
              leasehold leases --slice web
              leasehold leases --at /run/leasehold --all --json
    """
    actors = answering(at)
    rows = []
    for client, _ in actors:
        try:
            rows += client.get("leases")
        except ClientError as error:
            warn(error)
    lasting = {row["lease"] for row in rows if show_all or not row["over"]}
    if slice is not None:
        takers = {about["name"] for _, about in actors if about["takes_demands"]}
        lasting &= {row["lease"] for row in rows if row["actor"] in takers and _slice_of(row) == slice}
    rows = [row for row in rows if row["lease"] in lasting]
    if as_json:
        print_json({"now": actors[0][1]["now"], "tick_seconds": actors[0][1]["tick_seconds"], "leases": rows})
    else:
        console().print(lease_table(rows, [about for _, about in actors]))


def _slice_of(row: dict[str, Any]) -> object:
    """The slice of a lease, by its record at the holder, or else by its demand."""
    known = [row["data"].get("local"), row.get("wish")]
    return next((of["slice"] for of in known if isinstance(of, dict) and of.get("slice")), None)


@client_verb()
@click.argument("name", required=False)
@click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="For the brokers' policies.")
@click.option("--configuration", metavar="NAME=VALUE", multiple=True, help="For the sites: what the units are for.")
@click.option("--local", metavar="NAME=VALUE", multiple=True, help="For the holder's own policies and handlers.")
@click.option("--remove", is_flag=True, help="Remove the slice, which has no leases any more.")
@at_options
def slice(
    name: str | None,
    properties: tuple[str, ...],
    configuration: tuple[str, ...],
    local: tuple[str, ...],
    remove: bool,
    at: Path,
    as_json: bool,
) -> None:
    """Say which properties the leases of a slice share; without NAME, list the slices.

    All properties of the slice are said at once, in place of those before. A lease that begins has them
    besides its own, which go before. Leases that run hear of a change with their next extension.

    Example:  leasehold slice web --configuration image=web-2 --property user=physics
              leasehold demand --units 2 --until 2h --slice web
              leasehold slice
              leasehold slice web --remove
    """
    said = {"properties": properties, "configuration": configuration, "local": local}
    if remove and any(said.values()):
        raise click.UsageError("a slice is removed, or has properties; leave one out")
    if not name:
        if name is not None or remove or any(said.values()):
            raise click.UsageError("name the slice")
        rows = [row for rows, _ in everywhere(lambda client: client.get("slices"), at) for row in rows]
        if as_json:
            print_json({"slices": rows})
        else:
            console().print(slice_table(rows))
        return
    client, _ = taker(at)
    body: dict[str, Any] = {"remove": True} if remove else {kind: fields_given(words) for kind, words in said.items()}
    told(as_json, client.post("slices", name, **body), name)


@client_verb()
@at_options
@click.option("--type", "kind", help="Of this type of unit only.")
@click.option("--of", "of", metavar="ACTOR", help="Let the actor at --at ask this one over the network.")
def query(at: Path, as_json: bool, kind: str | None, of: str | None) -> None:
    """Ask brokers and sites what can be had: units by type and site, and how many are free when.

    An answer promises nothing and changes nothing; `leasehold demand` asks for units.

    Example:  leasehold query
              leasehold query --at market.sock --type gpu --json
              leasehold query --of east --at tenant.sock
    """
    asked = {} if of is None else {"of": of, **({} if kind is None else {"type": kind})}
    answers = [answer for answer, _ in everywhere(lambda client: client.get("query", **asked), at) if answer["answers"]]
    known = dict.fromkeys(
        entry["type"] for answer in answers for one in answer["answers"].values() for entry in one["inventory"]
    )
    for answer in answers:
        for said in answer["answers"].values():
            said["inventory"] = [entry for entry in said["inventory"] if kind in (None, entry["type"])]
    if as_json:
        print_json({"actors": answers})
    else:
        others = choices(kind, [*known]) if kind and known else ""
        none = f"no broker or site here has units{f' of {kind}{others}' if kind else ''}"
        console().print(query_table(answers, none))


@client_verb()
@at_options
def clients(at: Path, as_json: bool) -> None:
    """List the clients of actors: what each may do, what its leases have now, and what is left of its quota.

    A client that may not see all sees itself.

    Example:  leasehold clients --as operator.key
    """
    answers = everywhere(lambda client: client.get("clients"), at)
    rows = [(about["name"], row) for rows, about in answers for row in rows]
    if as_json:
        print_json({"clients": [{"actor": actor, **row} for actor, row in rows]})
    else:
        console().print(client_table([row for _, row in rows], [actor for actor, _ in rows]))


def from_each(
    asked: list[tuple[Client, dict[str, Any]]], ask: Callable[[Client], Any]
) -> tuple[list[tuple[Any, dict[str, Any]]], list[ClientError]]:
    """The answers of these actors, each with the description of its actor; and the errors of the others.

    An actor that has nothing of the name that is asked for is no failure, unless all are so.
    """
    answers: list[tuple[Any, dict[str, Any]]] = []
    absent: list[ClientError] = []
    failed: list[ClientError] = []
    for client, about in asked:
        try:
            answers.append((ask(client), about))
        except NotFound as error:
            absent.append(error)
        except ClientError as error:
            failed.append(error)
    return answers, failed if answers or failed else absent


def everywhere(ask: Callable[[Client], Any], at: Path) -> list[tuple[Any, dict[str, Any]]]:
    """The answers of all actors that answer and have what is asked for, and what these actors say of themselves.

    Raises:
        ClientError: there is none.
    """
    answers, why = from_each(answering(at), ask)
    if not answers:
        raise why[-1]
    for error in why:
        warn(error)
    return answers


@client_verb()
@click.argument("lease")
@at_options
def show(lease: str, at: Path, as_json: bool) -> None:
    """Show a lease: its record at each actor, and its units with their facts.

    Example:  leasehold show tenant:1
    """
    answers = everywhere(lambda client: client.get("leases", lease), at)
    machines, abouts = [machine for machines, _ in answers for machine in machines], [about for _, about in answers]
    if as_json:
        print_json({"lease": lease, "now": abouts[0]["now"], "machines": machines})
    else:
        console().print(one_lease(machines, abouts))


@client_verb()
@click.argument("lease")
@click.option("--until", help="The new end of the demand: 2h, a time, or a tick.")
@click.option("--units", type=click.IntRange(1), help="Another number of units.")
@click.option("--soon", is_flag=True, help="Ask for the units now, not at the next renewal.")
@click.option("--victims", metavar="UNIT,...", help="Which units are given back, by name or number.")
@at_options
def extend(
    lease: str, until: str | None, units: int | None, soon: bool, victims: str | None, at: Path, as_json: bool
) -> None:
    """Extend the demand for a lease, or change its number of units (flex).

    Example:  leasehold extend tenant:1 --until 4h
              leasehold extend tenant:1 --units 3 --soon
              leasehold extend tenant:1 --units 2 --victims node-3 --soon
    """
    if until is None and units is None:
        raise click.UsageError("give --until, --units or both")
    if victims is not None and units is None:
        raise click.UsageError("--victims says which units are given back; say with --units how many are kept")
    if soon and units is None:
        raise click.UsageError("--soon is about --units, which is missing; a later end needs no hurry")
    client, about = taker(at, lease)
    given = numbers_of(client, lease, victims.split(",")) if victims else None
    if until is not None:
        client.post("leases", lease, "prolong", until=moment(until, about, "--until"))
    if units is not None:
        try:
            client.post("leases", lease, "flex", units=units, soon=soon, victims=given)
        except ClientError as error:
            if until is None:
                raise
            raise type(error)(f"{error}; its end is noted, and only that") from None
    told(as_json, {"lease": lease}, f"{lease}: noted; `leasehold show {lease}` tells what becomes of it")


def numbers_of(client: Client, lease: str, units: list[str]) -> list[int]:
    """The numbers of units of a lease, which a client names as their site does, or by number.

    Raises:
        ClientError: the lease has no such unit.
    """
    (machine, *_) = client.get("leases", lease)
    known = {unit["name"]: unit["number"] for unit in units_of(machine)}
    numbers = {str(number): number for number in known.values()}
    chosen = []
    for word in map(str.strip, units):
        number = known.get(word, numbers.get(word))
        if number is None:
            raise ClientError(f"{lease} has no unit {word[:60]!r}{choices(word, list(known))}")
        chosen.append(number)
    return chosen


@client_verb()
@click.argument("lease")
@at_options
def close(lease: str, at: Path, as_json: bool) -> None:
    """End a lease now, in any state, and free its units.

    A demand whose lease has not begun is withdrawn.

    Example:  leasehold close tenant:1
    """
    answer, outcome = close_lease(lease, at)
    told(as_json, {"lease": lease, **answer}, f"{lease}: {outcome}")


def close_lease(lease: str, at: Path) -> tuple[dict[str, Any], str]:
    """Ends a lease, or withdraws one that has not begun; returns the actor's answer, and the outcome in words.

    Raises:
        ClientError: the actor that takes demands says no, or none answers.
    """
    client, _ = taker(at, lease)
    try:
        answer = client.post("leases", lease, "tell", event="close")
    except NotFound:
        if not any(row["lease"] == lease and not row["machine"] for row in client.get("leases")):
            raise
        client.post("leases", lease, "stop")
        return {}, "withdrawn; it had not begun"
    return answer, answer["transition"] or "it is ending already"


@client_verb()
@click.argument("machine")
@click.argument("event")
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--lease", help="The run's name, ACTOR:NUMBER; default: a new one.")
@at_options
def begin(machine: str, event: str, fields: tuple[str, ...], lease: str | None, at: Path, as_json: bool) -> None:
    """Begin a run of any system: EVENT at a MACHINE that nothing has happened to yet.

    The actor's configuration says who plays the other machines (`peers`). For leases, `demand` says
    it better, as their policy then renews them.

    Example:  leasehold begin coordinator begin --at chief.sock
    """
    role = machine.partition("[")[0]
    players = [client for client, about in answering(at) if role in about["roles"]]
    if not players:
        roles = sorted({role for _, about in answering(at) for role in about["roles"]})
        raise ClientError(f"no actor at {at} plays {role[:60]}{choices(role, roles)}")
    answer = players[0].post("begin", machine=machine, event=event, fields=fields_given(fields), lease=lease)
    told(as_json, answer, answer["lease"])


@client_verb()
@at_options
def units(at: Path, as_json: bool) -> None:
    """List the units of the actors that answer: their state, the lease that had them last, and what happened last.

    A unit is a machine that belongs to its actor and outlives leases. `leasehold tell UNIT EVENT` hands it an event.

    Example:  leasehold units --at site.sock
    """
    answers = everywhere(_units_with_history, at)
    rows = [row for rows, _ in answers for row in rows]
    abouts = [about for _, about in answers]
    if as_json:
        print_json({"now": abouts[0]["now"], "tick_seconds": abouts[0]["tick_seconds"], "units": rows})
    else:
        console().print(unit_table(rows, abouts))


def last_events(client: Client, whole: bool = False) -> list[AnyEvent]:
    """The last events of a running actor, or all that it has.

    Raises:
        ClientError, ChainError, EventError: they cannot be read.
    """
    state = client.get("events", "state")
    after = 0 if whole else state["last"] - RECENT
    return read_chain(ActorSource(client).lines(after if after >= state["first"] else 0), None, unsigned=True)[1]


def _units_with_history(client: Client) -> list[dict[str, Any]]:
    """The units of an actor, with what its events tell of each last; they are not read where it has no units."""
    units: list[dict[str, Any]] = client.get("units")
    known = KnownMachines()
    for event in last_events(client) if units else ():
        known.take(event)
    return with_history(units, known)


def with_history(units: list[dict[str, Any]], known: KnownMachines) -> list[dict[str, Any]]:
    """Adds to the units of an actor what its events tell of each last."""
    for unit in units:
        keys = (MachineOf(unit["actor"], lease, unit["machine"]) for lease in (BELOW, unit["lease"]))
        steps = next((known.machines[key].history for key in keys if key in known.machines), [])
        unit["history"] = [{n: v for n, v in step.items() if n != "said"} for step in steps[-LAST:]]
    return units


@client_verb()
@click.argument("target", metavar="LEASE|UNIT")
@click.argument("event")
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--machine", help="The machine of a lease; default: the actor's first machine that takes the event.")
@at_options
def tell(target: str, event: str, fields: tuple[str, ...], machine: str | None, at: Path, as_json: bool) -> None:
    """Hand an EVENT of the specification to a machine of a lease, or of a run of any system, or to a unit.

    The machine treats it like any other event: an event that it refuses changes nothing. A unit takes
    the events that the specification has from outside. It is named as in the inventory, or by its
    number.

    Example:  leasehold tell chief:1 able --at member.sock
              leasehold tell node-3 repaired --at site.sock
    """
    kind = _kind(target)
    if machine is not None and kind == "units":
        raise click.UsageError(f"--machine names a machine of a lease, and {target[:80]} is a unit")
    why: ClientError | None = None
    for client, _ in answering_for(at, target):
        try:
            answer = client.post(kind, target, "tell", event=event, fields=fields_given(fields), machine=machine)
        except Unreachable:
            raise  # it may have taken it: another must not take it too
        except ClientError as error:
            if why is None or isinstance(why, NotFound):
                why = error  # the reason of the actor that has the machine, if one has
            continue
        reason = f": {answer['reason']}" if answer["reason"] else ""
        untaken = _UNTAKEN.get(answer["kind"], answer["kind"]) + reason
        outcome = f"took it ({answer['transition']})" if answer["transition"] else untaken
        whose = {"lease": target} if kind == "leases" else {}
        told(as_json, {**whose, **answer}, f"{target}: {answer['machine']} {outcome}")
        return
    if why is not None:
        raise why


def _kind(target: str) -> str:
    """Returns the kind of what a word names: leases (or runs), which have a colon, or units."""
    return "leases" if ":" in target else "units"


def fields_given(arguments: tuple[str, ...]) -> dict[str, Any]:
    """`units=2`, `name=word`: fields by name, a value as JSON, or else the word itself; `none` is no value."""
    values: dict[str, Any] = {}
    for word in arguments:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"a field is written FIELD=VALUE, not {word[:60]!r}")
        try:
            values[name] = None if value == "none" else json.loads(value, parse_constant=_no_constant)
        except json.JSONDecodeError:
            values[name] = value
        except (ValueError, RecursionError) as error:
            why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
            raise click.UsageError(f"{name[:60]}={value[:60]} cannot be sent: {why}") from None
    return values


def _no_constant(name: str) -> None:
    """`NaN` and the like are words: JSON has no such numbers."""
    raise json.JSONDecodeError("no JSON", name, 0)


@client_verb()
@click.argument("target", metavar="LEASE|UNIT")
@at_options
def recover(target: str, at: Path, as_json: bool) -> None:
    """Give one lease or unit a recovery event: the work of its state begins anew.

    It repairs one machine and disturbs no other (the paper, section 4.2). A unit is named as in the
    inventory.

    Example:  leasehold recover tenant:1
              leasehold recover node-3 --at site.sock
    """
    done, why = recover_machines(target, at)
    if as_json and done:
        print_json({"recovered": done})
    for one in done if not as_json else ():
        click.echo(f"{target}: {recovered_text(one)}")
    for error in why[:-1]:
        warn(error)
    if why:
        raise why[-1]


def recover_machines(target: str, at: Path) -> tuple[list[dict[str, str]], list[ClientError]]:
    """Gives the machines of a lease, or a unit, a recovery event at each actor that answers and has them.

    Returns the `actor` and `machine` of each that took it, and the errors of actors (`from_each`).

    Raises:
        ClientError: no actor answers.
    """
    answers, why = from_each(answering_for(at, target), lambda client: client.post(_kind(target), target, "recover"))
    done = [
        {"actor": about["name"], "machine": machine} for answer, about in answers for machine in answer["recovered"]
    ]
    return done, why


def recovered_text(recovered: Mapping[str, str]) -> str:
    """Returns what a machine does that has been given a recovery event."""
    return f"{recovered['machine']} at {recovered['actor']} begins its work anew"
