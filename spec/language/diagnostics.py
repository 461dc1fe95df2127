"""What the language says when a specification is wrong.

A diagnostic is a value: code, place, what is wrong, the near miss and the remedy. The catalogue below is the only list
of codes; `docs/reference/diagnostics.md` is generated from it and `tests/bad_specs/` holds a spec for every one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where something stands: a file (as the user named it), a line and a column, both from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Place("<settings>")

# code: what the code stands for. Groups: 1 files, 2 shape, 3 names and types, 4 machines, 5 the system, 6 properties,
# 7 settings given at the call.
CATALOGUE: dict[str, str] = {
    "LH101": "a file cannot be read",
    "LH102": "a file is too large",
    "LH103": "a file is not text in UTF-8",
    "LH104": "a file is not YAML",
    "LH105": "a file is empty",
    "LH106": "a key stands twice in one mapping",
    "LH107": "an anchor, an alias, a tag or a second document is used",
    "LH108": "a file is nested too deeply",
    "LH109": "a file of the system is missing",
    "LH110": "an include leads back to itself",
    "LH111": "too many files",
    "LH112": "too many findings",
    "LH113": "a role is too large",
    "LH201": "a key is not known",
    "LH202": "a key is missing",
    "LH203": "a value has the wrong kind",
    "LH204": "two keys exclude each other",
    "LH205": "a name is not a name",
    "LH206": "a name is declared twice",
    "LH301": "an expression cannot be parsed",
    "LH302": "a name is not known",
    "LH303": "an operand has the wrong type",
    "LH304": "a construct is not part of the language",
    "LH305": "a field is not known",
    "LH306": "an expression is too large",
    "LH307": "a value leaves the range of its type",
    "LH308": "an expression is used where it has no meaning",
    "LH309": "an opaque value is read",
    "LH401": "a pair of state and event is not covered",
    "LH402": "the guards of one state and event overlap",
    "LH403": "a state cannot be reached",
    "LH404": "a state is not known",
    "LH405": "a task is not known",
    "LH406": "an event is not known",
    "LH407": "a machine has no initial state, or several",
    "LH408": "a task is never started",
    "LH409": "two messages go to one neighbour in one transition",
    "LH410": "an internal transition changes what the state has sent",
    "LH411": "a tick is taken without asking the clock",
    "LH412": "an ignore or refuse never applies",
    "LH413": "a message is sent with the wrong fields",
    "LH414": "a field of data or of an event is never used",
    "LH415": "the guards of one state and event leave a gap",
    "LH416": "a task of a transition alone is not a send",
    "LH417": "a task cannot outlive its state",
    "LH418": "an answer does not tell which outliving task has ended",
    "LH419": "a number may grow without end",
    "LH501": "a message is never sent",
    "LH502": "a message has no channel, or several",
    "LH503": "a role is not known",
    "LH504": "an event never arises",
    "LH505": "a channel carries no message",
    "LH506": "a constant is never used",
    "LH507": "a type is not known",
    "LH508": "requests go both ways between two roles",
    "LH601": "a property has no claim, or several",
    "LH602": "an expectation names something that does not exist",
    "LH701": "a constant is not known",
    "LH702": "a value given for a constant is wrong",
    "LH703": "no such system",
    "LH801": "a channel that no network keeps to",
    "LH802": "a machine that is to run reads another one",
    "LH803": "a machine that is to run looks at messages on their way",
    "LH804": "a machine that is to run may begin with any value",
    "LH805": "a subsidiary machine sends, or has a subsidiary itself",
}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a specification."""

    code: str
    place: Place
    what: str
    near: str | None = None
    remedy: str | None = None
    severity: Severity = "error"

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.severity} {self.code}: {self.what}"]
        if self.near:
            lines.append(f"  did you mean {self.near}?")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        return {
            "code": self.code,
            "title": CATALOGUE[self.code],
            "severity": self.severity,
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "what": self.what,
            "near": self.near,
            "remedy": self.remedy,
        }


class SpecError(Exception):
    """A specification, or a setting given for it, is wrong: the user's fault, never the tool's.

    `diagnostics` holds every finding, ordered by place.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: (d.place, d.code, d.what)))
        super().__init__("\n".join(str(d) for d in self.diagnostics))


MAX_FOUND = 1000
MAX_WORDS = 1000


@dataclass
class Sink:
    """Collects diagnostics, so that all errors of a spec are reported at once.

    Raises:
        SpecError: after MAX_FOUND findings, so that no file can fill the memory with them.
    """

    found: list[Diagnostic] = field(default_factory=list)
    seen: set[Diagnostic] = field(default_factory=set)

    def error(self, code: str, place: Place, what: str, *, near: str | None = None, remedy: str | None = None) -> None:
        self._add(Diagnostic(code, place, what, near, remedy))

    def warning(
        self, code: str, place: Place, what: str, *, near: str | None = None, remedy: str | None = None
    ) -> None:
        self._add(Diagnostic(code, place, what, near, remedy, "warning"))

    def _add(self, diagnostic: Diagnostic) -> None:
        assert diagnostic.code in CATALOGUE, diagnostic.code
        if len(diagnostic.what) > MAX_WORDS:
            diagnostic = replace(diagnostic, what=diagnostic.what[: MAX_WORDS - 3] + "...")
        if diagnostic in self.seen:
            return
        self.seen.add(diagnostic)
        self.found.append(diagnostic)
        if len(self.found) >= MAX_FOUND:
            what = f"{MAX_FOUND:,} findings; the rest is not read"
            raise SpecError([*self.found, Diagnostic("LH112", diagnostic.place, what, None, "mend these first")])

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.found if d.severity == "error"]

    def raise_errors(self) -> None:
        """Raises SpecError when an error was found; does nothing for warnings alone."""
        if self.errors:
            raise SpecError(self.found)


class Quiet(Sink):
    """For a second look at what is reported elsewhere: keeps nothing."""

    def _add(self, diagnostic: Diagnostic) -> None:
        pass


def printable(words: str) -> str:
    """Words of the user, quoted, with what cannot be shown written as escapes."""
    return f"`{''.join(c if c.isprintable() else repr(c)[1:-1] for c in words)}`"


def a(noun: str) -> str:
    """`a broker`, `an authority`: a role in a sentence."""
    return f"an {noun}" if noun[:1] in "aeio" else f"a {noun}"


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """The known word nearest to a misspelt one, quoted for a message, or None."""
    if len(word) > 100:
        return None
    matches = difflib.get_close_matches(word, list(islice(known, 1000)), n=1, cutoff=0.6)
    return f"`{matches[0]}`" if matches else None


def listed(words: Iterable[str], limit: int = 12) -> str:
    """`a, b, c`, cut with the number that was left out."""
    names = [str(w) for w in words]
    if not names:
        return "none"
    if len(names) > limit:
        return ", ".join(names[:limit]) + f" and {len(names) - limit} more"
    return ", ".join(names)
