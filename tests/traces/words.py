"""Values and `Ready`s as the traces print them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.ready import (
    Begin,
    Complete,
    Consume,
    Decide,
    Deliver,
    Effect,
    PolicyCommand,
    Ready,
    Request,
    SendMessage,
    StartCall,
    Tell,
    TellPolicy,
)
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import Record
from leasehold.impl.store.store import RecordKey


def word(value: Any) -> str:
    """A value in a word."""
    match value:
        case frozenset():
            return "{" + ",".join(map(str, sorted(value))) + "}"
        case dict():
            return "{" + ",".join(f"{k}:{word(v)}" for k, v in sorted(value.items())) + "}"
        case bool() | None:
            return str(value).lower()
    return str(value)


def data(core: Core, record: Record) -> str:
    """The fields of a record that are not as at first."""
    first = core.view(core.first())
    return " ".join(f"{name}={word(value)}" for name, value in core.view(record).items() if value != first[name])


def machine(key: RecordKey) -> str:
    return key.machine if key.lease == BELOW else f"{key.machine} of {key.lease}"


def lines(actor: Actor, ready: Ready, requests: list[Request]) -> Iterator[str]:
    """Yields what follows from a turn: committed, told, acknowledged, sent, started."""
    for key, instance in ready.changed.items():
        yield f"commit {machine(key)}: {instance.state} {data(instance.core, instance.record)}".rstrip()
    for key in sorted(ready.dropped):
        yield f"drop {machine(key)}"
    for name in sorted(ready.metadata):
        if name != "specification" and not name.startswith("epoch of "):  # it has the name of a key, which is random
            yield f"keep {name} = {ready.metadata[name].decode(errors='replace') if name.isascii() else ''}"
    for request, reply in zip(requests, ready.replies, strict=True):
        if (said := _request(request)) and isinstance(reply, Exception):
            yield f"reject {said}: {reply}"
        elif said:
            yield f"acknowledge {said}" + (
                f", {reply.kind}" if hasattr(reply, "kind") and reply.kind != "taken" else ""
            )
    yield from (said for effect in ready.effects if (said := _effect(actor, effect)))


def _request(request: Request) -> str:
    match request:
        case Deliver(envelope, _):
            return f"{envelope.message} #{envelope.number} of {envelope.sender}"
        case Decide(decision):
            return f"decision {decision.event} for {decision.lease}"
        case Complete(key, event, _, _):
            return f"answer {event} for {machine(key)}"
        case PolicyCommand(_, method, arguments, _):
            return f"{method} of {arguments[0]}"
        case Begin(key, event, _, _) | Tell(key, event, _):
            return f"event {event} for {machine(key)}"
        case Consume(key, event):
            return f"event {event[0]} for {machine(key)}"
    return ""  # ticks and looks change nothing by themselves


def _effect(actor: Actor, effect: Effect) -> str:
    match effect:
        case SendMessage(key, send, number, fields):
            instance = actor.table.instances[key]
            names = [name for name, _ in actor.program.messages[send.message].fields]
            shown = " ".join(f"{n}={word(v)}" for n, v in zip(names, fields, strict=True))
            return f"send {send.message} #{number} to {instance.peers[send.neighbour]} {shown}".rstrip()
        case StartCall(key, call, _):
            return f"start {call.target} for {machine(key)}"
        case TellPolicy():
            return ""
    return ""
