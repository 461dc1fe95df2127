"""The engine's C part: compiled once for each number of words, kept, and loaded.

No part of the model is in the C text, so it is compiled once on a machine and not once for each specification. What is
kept is named by a digest of the text, the compiler and its options; a compiler that changed makes another. Who needs it
first should not wait long, so it is compiled quickly; while a search takes its time, it is compiled thoroughly, for the
searches to come.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ctypes import POINTER, c_double, c_int, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from leasehold.checker.cache import cache_folder

QUICK, THOROUGH = "-O1", "-O2"  # half the time to compile, or a seventh less to search
OPTIONS = ("-march=native", "-fPIC", "-shared", "-pthread", "-std=gnu11")
PATIENCE = 60.0  # seconds that a compiler may take
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "engine_new": (c_void_p, ()),
    "engine_free": (None, (c_void_p,)),
    "tree_new": (c_uint32, (c_void_p,)),
    "hang": (c_int, (c_void_p, c_uint32, c_uint32, POINTER(c_uint32), POINTER(c_uint32), c_uint32)),
    "add_test": (c_int, (c_void_p, c_uint32, c_int32, c_int32)),
    "add_probe": (c_int, (c_void_p,)),
    "silence": (None, (c_void_p, c_uint32)),
    "add_change": (
        c_int, (c_void_p, c_uint32, POINTER(c_uint32), POINTER(c_uint32), c_uint64, c_uint32, c_uint32, c_uint32),
    ),
    "add_claims": (c_int, (c_void_p, c_uint32, POINTER(c_uint32), POINTER(c_int32))),
    "add_leaf": (c_int, (c_void_p, c_uint32, POINTER(c_uint32), c_uint32)),
    "watch": (c_int, (c_void_p, c_uint32, c_uint32, c_int32)),
    "set_bounds": (None, (c_void_p, c_int32)),
    "set_parts": (c_int, (c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, POINTER(c_uint32))),
    "threads": (c_int, (c_void_p, c_uint32, c_uint64)),
    "set_alike": (
        c_int, (c_void_p, c_uint32, c_uint32, c_uint32, POINTER(c_uint32), POINTER(c_uint32), POINTER(c_uint32)),
    ),
    "set_limits": (None, (c_void_p, c_uint64, c_uint64, c_uint64)),
    "add_first": (c_uint32, (c_void_p, POINTER(c_uint64), c_uint64)),
    "check_first": (c_uint32, (c_void_p,)),
    "search": (c_uint32, (c_void_p, c_double)),
    "lay_out": (c_int, (c_void_p, c_uint32, POINTER(c_uint8), POINTER(c_uint8), POINTER(c_uint8))),
    "figure": (c_uint64, (c_void_p, c_uint32)),
    "asks": (c_uint32, (c_void_p, c_uint32)),
    "asked_words": (POINTER(c_uint64), (c_void_p,)),
    "found": (c_void_p, (c_void_p, c_uint32)),
    "kept": (c_void_p, (c_void_p, c_uint32, POINTER(c_uint64))),
    "keep": (c_int, (c_void_p, c_uint32, c_void_p, c_uint64)),
    "kept_number": (c_uint64, (c_void_p, c_uint32)),
    "keep_number": (None, (c_void_p, c_uint32, c_uint64)),
    "go_on": (c_int, (c_void_p,)),
    "on_disk": (c_int, (c_void_p, c_uint32, c_int)),
    "set_processes": (c_int, (c_void_p, c_uint32, c_uint32)),
    "owner_of": (c_uint32, (c_void_p, POINTER(c_uint64))),
    "begin_level": (c_int64, (c_void_p,)),
    "outbox": (c_void_p, (c_void_p, c_uint32, c_uint32, POINTER(c_uint64))),
    "take_in": (c_uint32, (c_void_p, c_uint64, c_void_p, c_void_p, c_void_p, c_uint32)),
    "came_from": (c_uint32, (c_void_p, c_uint32, POINTER(c_uint64), POINTER(c_uint32))),
    "first_label": (c_uint32, (c_void_p, c_uint32)),
    "mark": (c_int, (c_void_p, c_int32, POINTER(c_uint8))),
    "edges_in_order": (None, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    "survey": (c_uint32, (c_void_p, c_uint32, POINTER(c_uint32))),
    "survey_edges": (c_uint32, (c_void_p,)),
}  # fmt: skip


class NoCompiler(Exception):
    """The C part cannot be had; the words say why."""


@cache
def library(words: int) -> Any:
    """The compiled C part for states of so many words.

    Raises:
        NoCompiler: there is no C compiler, or it fails.
    """
    made = _loaded(words)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(made, name)
        function.restype, function.argtypes = result, arguments
    return made


def _loaded(words: int) -> Any:
    build = _build(words)
    quick = build.place(QUICK)
    for kept in (build.place(THOROUGH), quick):
        if kept.exists():
            with suppress(OSError):  # it is damaged, or nothing may be run from there
                return ctypes.CDLL(str(kept))
    with tempfile.TemporaryDirectory() as aside:
        made = build.made(QUICK, Path(aside))
        with suppress(OSError):  # nothing can be kept there: it is compiled for this process alone
            _keep(made, quick)
        return _opened(made)


def improve(words: int) -> None:
    """Compiles the C part thoroughly for later processes, where that was not done; without a word where it fails."""
    with suppress(NoCompiler, OSError):
        build = _build(words)
        kept = build.place(THOROUGH)
        if not kept.exists():
            with tempfile.TemporaryDirectory() as aside:
                _keep(build.made(THOROUGH, Path(aside)), kept)


@dataclass(frozen=True, slots=True)
class _Build:
    """What the C part is made of."""

    compiler: Sequence[str]  # and the options that CC gives it
    text: Mapping[str, bytes]  # by file
    words: int
    digest: str  # of all this, the compiler's program and the processor

    def place(self, level: str) -> Path:
        """Where the C part is kept that is compiled so thoroughly."""
        return cache_folder() / "engine" / f"engine-{self.digest[:24]}{level}.so"

    def made(self, level: str, folder: Path) -> Path:
        """Compiles it in a folder.

        Raises:
            NoCompiler: the compiler fails.
        """
        source, result = folder / "engine.c", folder / "engine.so"
        for file, some in self.text.items():
            (folder / file).write_bytes(some)
        command = [*self.compiler, level, *OPTIONS, f"-DW={self.words}", "-o", str(result), str(source)]
        try:
            subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE, text=True)
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", None) or "").strip().splitlines()
            raise NoCompiler(f"{self.compiler[0]} fails: {said[0] if said else 'and says nothing'}") from error
        return result


def _build(words: int) -> _Build:
    compiler = _compiler()
    text = {file.name: file.read_bytes() for file in resources.files(__package__).joinpath("engine").iterdir()}
    about = Path(compiler[0]).stat()
    machine = platform.machine(), _processor()
    known = sorted(text.items()), compiler, about.st_size, about.st_mtime_ns, OPTIONS, words, machine
    return _Build(compiler, text, words, hashlib.sha256(repr(known).encode()).hexdigest())


def _keep(made: Path, kept: Path) -> None:
    """Keeps it whole or not at all, whoever else does the same now."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as aside:
        copy = Path(aside) / kept.name
        shutil.copy(made, copy)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
        copy.replace(kept)


def _opened(made: Path) -> Any:
    try:
        return ctypes.CDLL(str(made))
    except OSError as error:
        raise NoCompiler(f"what was compiled cannot be loaded: {error}") from error


def _compiler() -> list[str]:
    """The C compiler, and the options that CC gives it."""
    wanted = os.environ.get("CC", "").split()
    names = [wanted[0]] if wanted else ["cc", "gcc", "clang"]
    found = next((at for name in names if (at := shutil.which(name))), None)
    if found is None:
        raise NoCompiler(f"CC names {wanted[0][:60]}, which is not there" if wanted else "there is no C compiler here")
    return [found, *wanted[1:]]  # under this name: one program may be several compilers


def _processor() -> str:
    """What `-march=native` stands for here, as far as the system says it: machines may share a home folder."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()
