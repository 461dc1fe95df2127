"""Text to typed expression.

The text is Python's expression syntax, read by Python's own parser and then taken apart node by node (see infer.py).
Every error names its place inside the text, and is reported once; an expression that was reported has the type Unknown,
which agrees with everything.
"""

from __future__ import annotations

import ast
import unicodedata
import warnings

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.foreign import SYNTAX, Habit, operator_in
from leasehold.spec.language.infer import MAX_STEPS, short, wrong
from leasehold.spec.language.infer_calls import Typing
from leasehold.spec.language.names import Scope
from leasehold.spec.language.source import YamlNode
from leasehold.spec.language.types import BOOL, Type

MAX_TEXT = 4000
MAX_NESTING = 60
MAX_CASES = 300_000  # parts, once quantifiers are written out


def parse(node: YamlNode, scope: Scope, sink: Sink, expected: Type | None = None) -> x.Expression:
    """Parses and types the text of a node; errors go to the sink."""

    def refused(wording: str, place: Place = node.place, near: str | None = None, **words: object) -> x.Expression:
        sink.error(wording, place, near=near, **{name: str(word) for name, word in words.items()})
        return wrong(node.place)

    if node.kind != "text":
        return refused("expression_wanted", kind=node.kind)
    source = node.text.strip()
    if len(source) > MAX_TEXT:
        return refused("long_expression", count=f"{len(source):,}", max_text=f"{MAX_TEXT:,}")
    source = source.replace("\n", " ").replace("\t", " ")
    lead = len(node.text) - len(node.text.lstrip())
    habit = operator_in(source)
    foreign = next((i for i, c in enumerate(source) if c in "#\\" or not " " <= c <= "~"), None)
    if foreign is not None:
        if habit is not None and habit.offset <= foreign:
            return _foreign(habit, node, lead, sink)
        c = source[foreign]
        return refused("foreign_character", node.inside(lead + foreign), _look_alike(c), character=_character(c))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        if habit is not None:
            return _foreign(habit, node, lead, sink)
        place, why = node.inside(lead + _offset(error, source)), error.msg.removesuffix(". Perhaps you forgot a comma?")
        wording = "cut_by_comment" if node.comment else "not_an_expression"
        return refused(wording, place, source=short(source), why=why, syntax=SYNTAX)
    except (ValueError, MemoryError, RecursionError):
        return refused("deep_expression")
    if _depth(tree) > MAX_NESTING:
        return refused("nested_expression", max_nesting=MAX_NESTING)
    parser, found = Typing(node, lead, source, sink), len(sink.found)
    result = parser.infer(tree, scope, expected)
    if parser.steps > MAX_STEPS:
        return refused("slow_expression")
    if expected is not None:
        parser.want(result, expected, tree)
    if (count := x.cases(result)) > MAX_CASES:
        return refused("wide_expression", count=f"{count:,}", max_cases=f"{MAX_CASES:,}")
    if node.comment and len(sink.found) == found:
        _warn_of_comment(node, source, scope, sink, expected)
    return result


def optional(node: YamlNode | None, scope: Scope, sink: Sink) -> x.Expression | None:
    """A condition that may be left out."""
    return None if node is None else parse(node, scope, sink, BOOL)


def _warn_of_comment(node: YamlNode, source: str, scope: Scope, sink: Sink, expected: Type | None) -> None:
    """Warns where the comment behind an expression is more of it: `a # b` by habit of TLA+, or `a # and b`."""
    for between in (" ", " != "):
        probe = Sink()
        parse(YamlNode("text", node.place, f"{source}{between}{node.comment}"), scope, probe, expected)
        if not probe.found:
            sink.warning("comment_in_expression", node.place, source=short(source), comment=short(node.comment))
            return


_MATHEMATICS = {
    "MINUS SIGN": "-", "EN DASH": "-", "EM DASH": "-", "LESS-THAN OR EQUAL TO": "<=", "GREATER-THAN OR EQUAL TO": ">=",
    "NOT EQUAL TO": "!=", "MULTIPLICATION SIGN": "*", "LOGICAL AND": "and", "LOGICAL OR": "or", "NOT SIGN": "not",
    "ELEMENT OF": "in", "UNION": "|", "INTERSECTION": "&",
}  # fmt: skip


def _foreign(habit: Habit, node: YamlNode, lead: int, sink: Sink) -> x.Expression:
    kind = "a word" if habit.text.isalpha() else "an operator"
    place = node.inside(lead + habit.offset)
    sink.error("foreign_word", place, near=habit.near, habit=habit.text, kind=kind, remedy=habit.remedy)
    return wrong(node.place)


def _offset(error: SyntaxError, source: str) -> int:
    return min(max((error.offset or 1) - 1, 0), max(len(source) - 1, 0))


def _character(c: str) -> str:
    return f"`{c}`" if " " <= c <= "~" else f"{unicodedata.name(c, 'a control character')} (U+{ord(c):04X})"


def _look_alike(c: str) -> str | None:
    """The ASCII character that another one may stand for: a full-width letter, a typographic minus, a curly bracket."""
    plain = unicodedata.normalize("NFKD", c)[:1]
    found = _MATHEMATICS.get(unicodedata.name(c, "")) or (plain if "!" <= plain <= "~" else None)
    return f"`{found}`" if found else None


def _depth(tree: ast.AST) -> int:
    deepest, todo = 0, [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        deepest = max(deepest, depth)
        todo.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest
