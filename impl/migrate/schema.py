"""The schema of a store's records: a plain description of the specification that wrote them, in the store's metadata.

Theory of operation. The values of a record are in the order of its specification, so they cannot be read without it. An
actor therefore commits a schema with its first records: states, fields and neighbours of every role, and the constants,
which the digest does not cover. The schema is replaced only together with all records (impl/migrate/migration.py), so
it is right at every moment. An actor whose specification or constants differ refuses to start, and names the command
that maps the records.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from leasehold.impl.core.codec import RecordError
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.store.store import Store
from leasehold.impl.words import over
from leasehold.spec import SHIPPED
from leasehold.spec.language import types as t

SPECIFICATION = "specification"  # the name of the metadata
TICKS = "tick_seconds"  # and of the length of the ticks in which records count time
VERSION = 1


class FieldSchema(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field.

    Attributes:
        cells: the keys of a map, in the order of its values.
        entries: it is a map over a dynamic role: by name of the machine, the values that differ from `rest`.
    """

    name: str
    type: str
    cells: tuple[str, ...] = ()
    entries: bool = False
    rest: Any = None


class RoleSchema(msgspec.Struct, frozen=True):
    """The content of a role's records.

    Attributes:
        neighbours: by name, `broker`, `participant[2]`; `participant[self]` is the one with the same number. One that
            several channels lead to, or from, is there for each: `broker over orders`.
        since: tasks that may outlive their state.
        dynamic: roles of any number of machines that it talks with, with channels likewise; what is kept of neighbours
            is then kept by name.
        of_run: its machines are subsidiary and belong to runs, whose names are in their keys.
    """

    indexed: bool
    subsidiary: bool
    states: tuple[str, ...]
    fields: tuple[FieldSchema, ...]
    neighbours: tuple[str, ...]
    since: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()
    of_run: bool = False

    def machine(self, role: str, named: Mapping[str, Any]) -> str:
        """The name of the machine whose values these are, of a role of this name."""
        return f"{role}[{named['instance']}]" if self.indexed else role

    def named(self, plain: list[Any]) -> dict[str, Any] | None:
        """The values of a record by name, fields as `field NAME`; None where they are too many or too few."""
        own = ("instance",) if self.indexed else ()
        fields = (f"field {f.name}" for f in self.fields)
        numbers = () if self.subsidiary else ("sent", "received")
        names = ("state", *own, *fields, *numbers, "entry", *(f"since {task}" for task in self.since))
        return dict(zip(names, plain, strict=True)) if len(names) == len(plain) else None


class RecordSchema(msgspec.Struct, frozen=True):
    """The parts of a specification that define how records are read.

    Attributes:
        channels: by message, its channel, if that has numbers of its own.
    """

    system: str
    digest: str
    constants: dict[str, Any]
    roles: dict[str, RoleSchema]
    version: int = VERSION
    channels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET  # so that it is written only where there are some

    @classmethod
    def of(cls, program: Program) -> RecordSchema:
        """The schema of a compiled specification."""
        roles = {name: _role(program, core) for name, core in program.roles.items()}
        channels = {name: shape.channel for name, shape in program.messages.items() if shape.channel}
        named = channels or msgspec.UNSET
        return cls(program.system, program.digest, program.shared_constants, roles, channels=named)

    @classmethod
    def read(cls, body: bytes) -> RecordSchema:
        """The schema in a store's metadata.

        Raises:
            RecordError: it is none, or of a newer version.
        """
        try:
            schema = msgspec.json.decode(body, type=cls)
        except (msgspec.DecodeError, ValueError) as error:
            raise RecordError(f"the store does not say what wrote its records: {error}") from None
        if schema.version > VERSION:
            raise RecordError(f"the store's records are described in version {schema.version}, and {VERSION} is known")
        return schema

    def write(self) -> bytes:
        return msgspec.json.encode(self)

    def reads_like(self, other: RecordSchema) -> bool:
        """Returns whether both read records in the same way."""
        return (self.system, self.digest, self.constants) == (other.system, other.digest, other.constants)

    def against(self, other: RecordSchema) -> str:
        """Its name, with the constants that differ from another's: `lease 1ff3a4d20b77 with max_units=2`."""
        constants = ", ".join(
            f"{name}={_word(value)}"
            for name, value in self.constants.items()
            if name not in other.constants or other.constants[name] != value
        )
        return f"{self.system} {self.digest[:12]}" + (f" with {constants}" if constants else "")


def _role(program: Program, core: Core) -> RoleSchema:
    return RoleSchema(
        core.indexed,
        core.subsidiary,
        core.states,
        tuple(_field(f.name, f.type) for f in core.fields),
        lane_names(program, core),
        tuple(core.since),
        tuple(over(role, core.channel(at)) for at, role in enumerate(core.dynamic_neighbours, len(core.neighbours))),
        core.of_run,
    )


def _field(name: str, kind: t.Type) -> FieldSchema:
    if isinstance(kind, t.SparseMap):
        return FieldSchema(name, type_text(kind), entries=True, rest=to_plain(kind.of, kind.rest))
    cells = tuple(map(str, t.members(kind.key))) if isinstance(kind, t.Map) else ()
    return FieldSchema(name, type_text(kind), cells)


def lane_names(program: Program, core: Core) -> tuple[str, ...]:
    """The names of a compiled role's neighbours in a schema, with their channels."""
    indices = (f"[{'self' if index < 0 else index}]" * program.roles[role].indexed for role, index in core.neighbours)
    named = zip(core.neighbours, indices, strict=True)
    return tuple(over(role + index, core.channel(at)) for at, ((role, _), index) in enumerate(named))


def type_text(kind: t.Type) -> str:
    """A type in full: `int 0..`, `colour {red, green}`, `map[unit 0..3, bool]`."""
    match kind:
        case t.Int(low=low, high=high) if (low, high) != (None, None):
            return f"int {'' if low is None else low}..{'' if high is None else high}"
        case t.Enum(name=name, members=members):
            return f"{name} {{{', '.join(members)}}}"
        case t.Instance(name=name, count=count):
            return f"{name} 0..{count - 1}"
        case t.Set(of=of) if of is not None:
            return f"set[{type_text(of)}]"
        case t.SparseMap(key=key, of=of):
            return f"map[{key.name}, {type_text(of)}]"
        case t.Map(key=key, of=of):
            return f"map[{type_text(key)}, {type_text(of)}]"
        case t.Option(of=of) if of is not None:
            return f"option[{type_text(of)}]"
        case t.Seq(of=of, most=most) if of is not None:
            return f"seq[{type_text(of)}, {most}]"
    return str(kind)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def described_by(program: Program, tick_seconds: float) -> dict[str, bytes]:
    """The metadata that an actor commits with its first records; without ticks where its clock is moved by hand."""
    ticks = {TICKS: f"{tick_seconds:g}".encode()} if tick_seconds else {}
    return {SPECIFICATION: RecordSchema.of(program).write(), **ticks}


# The errors of an actor that cannot read its store


def refusal(
    kept: Mapping[str, bytes], described: Mapping[str, bytes], program: Program, store: Store, actor: str
) -> RecordError | None:
    """The reason why an actor must not read the records of a store with this metadata; None where it may.

    Args:
        kept: the metadata.
        described: what the actor would keep in their place.
        program: the actor's system.
        store: of the actor, for the command that maps its records.
        actor: its name.

    Raises:
        RecordError: the schema cannot be read.
    """
    old_ticks, new_ticks = (metadata.get(TICKS, b"").decode() for metadata in (kept, described))
    if old_ticks and old_ticks != new_ticks:
        clock = f"ticks of {new_ticks} s" if new_ticks else "a clock that is moved by hand"
        return RecordError(
            f"the records of {actor} count time in ticks of {old_ticks} s, and it would run with {clock}, "
            f"so that its leases would end at other times; set `tick_seconds: {old_ticks}` until none is left"
        )
    body = kept.get(SPECIFICATION)
    if body is None:
        return None
    old, new = RecordSchema.read(body), RecordSchema.of(program)
    if old.reads_like(new):
        return None
    return RecordError(
        f"the records of {actor} were written by {old.against(new)}, and it would run {new.against(old)}; "
        f"start it with that specification and those constants, or map the records: {command(program, store, actor)}",
        old.digest,
    )


def with_command(error: RecordError, program: Program, store: Store, actor: str) -> RecordError:
    """A record's error, with the command where another specification wrote it and the store has no schema."""
    if error.digest in ("", program.digest):
        return error
    remedy = f"{command(program, store, actor)} --from FOLDER_OF_{error.digest[:12]}"
    return RecordError(f"{error}; map the records: {remedy}", error.digest)


def command(program: Program, store: Store, actor: str) -> str:
    """The command that maps the records of a store to a specification, with the value of every constant."""
    path = getattr(store, "path", None)
    url = f"sqlite:{path}" if path is not None else str(getattr(store, "place", "STORE"))
    system = program.system if program.system in SHIPPED else f"./{program.system}"
    given = [word for name, value in program.constants.items() for word in ("--set", f"{name}={_word(value)}")]
    owner = [] if path is not None else ["--actor", actor]
    return shlex.join(["leasehold", "migrate", url, system, *given, *owner])
