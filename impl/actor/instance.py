"""One machine of one lease: its record, and the metadata that is kept with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from leasehold.impl.core.codec import Codec, RecordError
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.work import Machines, Record
from leasehold.impl.store.store import Key

BELOW = "-"  # in place of a lease, in the keys of subsidiary machines, which belong to the actor
_MACHINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[([0-9]{1,9})\])?")
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


def machine_of(core: Core, instance: int) -> str:
    """`broker`, or `participant[2]`."""
    return f"{core.role}[{instance}]" if core.indexed else core.role


def role_of(machine: str) -> tuple[str, int] | None:
    """Role and number of a machine's name; None where it is none."""
    found = _MACHINE.fullmatch(machine)
    return None if found is None else (found[1], int(found[2] or 0))


@dataclass(slots=True, eq=False)
class MachineInstance:
    """One machine of one lease.

    Attributes:
        key: which.
        core: its compiled role.
        record: as it was committed, or will be with the batch that is being made.
        peers: for each neighbour the actor that plays it; empty where that is not known yet.
        metadata: what is kept with the record and never read by the machine: credentials, since when it is over.
    """

    key: Key
    core: Core
    record: Record
    peers: list[str]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def state_epoch(self) -> int:
        epoch: int = self.record[self.core.state_epoch_at]
        return epoch

    @property
    def state(self) -> str:
        state: str = self.record[0]
        return state


class RowCodec:
    """Writes and reads machines as the bytes of a store's row."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.codecs = {role: Codec(program, core) for role, core in program.roles.items()}

    def write(self, instance: MachineInstance) -> bytes:
        """The row of a machine.

        Raises:
            CoreError: a value has left its type's range.
        """
        body: bytes = _encode(
            [self.codecs[instance.core.role].encode(instance.record), instance.peers, instance.metadata]
        )
        return body

    def read(self, key: Key, row: bytes, below: Mapping[str, Machines]) -> MachineInstance:
        """The machine of a row; `below` are the actor's subsidiary machines by role.

        Raises:
            RecordError: it is none, or was written by another specification.
        """
        where = f"{key.lease} {key.machine}"
        named = role_of(key.machine)
        core = self.program.roles.get(named[0]) if named else None
        if core is None:
            raise RecordError(f"{where}: {self.program.system} has no such machine")
        try:
            body, peers, metadata = _decode(row)
            seen = tuple(below[sub.role] for sub in core.below)
            record = self.codecs[core.role].decode(body, seen)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise RecordError(f"{where}: the row is not whole: {error}") from None
        except RecordError as error:
            raise RecordError(f"{where}: {error}", error.digest) from None
        return MachineInstance(key, core, record, list(peers), dict(metadata))
