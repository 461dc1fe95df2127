"""What people write by habit of TLA+, C, Python and other languages, and how it is written here.

Rows of tables: what is found, the near miss, and the remedy. The operators are looked for in a text that is not an
expression, the other tables in one that Python's parser takes.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

SYNTAX = "expressions have Python's syntax: `units >= 1 and now < term_end`"
_EACH = "quantify over a role or a type: `all(r.state == closed for r in participant)`"
_SET = "an expression changes nothing: what changes stands under `set:`, as in `set: {n: n + 1}`"
_MAPS = (
    "maps are not written out: set one cell (`set: {'votes[self]': true}`), "
    "and claim of each (`all(votes[p] for p in participant)`)"
)
_SETS = "a set is written `{a, b}`; it holds instances or members of an enumeration"
_RANGE = "numbers are compared: `0 <= n and n <= 3`"

# As a regular expression: the operator, what is meant, and the remedy where the near miss does not say it all.
_OPERATORS: tuple[tuple[str, str | None, str], ...] = (
    (r"/\\|\\land\b|&&", "and", SYNTAX),
    (r"~>", None, "that one claim leads to another is a property: `when: P` and `leads_to: Q`"),
    (r"\|->", None, _MAPS),
    (r"\\/|\\lor\b|\|\|", "or", SYNTAX),
    (r"\\A\b|\bforall\b", "all(... for r in role)", _EACH),
    (r"\\E\b|\bexists\b", "any(... for r in role)", _EACH),
    (r"\\notin\b", "not in", SYNTAX),
    (r"\\in\b", "in", SYNTAX),
    (r"\\cup\b|\\union\b", "|", "sets have |, & and -"),
    (r"\\cap\b|\\intersect\b", "&", "sets have |, & and -"),
    (r"\\subseteq\b", "<=", "sets are compared with <=, < and =="),
    (r"\\leq?\b|=<", "<=", SYNTAX),
    (r"\\geq?\b", ">=", SYNTAX),
    (r"\\div\b", "//", "numbers have +, -, *, // and %"),
    (r"\\lnot\b|\\neg\b|~|!(?!=)", "not", SYNTAX),
    (r"\\", "-", "the difference of two sets is `a - b`"),
    (r"#|/=|<>", "!=", SYNTAX),
    (r"<=>|<->|\biff\b", "==", SYNTAX),
    (r"==>|=>|->|\bimplies\b", "not ... or", "`a` implies `b` is written `not a or b`"),
    (r":=|\+\+|\+=|-=|--$", None, _SET),
    (r"(?<=\w)'", "old(...)", "in a `step` property `n` is the value after the step, and `old(n)` the one before it"),
    (r"\bCHOOSE\b", None, "nothing is chosen in an expression: let an event or a message carry the value"),
    (r"\bUNCHANGED\b", None, "what `set:` does not name stays as it is; a `step` property says `n == old(n)`"),
    (r"\bEXCEPT\b", None, "one cell of a map is set by its name: `set: {'votes[self]': true}`"),
    (r"\bIF\b|\bif\b(?=.*\bthen\b)|\?", "a if condition else b", SYNTAX),
    (r"\bLET\b|\blet\b", None, "nothing is named within an expression: write the value out"),
    (r"\.\.", None, _RANGE),
    (r"(?<![=<>!:/])=(?!=)", "==", SYNTAX),
)  # fmt: skip
_OPERATOR = re.compile("|".join(f"({pattern})" for pattern, *_ in _OPERATORS))

_FUNCTIONS: dict[str, tuple[str | None, str]] = {
    **dict.fromkeys(("exists", "some", "Exists"), ("any(... for r in role)", _EACH)),
    **dict.fromkeys(("forall", "every", "each", "Forall"), ("all(... for r in role)", _EACH)),
    **dict.fromkeys(("Cardinality", "size", "Len", "card", "length"), ("len", "`len` takes a set or a channel")),
    **dict.fromkeys(("implies", "Implies"), ("not ... or", "`a` implies `b` is written `not a or b`")),
    **dict.fromkeys(("set", "frozenset"), ("{}", _SETS)),
    **dict.fromkeys(("list", "tuple", "dict", "sorted"), (None, _SETS)),
    "range": (None, _RANGE),
    "prime": ("old(...)", "in a `step` property `n` is the value after the step, and `old(n)` the one before it"),
}
_METHODS: dict[str, tuple[str | None, str]] = {
    **dict.fromkeys(("add", "append", "push", "insert"), ("s | {x}", _SET)),
    **dict.fromkeys(("remove", "discard", "pop"), ("s - {x}", _SET)),
    "union": ("a | b", "sets have |, & and -"),
    "intersection": ("a & b", "sets have |, & and -"),
    "difference": ("a - b", "sets have |, & and -"),
    "issubset": ("a <= b", "sets are compared with <=, < and =="),
    "get": ("votes[p]", "a map has a cell for every member of its key's type"),
    **dict.fromkeys(
        ("keys", "values", "items"), (None, "quantify over the key's type: `all(votes[p] for p in participant)`")
    ),
}
NAMES = {
    "TRUE": "true", "FALSE": "false", "null": "none", "NULL": "none", "nil": "none", "Nil": "none", "undefined": "none",
    "this": "self",
}  # fmt: skip
_CONSTRUCTS: dict[type[ast.AST], tuple[str | None, str]] = {
    ast.Dict: (None, _MAPS),
    ast.DictComp: (None, _MAPS),
    ast.List: ("{...}", _SETS),
    ast.Tuple: ("{...}", _SETS),
    ast.ListComp: ("{...}", "a set is written `{r for r in role if ...}`"),
    ast.GeneratorExp: (None, _EACH),
    ast.Lambda: (None, "functions cannot be made: write the value out"),
    ast.NamedExpr: (None, _SET),
    ast.JoinedStr: (None, "write the bare name"),
    ast.Invert: ("not", "`not p` negates; sets have |, & and -"),
    ast.BitXor: ("!=", "of two bools `!=` holds if one alone is true; numbers have no powers"),
    ast.Div: ("//", "numbers have +, -, *, // and %, sets |, & and -"),
}


@dataclass(frozen=True, slots=True)
class Habit:
    """Something foreign, and how it is written here.

    Attributes:
        text: the words that were found.
        offset: where they begin in the expression.
        near: what was meant, quoted for a message, or None.
        remedy: what to write.
    """

    text: str
    offset: int
    near: str | None
    remedy: str


def operator_in(source: str) -> Habit | None:
    """The first foreign operator of a text that is not an expression."""
    found = _OPERATOR.search(source)
    if found is None or found.lastindex is None:
        return None
    _, near, remedy = _OPERATORS[found.lastindex - 1]
    return Habit(found[0], found.start(), near and f"`{near}`", remedy)


def function(name: str) -> tuple[str | None, str] | None:
    """What is meant by a foreign function or method, and the remedy."""
    return _quoted(_FUNCTIONS.get(name) or (_METHODS.get(name.rpartition(".")[2]) if "." in name else None))


def construct(tree: ast.AST) -> tuple[str | None, str] | None:
    """What is meant by a construct of Python that is not part of the language, and the remedy."""
    return _quoted(_CONSTRUCTS.get(type(tree)))


def _quoted(row: tuple[str | None, str] | None) -> tuple[str | None, str] | None:
    return row and (row[0] and f"`{row[0]}`", row[1])
