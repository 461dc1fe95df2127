"""Definitions: expressions with a name and parameters, `majority(s): len(s) * 2 > acceptors`.

A definition is typed where it is used (infer.py): its text is taken apart anew there, and each parameter stands for the
argument, which is read with the names in sight at the use. So parameters have no declared types, and the model has
what a definition says in the place of its name: no reading knows of definitions. What a definition says of itself can
be told without types: its name, its parameters, and that it does not lead back to itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from leasehold.spec.language.diagnostics import Place, Sink, printable
from leasehold.spec.language.read.shape_check import check_name
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.typing.syntax import Syntax, syntax

OWN_WORDS = ("state", "self", "now", "event", "msg", "it")  # they have a meaning of their own in expressions
_HEAD = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*\Z")


@dataclass(frozen=True)
class Definition:
    """A named expression.

    Attributes:
        text: what it says; None where that was reported.
        place: where its name stands.
        role: whose own data it names without a prefix; empty where it is a definition of the system.
    """

    name: str
    parameters: tuple[str, ...]
    source: str
    text: Syntax | None = field(compare=False, repr=False)
    place: Place = field(compare=False)
    role: str = ""

    @property
    def usage(self) -> str:
        """Returns how it is written: `majority(s)`."""
        return f"{self.name}({', '.join(self.parameters)})" if self.parameters else self.name

    @cached_property
    def parts(self) -> frozenset[Place]:
        """The places of all parts of its text; a part of an expression that stands there came with the definition."""
        trees = ast.walk(self.text.tree) if self.text else ()
        return frozenset(self.text.place(t) for t in trees if self.text and isinstance(t, ast.expr))

    @property
    def names(self) -> Iterator[str]:
        """The names that its text has, but for its parameters."""
        for tree in ast.walk(self.text.tree) if self.text else ():
            if isinstance(tree, ast.Name) and tree.id not in self.parameters:
                yield tree.id


def read(
    declared: Iterable[tuple[str, Place, YamlNode]], known: Mapping[str, str], sink: Sink, role: str = ""
) -> dict[str, Definition]:
    """The definitions of a section, by name.

    Args:
        declared: head, place and text of each.
        known: the names that a definition or a parameter cannot have, and what each is.
        sink: where errors go.
        role: whose section it is; empty for the system's.
    """
    definitions: dict[str, Definition] = {}
    for head, place, node in declared:
        parts = _HEAD.match(head)
        if parts is None:
            sink.error("not_a_definition", place, head=printable(head[:60]))
            continue
        name, inner = parts.groups()
        parameters = tuple(p.strip() for p in inner.split(",")) if inner is not None else ()
        if not all(_may_be_named(word, place, known, sink) for word in (name, *parameters)):
            continue
        if name in definitions:
            first = definitions[name].place
            sink.error("declared_twice_under", place, name=name, section="definitions", place=first)
            continue
        twice = {p for p in parameters if parameters.count(p) > 1}
        for parameter in sorted(twice):
            sink.error("parameter_twice", place, parameter=parameter, name=name)
        definitions[name] = Definition(name, parameters, node.text, None if twice else syntax(node, sink), place, role)
    return _without_cycles(definitions, sink)


def _may_be_named(word: str, place: Place, known: Mapping[str, str], sink: Sink) -> bool:
    before = len(sink.found)
    check_name(word, place, sink, "definitions")
    if word in OWN_WORDS:
        sink.error("taken_name", place, word=word)
    elif word in known:
        sink.error("ambiguous_name", place, word=word, clashes=known[word], section="definitions")
    return len(sink.found) == before


def _without_cycles(definitions: dict[str, Definition], sink: Sink) -> dict[str, Definition]:
    """The definitions, those that lead back to themselves without their text; each cycle is reported once."""
    sound: dict[str, bool] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            cycle = trail[trail.index(name) :]
            sink.error("defined_by_itself", definitions[name].place, name=name, trace=" -> ".join((*cycle, name)))
            sound.update(dict.fromkeys(cycle, False))
        elif name not in sound:
            for used in dict.fromkeys(n for n in definitions[name].names if n in definitions):
                visit(used, (*trail, name))
            sound.setdefault(name, True)

    for name in definitions:
        visit(name, ())
    return {name: d if sound[name] else replace(d, text=None) for name, d in definitions.items()}
