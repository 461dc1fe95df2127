"""The results of mutants in the user's cache: what `mutate` has found, `check` tells of a system's transitions.

They have a name that is made of everything that they depend on: what was read of the system and of those that it
refines, the actors that crash together, its battery, and the sources of the language and of the checker's parts that
judge. The cache is optional: what cannot be read is not there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

from leasehold import checker, faults
from leasehold.checker.host.cache import cache_folder, sources_of, write_whole
from leasehold.spec import find, language
from leasehold.spec.language.model import System

FORM = 2  # of the files
BATTERY = "mutation.yaml"
MOST_BYTES = 10_000_000  # a longer file is none of ours
NOT_MISSED = ("unseen", "survives", "explained")  # no property finds these; equivalent ones change nothing


class KeptResults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The kept result of each mutant: `killed`, `refused`, `equivalent`, `unseen`, `explained` or `survives`."""

    results: dict[str, str]


@dataclass(frozen=True, slots=True)
class Missed:
    """The mutants of a system's transitions that no property finds, and how many transitions were tried.

    Attributes:
        tried: how many transitions were tried without, or with another target or update.
        not_missed: by transition, the mutants of it that no property finds.
    """

    tried: int
    not_missed: Mapping[str, tuple[str, ...]]


def keep(name_or_folder: str | Path, system: System, new: Mapping[str, str]) -> None:
    """Keeps the results of a campaign in a system's own battery by mutant, beside those of earlier ones."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if new and (file := _file(name_or_folder, system)) is not None:
            known = _read(file)
            write_whole(file, msgspec.json.encode(KeptResults({**known, **new})))


def kept(name_or_folder: str | Path, system: System) -> Missed | None:
    """Returns what the results that are kept say of transitions; None where there are none."""
    results: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if (file := _file(name_or_folder, system)) is not None:
            results = _read(file)
    names = {t.name: t for role in system.roles.values() for t in role.transitions()}
    of: dict[str, list[tuple[str, str]]] = {}
    for mutant, word in results.items():
        subject = mutant.split(" ")[1]
        if subject in names:
            of.setdefault(subject, []).append((mutant, word))
    if not of:
        return None
    not_missed = {t: tuple(m for m, word in of.get(t, ()) if word in NOT_MISSED) for t in names}
    return Missed(len(of), {t: some for t, some in not_missed.items() if some})


def _read(file: Path) -> dict[str, str]:
    if not file.is_file() or file.stat().st_size > MOST_BYTES:
        return {}
    return msgspec.json.decode(file.read_bytes(), type=KeptResults).results


@cache
def _sources() -> list[list[str]]:
    parts = [Path(p) / name for p in checker.__path__ for name in ("explore", "crash", "mutation")]
    return sources_of([*parts, *map(Path, faults.__path__), *map(Path, language.__path__)])


def _digests(system: System) -> list[str]:
    """The digests of a system and of those that it refines, one after the other."""
    return [system.digest, *(() if system.refines is None else _digests(system.refines.abstract))]


def _file(name_or_folder: str | Path, system: System) -> Path | None:
    if not _sources():
        return None
    battery = find(name_or_folder)[0] / BATTERY
    nodes = {node: list(actors) for node, actors in system.faults.nodes.items()}  # the digest leaves out faults
    battery_text = battery.read_text("utf-8") if battery.exists() else ""
    parts = [FORM, _digests(system), nodes, battery_text, _sources()]
    return cache_folder() / "mutants" / f"{sha256(json.dumps(parts).encode()).hexdigest()}.json"
