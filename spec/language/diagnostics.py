"""Diagnostics: the findings about a specification.

A diagnostic is a value: code, place, mistake, near miss and remedy. diagnostics.yaml has all codes and
their texts; `docs/reference/diagnostics.md` is generated from it and `tests/bad_specs/` holds a spec for every code.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from string import Template
from typing import Any, Literal, TypeAlias

from leasehold.spec.language import table

Severity = Literal["error", "warning"]


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """A place in a text: a file (as the user named it), a line and a column, both from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Place("<settings>")


@dataclass(frozen=True, slots=True)
class WordFix:
    """A word that stands for another one, at a place."""

    place: Place
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class EntryFix:
    """Entries that a mapping of a file lacks, under a key of it.

    Attributes:
        place: of the mapping.
        path: the keys that lead to it.
        key: under which they are to stand.
        entries: names and texts.
    """

    place: Place
    path: tuple[str, ...]
    key: str
    entries: tuple[tuple[str, str], ...]


Fix: TypeAlias = WordFix | EntryFix


@dataclass(frozen=True, slots=True)
class Wording:
    """The text of one kind of finding: a code, and templates with `$words` for the mistake and for the remedy."""

    code: str
    what: Template
    remedy: Template | None


@cache
def codes() -> dict[str, str]:
    """Returns what each code stands for."""
    return {code: entry["title"] for code, entry in _table().items()}


@cache
def wordings() -> dict[str, Wording]:
    """Every kind of finding, by its name."""
    rows = {}
    for code, entry in _table().items():
        for name, texts in entry.items():
            if name != "title":
                remedy = Template(texts["remedy"]) if "remedy" in texts else None
                rows[name] = Wording(code, Template(texts["what"]), remedy)
    return rows


@cache
def _table() -> dict[str, Any]:
    entries: dict[str, Any] = table("diagnostics.yaml")
    return entries


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a specification.

    Attributes:
        depends: the constants on whose values it may depend.
        fix: the change of the text that mends it, where there is one alone.
        related: other places that it names.
    """

    code: str
    place: Place
    what: str
    near: str | None = None
    remedy: str | None = None
    severity: Severity = "error"
    depends: frozenset[str] = field(default=frozenset(), compare=False)
    fix: Fix | None = field(default=None, compare=False)
    related: tuple[Place, ...] = field(default=(), compare=False)

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
            "title": codes()[self.code],
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

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[Diagnostic, ...]]]:
        """Lets it go from one process to another, with what it has found."""
        return type(self), (self.diagnostics,)


# How alike, of at most 1, a word and the one that is meant have to be, and how much less so the next one.
SURE, APART = 0.8, 0.1
MAX_FOUND = 1000
MAX_WORDS = 1000


@dataclass
class Sink:
    """Collects diagnostics, so that all errors of a spec are reported at once.

    Attributes:
        excused: errors, by code and place, that are warnings here, each with the values that earn it.

    Raises:
        SpecError: after MAX_FOUND findings, so that no file can fill the memory with them.
    """

    found: list[Diagnostic] = field(default_factory=list)
    seen: set[Diagnostic] = field(default_factory=set)
    excused: Mapping[tuple[str, Place], str] = field(default_factory=dict)

    def error(self, wording: str, at: Place, /, *, near: str | None = None, code: str = "", **details: Any) -> None:
        """Adds an error in the words of diagnostics.yaml, under another code if one is given.

        Lists among `details` are joined by commas.
        """
        self._put(wording, at, near, "error", details, code)

    def error_to_fix(
        self, wording: str, at: Place, fix: Fix | None, /, *, near: str | None = None, **details: Any
    ) -> None:
        """Adds an error that a change of the text mends, if there is one."""
        self._put(wording, at, near, "error", details, fix=fix)

    def error_of_values(self, wording: str, at: Place, depends: frozenset[str], /, **details: Any) -> None:
        """Adds an error that may depend on the values of some constants."""
        self._put(wording, at, None, "error", details, depends=depends)

    def warning(self, wording: str, at: Place, /, *, near: str | None = None, **details: Any) -> None:
        self._put(wording, at, near, "warning", details)

    def unknown(self, wording: str, at: Place, word: str, known: Iterable[str], /, **details: Any) -> None:
        """Adds an error about a name that is none of those that are known, with the nearest of them."""
        names = list(known)
        given = {**details, "word": word[:60], "known": names}
        self._put(wording, at, near_miss(word, names), "error", given, fix=fix_of_word(at, word, names))

    def _put(
        self,
        wording: str,
        at: Place,
        near: str | None,
        severity: Severity,
        details: Mapping[str, Any],
        code: str = "",
        depends: frozenset[str] = frozenset(),
        fix: Fix | None = None,
    ) -> None:
        row, shown = wordings()[wording], {name: _shown(detail) for name, detail in details.items()}
        remedy = None if row.remedy is None else row.remedy.substitute(shown)
        related = tuple(detail for detail in details.values() if isinstance(detail, Place))
        what = row.what.substitute(shown)
        self.add(Diagnostic(code or row.code, at, what, near, remedy, severity, depends, fix, related))

    def add(self, diagnostic: Diagnostic) -> None:
        """Adds a finding whose words are its own."""
        assert diagnostic.code in codes(), diagnostic.code
        if len(diagnostic.what) > MAX_WORDS:
            diagnostic = replace(diagnostic, what=diagnostic.what[: MAX_WORDS - 3] + "...")
        values = self.excused.get((diagnostic.code, diagnostic.place))
        if values is not None and diagnostic.depends:
            diagnostic = replace(diagnostic, what=f"with {values}: {diagnostic.what}", severity="warning")
        if diagnostic in self.seen:
            return
        self.seen.add(diagnostic)
        self.found.append(diagnostic)
        if len(self.found) >= MAX_FOUND:
            message = f"{MAX_FOUND:,} findings; the rest is not read"
            raise SpecError([*self.found, Diagnostic("LH112", diagnostic.place, message, None, "mend these first")])

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.found if d.severity == "error"]

    def raise_errors(self) -> None:
        """Raises SpecError when an error was found; does nothing for warnings alone."""
        if self.errors:
            raise SpecError(self.found)


class Within(Sink):
    """A sink for errors in a text that is used elsewhere: each names the use, and is reported for the first alone.

    Args:
        used: how the text is used, as the message says it.
        place: where.
    """

    def __init__(self, outer: Sink, used: str, place: Place) -> None:
        super().__init__()
        self.outer, self.used, self.place = outer, used, place
        self.whole: Sink = outer.whole if isinstance(outer, Within) else outer

    def add(self, diagnostic: Diagnostic) -> None:
        d = diagnostic
        if not any((k.place, k.code) == (d.place, d.code) and k.what.startswith(d.what) for k in self.whole.found):
            what = f"{d.what} ({self.used}, used at {self.place})"
            self.outer.add(replace(d, what=what, related=(*d.related, self.place)))


class DiscardingSink(Sink):
    """A sink that keeps nothing, for a second look at what is reported elsewhere."""

    def add(self, diagnostic: Diagnostic) -> None:
        pass


def printable(text: str) -> str:
    """Words of the user, quoted, with what cannot be shown written as escapes."""
    return f"`{''.join(c if c.isprintable() else repr(c)[1:-1] for c in text)}`"


def a(noun: str) -> str:
    """`a broker`, `an authority`: a role in a sentence."""
    return f"an {noun}" if noun[:1] in "aeio" else f"a {noun}"


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """The known word nearest to a misspelt one, quoted for a message, or None."""
    if len(word) > 100:
        return None
    matches = difflib.get_close_matches(word, list(islice(known, 1000)), n=1, cutoff=0.6)
    return f"`{matches[0]}`" if matches else None


def fix_of_word(at: Place, word: str, known: Iterable[str]) -> WordFix | None:
    """Returns what mends a misspelt word, if one known word is very near to it, and no other as near."""
    if at == NOWHERE or len(word) > 100:
        return None
    near = difflib.get_close_matches(word, list(islice(known, 1000)), n=2, cutoff=0.6)
    alike = [*(difflib.SequenceMatcher(None, name, word).ratio() for name in near), 0.0]
    return WordFix(at, word, near[0]) if alike[0] >= SURE and alike[0] - alike[1] >= APART else None


def _shown(word: object) -> str:
    return str(word) if isinstance(word, str) or not isinstance(word, Iterable) else listed(word, 30)


def listed(items: Iterable[str], limit: int = 12) -> str:
    """`a, b, c`, cut with the number that was left out."""
    names = [str(w) for w in items]
    if not names:
        return "none"
    if len(names) > limit:
        return ", ".join(names[:limit]) + f" and {len(names) - limit} more"
    return ", ".join(names)
