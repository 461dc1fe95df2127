"""`leasehold init`: a small system to start from."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from leasehold.cli.common import console
from leasehold.spec.language.source import NAME

_TEMPLATE = "starter"


@click.command()
@click.argument("name")
@click.option("--in", "parent", type=click.Path(path_type=Path), default=Path(), help="Folder to make it in.")
def init(name: str, parent: Path) -> None:
    """Write a small commented system NAME, which passes `leasehold check`.

    \b
    Example:  leasehold init my_system && leasehold check my_system
    """
    if not NAME.match(name) or len(name) > 60:
        raise click.UsageError(
            f"{name[:60]!r} is not a name: lower-case letters, digits and underscores, starting with a letter"
        )
    folder = parent / name
    if folder.exists():
        raise click.UsageError(f"{folder} is there already; nothing was changed")
    template = resources.files("leasehold.spec") / _TEMPLATE
    written = []
    try:
        for path in ("system.yaml", "messages.yaml", "roles/client.yaml", "roles/server.yaml", "invariants.yaml", "expected.yaml"):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = template.joinpath(path).read_text(encoding="utf-8")
            target.write_text(text.replace("system: starter", f"system: {name}"), encoding="utf-8")
            written.append(target)
    except OSError as error:
        raise click.UsageError(f"cannot write to {folder}: {error.strerror or error}") from error
    screen = console()
    for target in written:
        screen.print(str(target), markup=False)
    screen.print(f"\nNow:  leasehold check {folder}\n      leasehold report {folder}", markup=False)
