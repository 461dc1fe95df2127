"""The steps of a system in Promela: one alternative for each transition, machine, message and witness.

They stand in the order of `Reference.successors`. An alternative is one `d_step`: its guard says exactly whether
the step is possible, and nothing in it blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from leasehold.checker.export.promela_layout import ChannelLink, PromelaNames, scalars
from leasehold.checker.export.promela_machines import PromelaMachines
from leasehold.checker.export.promela_messages import bit_of
from leasehold.checker.export.shared import Unsupported, fair_group, numbered, repeated, witnesses
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Offer, messages_of
from leasehold.spec.language.model import Channel, Message, Role, Transition, machine_name

MOST_ALTERNATIVES = 20_000


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to go on.

    Attributes:
        label: what happens, in words.
        section: what it stands under.
        took: role, instance and event, where a machine consumes one.
        group: of weak fairness; None: it need never happen.
    """

    section: str
    label: str
    guard: str
    body: tuple[str, ...]
    took: tuple[str, int, str] | None = None
    group: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """A slot from which a message may be received.

    Attributes:
        place: its number, as words; `first` is done before they mean anything.
        slot: the slot.
        test: a condition, as the beginning of a guard.
        cost: what is spent of the channel's faults.
        turn: whether it is this message's turn.
    """

    place: str
    slot: str
    test: str = ""
    first: tuple[str, ...] = ()
    cost: tuple[str, ...] = ()
    turn: bool = True


class PromelaSteps:
    """All alternatives of a system, and the definitions that they need besides the machines'."""

    def __init__(self, layout: PromelaNames, machines: PromelaMachines) -> None:
        self.layout, self.system, self.machines = layout, layout.system, machines
        self.definitions: dict[str, str] = {}

    def all(self) -> list[Alternative]:
        found: list[Alternative] = []
        for part in (self._machines(), self._lanes(), self._time()):
            for alternative in part:
                found.append(alternative)
                if len(found) > MOST_ALTERNATIVES:
                    raise Unsupported(
                        f"the model has more than {MOST_ALTERNATIVES:,} alternatives",
                        "set constants that number machines and values lower",
                    )
        return found

    # Machines

    def _machines(self) -> Iterator[Alternative]:
        for role, i in self.system.machines():
            who = machine_name(role, i)
            for offer, condition in self.machines.offered(role):
                for tr in (choice.transition for choice in offer.choices):
                    yield from self._local(role, i, who, offer, condition, tr)
            for tr in (tr for tr in role.transitions() if tr.event == "tick"):
                call = self._call(role, tr, str(i), "", [])
                yield Alternative(
                    f"{role.name}: {tr.name}", f"{tr.name} by {who}", self._guard("", tr, call),
                    self._take(role, tr, call), (role.name, i, "tick"), ("tick", role.name, i),
                )  # fmt: skip

    def _local(
        self, role: Role, i: int, who: str, offer: Offer, condition: str, tr: Transition
    ) -> Iterator[Alternative]:
        fields = self.system.fields_of(role.name, offer.event)
        for values in witnesses(self.system, fields):
            rows = [w for f, v in zip(fields, values, strict=True) for w in self.layout.literal(f.type, v)]
            call = self._call(role, tr, str(i), "", rows)
            shown = ", ".join(f"{f.name}={t.show(f.type, v)}" for f, v in zip(fields, values, strict=True))
            label = f"{tr.name} by {who}" + (f": {shown}" if shown else "")
            yield Alternative(
                f"{role.name}: {tr.name}" + (f" ({offer.name})" if offer.cause == "environment" else ""), label,
                self._guard(f"{condition}{call} && " if condition else "", tr, call), self._take(role, tr, call),
                (role.name, i, offer.event), fair_group(offer, i),
            )  # fmt: skip

    def _call(self, role: Role, tr: Transition, me: str, sender: str, rows: list[str]) -> str:
        return self.machines.arguments(role, tr.event, me, sender, rows)

    def _guard(self, before: str, tr: Transition, call: str) -> str:
        word = self.machines.word(tr)
        room = f" && Room_{word}{call}" if self.machines.room(self.system.roles[tr.role], tr) else ""
        return f"{before}When_{word}{call}{room}"

    def _take(self, role: Role, tr: Transition, call: str) -> tuple[str, ...]:
        return *self._checks(role, tr, call), f"Take_{self.machines.word(tr)}{call}"

    # Messages

    def _lanes(self) -> Iterator[Alternative]:
        for channel in self.system.channels.values():
            for joint in self.layout.joints(channel):
                if channel.kind == "set":
                    yield from self._members(joint)
                    continue
                for spot in self._spots(joint):
                    yield from self._arrivals(joint, spot)
                for place in range(self.layout.slots(channel)):
                    if channel.kind == "mailbox" and repeated(self.system, channel):
                        yield from self._again(joint, place)
                    if channel.lose:
                        yield self._loss(joint, place)

    def _ranked(self, channel: Channel) -> bool:
        return channel.kind == "mailbox" and numbered(self.system, channel)

    def _members(self, joint: ChannelLink) -> Iterator[Alternative]:
        """Messages of a set: they stay, so that one which is ignored is no step."""
        for m in messages_of(self.system, joint.channel):
            for k, values in enumerate(self.layout.held(joint.channel, m)):
                rows = [w for f, v in zip(m.fields, values, strict=True) for w in self.layout.literal(f.type, v)]
                bit = bit_of(self.layout, joint, m, k)
                for tr, call in self._takers(joint, m, rows):
                    yield self._delivery(joint, m, tr, self._guard(f"{bit} && ", tr, call), (), call, True)

    def _spots(self, joint: ChannelLink) -> Iterator[Spot]:
        """Where a message may be received from, if one lies there that was not received before."""
        channel, place = joint.channel, joint.place
        slots = range(self.layout.slots(channel))
        if channel.kind == "bag":
            yield from (Spot(str(k), f"{place}.slot[{k}]") for k in slots)
            return
        if self._ranked(channel):
            following = f"Next_{channel.name}({place})"
            yield Spot(
                "Turn", f"{place}.slot[{following}]", f"{following} < {len(slots)} && ", (f"Turn = {following}",)
            )
        else:
            yield Spot("0", f"{place}.slot[0]")
        if channel.reorder:
            for k in slots[1:]:
                slot, before = f"{place}.slot[{k}]", f"{place}.slot[{k - 1}]"
                early = f"{slot}.number > 0 && {before}.number > 0 && " if self._ranked(channel) else ""
                cost = tuple(self._spend(channel, "reorder"))
                yield Spot(str(k), slot, early + self._may(channel, "reorder"), cost=cost, turn=False)

    def _arrivals(self, joint: ChannelLink, spot: Spot) -> Iterator[Alternative]:
        """What may become of a message when it is received; a copy may stay on its way."""
        channel = joint.channel
        copies: list[tuple[str, bool, tuple[str, ...]]] = [("", False, ())]
        if channel.duplicate:
            copies.append((self._may(channel, "duplicate"), True, tuple(self._spend(channel, "duplicate"))))
        for may, copy, cost in copies:
            for m in messages_of(self.system, channel):
                kind = f"{spot.slot}.kind == {self.layout.kind(m.name)} && "
                yield from self._received(joint, spot, m, spot.test + kind + may, (*spot.cost, *cost), copy)

    def _received(
        self, joint: ChannelLink, spot: Spot, m: Message, condition: str, cost: tuple[str, ...], copy: bool
    ) -> Iterator[Alternative]:
        """A new message is consumed by one of the receiver's transitions, or dropped by a state that has none."""
        lying = [f"{spot.slot}.{name}" for name, _ in self.layout.fields(joint.channel, m)]
        got = [self.machines.hide(f"Got_{m.name}_{name}", of)
               for f in m.fields for name, of in scalars(f.name, f.type)]  # fmt: skip
        keep = [f"{a} = {b}" for a, b in zip(got, lying, strict=True)]
        out = (*spot.first, *self._take_out(joint, spot.place, copy), *cost)
        receiver = self.system.roles[joint.channel.receiver]
        takers = list(self._takers(joint, m, lying))
        for tr, call in takers:
            taken = self._call(receiver, tr, joint.receiver, joint.sender, got)
            body = (*self._checks(receiver, tr, call), *keep, *out)
            yield self._delivery(joint, m, tr, self._guard(condition, tr, call), body, taken, spot.turn, copy)
        calls = [f"When_{self.machines.word(tr)}{call}" for tr, call in takers]
        guard = f"{condition}!({' || '.join(calls)})" if calls else condition.removesuffix(" && ")
        yield self._delivery(joint, m, None, guard, out, "", spot.turn, copy)

    def _checks(self, receiver: Role, tr: Transition, call: str) -> list[str]:
        check = self.machines.disjoint(receiver, tr, call).removesuffix("; ")
        return [check] if check else []

    def _takers(self, joint: ChannelLink, m: Message, rows: list[str]) -> Iterator[tuple[Transition, str]]:
        """The receiver's transitions on a message, each with the brackets in which the message stands."""
        role = self.system.roles[joint.channel.receiver]
        for tr in role.transitions():
            if tr.event == m.name:
                yield tr, self._call(role, tr, joint.receiver, joint.sender, rows)

    def _delivery(
        self, joint: ChannelLink, m: Message, tr: Transition | None, guard: str, out: tuple[str, ...], call: str,
        turn: bool, copy: bool = False,
    ) -> Alternative:  # fmt: skip
        channel = joint.channel
        sender, receiver = self.system.roles[channel.sender], self.system.roles[channel.receiver]
        here = machine_name(receiver, int(joint.receiver))
        way = f"{machine_name(sender, int(joint.sender))} to {here}"
        what = tr.name if tr is not None else f"{m.name} is ignored or refused"
        extra = ("" if turn else ", before its turn") + (", and a copy stays on its way" if copy else "")
        body = [*out, *([f"Take_{self.machines.word(tr)}{call}"] if tr is not None else [])]
        return Alternative(
            f"{receiver.name}: {what}{extra}", f"{what}, {way}{extra}", guard, tuple(body or ["skip"]),
            (receiver.name, int(joint.receiver), m.name),
            ("deliver", channel.name, joint.sender, joint.receiver) if turn and not copy else None,
        )  # fmt: skip

    def _again(self, joint: ChannelLink, place: int) -> Iterator[Alternative]:
        """A message is received that was received before: no transition is taken, and answers are sent again."""
        channel, slot = joint.channel, f"{joint.place}.slot[{place}]"
        sender, receiver = self.system.roles[channel.sender], self.system.roles[channel.receiver]
        answers = [m for m in messages_of(self.system, channel) if m.answer]
        requests = [m for m in messages_of(self.system, channel) if not m.answer]
        way = f"{machine_name(sender, int(joint.sender))} to {machine_name(receiver, int(joint.receiver))}"
        words = [*([joint.receiver] if receiver.indexed else []), *([joint.sender] if sender.indexed else [])]
        resend = f"{self.machines.resend_word(receiver, sender)}({', '.join(words)})"
        for kinds, body in ((requests, [resend]), (answers, [])):
            if kinds:
                test = " || ".join(f"{slot}.kind == {self.layout.kind(m.name)}" for m in kinds)
                yield Alternative(
                    f"{receiver.name}: a message over {channel.name} comes again", f"a duplicate, {way}",
                    f"({test}) && {slot}.number == 0", (*self._take_out(joint, str(place), False), *body), None,
                    ("deliver", channel.name, joint.sender, joint.receiver),
                )  # fmt: skip

    def resends(self) -> list[tuple[Role, Role]]:
        """Receivers and senders between whom a message may come again."""
        mailboxes = [c for c in self.system.channels.values() if c.kind == "mailbox" and repeated(self.system, c)]
        asking = [c for c in mailboxes if any(not m.answer for m in messages_of(self.system, c))]
        return [(self.system.roles[c.receiver], self.system.roles[c.sender]) for c in asking]

    def _take_out(self, joint: ChannelLink, place: str, copy: bool) -> list[str]:
        channel = joint.channel
        if self._ranked(channel):
            return [f"Receive{'_copy' if copy else ''}_{channel.name}({joint.place}, {place})"]
        return [] if copy else [f"Drop_{channel.name}({joint.place}, {place})"]

    def _loss(self, joint: ChannelLink, place: int) -> Alternative:
        channel = joint.channel
        guard = f"{joint.place}.slot[{place}].kind != 0 && {self._may(channel, 'lose')}".removesuffix(" && ")
        body = [f"Drop_{channel.name}({joint.place}, {place})"]
        body += [f"Rank_{channel.name}({joint.place})"] if self._ranked(channel) else []
        return Alternative(
            f"{channel.name} loses a message", f"{joint.place} loses the message in slot {place}", guard,
            (*body, *self._spend(channel, "lose")),
        )  # fmt: skip

    def _may(self, channel: Channel, fault: str) -> str:
        """Whether a channel may still have a fault, as the beginning of a guard."""
        return "" if isinstance(getattr(channel, fault), str) else f"{left(channel, fault)} > 0 && "

    def _spend(self, channel: Channel, fault: str) -> list[str]:
        return [] if isinstance(getattr(channel, fault), str) else [f"{left(channel, fault)}--"]

    # Time

    def _time(self) -> Iterator[Alternative]:
        passage = self.layout.relation.passage
        if passage is None:
            return
        due = [
            f"When_{self.machines.word(c.transition)}{self._call(role, c.transition, str(i), '', [])}"
            for role, i in self.system.machines()
            for offer in passage.unless
            if offer.role is role
            for c in offer.choices
        ]
        wait = " && !Due" if due else ""
        if due:
            self.definitions["Due"] = f"#define Due ({' || '.join(due)})"
        yield Alternative(
            "the clock", "the clock ticks", f"clock < {passage.clock.horizon}{wait}", ("clock++",), None, ("clock",)
        )


def left(channel: Channel, fault: str) -> str:
    """The variable that says how many of a channel's faults are left."""
    return f"Left_{channel.name}_{fault}"
