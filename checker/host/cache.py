"""The cache of what the checker would have to make again: proofs, results of mutants, and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp

VARIABLE = "LEASEHOLD_CACHE"


def cache_folder() -> Path:
    """The folder that the environment names, or the one that this system has for caches; it may not be there yet."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    import platformdirs  # only here: most commands keep nothing

    return Path(platformdirs.user_cache_dir("leasehold", appauthor=False))


def sources_of(folders: Iterable[Path]) -> list[list[str]]:
    """The Python files of folders by name, each with a digest of what is in it; empty where they are not all there."""
    sources: list[list[str]] = []
    for folder in folders:
        try:
            files = ((f.relative_to(folder.parent).as_posix(), f.read_bytes()) for f in folder.rglob("*.py"))
            some = [[name, sha256(content).hexdigest()] for name, content in files]
        except OSError:
            return []
        if not some:
            return []
        sources += sorted(some)
    return sources


def write_whole(file: Path, content: bytes) -> None:
    """Writes a file that is there whole or not at all, whoever else writes it, also after a power loss."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = mkstemp(dir=file.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
