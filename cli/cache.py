"""`leasehold cache`: what searches, proofs and mutants have kept on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
from rich.table import Table

from leasehold.checker.explore.packed.checkpoint import subject_of
from leasehold.checker.host.cache import KINDS, CachedFile, cache_folder, cached_files, limit_bytes
from leasehold.cli.common import Exit, console, json_option, print_json, verb, writing
from leasehold.impl.words import counted, size_text


@verb()
@click.option(
    "--remove",
    "kinds",
    metavar="KIND",
    multiple=True,
    type=click.Choice((*KINDS, "all")),
    help=f"Remove what is kept: {', '.join(KINDS)}, or all; may be given several times.",
)
@json_option
def cache(kinds: tuple[str, ...], as_json: bool) -> Exit:
    """List what searches, proofs and mutants have kept on this machine, or remove it.

    A search that is interrupted leaves a checkpoint, which goes when the search is over. Proofs and results of mutants
    are kept so that they need not be made again, and the last verdicts on a system so that editors and reports can show
    them. The cache has at most 10 GB, or as many bytes as LEASEHOLD_CACHE_LIMIT says: the oldest files go first.
    LEASEHOLD_CACHE names another folder for it.

    Example:  leasehold cache
              leasehold cache --remove checkpoints
    """
    files = cached_files()
    removed = [file for file in files if file.kind in kinds or "all" in kinds]
    for file in removed:
        with writing(file.path):
            file.path.unlink(missing_ok=True)
    left = [file for file in files if file not in removed]
    if as_json:
        rows = [{"kind": f.kind, "file": str(f.path), "bytes": f.size, "modified": f.modified} for f in left]
        total = sum(file.size for file in removed)
        print_json({"folder": str(cache_folder()), "limit": limit_bytes(), "files": rows, "removed": total})
    else:
        _print(left, removed)
    return Exit.HOLDS


def _print(files: Sequence[CachedFile], removed: Sequence[CachedFile]) -> None:
    screen = console()
    if removed:
        screen.print(f"removed {counted(len(removed), 'file')}, {_size(removed)}", markup=False)
    screen.print(
        f"{cache_folder()}: {_size(files)} of {size_text(limit_bytes())}", markup=False, highlight=False, soft_wrap=True
    )
    for kind in KINDS:
        if some := [file for file in files if file.kind == kind]:
            screen.print(f"  {kind}: {counted(len(some), 'file')}, {_size(some)}", markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    for file in files:
        if file.kind == "checkpoints":
            at = time.strftime("%Y-%m-%d %H:%M", time.localtime(file.modified))
            table.add_row("   ", subject_of(file.path) or "cannot be read", size_text(file.size), at, str(file.path))
    if table.rows:
        screen.print(table)


def _size(files: Sequence[CachedFile]) -> str:
    return size_text(sum(file.size for file in files))
