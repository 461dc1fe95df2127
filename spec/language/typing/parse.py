"""Text to typed expression.

The text is read by Python's own parser (syntax.py) and then taken apart node by node (infer.py). Every error names its
place inside the text, and is reported once; an expression that was reported has the type Unknown, which agrees with
everything.
"""

from __future__ import annotations

from dataclasses import replace

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.types import BOOL, Type
from leasehold.spec.language.typing.infer import MAX_STEPS, wrong
from leasehold.spec.language.typing.infer_calls import Typing
from leasehold.spec.language.typing.names import Scope
from leasehold.spec.language.typing.syntax import short, syntax

MAX_CASES = 300_000  # parts, once quantifiers are written out


def parse(node: YamlNode, scope: Scope, sink: Sink, expected: Type | None = None) -> x.Expression:
    """Parses and types the text of a node; errors go to the sink."""
    before, read = len(sink.found), syntax(node, sink)
    if read is None:
        return wrong(node.place)
    parser = Typing(read, sink)
    result = parser.infer(read.tree, scope, expected)
    if parser.work.steps > MAX_STEPS:
        sink.error("slow_expression", node.place)
        return wrong(node.place)
    if expected is not None:
        parser.want(result, expected, read.tree)
    if scope.decided and (count := x.case_count(result)) > MAX_CASES:
        sink.error("wide_expression", node.place, count=f"{count:,}", max_cases=f"{MAX_CASES:,}")
        return wrong(node.place)
    if node.comment and len(sink.found) == before:
        _warn_of_comment(node, read.source, scope, sink, expected)
    return replace(result, written=read.source)


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
