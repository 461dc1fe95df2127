"""The pure operators of the language, a row each: how one is written, its types and its meaning.

A row is all that the parser, the typer, the printer and the definition (evaluate.py) know of an operator. Every other
reading has one table of its own with a row per operator, which says how it is rendered there: render/python_source.py,
checker/verify/sql/source.py, checker/prove/encode/terms.py, checker/export/promela_terms.py and tla_terms.py.
docs/howto/add_an_operator.md shows the way.

A signature lists the operands' types before the arrow and the result's behind it; alternatives are separated by `;`.
`T` and `K` stand for any type (in `set[T]` for an enumeration or the instances of a role), `T ...` for two or more
operands (for a set or a sequence, any number), `instance` for an instance of any role. Where one of the operands is an
option and the other is not, or one a time and the other an int, the typer of the operator says more
(infer_operators.py).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from leasehold.spec.language.types import (
    BOOL,
    INT,
    TIME,
    Bool,
    Instance,
    Int,
    Map,
    Option,
    Seq,
    Set,
    Time,
    Type,
    UnknownType,
    Value,
    position,
)

Written: TypeAlias = Callable[[int], str]  # an operand's text where an operator stands that binds so tightly
Bound: TypeAlias = dict[str, Type | None]  # what the letters of a signature stand for

MOST_ARGUMENTS = 9
WORDS: Mapping[str, Type] = {"int": INT, "time": TIME, "bool": BOOL}


@dataclass(frozen=True)
class Signature:
    operands: tuple[str, ...]
    result: str
    repeated: bool  # the last operand may come again

    @staticmethod
    def read(text: str) -> Signature:
        left, right = text.split(" -> ")
        operands = left.replace(", ", ",").split()
        repeated = operands[-1] == "..."
        return Signature(tuple(operands[:-1] if repeated else operands), right, repeated)

    def operand(self, place: int) -> str:
        return self.operands[min(place, len(self.operands) - 1)]


@dataclass(frozen=True)
class Operator:
    """A pure operator.

    Attributes:
        means: the function of its operands' values; total, as no expression fails. Where `typed`, the operands' types
            come first.
        form: `infix` operators need parentheses on either side, those that `chain` on the right alone.
        binding: how tightly it binds; 10 where nothing can be torn apart.
        decided_by: the value of an operand that decides, whatever comes after it.
        takes, remedy: what its first operand is, for the error that it is something else.
    """

    name: str
    signature: str
    means: Callable[..., Value]
    form: Literal["call", "prefix", "infix", "chain", "choice", "set", "list", "cell"] = "call"
    binding: int = 10
    typed: bool = False
    decided_by: bool | None = None
    takes: str = ""
    remedy: str = ""
    symbol: str = ""  # where it is written otherwise than it is named

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        return tuple(Signature.read(text) for text in self.signature.split("; "))

    @property
    def arguments(self) -> tuple[int, int]:
        """The least and the greatest number of operands of a call."""
        first = self.signatures[0]
        return (2, MOST_ARGUMENTS) if first.repeated else (len(first.operands),) * 2

    def write(self, operands: Sequence[Written], binding: int = 0) -> str:
        """The operator as the language writes it, within one that binds as tightly as is said."""
        text = self._words(operands)
        return f"({text})" if self.binding < binding else text

    def _words(self, operands: Sequence[Written]) -> str:
        symbol, level = self.symbol or self.name, self.binding
        match self.form:
            case "call":
                return f"{symbol}({', '.join(o(0) for o in operands)})"
            case "prefix":
                return f"{symbol}{' ' if symbol.isalpha() else ''}{operands[0](level)}"
            case "infix" | "chain":
                first, *others = operands
                return f" {symbol} ".join([first(level + (self.form == "infix")), *(o(level + 1) for o in others)])
            case "choice":
                test, then, otherwise = operands
                return f"{then(level + 1)} if {test(level + 1)} else {otherwise(level)}"
            case "set":
                return "{" + ", ".join(o(0) for o in operands) + "}"
            case "list":
                return "[" + ", ".join(o(0) for o in operands) + "]"
            case "cell":
                return f"{operands[0](10)}[{operands[1](0)}]"

    def result(self, types: Sequence[Type]) -> Type | None:
        """The type of the result of operands that have just these types; None if it does not take them."""
        for signature in self.signatures:
            bound: Bound = {}
            if all(fits(signature.operand(n), type_, bound) for n, type_ in enumerate(types)):
                return instantiated(signature.result, bound)
        return None


def fits(pattern: str, type_: Type, bound: Bound) -> bool:
    """Returns whether a type is as a signature has it; notes what the letters stand for."""
    match pattern, type_:
        case _, UnknownType():
            return True
        case ("int", Int()) | ("time", Time()) | ("bool", Bool()) | ("instance", Instance()):
            return True
        case ("set[T]", Set(of=of)):
            return _binds("T", of, bound)
        case ("seq[T]", Seq(of=of)):
            return _binds("T", of, bound)
        case ("option[T]", Option(of=of)):
            return of is not None and _binds("T", of, bound)
        case ("map[K,T]", Map(key=key, of=of)):
            return _binds("K", key, bound) and _binds("T", of, bound)
        case (("T" | "K"), _):
            return _binds(pattern, type_, bound)
    return False


def _binds(letter: str, type_: Type | None, bound: Bound) -> bool:
    if bound.get(letter) is None:
        bound[letter] = type_
    return type_ is None or bound[letter] == type_


def instantiated(pattern: str, bound: Bound) -> Type | None:
    """The type that a signature's word stands for; None where it is not known yet."""
    if pattern == "set[T]":
        return Set(bound.get("T"))  # type: ignore[arg-type]
    if pattern == "seq[T]":
        return Seq(bound.get("T"))
    if pattern == "option[T]":
        return Option(bound.get("T"))
    return WORDS.get(pattern) or bound.get(pattern)


def _cell(types: Sequence[Type], cells: Value, key: Value) -> Value:
    return cells[position(types[1], key)]  # type: ignore[arg-type]


def _item(values: Value, at: Value) -> Value:
    return values[at] if 0 <= at < len(values) else None


_OF_SEQUENCES: Mapping[str, Any] = {"takes": "a sequence", "remedy": "its type is written `seq[TYPE, MOST]`"}
_SETS = "set[T] set[T] -> set[T]"
_ORDERED = "int int -> bool; time time -> bool; set[T] set[T] -> bool"

_ROWS = (
    Operator("if", "bool T T -> T", lambda test, then, other: then if test else other, "choice", 1),
    Operator("or", "bool ... -> bool", lambda *parts: any(parts), "infix", 1, decided_by=True),
    Operator("and", "bool ... -> bool", lambda *parts: all(parts), "infix", 2, decided_by=False),
    Operator("not", "bool -> bool", operator.not_, "prefix", 3),
    Operator("==", "T T -> bool", operator.eq, "infix", 4),
    Operator("!=", "T T -> bool", operator.ne, "infix", 4),
    Operator("<", _ORDERED, operator.lt, "infix", 4),
    Operator("<=", _ORDERED, operator.le, "infix", 4),
    Operator(">", _ORDERED, operator.gt, "infix", 4),
    Operator(">=", _ORDERED, operator.ge, "infix", 4),
    Operator("in", "T set[T] -> bool; T seq[T] -> bool", lambda member, elements: member in elements, "infix", 4),
    Operator(
        "not in", "T set[T] -> bool; T seq[T] -> bool", lambda member, elements: member not in elements, "infix", 4
    ),
    Operator("|", _SETS, operator.or_, "chain", 5),
    Operator("&", _SETS, operator.and_, "chain", 6),
    Operator(
        "+", "int int -> int; time int -> time; int time -> time; seq[T] seq[T] -> seq[T]", operator.add, "chain", 7
    ),
    Operator("-", f"int int -> int; time int -> time; time time -> int; {_SETS}", operator.sub, "chain", 7),
    Operator("*", "int int -> int", operator.mul, "chain", 8),
    Operator("//", "int int -> int", lambda a, b: a // b if b else 0, "chain", 8),
    Operator("%", "int int -> int", lambda a, b: a % b if b else 0, "chain", 8),
    Operator("negative", "int -> int", operator.neg, "prefix", 9, symbol="-"),
    Operator("{}", "T ... -> set[T]", lambda *items: frozenset(items), "set"),
    Operator("[]", "map[K, T] K -> T", _cell, "cell", typed=True),
    Operator("[,]", "T ... -> seq[T]", lambda *items: items, "list"),
    Operator("item", "seq[T] int -> option[T]", _item, "cell"),
    Operator("min", "int ... -> int; time ... -> time", min),
    Operator("max", "int ... -> int; time ... -> time", max),
    Operator("abs", "int -> int", abs),
    Operator(
        "len",
        "set[T] -> int; seq[T] -> int",
        len,
        takes="a set, a sequence, a channel or pending messages",
        remedy="write `len(granted)`, `len(pending(ticket))` or `len(CHANNEL)`",
    ),
    Operator("index", "instance -> int", int, takes="an instance", remedy="write `index(self)`"),
    Operator(
        "get",
        "option[T] T -> T",
        lambda option, fallback: fallback if option is None else option,
        takes="an option",
        remedy="leave the `get` out: the value is always there",
    ),
    Operator("append", "seq[T] T -> seq[T]", lambda values, value: (*values, value), **_OF_SEQUENCES),
    Operator("first", "seq[T] -> option[T]", lambda values: _item(values, 0), **_OF_SEQUENCES),
    Operator("last", "seq[T] -> option[T]", lambda values: _item(values, len(values) - 1), **_OF_SEQUENCES),
    Operator("rest", "seq[T] -> seq[T]", lambda values: values[1:], **_OF_SEQUENCES),
    Operator("take", "seq[T] int -> seq[T]", lambda values, count: values[: max(count, 0)], **_OF_SEQUENCES),
    Operator("starts_with", "seq[T] seq[T] -> bool", lambda a, b: a[: len(b)] == b, **_OF_SEQUENCES),
)

OPERATORS: Mapping[str, Operator] = {row.name: row for row in _ROWS}
FUNCTIONS = tuple(row.name for row in _ROWS if row.form == "call")
OF_SEQUENCES = tuple(row.name for row in _ROWS if all("seq[T]" in (*s.operands, s.result) for s in row.signatures))
# Functions whose names a definition may take, which then goes before: `first` and `last` are words of many texts.
DEFINABLE = frozenset(OF_SEQUENCES).intersection(FUNCTIONS)
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")


def template(text: str) -> Callable[..., str]:
    """Puts operands into words: one for each pair of braces in `({} + {})` or `({1} + {0})`, all into `({ and })`."""
    every = re.fullmatch(r"(.*)\{([^}\d]+)\}(.*)", text)
    if every is None:
        return text.format
    head, glue, tail = every.groups()
    return lambda *operands: f"{head}{glue.join(operands)}{tail}"
