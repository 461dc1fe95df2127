"""Messages on their way in Promela: all places where they may be, and what an expression asks of them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.checker.export.promela_layout import ChannelLink, PromelaNames, safe, scalars
from leasehold.checker.export.shared import numbered
from leasehold.spec.language import expression as x
from leasehold.spec.language.lower import messages_of
from leasehold.spec.language.model import Message, Update


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that may be on its way: a slot of a joint, or a member of a set."""

    present: str
    channel: str
    number: str
    kinds: Mapping[str, str]  # by kind of message: whether it is one
    fields: Mapping[str, Mapping[str, list[str]]]  # by kind and field
    whole: list[str] | None  # the scalars of the slot; None for a member of a set


@dataclass(frozen=True, slots=True)
class Commit:
    """A transition's updates, for an expression over the record as it will be."""

    updates: Mapping[str, Update]
    target: str
    before: PromelaBindings


@dataclass(frozen=True)
class PromelaBindings:
    """How names are written where an expression stands."""

    layout: PromelaNames
    role: str = ""  # whose own record it reads
    me: str = ""
    arguments: Mapping[str, list[str]] = field(default_factory=dict)
    sender: str = "0"
    variables: Mapping[str, str | Entry] = field(default_factory=dict)
    old: bool = False
    commit: Commit | None = None
    noted: set[tuple[str, str]] = field(default_factory=set)  # what of the state before is read: owner and name
    asked: set[str] = field(default_factory=set)  # `took`, where it is asked


def entries(name: str, f: PromelaBindings) -> list[Entry]:
    """All places where messages of a kind, or of a channel, may be on their way."""
    system = f.layout.system
    channel = system.channel_of(name) if name in system.messages else system.channels[name]
    if f.old:
        f.noted.add((channel.name, ""))
    found = []
    for joint in f.layout.joints(channel):
        place = f.layout.joint(channel, joint.sender, joint.receiver, f.old)
        found += _members(place, f) if channel.kind == "set" else _slots(place, f)
    return found


def _slots(joint: ChannelLink, f: PromelaBindings) -> list[Entry]:
    layout, channel = f.layout, joint.channel
    kinds = messages_of(layout.system, channel)
    found = []
    for k in range(layout.slots(channel)):
        slot = f"{joint.place}.slot[{k}]"
        number = "1"
        if channel.kind == "mailbox":
            number = f"{slot}.number" if numbered(layout.system, channel) else str(k + 1)
        fields = {m.name: _named_fields(layout, joint, m, slot) for m in kinds}
        whole = [f"{slot}.kind", number, *(f"{slot}.{name}" for name, _ in layout.entry(channel))]
        tests = {m.name: f"{slot}.kind == {layout.kind(m.name)}" for m in kinds}
        found.append(Entry(f"{slot}.kind != 0", channel.name, number, tests, fields, whole))
    return found


def _named_fields(layout: PromelaNames, joint: ChannelLink, message: Message, slot: str) -> dict[str, list[str]]:
    leaves = iter(layout.fields(joint.channel, message))
    return {
        field.name: [f"{slot}.{next(leaves)[0]}" for _ in scalars(field.name, field.type)] for field in message.fields
    }


def _members(joint: ChannelLink, f: PromelaBindings) -> list[Entry]:
    layout = f.layout
    found = []
    for m in messages_of(layout.system, joint.channel):
        for k, values in enumerate(layout.held(joint.channel, m)):
            fields = {
                field.name: layout.literal(field.type, value)
                for field, value in zip(m.fields, values, strict=True)
            }  # fmt: skip
            bit = bit_of(layout, joint, m, k)
            found.append(Entry(bit, joint.channel.name, "1", {m.name: "true"}, {m.name: fields}, None))
    return found


def bit_of(layout: PromelaNames, joint: ChannelLink, message: Message, place: int) -> str:
    """The bit that says whether a set holds a message."""
    many = len(layout.held(joint.channel, message)) > 1
    return f"{joint.place}.{safe(message.name)}" + (f"[{place}]" if many else "")


def stands_at(m: Entry, name: str, f: PromelaBindings) -> str:
    """Whether there is such a message at a place; `name` is of its kind or channel."""
    if name not in f.layout.system.messages:
        return m.present
    if m.whole is None:
        return m.present if name in m.kinds else "false"
    return m.kinds[name]


def entry(variable: str, f: PromelaBindings) -> Entry:
    found = f.variables[variable]
    assert isinstance(found, Entry)
    return found


def kind_of(m: Entry, f: PromelaBindings) -> str:
    found = "0"
    for name, holds in m.kinds.items():
        found = f"({holds} -> {f.layout.kind(name)} : {found})" if len(m.kinds) > 1 else f.layout.kind(name)
    return found


def same_message(a: x.Expression, b: x.Expression, f: PromelaBindings) -> str:
    assert isinstance(a, x.BoundVariable) and isinstance(b, x.BoundVariable)
    one, other = entry(a.name, f), entry(b.name, f)
    if one.channel != other.channel:
        return "false"
    if one.whole is not None and other.whole is not None:
        return joined(" && ", [f"{p} == {q}" for p, q in zip(one.whole, other.whole, strict=True)], "true")
    return "true" if (one.kinds, one.fields) == (other.kinds, other.fields) else "false"


def heard(name: str, f: PromelaBindings) -> str:
    layout = f.layout
    channel = layout.system.channels[name]
    if channel.kind == "mailbox" and numbered(layout.system, channel):
        if f.old:
            f.noted.add((channel.name, ""))
        places = [layout.joint(channel, j.sender, j.receiver, f.old).place for j in layout.joints(channel)]
        return joined(" && ", [f"{place}.newest <= 0" for place in places], "true")
    return joined(" && ", [f"!({stands_at(m, name, f)})" for m in entries(name, f)], "true")


def joined(glue: str, parts: list[str], empty: str) -> str:
    return f"({glue.join(parts)})" if parts else empty
