"""Checkpoints: a search that left off, in a file, for another process to go on with.

Theory of operation. What is kept are the states, labels and edges that were found, the numbers of values and changes in
which they are written, and what was told of properties. Not kept are the decision trees: the reference is asked again,
for few states, and its answers have the numbers that they had. The file is a NumPy archive of plain arrays and one
JSON text; nothing in it is executed. It is put in its place whole, or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.checker.explore.layout import Layout
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.checker.host.cache import LIMIT_VARIABLE, cache_folder, limit_bytes, make_room
from leasehold.spec.language.for_each import each
from leasehold.spec.language.model import System
from leasehold.spec.language.render.python_source import Frame, source
from leasehold.spec.language.types import Value

FORMAT = 5
_ABOUT = "about"


class CheckpointError(Exception):
    """A checkpoint is not there, or is not for this search; the words say why."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint.

    Attributes:
        about: JSON values.
        arrays: by name, as `Kernel.kept` has them; bytes.
    """

    about: Mapping[str, Any]
    arrays: dict[str, Any]


def key_of(world: Reference, symmetry: bool) -> str:
    """A key of the system, its properties and faults: searches with one key can go on from each other's checkpoints."""
    from importlib.metadata import version  # it takes a while to load, and is seldom asked for

    system = world.system
    frame = Frame(world.layout, system.values(), before="o")
    claims = [
        (p.name, p.kind, source(p.claim, frame), p.when and source(p.when, frame), p.within)
        for of in system.properties.values()
        for p in each(of)
    ]
    ends = None if system.ends is None else [(e.name, source(e.holds, frame)) for e in system.ends]
    constants = {name: repr(c.value) for name, c in system.constants.items()}
    faults = type(world).__name__, _faults_of(world)
    about = [FORMAT, version("leasehold"), system.digest, constants, faults, symmetry, claims, ends, world.bounds]
    return hashlib.sha256(json.dumps(about, default=repr).encode()).hexdigest()


def _faults_of(world: Reference) -> tuple[Any, ...]:
    """Returns the additions of a budget of faults to a system, and how many of each kind a run may have."""
    of = world.relation
    added = [v.name for v in of.variables], [(c.name, c.budget) for c in of.crashes], [c.name for c in of.changes]
    byzantine = None if of.byzantine is None else of.byzantine.name
    return of.limits, sorted(of.unlimited), *added, of.retries, byzantine, of.clocks


def usual_place(key: str) -> Path:
    """Returns where a checkpoint is kept that no place was named for."""
    return _usual_folder() / f"{key[:24]}.npz"


def some_usual() -> bool:
    """Returns whether there are checkpoints for which no place was named."""
    return any(_usual_folder().glob("*.npz"))


def _usual_folder() -> Path:
    return cache_folder() / "checkpoints"


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    """Makes the folder, and says where what follows cannot write there."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise CheckpointError(f"no checkpoint can be written to {place}: {error.strerror or error}") from error


def may_write(place: Path, resume: bool) -> None:
    """Looks whether a checkpoint can be written, before a search that would end without one.

    What is there is read anyway, if it is to go on from there.

    Raises:
        CheckpointError: it cannot, or something else is there.
    """
    if not resume and place.is_file() and place.stat().st_size and not zipfile.is_zipfile(place):
        raise CheckpointError(f"{place} is there, and is no checkpoint; name another file")
    with _writing(place), tempfile.TemporaryFile(dir=place.parent):
        pass


def save(place: Path, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Writes a checkpoint.

    Raises:
        CheckpointError: it cannot be written.
    """
    import numpy as np

    columns = {name: np.frombuffer(some, dtype=np.uint8) for name, some in arrays.items() if len(some)}
    columns[_ABOUT] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    size = sum(column.nbytes for column in columns.values())
    if place.parent == _usual_folder() and not make_room(size, place):
        raise CheckpointError(
            f"a checkpoint takes {size:,} bytes, and the cache may have {limit_bytes():,} "
            f"({LIMIT_VARIABLE}); --checkpoint FILE keeps it elsewhere"
        )
    with _writing(place):
        handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with open(handle, "wb") as file:
                np.savez(file, **columns)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, place)
        finally:
            Path(temporary).unlink(missing_ok=True)
        if os.name == "posix":
            folder = os.open(place.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def load(place: Path, key: str, names: Sequence[str]) -> Checkpoint:
    """Reads a checkpoint of a search.

    Raises:
        CheckpointError: there is none, it cannot be read, or it is another search's.
    """
    import numpy as np

    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            about = json.loads(archive[_ABOUT].tobytes())
            if about["key"] != key:
                raise CheckpointError(
                    f"the checkpoint {place} is of another search ({about['what']}): the specification, a setting, "
                    "a property, the faults or --symmetry differ"
                )
            arrays = {name: archive[name] if name in archive else np.zeros(0, dtype=np.uint8) for name in names}
    except FileNotFoundError as error:
        raise CheckpointError(
            f"there is no checkpoint {place}; a search leaves one that is interrupted, or comes to its limit of memory"
        ) from error
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        why = "it is none" if isinstance(error, ValueError) else str(error)  # and no advice on how to trust it
        raise CheckpointError(f"{place} cannot be read as a checkpoint: {why}") from error
    return Checkpoint(about, arrays)


def subject_of(place: Path) -> str:
    """The name of the system whose search has left a checkpoint; empty where it cannot be read as one."""
    import numpy as np

    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return str(json.loads(archive[_ABOUT].tobytes())["what"])
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return ""


# Values, and what happened, as JSON


def coded(value: Value) -> Any:
    """A value as JSON."""
    if isinstance(value, tuple):
        return {"t": [coded(v) for v in value]}
    if isinstance(value, frozenset):
        return {"s": sorted((coded(v) for v in value), key=json.dumps)}
    return value


def decoded(payload: Any) -> Any:
    """The value that was coded."""
    if isinstance(payload, dict):
        (kind, inner), *_ = payload.items()
        return (tuple if kind == "t" else frozenset)([decoded(v) for v in inner])
    return payload


def coded_action(action: Action, layout: Layout) -> dict[str, Any]:
    """An action as JSON: its transition by its name, its channel by its number."""
    fields = {name: coded(v) for name, v in action._asdict().items() if name not in ("transition", "lane", "change")}
    fields["transition"] = action.transition and action.transition.name
    fields["lane"] = None if action.lane is None else layout.lanes.index(action.lane)
    return fields


class Actions:
    """Reads actions of a system."""

    def __init__(self, system: System, layout: Layout) -> None:
        self._lanes = layout.lanes
        self._transitions = {tr.name: tr for role in system.roles.values() for tr in role.transitions()}

    def decoded(self, payload: Mapping[str, Any]) -> Action:
        """The action that was coded."""
        fields = {name: decoded(v) for name, v in payload.items()}
        lane, transition = fields["lane"], fields["transition"]
        fields["lane"] = None if lane is None else self._lanes[lane]
        fields["transition"] = None if transition is None else self._transitions[transition]
        return Action(**fields)
