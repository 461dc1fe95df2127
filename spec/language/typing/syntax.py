"""Text to Python's syntax tree: the part of reading an expression that knows no names and no types.

The text is Python's expression syntax, read by Python's own parser. Every error names its place inside the text.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from dataclasses import dataclass

from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.typing.foreign import SYNTAX, ForeignConstruct, operator_in

MAX_TEXT = 4000
MAX_NESTING = 60
_FOREIGN = re.compile(r"[^ -~]|[#\\]")  # a character that no expression has


@dataclass(frozen=True)
class Syntax:
    """An expression's text as Python's parser takes it.

    Attributes:
        node: where the text stands.
        lead: how many characters of it come before the expression.
        source: the expression, on one line.
    """

    node: YamlNode
    lead: int
    source: str
    tree: ast.expr

    def place(self, tree: ast.AST) -> Place:
        return self.node.inside(self.lead + getattr(tree, "col_offset", 0))

    def words(self, tree: ast.AST) -> str:
        """The text of a part, cut for a message."""
        # The source is one line of ASCII, so columns are offsets in it; `ast.get_source_segment` splits it each time.
        end = getattr(tree, "end_col_offset", None)
        return short(self.source if end is None else self.source[tree.col_offset : end])  # type: ignore[attr-defined]


def syntax(node: YamlNode, sink: Sink) -> Syntax | None:
    """The syntax tree of a node's text; None if it is no expression, which goes to the sink."""

    def refused(wording: str, place: Place = node.place, near: str | None = None, **details: object) -> Syntax | None:
        sink.error(wording, place, near=near, **{name: str(detail) for name, detail in details.items()})
        return None

    if node.kind != "text":
        return refused("expression_wanted", kind=node.kind)
    source = node.text.strip()
    if len(source) > MAX_TEXT:
        return refused("long_expression", count=f"{len(source):,}", max_text=f"{MAX_TEXT:,}")
    source = source.replace("\n", " ").replace("\t", " ")
    lead = len(node.text) - len(node.text.lstrip())
    foreign = _FOREIGN.search(source)
    if foreign is not None:
        c, at = foreign[0], foreign.start()
        habit = operator_in(source)
        if habit is not None and habit.offset <= at:
            return _foreign(habit, node, lead, sink)
        return refused("foreign_character", node.inside(lead + at), _look_alike(c), character=_character(c))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        habit = operator_in(source)  # only here: it takes longer than the parser
        if habit is not None:
            return _foreign(habit, node, lead, sink)
        place, why = node.inside(lead + _offset(error, source)), error.msg.removesuffix(". Perhaps you forgot a comma?")
        wording = "cut_by_comment" if node.comment else "not_an_expression"
        return refused(wording, place, source=short(source), why=why, syntax=SYNTAX)
    except (ValueError, MemoryError, RecursionError):
        return refused("deep_expression")
    if len(source) >= MAX_NESTING and _depth(tree) > MAX_NESTING:  # a level takes a letter, but for the innermost
        return refused("nested_expression", max_nesting=MAX_NESTING)
    return Syntax(node, lead, source, tree)


_MATHEMATICS = {
    "MINUS SIGN": "-",
    "EN DASH": "-",
    "EM DASH": "-",
    "LESS-THAN OR EQUAL TO": "<=",
    "GREATER-THAN OR EQUAL TO": ">=",
    "NOT EQUAL TO": "!=",
    "MULTIPLICATION SIGN": "*",
    "LOGICAL AND": "and",
    "LOGICAL OR": "or",
    "NOT SIGN": "not",
    "ELEMENT OF": "in",
    "UNION": "|",
    "INTERSECTION": "&",
}


def _foreign(habit: ForeignConstruct, node: YamlNode, lead: int, sink: Sink) -> Syntax | None:
    kind = "a word" if habit.text.isalpha() else "an operator"
    place = node.inside(lead + habit.offset)
    sink.error("foreign_word", place, near=habit.near, habit=habit.text, kind=kind, remedy=habit.remedy)
    return None


def _offset(error: SyntaxError, source: str) -> int:
    return min(max((error.offset or 1) - 1, 0), max(len(source) - 1, 0))


def _character(c: str) -> str:
    return f"`{c}`" if " " <= c <= "~" else f"{unicodedata.name(c, 'a control character')} (U+{ord(c):04X})"


def _look_alike(c: str) -> str | None:
    """The ASCII character that another one may stand for: a full-width letter, a typographic minus, a curly bracket."""
    plain = unicodedata.normalize("NFKD", c)[:1]
    alike = _MATHEMATICS.get(unicodedata.name(c, "")) or (plain if "!" <= plain <= "~" else None)
    return f"`{alike}`" if alike else None


def _depth(tree: ast.AST) -> int:
    deepest, todo = 0, [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        deepest = max(deepest, depth)
        todo.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest


def short(source: str) -> str:
    """An expression's text, cut for a message."""
    return source if len(source) <= 60 else source[:57] + "..."
