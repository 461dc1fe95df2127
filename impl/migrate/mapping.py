"""Mapping of one record from an older specification to a newer one, or the reasons why it cannot be mapped.

Theory of operation (paper, section 5.1: a field that silently began anew is how recovery goes wrong). A value whose
name is in both specifications is carried over, if the new type takes it. All other values need a rule: a removed state,
a new field, a dropped field. Sequence numbers and the messages of sessions follow their neighbours, and the state epoch
stays, so that the actor recognises a message or an answer that was under way when it comes again.

Where several channels lead from one role to another, numbers follow the messages. The stores of the two ends are mapped
apart, so each has to come to numbers that are right with those of the other. If the messages of a channel went over one
channel before, its numbers go on from that one, also those of several such channels: what was not received has a number
that was not received on either side. Numbers of two channels that become one have no common order, so a record that has
both is refused.

A mistake in the rules is reported with its place in migrations.yaml; a value that no rule covers is reported with its
record, and only once for a role where it concerns all of its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from leasehold.impl.actor.session import SESSIONS
from leasehold.impl.actor.table import DRIVERS
from leasehold.impl.core.codec import VERSION, Codec, RecordError, read_head
from leasehold.impl.core.core import Core, CoreError, Field, Program
from leasehold.impl.core.values import ValueFault, from_plain, named_fields, to_plain
from leasehold.impl.core.work import Record, SendWork
from leasehold.impl.migrate.schema import FieldSchema, RecordSchema, lane_names, type_text
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import did_you_mean, over, parted
from leasehold.spec import SpecError, System
from leasehold.spec.language.diagnostics import Place, Sink, listed, near_miss
from leasehold.spec.language.migration_rules import MigratedField, MigratedRole, Migration
from leasehold.spec.language.types import Instance, Map, SparseMap, members

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, list[str] | dict[str, str], dict[str, Any]]).decode


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why a record cannot be migrated.

    Attributes:
        field: the field, or another part of the record: `state`, `sent`; empty for the whole.
    """

    lease: str
    machine: str
    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.lease} {self.machine}{f', {self.field}' if self.field else ''}: {self.what}"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A row of the new specification; `key` is None where the record is dropped."""

    key: RecordKey | None
    row: bytes
    role: str
    before: str
    after: str


class UnmappableRecord(Exception):
    """A record cannot be migrated."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class Mapper:
    """Maps the rows of one store.

    Args:
        old: the schema of the records.
        system: the new specification.
        program: the same, compiled.

    Raises:
        SpecError: a rule names something that the old specification does not have.
    """

    def __init__(self, old: RecordSchema, system: System, program: Program) -> None:
        self.old, self.system, self.program = old, system, program
        self.rules = rules_for(system, old)
        check_rules(self.rules, old)
        renamed = {rules.was: name for name, rules in self.rules.roles.items()}
        kept = {name: name for name in old.roles if name in program.roles and name not in self.rules.roles}
        self.names = {**kept, **renamed}  # the new names of old roles
        self.roles = {was: self._role(was, name) for was, name in self.names.items()}
        self._told: set[str] = set()

    def _role(self, was: str, name: str) -> RoleMapper:
        rules = self.rules.roles.get(name, MigratedRole(name, was))
        return RoleMapper(self.old, was, self.program, self.program.roles[name], rules, self.names)

    def map(self, key: RecordKey, row: bytes) -> Mapped:
        """The new row of a record.

        Raises:
            UnmappableRecord: there is none; it carries every reason.
        """
        try:
            body, peers, metadata = _decode(row)
            digest, was, plain = read_head(body)
        except (msgspec.DecodeError, ValueError, RecordError) as error:
            raise UnmappableRecord([Problem(*key, "", f"the row is not whole: {error}")]) from None
        mapper = self.roles.get(was)
        named = self.old.roles[was].named(plain) if was in self.old.roles else None
        wrong = ""
        if digest != self.old.digest:
            wrong = f"it was written by {digest[:12]}, and not by {self.old.digest[:12]} as the others"
        elif mapper is None and was in self.old.roles:
            more = did_you_mean(was, self.program.roles)
            wrong = f"the new specification has no role `{was}`, and no rule says `was: {was}`{more}"
        elif mapper is None or named is None or key.machine != self.old.roles[was].machine(was, named):
            wrong = "it is no record of this machine"
        elif not self.old.roles[was].dynamic and len(peers) != len(self.old.roles[was].neighbours):
            wrong = f"it knows {len(peers)} peers, not {len(self.old.roles[was].neighbours)}"
        if wrong or mapper is None or named is None:
            raise UnmappableRecord([Problem(*key, "", wrong)])
        return self._mapped(mapper, key, named, peers, metadata)

    def _mapped(self, mapper: RoleMapper, key: RecordKey, named: dict[str, Any], peers: Any, metadata: Any) -> Mapped:
        core, before, instance = mapper.core, named["state"], named.get("instance", 0)
        if core.indexed and not core.dynamic and instance >= (count := self.system.roles[core.role].count):
            if str(before) not in mapper.rules.forget:
                more = f"bring it to an end, or list its state under `forget` of `{core.role}`"
                reason = (
                    f"the new specification has {count} machines of `{core.role}`, and this one is {before}; {more}"
                )
                raise UnmappableRecord([Problem(*key, "", reason)])
            return Mapped(None, b"", core.role, before, "")
        found = (*mapper.problems(named), *mapper.merged(named), *mapper.unsendable(metadata))
        problems = [Problem(*key, name, reason) for name, reason in found]
        if core.role not in self._told:
            self._told.add(core.role)
            all_of = f" (and so every record of `{core.role}`)"
            problems += [Problem(*key, name, reason + all_of) for name, reason in mapper.silent]
        if problems or mapper.silent:
            raise UnmappableRecord(problems)
        try:
            body = mapper.write(named)
        except CoreError as error:
            raise UnmappableRecord([Problem(*key, "", str(error))]) from None
        row = _encode([body, mapper.peers(peers), mapper.with_metadata(metadata)])
        machine = RecordKey(key.lease, core.machine(instance))
        return Mapped(machine, row, core.role, before, mapper.state(before) or before)


class RoleMapper:
    """Maps the records of one role.

    Attributes:
        silent: the parts of all records of the role that no rule covers, each with the reason.
    """

    def __init__(
        self,
        old: RecordSchema,
        was: str,
        program: Program,
        core: Core,
        rules: MigratedRole,
        names: Mapping[str, str],
    ) -> None:
        self.old, self.core, self.rules, self.names = old.roles[was], core, rules, names
        self.program, self.codec = program, Codec(program, core)
        self.digest = bytes.fromhex(program.digest)
        self.before = {f.name: f for f in self.old.fields}
        self.channels = old.channels or {}
        self.here = [parted(_renamed(name, names)) for name in self.old.neighbours]  # machines and channels
        self.there = [parted(name) for name in lane_names(program, core)]
        self.dynamic = [parted(_renamed(name, names)) for name in self.old.dynamic]
        self.silent = [*self._fields(), *self._neighbours(), *self._kinds()]

    def _kinds(self) -> Iterator[tuple[str, str]]:
        if self.old.indexed != self.core.indexed:
            yield (
                "instance",
                "only one of the two specifications numbers its machines, and no rule maps that",
            )
        if self.old.subsidiary != self.core.subsidiary:
            yield "", "it is subsidiary in only one of the two specifications, and no rule maps that"
        elif self.old.of_run != self.core.of_run:
            yield "", "its machines belong to runs in only one of the two specifications, and no rule maps that"

    def _neighbours(self) -> Iterator[tuple[str, str]]:
        here, there = (dict.fromkeys(machine for machine, _ in lanes) for lanes in (self.here, self.there))
        for name in there:
            if name not in here:
                yield "sent", f"`{name}` is a new neighbour, which the record knows nothing of; end the lease first"
        for name in here:
            if name not in there:
                yield "sent", f"`{name}` is no neighbour any more; end the lease first"
        for name in sorted({role for role, _ in self.dynamic} ^ {*self.core.dynamic_neighbours}):
            yield "sent", f"`{name}` was dynamic, or is now, and its machines are neighbours; end what runs first"

    def _fields(self) -> Iterator[tuple[str, str]]:
        taken = set(self.rules.drop)
        for new in self.core.fields:
            rule = self.rules.fields.get(new.name)
            source = self._source(new)
            if source is not None:
                taken.add(source)
                yield from self._cells(new, self.before[source], rule)
            elif rule is None:
                hint = near_miss(new.name, self.before)
                was = f"from: {hint.strip('`')}" if hint else "from: OLD_FIELD"
                yield new.name, f"no rule says its value; write `{{{was}}}`, `{{value: VALUE}}` or `{{initial: true}}`"
        for name in self.before:
            if name not in taken and name in self.rules.fields:
                yield name, f"a rule gives it another value; write `drop: [{name}]` to give up the old one"
            elif name not in taken:
                yield (
                    name,
                    f"the new `{self.core.role}` has no such field, and no rule takes its value or drops it",
                )

    def _source(self, new: Field) -> str | None:
        """The old field that a field takes its value from; None where it takes it from none."""
        rule = self.rules.fields.get(new.name)
        if rule is not None:
            return rule.source or None
        return new.name if new.name in self.before and new.name not in self.rules.drop else None

    def _cells(self, new: Field, old: FieldSchema, rule: MigratedField | None) -> Iterator[tuple[str, str]]:
        if isinstance(new.type, SparseMap) and old.entries:
            rest = to_plain(new.type.of, new.type.rest)
            if rest != old.rest:
                yield new.name, f"machines without an entry had {old.rest}, and would have {rest}; give it a `value`"
            return
        cells = _cells_of(new)
        if bool(cells) != bool(old.cells):
            yield new.name, f"it was {old.type} and is {type_text(new.type)}; give it a `value`"
        elif _by_machine(new):
            return  # as many cells as there are machines: one of a new machine is as at first
        elif gone := [cell for cell in old.cells if cell not in cells]:
            yield new.name, f"the cells {listed(gone)} of the old map are gone; give it a `value`"
        elif (fresh := [cell for cell in cells if cell not in old.cells]) and (rule is None or not rule.filled):
            yield new.name, f"the cells {listed(fresh)} are new; write `{{from: {old.name}, cells: VALUE}}`"

    # One record

    def state(self, before: str) -> str | None:
        """The new name of a state, also of one that remembers tasks (spec/language/lower/outlive.py), or None."""
        states = self.rules.states
        base, *tasks = before.split("__")
        named = (states.get(before, ""), "__".join([states.get(base, base), *tasks]), before)
        return next((state for state in named if state in self.core.states), None)

    def problems(self, named: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The parts of a record that no rule covers or the new types do not take, each with the reason."""
        before = named["state"]
        if before not in self.old.states:
            yield "state", f"{str(before)[:60]!r} was no state of the old specification"
        elif self.state(before) is None:
            more = did_you_mean(before, self.core.states)
            yield "state", f"the new `{self.core.role}` has no state `{before}`, and no rule names it anew{more}"
        for new in self.core.fields:
            source = self._source(new)
            if source is not None:
                was = "" if source == new.name else f" (from `{source}`)"
                if gone := self._lost_cells(new, named, self.before[source]):
                    yield new.name, f"the cells {listed(gone)} are gone, and hold something{was}"
                try:
                    from_plain(new.type, self._value(new, named))
                except ValueFault as fault:
                    yield new.name, f"{fault}{was}"

    @staticmethod
    def _lost_cells(new: Field, named: Mapping[str, Any], before: FieldSchema) -> list[str]:
        """The cells of machines that are there no more, and that are not as at first."""
        value = named[f"field {before.name}"]
        if not _by_machine(new) or not isinstance(value, list) or not isinstance(new.type, Map):
            return []
        cells, first = _cells_of(new), _first_cell(new, named.get("instance", 0))
        return [cell for cell, kept in zip(before.cells, value, strict=False) if cell not in cells and kept != first]

    def _value(self, new: Field, named: Mapping[str, Any]) -> Any:
        rule, source = self.rules.fields.get(new.name), self._source(new)
        if source is None:
            assert rule is not None
            return to_plain(new.type, new.first(named.get("instance", 0)) if rule.initial else rule.value)
        value, old = named[f"field {source}"], self.before[source]
        if old.entries and isinstance(value, dict):
            return {_renamed(machine, self.names): kept for machine, kept in value.items()}
        cells = _cells_of(new)
        if not isinstance(new.type, Map) or cells == old.cells or not isinstance(value, list):
            return value
        if len(value) != len(old.cells):
            raise ValueFault(f"it has {len(value)} cells, not {len(old.cells)}")
        cell_of = dict(zip(old.cells, value, strict=True))
        if rule is not None and rule.filled:
            fill = [to_plain(new.type.of, rule.cells)] * len(cells)
        else:
            fill = to_plain(new.type, new.first(named.get("instance", 0)))
        return [cell_of.get(cell, value) for cell, value in zip(cells, fill, strict=True)]

    # What is kept of neighbours: over the channels that the new specification has.

    def _went(self, which: str, role: str, channel: str) -> list[str]:
        """The old channels whose numbers go on over a channel to or from a role; "": the two had but one pair."""
        were = list(dict.fromkeys(c for name, c in (*self.here, *self.dynamic) if name.partition("[")[0] == role))
        own = self.core.role
        ends = (own, role, channel) if which == "sent" else (role, own, channel)
        messages = [n for n, of in self.program.messages.items() if (of.sender, of.receiver, of.channel) == ends]
        if were == [""]:
            return were if messages or not channel else []
        known = {self.channels[name] for name in messages if name in self.channels}
        return [c for c in were if c in (known or ({channel} if messages else ()))]

    def _numbers(self, which: str, numbers: Any) -> Iterator[tuple[str, str, list[Any]]]:
        """Yields, by new machine and channel, the old numbers that go on there, in the order of the neighbours."""
        if isinstance(numbers, dict):
            old = {parted(_renamed(name, self.names)): value for name, value in numbers.items()}
            there = [
                (machine, channel)
                for machine in dict.fromkeys(machine for machine, _ in old)
                for channel in self._channels(machine.partition("[")[0])
            ]
        else:
            old, there = dict(zip(self.here, numbers, strict=True)), self.there
        for machine, channel in there:
            went = self._went(which, machine.partition("[")[0], channel)
            yield machine, channel, [old[machine, c] for c in went if (machine, c) in old]

    def _channels(self, role: str) -> list[str]:
        """The channels over which the machines talk with those of a role; "": with one pair of numbers."""
        core = self.core
        roles = (*(name for name, _ in core.neighbours), *core.dynamic_neighbours)
        return list(dict.fromkeys(core.channel(at) for at, name in enumerate(roles) if name == role))

    def in_order(self, which: str, numbers: Any) -> Any:
        """The numbers that were sent or received, in the new order; by name, where there may be any number."""
        found = [(m, c, next(filter(None, had), had[0] if had else 0)) for m, c, had in self._numbers(which, numbers)]
        if isinstance(numbers, dict):
            return {over(machine, channel): number for machine, channel, number in found if number != 0}
        return [number for _, _, number in found]

    def merged(self, named: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The numbers of several channels that would become one."""
        for which in ("sent", "received"):
            if self.silent or self.core.subsidiary or not self._has_whole(numbers := named[which]):
                continue  # that is said elsewhere
            for machine, channel, had in self._numbers(which, numbers):
                if sum(map(bool, had)) > 1:
                    way = f"{'to' if which == 'sent' else 'from'} {machine}"
                    went = listed(self._went(which, machine.partition("[")[0], channel))
                    yield (
                        which,
                        f"messages {way} had numbers apart over {went}, and would have one; end the lease first",
                    )

    def _has_whole(self, numbers: Any) -> bool:
        """Returns whether a record has numbers of its old neighbours."""
        kept = isinstance(numbers, list) and len(numbers) == len(self.old.neighbours)
        return isinstance(numbers, dict) if self.old.dynamic else kept

    def peers(self, peers: Any) -> Any:
        """The actors of the neighbours, in the new order; by name, where there may be any number of these."""
        if isinstance(peers, dict):
            old = {parted(_renamed(name, self.names))[0]: actor for name, actor in peers.items()}
            lanes = [(machine, channel) for machine in old for channel in self._channels(machine.partition("[")[0])]
            return {over(machine, channel): old[machine] for machine, channel in lanes}
        of_machine = {machine: actor for (machine, _), actor in zip(self.here, peers, strict=True)}
        return [of_machine[machine] for machine, _ in self.there]

    # Sessions keep messages by the position of their neighbour (impl/actor/session.py).

    def _lane(self, before: int) -> tuple[str, str]:
        """The machine and the channel of an old position."""
        dynamic = before - len(self.here)
        if dynamic < 0:
            return self.here[before]
        number, turn = divmod(dynamic, len(self.dynamic))
        role, channel = self.dynamic[turn]
        return self.program.roles[role].machine(number), channel

    def _position(self, before: int, message: str) -> int:
        """The new position for a message to the neighbour that was at an old one."""
        machine, channel = self._lane(before)[0], self.program.messages[message].channel
        if before < len(self.here):
            return self.there.index((machine, channel))
        position = self.program.lane_at(self.core, 0, over(machine, channel))
        assert position is not None
        return position

    def with_metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what is kept with a record: messages of sessions at new positions, and drivers by new names."""
        result = dict(metadata)
        if SESSIONS in metadata:
            result[SESSIONS] = {
                str(self._position(int(at), kept[0][1])): kept for at, kept in metadata[SESSIONS].items()
            }
        if DRIVERS in metadata:
            result[DRIVERS] = [[lease, _renamed(machine, self.names)] for lease, machine in metadata[DRIVERS]]
        return result

    def unsendable(self, metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The messages of sessions that the new specification does not have in this form, each with the reason."""
        if self.silent:
            return  # of neighbours, perhaps
        for at, kept in metadata.get(SESSIONS, {}).items():
            machine, channel = self._lane(int(at))
            receiver = machine.partition("[")[0]
            go_on = [c for c in self._channels(receiver) if channel in self._went("sent", receiver, c)]
            of_sessions = {of.channel for of in self.program.messages.values() if of.ordered}
            if len(several := [c for c in go_on if c in of_sessions]) > 1:
                wait = f"{len(kept)} messages to {machine} wait to be taken"
                yield "sent", f"{wait}, and would have numbers apart over {listed(several)}; let them be taken first"
                continue
            for number, name, fields in kept:
                shape, wrong = self.program.messages.get(name), ""
                if shape is None or not shape.ordered or (shape.sender, shape.receiver) != (self.core.role, receiver):
                    wrong = f"no channel of the new specification keeps a `{name}` from {self.core.role} to {receiver}"
                else:
                    try:
                        named_fields(shape.fields, fields)
                    except ValueFault as fault:
                        wrong = f"`{name}`: {fault}"
                if wrong:
                    yield "sent", f"message {number} waits to be taken, and {wrong}; let it be taken first"

    def write(self, named: Mapping[str, Any]) -> bytes:
        """The new record, read once by the new codec.

        Raises:
            CoreError: it is none.
        """
        plain: list[Any] = [self.state(named["state"])]
        if self.core.indexed:
            plain.append(named["instance"])
        plain += [self._value(new, named) for new in self.core.fields]
        if not self.core.subsidiary:
            for which in ("sent", "received"):
                if not self._has_whole(named[which]):
                    raise RecordError("its sequence numbers are not those of its neighbours")
                plain.append(self.in_order(which, named[which]))
        # A task that has only now come to outlive its state was begun by the entry of the state that the record is in.
        plain += [named["entry"], *(named.get(f"since {task}", named["entry"]) for task in self.core.since)]
        record = self.codec.decode(_encode([VERSION, self.digest, self.core.role, plain]), self.core.unseen)
        self._check_said(record)
        return self.codec.encode(record)

    def _check_said(self, record: Record) -> None:
        """Checks whether a record's state says only what has a number: over a channel that is new nothing was sent.

        Raises:
            RecordError: it says more.
        """
        for piece in (w for w in self.core.work[record[0]](record) if isinstance(w, SendWork)):
            shape = self.program.messages[piece.message]
            if not shape.ordered and not self._went("sent", shape.receiver, shape.channel):
                said = f"`{record[0]}` sends `{piece.message}` over `{shape.channel}`"
                raise RecordError(f"its state {said}, a channel that the record knows nothing of; let it move on first")


def _cells_of(new: Field) -> tuple[str, ...]:
    """The keys of a map that has a value for each of them."""
    if not isinstance(new.type, Map) or isinstance(new.type, SparseMap):
        return ()
    return tuple(map(str, members(new.type.key)))


def _by_machine(new: Field) -> bool:
    """Returns whether a field is a map with a cell for each machine of a role."""
    return isinstance(new.type, Map) and isinstance(new.type.key, Instance)


def _first_cell(new: Field, instance: int) -> Any:
    """The value of a cell of a machine's new map, as plain data; None where that depends on the cell."""
    first = to_plain(new.type, new.first(instance))
    return first[0] if isinstance(first, list) and first and first.count(first[0]) == len(first) else None


def _renamed(neighbour: str, names: Mapping[str, str]) -> str:
    machine, channel = parted(neighbour)
    role, bracket, rest = machine.partition("[")
    return over(f"{names.get(role, role)}{bracket}{rest}", channel)


# The rules of a specification


def rules_for(system: System, old: RecordSchema) -> Migration:
    """The rules that map an older specification to this one; without any, rules that change nothing."""
    migrations = [m for m in system.migrations if old.digest.startswith(m.source)]
    return migrations[0] if migrations else Migration(old.digest)


def check_rules(rules: Migration, old: RecordSchema) -> None:
    """Checks that every old name in the rules is one of the old specification.

    Raises:
        SpecError: some are not; it carries each of them, with its place.
    """
    sink = Sink()

    def known(wording: str, what: str, names: Iterable[str], there: Iterable[str], place: Place) -> None:
        there = list(there)
        for name in names:
            if name not in there:
                sink.unknown(wording, place, name, there, digest=old.digest[:12], what=what)

    for role in rules.roles.values():
        known("unknown_old_role", "role", [role.was], old.roles, role.place)
        if role.was in old.roles:
            was = old.roles[role.was]
            state, field, fields = f"state of `{role.was}`", f"field of `{role.was}`", [f.name for f in was.fields]
            known("unknown_old_state", state, [*role.states, *sorted(role.forget)], was.states, role.place)
            known("unknown_old_field", field, sorted(role.drop), fields, role.place)
            for rule in role.fields.values():
                known("unknown_old_field", field, [rule.source] if rule.source else [], fields, rule.place)
    if sink.errors:
        raise SpecError(sink.found)
