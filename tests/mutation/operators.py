"""Mistakes of programmers, made in Python source: each mutant differs from the module in one place.

Beside the usual operators (a comparison at its boundary, a number one off, a negated condition) there are those of
distributed systems: a statement that is left out may be an fsync, a check or a send; two statements in the other order
may be a commit and what it has to precede; a lock that is not taken; an exception that is not caught; an element that
a key lacks. What nobody could see is left out: docstrings, annotations, words for people, logging.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
COMPUTED: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGS = {"log", "logging", "warnings"}
SILENT = {"__repr__", "__str__"}  # for people


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One mistake.

    Attributes:
        path: of the module, from the top of the repository.
        line, end_line: of what is replaced, from 1.
        start, end: its place in the text, in bytes.
        operator: the name of the mistake.
        old, new: the text that is replaced, and that which takes its place.
        function: in which it stands, dotted; empty at the top.
    """

    path: str
    line: int
    end_line: int
    start: int
    end: int
    operator: str
    old: str
    new: str
    function: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.operator}"

    def applied(self, source: bytes) -> bytes:
        """The module with this mistake."""
        assert source[self.start : self.end].decode() == self.old
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants(path: str, source: bytes) -> list[Mutant]:
    """All mutants of a module, in the order of its text."""
    return sorted(set(_Reader(path, source).found()))


class _Reader:
    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def found(self) -> Iterator[Mutant]:
        yield from self._walk(ast.parse(self.source), ())

    def _walk(self, node: ast.AST, function: tuple[str, ...]) -> Iterator[Mutant]:
        if _for_people(node):
            return
        for operator, replaced, new in _replacements(node):
            yield self._mutant(operator, replaced, new, function)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = (*function, node.name)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
                continue
            children = value if isinstance(value, list) else [value]
            if name in ("body", "orelse", "finalbody"):
                yield from self._statements([c for c in children if isinstance(c, ast.stmt)], function)
            for child in children:
                if isinstance(child, ast.AST):
                    yield from self._walk(child, function)

    def _statements(self, block: Sequence[ast.stmt], function: tuple[str, ...]) -> Iterator[Mutant]:
        if not function:
            return
        for statement in block:
            if _acts(statement):
                yield self._mutant("left out", statement, "pass", function)
        for one, two in pairwise(block):
            if _acts(one) and _acts(two) and not _for_people(one) and not _for_people(two):
                start, end = self._at(one.lineno, one.col_offset), self._end(two)
                between = self.source[self._end(one) : self._at(two.lineno, two.col_offset)]
                new = self._text(two) + between.decode() + self._text(one)
                old = self.source[start:end].decode()
                yield self._made("other order", one.lineno, two.end_lineno or 0, start, end, old, new, function)

    def _mutant(self, operator: str, node: ast.expr | ast.stmt, new: str | Words, function: tuple[str, ...]) -> Mutant:
        start, end = self._at(node.lineno, node.col_offset), self._end(node)
        words = new if isinstance(new, str) else new(self._text)
        old = self._text(node)
        return self._made(operator, node.lineno, node.end_lineno or 0, start, end, old, words, function)

    def _made(
        self,
        operator: str,
        line: int,
        end_line: int,
        start: int,
        end: int,
        old: str,
        new: str,
        function: tuple[str, ...],
    ) -> Mutant:
        return Mutant(self.path, line, end_line, start, end, operator, old, new, ".".join(function))

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._at(node.end_lineno or 0, node.end_col_offset or 0)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self._at(node.lineno, node.col_offset) : self._end(node)].decode()


Words = Callable[[Callable[[ast.expr | ast.stmt], str]], str]


def _for_people(node: ast.AST) -> bool:
    """Returns what only people read: words of errors and logs; and what is there for the type checker."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name in SILENT or any("overload" in ast.dump(d) for d in node.decorator_list)
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in LOGS
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
    return False


def _acts(statement: ast.stmt) -> bool:
    """A statement that something else may miss: a call, an attribute or item that is set, something deleted."""
    match statement:
        case ast.Expr(value=ast.Call() | ast.Await()):
            return not _for_people(statement)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Delete():
            return True
    return False


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str | Words]]:
    """The name of the mistake, what is replaced, and by what."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARED:
            word = COMPARED[type(op)]
            yield "comparison", node, lambda text: f"({text(left)}) {word} ({text(right)})"
        case ast.BoolOp(op=op, values=values):
            word = " and " if isinstance(op, ast.And) else " or "
            for n in range(len(values)):
                rest = [*values[:n], *values[n + 1 :]]
                yield (
                    "operand left out",
                    node,
                    lambda text, rest=rest: "(" + word.join(f"({text(value)})" for value in rest) + ")",
                )
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTED:
            if not (_is_text(left) or _is_text(right)):
                word = COMPUTED[type(op)]
                yield "arithmetic", node, lambda text: f"({text(left)}) {word} ({text(right)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negation left out", node, lambda text: f"({text(operand)})"
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() as value):
            yield "one more", node, str(value + 1)
        case ast.If(test=test, body=[ast.Raise() | ast.Return() | ast.Continue() | ast.Break(), *_], orelse=[]):
            yield "check left out", test, "False"
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "always", test, "True"
            yield "never", test, "False"
        case ast.While(test=test) if not isinstance(test, ast.Constant):
            yield "never", test, "False"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "nothing returned", node, "return None"
        case ast.Break():
            yield "loop", node, "continue"
        case ast.Continue():
            yield "loop", node, "break"
        case ast.Call(func=ast.Name(id=name) as func) if name in NAMES:
            yield "other end", func, NAMES[name]
        case ast.Tuple(elts=elements, ctx=ast.Load()) if len(elements) > 1:
            for n in range(len(elements)):
                rest = [*elements[:n], *elements[n + 1 :]]
                yield "element left out", node, lambda text, rest=rest: f"({', '.join(map(text, rest))},)"
        case ast.ExceptHandler(type=ast.Tuple(elts=kinds)):
            for n in range(len(kinds)):
                yield "exception not caught", kinds[n], "()"
        case ast.ExceptHandler(type=ast.expr() as kind):
            yield "exception not caught", kind, "()"
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is None and "lock" in ast.dump(item.context_expr).lower():
                    yield "lock not taken", item.context_expr, "__import__('contextlib').nullcontext()"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
