"""Corrections: the remedies of diagnostics that need no thought, as edits of a file."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from leasehold.spec.language.diagnostics import Diagnostic, Place

_NEAR = re.compile(r"`(\w+)`")
_NAME = re.compile(r"\w+(?:\.\w+)*")
SIMILAR = 0.6  # as of near misses


@dataclass(frozen=True, slots=True)
class Correction:
    """A word of a file, and the one to write instead."""

    place: Place
    old: str
    new: str


def correction(diagnostic: Diagnostic, line: str) -> Correction | None:
    """The edit that mends what a diagnostic is about: the near miss in place of the word; None where there is none.

    Args:
        diagnostic: the finding.
        line: of its file, where it is.
    """
    near = _NEAR.fullmatch(diagnostic.near or "")
    name = _NAME.match(line, diagnostic.place.column - 1)
    if near is None or name is None:
        return None
    words = name[0].split(".")  # the place of a field is where its machine is named
    similar = difflib.get_close_matches(near[1], words, n=1, cutoff=SIMILAR) if len(words) > 1 else words
    if not similar or similar[0] == near[1]:
        return None
    before = words[: words.index(similar[0])]
    column = diagnostic.place.column + sum(len(word) + 1 for word in before)
    return Correction(Place(diagnostic.place.file, diagnostic.place.line, column), similar[0], near[1])
