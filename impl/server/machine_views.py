"""A machine by its record, in the words of the specification: state, data and work.

It is a function of records alone, so that a running actor (views.py) and its events (checker/explain) show it alike.
"""

from __future__ import annotations

from typing import Any

from leasehold.impl.core.core import Core, Field, Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.core.work import CallWork, Record
from leasehold.impl.store.store import RecordKey
from leasehold.spec import System
from leasehold.spec.language.types import TIME, Map, SparseMap, Value, members, show

SEVERAL = 4  # cells of a map that are counted and not shown


class MachineViews:
    """Views of machines as plain data.

    Args:
        system: whose fields they have.
        program: the same, compiled.
    """

    def __init__(self, system: System, program: Program) -> None:
        self.system, self.program = system, program

    def short(self, actor: str, key: RecordKey, core: Core, record: Record, since: int | None) -> dict[str, Any]:
        """A machine in short.

        Args:
            actor: whose it is.
            key: which.
            core: its role.
            record: as it is.
            since: the tick at which it came to its state; None: nobody knows.
        """
        return {
            "lease": key.lease,
            "actor": actor,
            "machine": key.machine,
            "state": record[0],
            "since": since,
            "over": core.over(record[0]) and not self.program.standing,
            "asks": [
                {"task": piece.task, "call": piece.target, "epoch": core.began(record, piece.task)}
                for piece in core.work[record[0]](record)
                if isinstance(piece, CallWork)
            ],
            "data": {f.name: to_plain(f.type, record[at]) for at, f in self._fields(core)},
            "times": [f.name for f in core.fields if f.type == TIME],
        }

    def shown(self, core: Core, record: Record) -> dict[str, str]:
        """Its data in the words of the specification."""
        return {f.name: shown(f, record[at]) for at, f in self._fields(core)}

    def _fields(self, core: Core) -> list[tuple[int, Field]]:
        """The fields of the specification, each with its position in the record."""
        data = self.system.roles[core.role].data
        return [(at, f) for at, f in enumerate(core.fields, core.data_at) if not data[f.name].captured]


def shown(field: Field, value: Value) -> str:
    """A value of a field as the language writes it; of a map, cells that are as at first are only counted."""
    if not isinstance(field.type, Map) or isinstance(field.type, SparseMap) or field.begin:
        return show(field.type, value)
    (first, *others), key, of = field.initial, field.type.key, field.type.of
    changed = [f"{show(key, k)}: {show(of, v)}" for k, v in zip(members(key), value, strict=True) if v != first]
    left = len(value) - len(changed)
    if left < SEVERAL or any(other != first for other in others):
        return show(field.type, value)
    return "{" + ", ".join([*changed, f"{left} others: {show(of, first)}"]) + "}"
