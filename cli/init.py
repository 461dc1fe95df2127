"""`leasehold init`: a small system to start from, or a shipped one to change."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from leasehold.cli.common import console, verb, writing
from leasehold.spec.language.load import SHIPPED
from leasehold.spec.language.read.source import NAME, RESERVED

# The files of a system, as a reader takes them; not every system has them all.
_ORDER = (
    "system.yaml",
    "messages.yaml",
    "roles",
    "invariants.yaml",
    "lemmas.yaml",
    "expected.yaml",
    "crash.yaml",
    "mutation.yaml",
)
_ALONE = tuple(name for name in ("starter", *SHIPPED) if name != "contention")  # systems that include no other


@verb()
@click.argument("path")
@click.option("--in", "parent", type=click.Path(path_type=Path), default=Path(), help="Folder that PATH begins in.")
@click.option(
    "--from",
    "template",
    type=click.Choice(_ALONE),
    default="starter",
    show_default=True,
    metavar="SYSTEM",
    help=f"System to copy: {', '.join(_ALONE)}.",
)
def init(path: str, parent: Path, template: str) -> None:
    """Write a small commented system into a new or empty folder PATH, named as its last part is.

    The system passes `leasehold check`, `crash` and `prove`.

    Example:  leasehold init my_system && leasehold check my_system
              leasehold init ./specs/my_system
              leasehold init my_lease --from lease
    """
    folder = parent / path
    name = Path(path).name or (folder.resolve().name if path else "")
    if not NAME.match(name) or len(name) > 60:
        raise click.UsageError(
            f"{name[:60]!r} is not a name: lower-case letters, digits and underscores, starting with a letter"
        )
    if name in SHIPPED or name in RESERVED:
        whose = "of a system that comes with Leasehold" if name in SHIPPED else "a word of the specification language"
        raise click.UsageError(f"the name {name} is {whose}; choose another")
    written = []
    with writing(folder):
        empty = folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())
        if (folder.exists() or folder.is_symlink()) and not empty:
            raise click.UsageError(f"{folder} is there already; nothing was changed")
        for file, source in _files(resources.files("leasehold.spec") / "systems" / template):
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8")
            text = text.replace(f"system: {template}\n", f"system: {name}\n")
            text = text.replace(f"leasehold check {template} ", f"leasehold check {name} ")
            target.write_text(text, encoding="utf-8")
            written.append(target)
    screen = console()
    for target in written:
        screen.print(str(target), markup=False)
    screen.print(f"\nNow:  leasehold check {folder}\n      leasehold report {folder}", markup=False)


def _files(folder: Traversable) -> list[tuple[str, Traversable]]:
    files = []
    for name in _ORDER:
        part = folder / name
        if part.is_dir():
            roles = sorted((f for f in part.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
            files += [(f"{name}/{f.name}", f) for f in roles]
        elif part.is_file():
            files.append((name, part))
    return files
