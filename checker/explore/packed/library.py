"""Loads the engine's C part, which setup.py compiles when the package is installed (engine/)."""

from __future__ import annotations

import ctypes
import hashlib
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FILE = Path(__file__).with_name("_engine.dll" if os.name == "nt" else "_engine.so")
SOURCE = Path(__file__).with_name("engine")  # of a checkout; what is installed has the library alone
MOST_WORDS = 64  # of a state: the node of a tree has 6 bits for the word
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "engine_new": (c_void_p, ()),
    "engine_free": (None, (c_void_p,)),
    "tree_new": (c_uint32, (c_void_p,)),
    "hang": (c_int, (c_void_p, c_uint32, c_uint32, c_void_p, c_void_p, c_uint32)),
    "add_test": (c_int, (c_void_p, c_uint32, c_int32, c_int32)),
    "add_probe": (c_int, (c_void_p,)),
    "silence": (None, (c_void_p, c_uint32)),
    "add_change": (
        c_int,
        (c_void_p, c_uint32, c_void_p, c_void_p, c_uint64, c_uint32, c_uint32, c_uint32),
    ),
    "add_claims": (c_int, (c_void_p, c_uint32, c_void_p, c_void_p, c_void_p)),
    "add_leaf": (c_int, (c_void_p, c_uint32, c_void_p, c_uint32)),
    "watch": (c_int, (c_void_p, c_uint32, c_uint32, c_int32)),
    "set_bounds": (None, (c_void_p, c_int32)),
    "set_parts": (c_int, (c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_void_p)),
    "set_gate": (None, (c_void_p, c_uint32, c_int32)),
    "threads": (c_int, (c_void_p, c_uint32, c_uint64)),
    "set_alike": (
        c_int,
        (c_void_p, c_uint32, c_uint32, c_uint32, c_void_p, c_void_p, c_void_p),
    ),
    "set_others": (c_int, (c_void_p, c_uint32, c_uint32, c_void_p, c_uint32, c_void_p)),
    "add_value": (c_int, (c_void_p, c_uint32, c_uint64, c_uint64, c_uint32, c_uint32, c_void_p, c_void_p)),
    "set_labels": (None, (c_void_p, c_uint32, c_void_p)),
    "moved_to": (c_int, (c_void_p, c_uint32)),
    "asked_order": (POINTER(c_uint8), (c_void_p,)),
    "stills": (c_int, (c_void_p, c_uint64, c_uint64, c_void_p)),
    "set_limits": (None, (c_void_p, c_uint64, c_uint64, c_uint64)),
    "add_first": (c_uint32, (c_void_p, POINTER(c_uint64), c_uint64)),
    "check_first": (c_uint32, (c_void_p,)),
    "search": (c_uint32, (c_void_p, c_double)),
    "lay_out": (c_int, (c_void_p, c_uint32, POINTER(c_uint8), POINTER(c_uint8), POINTER(c_uint8))),
    "figure": (c_uint64, (c_void_p, c_uint32)),
    "asks": (c_uint32, (c_void_p, c_uint32)),
    "asked_words": (POINTER(c_uint64), (c_void_p,)),
    "found": (c_void_p, (c_void_p, c_uint32)),
    "rest": (None, (c_void_p, c_uint32)),
    "kept": (c_void_p, (c_void_p, c_uint32, POINTER(c_uint64))),
    "keep": (c_int, (c_void_p, c_uint32, c_void_p, c_uint64)),
    "kept_number": (c_uint64, (c_void_p, c_uint32)),
    "keep_number": (None, (c_void_p, c_uint32, c_uint64)),
    "go_on": (c_int, (c_void_p,)),
    "on_disk": (c_int, (c_void_p, c_uint32, c_int)),
    "mark": (c_int, (c_void_p, c_int32, POINTER(c_uint8))),
    "survey": (c_uint32, (c_void_p, c_uint32, c_void_p)),
    "survey_edges": (c_uint32, (c_void_p,)),
}
_GRAPH: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "graph_order": (None, (c_int64, c_void_p, c_int64, c_void_p, c_void_p)),
    "graph_backward": (None, (c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    "graph_reached": (c_int, (c_int64, c_void_p, c_void_p, c_void_p, c_void_p)),
    "graph_leading": (c_int, (c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    "give_back_large": (None, ()),
    "graph_components": (c_int64, (c_int64, c_void_p, c_void_p, c_void_p, c_void_p)),
    "ways_count": (c_int64, (c_int64, c_void_p, c_int32, c_void_p)),
    "ways_select": (
        None,
        (c_int64, c_void_p, c_void_p, c_void_p, c_int32, c_void_p, c_void_p, c_void_p, c_void_p),
    ),
    "ways_joined": (
        None,
        (c_int64, *[c_void_p] * 6, c_int32, c_void_p, c_void_p, c_void_p),
    ),
    "ways_layers": (c_int64, (c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    "ways_longest": (None, (c_int64, *[c_void_p] * 4, c_int32, c_void_p, c_void_p, c_void_p)),
    "ways_worst": (None, (c_int64, *[c_void_p] * 4, c_int32, c_void_p, c_void_p, c_void_p)),
    "ways_groups": (c_int64, (c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_void_p, c_void_p)),
    "ways_gather": (None, (c_int64, c_void_p, c_void_p, c_int32, c_void_p, c_void_p)),
}


class NotBuilt(Exception):
    """The C part was not built, was built from another text, or cannot be loaded; the words say why."""


def source_digest(folder: Path) -> str:
    """The digest of the C part's text, which setup.py compiles into the library."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (".c", ".h"))
    return hashlib.sha256(b"\0".join(part for f in files for part in (f.name.encode(), f.read_bytes()))).hexdigest()


@cache
def _loaded() -> tuple[Any, str]:
    """The shared library, and the suffix of the functions that are for this processor."""
    if not FILE.exists():
        raise NotBuilt(
            "the C engine was not built when leasehold was installed (pip install with a C compiler builds it)"
        )
    try:
        loaded = ctypes.CDLL(str(FILE))
    except OSError as error:
        raise NotBuilt(f"the C engine cannot be loaded: {error}") from error
    if SOURCE.is_dir() and _compiled_from(loaded) != source_digest(SOURCE):
        raise NotBuilt(
            "the C engine was built from another text than checker/explore/packed/engine has: build it again"
        )
    return loaded, "_pext" if loaded.has_pext() else ""


def _compiled_from(loaded: Any) -> str:
    """The digest of the text that a library was compiled from; empty: it is so old that it does not say."""
    try:
        digest = loaded.engine_source
    except AttributeError:
        return ""
    digest.restype = c_char_p
    return str(digest().decode())


@cache
def library(words: int) -> SimpleNamespace:
    """The functions of the C part for states of up to so many words; `words` says how many they take.

    Raises:
        NotBuilt: the C part is not there.
    """
    loaded, variant = _loaded()
    size = next(n for n in range(words, MOST_WORDS + 1) if hasattr(loaded, f"search_{n}{variant}"))
    functions = _typed(loaded, _FUNCTIONS, f"_{size}{variant}")
    functions.words = size
    return functions


@cache
def graph_functions() -> SimpleNamespace:
    """The functions on finished graphs.

    Raises:
        NotBuilt: the C part is not there.
    """
    return _typed(_loaded()[0], _GRAPH, "")


def _typed(loaded: Any, declared: dict[str, tuple[Any, tuple[Any, ...]]], suffix: str) -> SimpleNamespace:
    functions = SimpleNamespace()
    for name, (result, arguments) in declared.items():
        try:
            function = loaded[name + suffix]
        except AttributeError as error:
            raise NotBuilt(f"the C engine was built from an older text, without {name}: build it again") from error
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    return functions
