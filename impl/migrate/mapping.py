"""Mapping of one record from an older specification to a newer one, or the reasons why it cannot be mapped.

Theory of operation (paper, section 5.1: a field that silently began anew is how recovery goes wrong). A value whose
name is in both specifications is carried over, if the new type takes it. All other values need a rule: a removed state,
a new field, a dropped field. Sequence numbers and the messages of sessions follow their neighbours, and the state epoch
stays, so that the actor recognises a message or an answer that was under way when it comes again.

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
from leasehold.impl.migrate.schema import FieldSchema, RecordSchema, RoleSchema, neighbour_name, type_text
from leasehold.impl.store.store import RecordKey
from leasehold.impl.words import did_you_mean
from leasehold.spec import SpecError, System
from leasehold.spec.language.diagnostics import Place, Sink, listed, near_miss
from leasehold.spec.language.migration_rules import MigratedField, MigratedRole, Migration
from leasehold.spec.language.types import Instance, Map, members

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
        return RoleMapper(self.old.roles[was], self.program, self.program.roles[name], rules, self.names)

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
        if core.indexed and instance >= (count := self.system.roles[core.role].count):
            if str(before) not in mapper.rules.forget:
                more = f"bring it to an end, or list its state under `forget` of `{core.role}`"
                reason = (
                    f"the new specification has {count} machines of `{core.role}`, and this one is {before}; {more}"
                )
                raise UnmappableRecord([Problem(*key, "", reason)])
            return Mapped(None, b"", core.role, before, "")
        problems = [
            Problem(*key, name, reason) for name, reason in (*mapper.problems(named), *mapper.unsendable(metadata))
        ]
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
        row = _encode([body, mapper.in_order(peers), mapper.with_metadata(metadata)])
        machine = RecordKey(key.lease, core.machine(instance))
        return Mapped(machine, row, core.role, before, mapper.state(before) or before)


class RoleMapper:
    """Maps the records of one role.

    Attributes:
        silent: the parts of all records of the role that no rule covers, each with the reason.
    """

    def __init__(
        self, old: RoleSchema, program: Program, core: Core, rules: MigratedRole, names: Mapping[str, str]
    ) -> None:
        self.old, self.core, self.rules = old, core, rules
        self.program, self.codec = program, Codec(program, core)
        self.digest = bytes.fromhex(program.digest)
        self.before = {f.name: f for f in old.fields}
        here = [_renamed(name, names) for name in old.neighbours]
        there = [neighbour_name(program, role, index) for role, index in core.neighbours]
        self.names, self.order = names, [here.index(name) for name in there if name in here]
        self.dynamic = [_renamed(role, names) for role in old.dynamic]
        self.silent = [*self._fields(), *self._neighbours(here, there), *self._kinds()]

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

    def _neighbours(self, here: list[str], there: list[str]) -> Iterator[tuple[str, str]]:
        for name in there:
            if name not in here:
                yield "sent", f"`{name}` is a new neighbour, which the record knows nothing of; end the lease first"
        for name in here:
            if name not in there:
                yield "sent", f"`{name}` is no neighbour any more; end the lease first"
        for name in sorted({*self.dynamic} ^ {*self.core.dynamic_neighbours}):
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

    def in_order(self, of_neighbours: Any) -> Any:
        """The values of the neighbours, in the new order; by their new names, where there may be any number."""
        if isinstance(of_neighbours, dict):
            return {_renamed(name, self.names): value for name, value in of_neighbours.items()}
        return [of_neighbours[at] for at in self.order]

    # Sessions keep messages by the position of their neighbour (impl/actor/session.py).

    def position(self, before: int) -> int:
        """The new position of an old neighbour."""
        dynamic = before - len(self.old.neighbours)
        if dynamic < 0:
            return self.order.index(before)
        number, role = divmod(dynamic, len(self.dynamic))
        position = self.core.position(self.dynamic[role], number, 0)
        assert position is not None
        return position

    def with_metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what is kept with a record: messages of sessions at new positions, and drivers by new names."""
        result = dict(metadata)
        if SESSIONS in metadata:
            result[SESSIONS] = {str(self.position(int(at))): kept for at, kept in metadata[SESSIONS].items()}
        if DRIVERS in metadata:
            result[DRIVERS] = [[lease, _renamed(machine, self.names)] for lease, machine in metadata[DRIVERS]]
        return result

    def unsendable(self, metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The messages of sessions that the new specification does not have in this form, each with the reason."""
        if self.silent:
            return  # of neighbours, perhaps
        for at, kept in metadata.get(SESSIONS, {}).items():
            receiver, _ = self.core.neighbour(self.position(int(at)))
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
            for numbers in (named["sent"], named["received"]):
                kept = isinstance(numbers, list) and len(numbers) == len(self.old.neighbours)
                if not (isinstance(numbers, dict) if self.old.dynamic else kept):
                    raise RecordError("its sequence numbers are not those of its neighbours")
                plain.append(self.in_order(numbers))
        # A task that has only now come to outlive its state was begun by the entry of the state that the record is in.
        plain += [named["entry"], *(named.get(f"since {task}", named["entry"]) for task in self.core.since)]
        return self.codec.encode(self.codec.decode(_encode([VERSION, self.digest, self.core.role, plain])))


def _cells_of(new: Field) -> tuple[str, ...]:
    return tuple(map(str, members(new.type.key))) if isinstance(new.type, Map) else ()


def _by_machine(new: Field) -> bool:
    """Returns whether a field is a map with a cell for each machine of a role."""
    return isinstance(new.type, Map) and isinstance(new.type.key, Instance)


def _first_cell(new: Field, instance: int) -> Any:
    """The value of a cell of a machine's new map, as plain data; None where that depends on the cell."""
    first = to_plain(new.type, new.first(instance))
    return first[0] if isinstance(first, list) and first and first.count(first[0]) == len(first) else None


def _renamed(neighbour: str, names: Mapping[str, str]) -> str:
    role, bracket, rest = neighbour.partition("[")
    return f"{names.get(role, role)}{bracket}{rest}"


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
