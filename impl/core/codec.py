"""Records as versioned bytes: every field of the model is a field of the record.

Theory of operation (paper, section 5.1, which found fields that were never saved). What is written is the whole durable
part of the tuple, with the digest of the specification that gives it its meaning, so there is no list of fields that
could be kept wrongly. Bytes are MessagePack: version, digest, role, and the values in the order of `Core.names`. What
is read is checked against the type of each field; bytes of another specification are refused with its digest, so that
a migration can be offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from leasehold.impl.core.core import Core, CoreError, Program
from leasehold.impl.core.stepping import Numbers
from leasehold.impl.core.values import ValueFault, checked_plain, from_plain
from leasehold.impl.core.work import Machines, Record
from leasehold.spec.language import types as t

VERSION = 1


class RecordError(CoreError):
    """Stored bytes are no record of this specification. The store's fault, or a record of another specification.

    Attributes:
        digest: of the specification that wrote it, where that could be read.
    """

    def __init__(self, message: str, digest: str = "") -> None:
        super().__init__(message)
        self.digest = digest


class Codec:
    """Writes and reads the records of one role."""

    def __init__(self, program: Program, core: Core) -> None:
        self.core, self.program = core, program
        self.digest = bytes.fromhex(program.digest)
        self.head = [VERSION, self.digest, core.role]
        self.durable = core.below_at
        # All others are plain already; `Core.check` sees to the bounds of numbers.
        shaped = ((i, f.type) for i, f in enumerate(core.fields, core.data_at))
        self.shaped = [(at, kind) for at, kind in shaped if isinstance(kind, t.Set | t.Map | t.Option | t.Seq)]
        self._encode = msgspec.msgpack.Encoder().encode

    def encode(self, record: Record) -> bytes:
        """The durable part of a record.

        Raises:
            CoreError: a value has left its type's range: the specification is at fault, and nothing may be committed.
        """
        self.core.check(record)
        plain = list(record[: self.durable])
        if self.core.dynamic_neighbours:
            for at in (self.core.sent_at, self.core.received_at):
                plain[at] = self.by_name(plain[at], self._own(plain))
        try:
            for at, kind in self.shaped:
                plain[at] = checked_plain(kind, plain[at])
            return self._encode([*self.head, plain])
        except ValueFault as fault:
            raise CoreError(f"{self.core.role}.{self.core.names[at]}: {fault}") from None
        except OverflowError:  # of a sequence number or a state epoch
            raise CoreError(f"{self.core.role}: a number has more than 64 bits") from None

    def decode(self, body: bytes, below: tuple[Machines, ...] = ()) -> Record:
        """The record; `below` are the subsidiary machines that it sees.

        Raises:
            RecordError: the bytes are no record of this role and specification.
        """
        digest, role, plain = read_head(body)
        core = self.core
        if digest != self.program.digest:
            raise RecordError(
                f"the record was written by another specification ({digest[:12]}, not {self.program.digest[:12]})",
                digest,
            )
        if role != core.role:
            raise RecordError(f"it is a record of `{role}`, not of `{core.role}`", digest)
        if len(plain) != self.durable:
            raise RecordError(f"it has {len(plain)} values, not {self.durable}", digest)
        if plain[0] not in core.states:
            raise RecordError(f"{core.role} has no state {str(plain[0])[:60]!r}", digest)
        for at, shaped in enumerate(core.fields, core.data_at):
            try:
                plain[at] = from_plain(shaped.type, plain[at])
            except ValueFault as fault:
                raise RecordError(f"{core.role}.{shaped.name}: {fault}", digest) from None
        self._numbers(plain, digest)
        return (*plain, *below)

    # With dynamic neighbours what is kept of each is written by its name, as their number differs between actors.

    def by_name(self, of_neighbours: Mapping[int, Any], own: int) -> dict[str, Any]:
        """Returns what is kept of the neighbours of the machine of number `own`, by their names."""
        return {self.program.lane(self.core, own, at): value for at, value in sorted(of_neighbours.items())}

    def by_position(self, named: Any, own: int) -> dict[int, Any]:
        """Returns what `by_name` wrote, by position.

        Raises:
            RecordError: it is not that.
        """
        values: dict[int, Any] = {}
        for name, value in named.items() if isinstance(named, dict) else ():
            at = self.program.lane_at(self.core, own, name) if isinstance(name, str) else None
            if at is None:
                raise RecordError(f"{self.core.role} has no neighbour {str(name)[:60]!r}")
            values[at] = value
        return values

    def _own(self, plain: list[Any]) -> int:
        return plain[1] if self.core.indexed and type(plain[1]) is int else 0

    def _numbers(self, plain: list[Any], digest: str) -> None:
        core = self.core
        if not core.subsidiary:
            for at in (core.sent_at, core.received_at):
                numbers = plain[at]
                if core.dynamic_neighbours:
                    plain[at] = Numbers(self.by_position(numbers, self._own(plain)))
                    continue
                if not isinstance(numbers, list) or len(numbers) != len(core.neighbours):
                    raise RecordError(f"{core.names[at]} are not {len(core.neighbours)} numbers", digest)
                plain[at] = tuple(numbers)
        rest = list(plain[core.state_epoch_at :])
        if core.indexed:
            rest.append(plain[1])
        if not core.subsidiary:
            for numbers in (plain[core.sent_at], plain[core.received_at]):
                rest += numbers.values() if isinstance(numbers, dict) else numbers
        if not all(type(n) is int and n >= 0 for n in rest):
            raise RecordError("a sequence number or entry is no number from 0 on", digest)


def read_head(body: bytes) -> tuple[str, str, list[Any]]:
    """Digest, role and values of a record of any specification.

    Raises:
        RecordError: it is none, or of a newer version.
    """
    try:
        content = msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RecordError(f"the bytes are no record: {error}") from None
    match content:
        case [int(version), bytes(digest), str(role), list(plain)] if version == VERSION and plain:
            return digest.hex(), role, plain
        case [int(version), *_] if version > VERSION:
            raise RecordError(f"the record has version {version}, and {VERSION} is the newest that is known here")
    raise RecordError("the bytes are no record")
