"""Sequences as SQL: a field is a JSON array, of which a length and single values are asked; no sequence is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leasehold.checker.verify.sql.dialects import kind_of
from leasehold.checker.verify.sql.frame import NotAsked, SqlFrame
from leasehold.checker.verify.sql.text import (
    ATOM,
    COMPARED,
    JSON,
    SUM,
    Joined,
    Sql,
    Words,
    case,
    conjunction,
    disjunction,
    flat,
    negation,
    within,
)
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.operators import template
from leasehold.spec.language.render.evaluate import Context, NoState, evaluate
from leasehold.spec.language.render.sequences import Sequences, SequenceValue


def literal(type_: t.Type, value: t.Value, f: SqlFrame) -> Sql:
    return Words(f.layout.literal(type_, value))


def json_cell(form: str, whole: str, at: Sql) -> Sql:
    """A cell of a JSON value, in a dialect's form."""
    text = form.format(whole, flat(within(at, ATOM)))
    return Words(text, ATOM if text.startswith(("CAST(", "JSON_", "NULLIF(")) else JSON)


def stored(e: x.Expression) -> bool:
    """Returns whether a set, map or sequence stands as JSON in a column, or can be written as JSON."""
    match e:
        case x.Data() | x.MessageField():
            return True
        case x.Apply(op="[]" | "item" | "first" | "last", operands=(whole, *_)) | x.Old(operand=whole):
            return stored(whole)
        case x.Apply(op="get", operands=operands):
            return all(map(stored, operands))
    return is_written(e)


def is_written(e: x.Expression) -> bool:
    """Returns whether a value is written out: a literal, or a set or a sequence of such."""
    return isinstance(e, x.Literal_) or (
        isinstance(e, x.Apply) and e.op in ("{}", "[,]") and all(map(is_written, e.operands))
    )


def written(e: x.Expression, f: SqlFrame) -> Sql:
    """A value that is written out, as JSON."""
    return literal(e.type, evaluate(e, Context(NoState(), {})), f)


def no_value(e: x.Expression) -> NotAsked:
    return NotAsked(f"`{x.text(e)}` stands where a set, map or sequence is not asked what is in it")


@dataclass(frozen=True)
class _SqlAlgebra:
    """Numbers and conditions as SQL. What is asked of a place that a sequence has not is NULL, and decides nothing."""

    def number(self, value: int) -> Sql:
        return Words(str(value))

    def plus(self, a: Sql, b: Sql) -> Sql:
        return self._worked_out(a, b, 1) or Joined("+", (within(a, SUM), within(b, SUM + 1)), SUM)

    def minus(self, a: Sql, b: Sql) -> Sql:
        return self._worked_out(a, b, -1) or Joined("-", (within(a, SUM), within(b, SUM + 1)), SUM)

    def _worked_out(self, a: Sql, b: Sql, sign: int) -> Sql | None:
        known = [flat(part) for part in (a, b)]
        if not all(word.isdigit() for word in known):
            return None
        number = int(known[0]) + sign * int(known[1])
        return Words(str(number) if number >= 0 else f"({number})")

    def less(self, a: Sql, b: Sql) -> Sql:
        return Joined("<", (within(a, SUM), within(b, SUM)), COMPARED)

    def same(self, a: Sql, b: Sql) -> Sql:
        return Joined("=", (within(a, JSON), within(b, JSON)), COMPARED)

    def opposite(self, test: Sql) -> Sql:
        return negation(test)

    def every(self, tests: Sequence[Sql]) -> Sql:
        return conjunction(list(tests)) if tests else Words("TRUE")

    def some(self, tests: Sequence[Sql]) -> Sql:
        return disjunction(list(tests)) if tests else Words("FALSE")

    def choice(self, test: Sql, then: Sql, otherwise: Sql) -> Sql:
        return case(test, then, otherwise)


_SEQUENCES: Sequences[Sql] = Sequences(_SqlAlgebra())
_MAKERS = ("[,]", "append", "+", "rest", "take", "if")


def _value(e: x.Expression, f: SqlFrame) -> SequenceValue[Sql]:
    """A sequence as its length and its values."""
    assert isinstance(e.type, t.Seq)
    of = e.type.of
    match e:
        case x.Literal_(value=value):
            return _SEQUENCES.written([Words(f.layout.literal(of, v)) for v in value if of is not None], Words("NULL"))
        case x.Apply(op=op) if op in _MAKERS:
            made: SequenceValue[Sql] = _made(e, f)
            return made
        case x.Old(operand=operand):
            return _value(operand, replace(f, moment=replace(f.moment, before=True)))
    if not stored(e):
        raise no_value(e)
    array = flat(within(f.sql(e), ATOM))

    def at(place: Sql) -> Sql:
        assert of is not None
        return json_cell(f.layout.dialect.at_number[kind_of(of)], array, place)

    return SequenceValue(Words(template(f.layout.dialect.size)(array)), e.type.most, at)


def _read(e: x.Expression, f: SqlFrame) -> Sql | SequenceValue[Sql]:
    return _value(e, f) if isinstance(e.type, t.Seq) else f.sql(e)


def _made(e: x.Apply, f: SqlFrame) -> Any:
    return _SEQUENCES.made(e, lambda o, inside, _: f.sql(o) if inside else _read(o, f), Words("NULL"))


def of_sequence(e: x.Apply, f: SqlFrame) -> Sql:
    """The value of an operator that asks something of a sequence."""
    made = _made(e, f)
    if isinstance(made, tuple):
        there, value = made
        return case(there, value, Words("NULL"))
    value_: Sql = made
    return value_
