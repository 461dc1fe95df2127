"""The cache of what the checker would have to make again: proofs, results of mutants, verdicts, and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp

VARIABLE, LIMIT_VARIABLE = "LEASEHOLD_CACHE", "LEASEHOLD_CACHE_LIMIT"
LIMIT_BYTES = 10_000_000_000
KINDS = ("checkpoints", "mutants", "proofs", "verdicts")  # the folders of the cache
SOURCES = (".py", ".yaml", ".c", ".h")  # a checkout has the C engine's text; what is installed changes as a whole


def cache_folder() -> Path:
    """The folder that the environment names, or the one that this system has for caches; it may not be there yet."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    import platformdirs  # only here: most commands keep nothing

    return Path(platformdirs.user_cache_dir("leasehold", appauthor=False))


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of the cache; `kind` is its folder, and `modified` a time of the system's clock, in seconds."""

    kind: str
    path: Path
    size: int
    modified: float


def cached_files() -> list[CachedFile]:
    """All files of the cache, also those that are being written; the oldest first."""
    files = []
    for kind in KINDS:
        with suppress(OSError):
            for path in (cache_folder() / kind).iterdir():
                with suppress(OSError):  # it has gone meanwhile
                    found = path.stat()
                    files.append(CachedFile(kind, path, found.st_size, found.st_mtime))
    return sorted(files, key=lambda file: (file.modified, file.path))


def limit_bytes() -> int:
    """The most bytes that the cache may have: as many as the environment says, or ten gigabytes."""
    named = os.environ.get(LIMIT_VARIABLE, "")
    return int(named) if named.isascii() and named.isdigit() else LIMIT_BYTES


def make_room(size: int, place: Path) -> bool:
    """Removes the oldest files until one of a size can take its place; returns whether it can."""
    others = [file for file in cached_files() if file.path != place]
    left = sum(file.size for file in others)
    if size > limit_bytes():
        return False
    for file in others:
        if left + size <= limit_bytes():
            break
        with suppress(OSError):
            file.path.unlink()
        left -= file.size
    return True


def sources_of(folders: Iterable[Path]) -> list[list[str]]:
    """The sources in folders by name, each with a digest of what is in it; empty where they are not all there."""
    sources: list[list[str]] = []
    for folder in folders:
        try:
            found = (file for file in folder.rglob("*") if file.suffix in SOURCES)
            files = ((f.relative_to(folder.parent).as_posix(), f.read_bytes()) for f in found)
            some = [[name, sha256(content).hexdigest()] for name, content in files]
        except OSError:
            return []
        if not some:
            return []
        sources += sorted(some)
    return sources


def write_whole(file: Path, content: bytes) -> None:
    """Writes a file of the cache that is there whole or not at all, whoever else writes it, also after a power loss.

    Raises:
        OSError: it cannot be written, or is larger than the cache may be.
    """
    if not make_room(len(content), file):
        raise OSError(f"the cache may have {limit_bytes():,} bytes ({LIMIT_VARIABLE})")
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
