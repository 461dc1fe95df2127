"""The verbs of trust: they show and change the trust set of an actor, which sees a change while it runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from leasehold.cli.common import F, console, json_option, print_json, verb
from leasehold.cli.keys import REFUSALS, public_key
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.trust import (
    Trust,
    TrustedActor,
    TrustedKey,
    TrustFault,
    add,
    readdress,
    remove,
    revoke,
    rotate,
)

Change = Callable[[Trust], Trust]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")
trust_verb = partial(verb, refusals=REFUSALS)


def trust_options(command: F) -> F:
    """--trust and --json."""
    return click.option(
        "--trust",
        "path",
        type=click.Path(path_type=Path),
        default=Path("trust.yaml"),
        show_default=True,
        metavar="FILE",
        help="The trust set.",
    )(json_option(command))


def moment(text: str | None, option: str, now: float) -> int | None:
    """Seconds since 1970: `30d` from now, a date (its first moment), or a time; without a zone both are UTC.

    Raises:
        TrustFault: it is neither, lies beyond the year 9999, or is over.
    """
    if text is None:
        return None
    present = datetime.fromtimestamp(int(now), UTC)
    try:
        if duration := _DURATION.fullmatch(text):
            then = present + timedelta(**{_UNITS[duration[2]]: int(duration[1])})
        else:
            then = datetime.fromisoformat(text)
            then = (then if then.tzinfo else then.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise TrustFault(f"{option}: {text[:60]!r} is too far away; leave it out where there is no end") from None
    except ValueError:
        raise TrustFault(
            f"{option} takes a date such as 2031-01-31, a time such as 2031-01-31T12:00Z, or a duration such as 30d "
            f"(s, m, h, d, w), not {text[:60]!r}"
        ) from None
    if then <= present:
        raise TrustFault(f"{option}: {text[:60]} is not in the future; to end a key at once, revoke it")
    return int(then.timestamp())


def _change(
    path: Path,
    name: str,
    how: Change,
    done: str | Callable[[TrustedActor], str],
    already: str,
    as_json: bool,
    makes: bool = False,
) -> None:
    """Changes a trust set, and says in one line what that has done to the actor NAME."""
    if not makes:
        trust_file.load(path)  # it has to be there
    befores: list[Trust] = []

    def noted(trust: Trust) -> Trust:
        befores.append(trust)
        return how(trust)

    after = trust_file.change(path, noted)
    changed, actor = after != befores[-1], after.actors.get(name)
    if as_json:
        print_json({"trust": str(path), "changed": changed, "actor": actor and _plain(actor, time.time())})
    elif changed:
        click.echo(f"{path}: {done if isinstance(done, str) else done(after.actors[name])}")
    else:
        click.echo(f"{path}: {already}; nothing was changed")


@trust_verb("add-actor")
@click.argument("name")
@click.argument("key")
@click.option("--role", required=True, help="The role of the specification that it may speak for.")
@click.option("--address", metavar="URL", default="", help="Where messages for it go.")
@click.option("--not-after", metavar="DATE|DURATION", help="When the key expires; default: never, until it is revoked.")
@trust_options
def add_actor(role: str, name: str, key: str, address: str, not_after: str | None, path: Path, as_json: bool) -> None:
    """Trust an actor NAME of a ROLE, who signs with KEY.

    KEY is its public key, @FILE, or a file that holds it; of a private key file only the public part is
    taken. The trust set is made if it is not there. Exactly the same again changes nothing. The roles of
    the lease are service_manager, broker and authority (a site).

    Example:  leasehold add-actor site site.pub --role authority --address http://10.0.0.9:8472
              leasehold add-actor p0 p0.pub --role participant
    """
    public, until = public_key(key), moment(not_after, "--not-after", time.time())
    lasts = f" until {_date(until)}" if until is not None else ""
    done = f"{name} is trusted as {role}, with the key {public.fingerprint}{lasts}"
    already = f"{name} is trusted as exactly this already"
    _change(path, name, lambda t: add(t, name, role, public, address, until), done, already, as_json, makes=True)


@trust_verb("rotate")
@click.argument("name")
@click.argument("key")
@click.option(
    "--old-until", metavar="DATE|DURATION", help="When its other keys expire; default: never, until they are revoked."
)
@trust_options
def rotate_(name: str, key: str, old_until: str | None, path: Path, as_json: bool) -> None:
    """Give NAME a new KEY beside its old ones, which count for a while yet.

    Tickets that were signed with an old key, or for it, end with it: let it outlive the longest lease.
    An end that an old key has already is never put off.

    Example:  leasehold rotate tenant tenant-2.pub --old-until 30d
              leasehold rotate tenant tenant-2.pub --old-until 2031-01-31T12:00Z
    """
    now = time.time()
    public, until = public_key(key), moment(old_until, "--old-until", now)

    def done(actor: TrustedActor) -> str:
        ends = [f"{k.key.fingerprint} counts until {_end(k)}" for k in actor.keys[:-1] if k.valid(now)]
        return f"{name} has the new key {public.fingerprint}; {', '.join(ends) or 'no older key of it counts'}"

    _change(path, name, lambda trust: rotate(trust, name, public, until), done, "", as_json)


@trust_verb("revoke")
@click.argument("name")
@click.argument("fingerprint")
@trust_options
def revoke_(name: str, fingerprint: str, path: Path, as_json: bool) -> None:
    """Take a key from NAME, at once and for ever: nothing that it signed counts any more.

    Example:  leasehold revoke tenant 0123456789abcdef0123456789abcdef
    """

    def done(actor: TrustedActor) -> str:
        left = sum(k.valid(time.time()) for k in actor.keys)
        counts = f"{left} of its keys count" if left != 1 else "one of its keys counts"
        return f"the key {fingerprint} of {name} is revoked; {counts if left else 'no key of it counts any more'}"

    already = f"the key {fingerprint} of {name} was revoked before"
    _change(path, name, lambda trust: revoke(trust, name, fingerprint), done, already, as_json)


@trust_verb("remove-actor")
@click.argument("name")
@trust_options
def remove_actor(name: str, path: Path, as_json: bool) -> None:
    """Trust NAME no more, and forget its keys, the revoked ones too.

    Example:  leasehold remove-actor tenant
    """
    _change(path, name, lambda trust: remove(trust, name), f"{name} is trusted no more", "", as_json)


@trust_verb("readdress")
@click.argument("name")
@click.argument("url")
@trust_options
def readdress_(name: str, url: str, path: Path, as_json: bool) -> None:
    """Say that NAME has moved, and messages for it go to URL from now on.

    Example:  leasehold readdress site http://10.0.0.19:8472
    """
    is_at = f"{name} is at {url}"
    _change(path, name, lambda trust: readdress(trust, name, url), is_at, f"{is_at} already", as_json)


@trust_verb("trust")
@trust_options
def trust_(path: Path, as_json: bool) -> None:
    """Show who is trusted: role, address, and every key with its end.

    Example:  leasehold trust
              leasehold trust --trust /etc/leasehold/trust.yaml --json
    """
    trust = trust_file.load(path)
    actors = [_plain(trust.actors[name], time.time()) for name in sorted(trust.actors)]
    if as_json:
        print_json({"trust": str(path), "actors": actors})
        return
    screen = console()
    if not screen.is_terminal:
        screen.width = 2000  # there, no line is cut
    screen.print(_table(actors) if actors else f"{path}: nobody is trusted yet")


def _table(actors: list[dict[str, Any]]) -> Table:
    """A line for each key; the first has the facts about its actor. A key without a date counts until revoked."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "role", "address", "key", "until", "state"):
        table.add_column(heading, overflow="fold")
    for actor in actors:
        about = (actor["name"], actor["role"], actor["address"])
        for key in actor["keys"] or [{"fingerprint": "none", "not_after": None, "state": ""}]:
            cells = (*about, key["fingerprint"], key["not_after"] or "", key["state"])
            table.add_row(*(Text(cell or "") for cell in cells))  # as text: an address may hold brackets
            about = ("", "", "")
    return table


def _plain(actor: TrustedActor, now: float) -> dict[str, Any]:
    keys = [
        {
            "public_key": str(k.key),
            "fingerprint": k.key.fingerprint,
            "not_after": None if k.not_after is None else _date(k.not_after),
            "revoked": k.revoked,
            "state": "revoked" if k.revoked else "counts" if k.valid(now) else "over",
        }
        for k in actor.keys
    ]
    return {"name": actor.name, "role": actor.kind, "address": actor.address or None, "keys": keys}


def _end(key: TrustedKey) -> str:
    return "it is revoked" if key.not_after is None else _date(key.not_after)


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
