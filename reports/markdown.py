"""One Markdown page for a system: verdicts, counts, the product and the state diagrams, as GitHub shows them.

It is meant to be committed and compared, so nothing in it differs between two runs: no time, no memory, no date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from leasehold.checker.explore.result import Exploration, PropertyResult
from leasehold.reports.mermaid import role_mermaid
from leasehold.reports.product import Mark, Product, Table, product, table
from leasehold.reports.verdicts import WORDS, Meant, headline, meant
from leasehold.spec.language.expression import text
from leasehold.spec.language.types import show

MOST_LISTED = 60
_SIGN: dict[Mark, str] = {"legal": "", "reachable": "", "recovery": "†"}


def markdown(exploration: Exploration, legal: Exploration | None = None) -> str:
    """The page, as text; `legal` is the exploration of the same system without faults."""
    system, expected = exploration.system, meant(exploration)
    lines = [f"# {_text(system.name)}", ""]
    if system.doc:
        lines += [_text(system.doc), ""]
    lines += [_headline(exploration), ""]
    if expected.doc:
        lines += [_text(expected.doc), ""]
    lines += _rows(("", ""), _counts(exploration))
    if system.constants:
        lines += ["", "## Settings", ""]
        lines += _rows(
            ("constant", "value", "what it is"),
            ([_code(name), _code(show(c.type, c.value)), _text(c.doc)] for name, c in system.constants.items()),
        )
    lines += ["", "## Properties", ""]
    lines += _rows(
        ("verdict", "property", "kind", "says", "path"),
        (_property(p, exploration, expected) for p in exploration.properties),
    )
    for title, names in (
        ("Transitions never taken", exploration.unvisited_transitions),
        ("Properties without a case", exploration.vacuous),
    ):
        if names:
            lines += ["", f"## {title}", ""]
            lines += [f"- {_code(name)}" + _why(expected.untested.get(name, "")) for name in names]
    whole = product(exploration, legal)
    if whole.roles:
        lines += ["", "## Product", "", *_product(exploration, whole)]
    lines += ["", "## Roles"]
    for role in system.roles.values():
        lines += ["", f"### {_text(role.name)}", ""]
        if role.doc:
            lines += [_text(role.doc), ""]
        lines += ["```mermaid", role_mermaid(role).rstrip("\n"), "```"]
    return "\n".join(lines) + "\n"


def _headline(exploration: Exploration) -> str:
    _, words = headline(exploration)
    if exploration.complete:
        return words
    return f"{words} The exploration is not complete: {_text(exploration.why_incomplete or 'it was cut short')}."


def _why(reason: str) -> str:
    return f": {_text(reason)}" if reason else ""


def _property(result: PropertyResult, exploration: Exploration, expected: Meant) -> list[str]:
    word = WORDS[result.verdict]
    declared = exploration.system.properties.get(result.name)
    says = [_text(result.doc) if result.doc or declared is None else _code(text(declared.claim))]
    if result.verdict == "violated" and result.name in expected.violated:
        says.append(f"*As expected: {_text(expected.violated[result.name])}*")
    elif result.verdict in {"violated", "bounded"}:
        word = f"**{word}**"
        says += [f"*{_text(result.reason)}*"] if result.reason else []
    if result.name in exploration.vacuous:
        says.append("*vacuous: no case of it exists*")
    steps = "" if result.path is None else f"{len(result.path)} steps"
    return [word, _code(result.name), result.kind, " ".join(filter(None, says)), steps]


def _counts(exploration: Exploration) -> Iterator[Sequence[str]]:
    yield "control states of the product", f"{exploration.product_states:,}"
    yield "of them reachable", f"{len(exploration.cells):,}"
    yield "global states", f"{exploration.distinct:,}"
    yield "steps between them", f"{exploration.edges:,}"
    yield "depth", f"{exploration.depth:,}"
    yield "digest of the spec", _code(exploration.system.digest)


def _product(exploration: Exploration, whole: Product) -> Iterator[str]:
    reachable = "reachable" if exploration.complete else "reached"
    yield (
        f"{_text(whole.title)}: {exploration.product_states:,} control states, {len(exploration.cells):,} {reachable}. "
        "A number is the length of a shortest path."
        + (" † marks what only faults lead to." if any(n.mark == "recovery" for n in whole.nodes) else "")
    )
    yield ""
    found = table(whole)
    if found is None or not found.column_roles:
        yield from _listed(whole)
    else:
        yield from _table(found, whole)


def _table(found: Table, whole: Product) -> Iterator[str]:
    """Rows and the outermost columns; a cell lists where the other roles may be."""
    outer = tuple(dict.fromkeys(column[0] for column in found.columns))
    cells: dict[tuple[int, str], list[str]] = {}
    for (row, column), number in sorted(found.nodes.items()):
        node = whole.nodes[number]
        where = " / ".join(found.columns[column][1:])
        words = f"{_text(where)} {node.depth}{_SIGN[node.mark]}".strip()
        cells.setdefault((row, found.columns[column][0]), []).append(words)
    corner = f"{found.row_role} ↓ {found.column_roles[0]} →"
    if len(found.column_roles) > 1:
        yield f"In the cells: where {_text(' / '.join(found.column_roles[1:]))} may be."
        yield ""
    yield from _rows(
        (_text(corner), *(_text(name) for name in outer)),
        (
            [f"**{_text(name)}**", *(", ".join(cells.get((row, where), [])) for where in outer)]
            for row, name in enumerate(found.rows)
        ),
    )


def _listed(whole: Product) -> Iterator[str]:
    nodes = sorted(whole.nodes, key=lambda node: node.depth)
    yield from _rows(
        (*(_text(role.name) for role in whole.roles), "steps", "global states"),
        ([*map(_text, n.control), f"{n.depth}{_SIGN[n.mark]}", f"{n.states:,}"] for n in nodes[:MOST_LISTED]),
    )
    if len(nodes) > MOST_LISTED:
        yield ""
        yield f"and {len(nodes) - MOST_LISTED:,} more."


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _text(words: str) -> str:
    """Words of a spec as plain text, in which `words` between backticks are code: nothing else of them is read."""
    parts = " ".join(words.split()).split("`")
    shown = [_plain(parts[0])]
    for i, part in enumerate(parts[1:], 1):
        closed = i % 2 == 1 and i < len(parts) - 1
        shown.append(_code(part) if closed else ("\\`" if i % 2 else "") + _plain(part))
    return "".join(shown)


def _plain(words: str) -> str:
    escaped = "".join(f"\\{sign}" if sign in "\\*_{}[]<>#|~" else sign for sign in words)
    return escaped.replace("&", "&amp;")


def _code(words: str) -> str:
    """Words as code in a table: a fence longer than any in them, and no bar that would end the cell."""
    line = " ".join(words.split()).replace("|", "\\|")
    fence = "`"
    while fence in line:
        fence += "`"
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"
