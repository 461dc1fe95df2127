"""The handlers that are shipped, and how each is tried: shipped.yaml, held against the tables of plug-ins."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from leasehold.checker.handlers.target import SITE, HandlerTarget, target_of
from leasehold.checker.host.cache import cache_folder, write_whole
from leasehold.impl import files
from leasehold.impl.policy import plugins


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of shipped.yaml."""

    handler: str = ""
    settings: dict[str, Any] = {}
    verbs: tuple[str, ...] = SITE
    programs: tuple[str, ...] = ()
    needs: dict[str, str] = {}
    root: bool = False
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Shipped:
    """A handler that is shipped, or a composition.

    Attributes:
        handler: the handler's name in a configuration.
        target: None where it is not tried.
        skipped: why not; with the package to install.
    """

    name: str
    handler: str
    target: HandlerTarget | None
    skipped: str = ""


def shipped_handlers(folder: str) -> list[Shipped]:
    """All of them; one that the table does not know is tried with a `directory`, if it takes one and nothing else.

    Args:
        folder: where they work.
    """
    table = files.table("leasehold.checker.handlers", "shipped.yaml")
    rows = {name: convert(row, Row) for name, row in table.items()}
    guessed = {name: _guessed(name) for name in plugins.BUILT_IN["handler"] if name not in rows}
    return [_shipped(name, row, os.path.abspath(folder)) for name, row in (rows | guessed).items()]


def target_named(given: str, **asked: Any) -> HandlerTarget:
    """A handler as a command line names it: one of the table, by its name alone, or as `target_of` takes it.

    Args:
        given: the name.
        asked: further arguments of `target_of`; where one is empty, the table counts.

    Raises:
        HandlerError, PluginError: it is none.
    """
    if not Path(given).exists():
        for one in shipped_handlers(os.getcwd()):
            if one.name == given and one.target is not None:
                return replace(one.target, **{name: value for name, value in asked.items() if value})
    return target_of(given, **asked)


def _shipped(name: str, row: Row, folder: str) -> Shipped:
    handler = row.handler or name
    lacks = [row.left_out] if row.left_out else []
    if not lacks:
        lacks = ["it needs root"] if row.root and os.geteuid() else []
        missing = {program: package for program, package in row.needs.items() if shutil.which(program) is None}
        lacks += [f"{program} is missing; install {package}" for program, package in missing.items()]
    if lacks:
        return Shipped(name, handler, None, ", ".join(lacks))
    own = str(Path(__file__).resolve().parent)
    places = {"{folder}": own, "{programs}": str(_programs(row.programs)) if row.programs else ""}
    settings = _placed(row.settings, places)
    return Shipped(name, handler, HandlerTarget(name, {"*": (handler, settings)}, folder, row.verbs))


def _placed(value: Any, places: Mapping[str, str]) -> Any:
    """Settings with the paths that they leave open."""
    match value:
        case str():
            for name, path in places.items():
                value = value.replace(name, path)
            return value
        case dict():
            return {key: _placed(one, places) for key, one in value.items()}
        case list():
            return [_placed(one, places) for one in value]
    return value


def _programs(names: Sequence[str]) -> Path:
    """A folder of the cache that has some programs of this machine, and nothing else."""
    found = {name: Path(shutil.which(name) or name).read_bytes() for name in names}
    digest = sha256(b"".join(name.encode() + sha256(body).digest() for name, body in found.items())).hexdigest()
    folder = cache_folder() / "programs" / digest[:16]
    for name, body in found.items():
        if not (folder / name).is_file():
            write_whole(folder / name, body)
            (folder / name).chmod(0o755)
    return folder


def _guessed(name: str) -> Row:
    parameters = plugins.signature_of(plugins.find("handler", name).load()).parameters.values()
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if set(needed) - {"directory"}:
        return Row(left_out=f"shipped.yaml does not say with which {', '.join(sorted(needed))} to try it")
    takes = any(p.name == "directory" for p in parameters)
    return Row(settings={"directory": "units"} if takes else {})
