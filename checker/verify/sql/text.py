"""SQL as a tree of words that is printed in lines of bounded length.

`Words` stand on one line. `Joined` are parts with AND, OR or an operator between them, each on a line of its own where
they do not fit on one. A `Select` is a query; in an expression it stands in parentheses, indented.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

WIDTH = 100
INDENT = "  "

# How tightly an expression binds.
OR, AND, NOT, COMPARED, JSON, SUM, PRODUCT, ATOM = range(1, 9)


@dataclass(frozen=True)
class Words:
    text: str
    binding: int = ATOM


@dataclass(frozen=True)
class Joined:
    glue: str
    parts: tuple[Sql, ...]
    binding: int


@dataclass(frozen=True)
class Enclosed:
    """An expression or query between words: `NOT EXISTS (` and `)`."""

    head: str
    inner: Sql | Select
    tail: str = ")"
    binding: int = ATOM


@dataclass(frozen=True)
class Sequel:
    """Pieces one behind the other, with a line for each where they do not fit on one: of a CASE."""

    pieces: tuple[Sql, ...]
    binding: int = ATOM


@dataclass(frozen=True)
class Listed:
    """`('a', 'b', 'c')`, on as many lines as it takes."""

    items: tuple[str, ...]
    binding: int = ATOM


Sql: TypeAlias = Words | Joined | Enclosed | Sequel | Listed


@dataclass(eq=False)
class Select:
    """A query, which may still grow: what is read of other tables is joined to it as expressions ask for it.

    Attributes:
        of: what it selects.
        tables: its table, then the joined ones, each with the conditions on which it is joined (the first: none).
        where: conditions, all of which hold.
        head, join: the words that begin it, and that join a table, as the database has them.
    """

    of: str = "1"
    tables: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    where: list[Sql] = field(default_factory=list)
    head: str = "SELECT"
    join: str = "JOIN"

    def lines(self, width: int) -> Iterator[str]:
        yield f"{self.head} {self.of}"
        for n, (table, on) in enumerate(self.tables):
            line = f"FROM {table}" if n == 0 else f"{self.join} {table} ON {' AND '.join(on)}"
            if n == 0 or len(line) <= width:
                yield line
            else:
                yield f"{self.join} {table}"
                yield from (f"{INDENT}{'AND' if k else 'ON'} {part}" for k, part in enumerate(on))
        for n, condition in enumerate(self.where):
            first, *rest = lines(within(condition, AND), width - 6)
            yield f"WHERE {first}" if n == 0 else f"{INDENT}AND {first}"
            yield from (f"{INDENT}{line}" for line in rest)


def within(sql: Sql, binding: int) -> Sql:
    """An expression where an operator stands that binds so tightly: in parentheses, if it would be torn apart."""
    return sql if sql.binding >= binding else Enclosed("(", sql)


def flat(sql: Sql | Select) -> str:
    """All on one line."""
    match sql:
        case Words(text=text):
            return text
        case Joined(glue=glue, parts=parts):
            return f" {glue} ".join(map(flat, parts))
        case Enclosed(head=head, inner=inner, tail=tail):
            return head + flat(inner) + tail
        case Sequel(pieces=pieces):
            return " ".join(map(flat, pieces))
        case Listed(items=items):
            return f"({', '.join(items)})"
        case Select():
            return " ".join(line.strip() for line in sql.lines(10**9))


def lines(sql: Sql, width: int = WIDTH) -> list[str]:
    """Lines of at most so many characters, where that is possible."""
    whole = flat(sql)
    if len(whole) <= width and not _has_query(sql):
        return [whole]
    match sql:
        case Words(text=text):
            return [text]
        case Listed(items=items):
            return _filled(items, width - 20)  # something stands before it
        case Joined(glue=glue, parts=parts) if glue not in ("AND", "OR", "and", "or"):
            return _run_on([lines(part, width) for part in parts], f" {glue} ", width)
        case Joined(glue=glue, parts=parts):
            rendered: list[str] = []
            for n, part in enumerate(parts):
                first, *rest = lines(part, width - len(glue) - 1)
                rendered += [f"{glue} {first}" if n else first, *rest]
            return rendered
        case Enclosed(head=head, inner=Select() as query, tail=tail):
            if len(whole) <= 40:
                return [whole]
            return [head, *(INDENT + line for line in query.lines(width - 2)), tail]
        case Enclosed(head=head, inner=inner, tail=tail):
            assert not isinstance(inner, Select)
            first, *rest = lines(inner, width - len(head))
            if not rest:
                return [head + first + tail]
            if head != "(" and len(head) > 5:
                return [head, *(INDENT + line for line in (first, *rest)), tail]
            pad = " " * len(head)
            return [head + first, *(pad + line for line in rest[:-1]), pad + rest[-1] + tail]
        case Sequel(pieces=pieces):
            rendered = []
            for n, piece in enumerate(pieces):
                deep = INDENT if n and not flat(piece).startswith("END") else ""
                rendered += [deep + line for line in lines(piece, width - 2)]
            return rendered


def _run_on(parts: list[list[str]], glue: str, width: int) -> list[str]:
    """Parts one behind the other: the first line of one stands on the last line of the one before, if it fits."""
    rendered = parts[0]
    for first, *rest in parts[1:]:
        whole = rendered[-1] + glue + first
        here = [whole] if len(whole) <= width else [rendered[-1], f"{glue.strip()} {first}"]
        rendered = [*rendered[:-1], *here, *rest]
    return rendered


def _filled(items: Sequence[str], width: int) -> list[str]:
    rendered = ["("]
    for n, item in enumerate(items):
        word = item + (")" if n == len(items) - 1 else ",")
        if len(rendered[-1]) + len(word) >= width:
            rendered.append(INDENT)
        rendered[-1] += word if not rendered[-1].strip(" (") else f" {word}"
    return rendered


def _has_query(sql: Sql) -> bool:
    match sql:
        case Joined(parts=parts) | Sequel(pieces=parts):
            return any(map(_has_query, parts))
        case Enclosed(inner=inner):
            return isinstance(inner, Select) or _has_query(inner)
    return False


def joined(glue: str, parts: Sequence[Sql], binding: int) -> Sql:
    """Parts with AND or OR between them. What AND joins is in parentheses under OR, too, for the eye."""
    if len(parts) == 1:
        return parts[0]
    every = [inner for part in parts for inner in (part.parts if _joins(part, glue) else (part,))]  # type: ignore[union-attr]
    return Joined(glue, tuple(Enclosed("(", p) if _joins(p, "AND") else within(p, binding) for p in every), binding)


def _joins(sql: Sql, glue: str) -> bool:
    return isinstance(sql, Joined) and sql.glue == glue


def conjunction(parts: Sequence[Sql]) -> Sql:
    return joined("AND", parts, AND) if parts else Words("TRUE")


def disjunction(parts: Sequence[Sql]) -> Sql:
    return joined("OR", parts, OR) if parts else Words("FALSE")


_OPPOSITE = {"=": "<>", "<>": "=", "IN": "NOT IN", "NOT IN": "IN"}


def negation(sql: Sql) -> Sql:
    match sql:
        case Joined(glue=glue) if glue in _OPPOSITE:
            return replace(sql, glue=_OPPOSITE[glue])
        case Enclosed(head="NOT EXISTS ("):
            return replace(sql, head="EXISTS (", binding=ATOM)
        case Enclosed(head="EXISTS ("):
            return replace(sql, head="NOT EXISTS (", binding=NOT)
    return Enclosed("NOT ", within(sql, NOT), "", NOT)


def case(test: Sql, then: Sql, other: Sql) -> Sql:
    """One value or another."""
    parts = (Enclosed("CASE WHEN ", test, ""), Enclosed("THEN ", then, ""), Enclosed("ELSE ", other, ""))
    return Sequel((*parts, Words("END")))
