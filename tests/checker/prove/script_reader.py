"""The scripts of a certificate, read by themselves: their commands, and their terms, in which equal terms are one.

Nothing here is of the prover. A term is a number; `let` is expanded, so that two texts of one term have one number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOKEN = re.compile(r"\|[^|]*\||[()]|[^\s()|]+")
NAMES = re.compile(r"(t|w)\.\S+|(constants|guard|axiom) \d+|(before|after|of the step|side condition:) .+")
# Sizes of sets, sums and arbitrary choices have new names wherever they are built.
FRESH = [(re.compile(r"(size|sum)!(\w+)!\d+"), r"\1!\2"), (re.compile(r"(reachable|rank|took)!\d+"), r"\1")]


class Terms:
    """Terms by number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.nodes: list[tuple[Any, ...]] = []

    def number(self, node: tuple[Any, ...]) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    def read(self, words: Any, known: Mapping[str, int]) -> int:
        """The number of a term.

        Args:
            words: its expression.
            known: what `let` has bound.
        """
        while isinstance(words, list) and words[0] == "let":
            known = {**known, **{name: self.read(value, known) for name, value in words[1]}}
            words = words[2]
        if isinstance(words, str):
            if words in known:
                return known[words]
            for pattern, plain in FRESH:
                words = pattern.sub(plain, words) if pattern.fullmatch(words) else words
            return self.number((words,))
        return self.number(("app", *(self.read(part, known) for part in words)))

    def leaves(self, *numbers: int) -> set[str]:
        """All names in terms."""
        return {self.nodes[n][0] for n in self.within(*numbers) if self.nodes[n][0] != "app"}

    def within(self, *numbers: int) -> set[int]:
        """Terms, and all that are part of them."""
        seen, waiting = set[int](), [*numbers]
        while waiting:
            n = waiting.pop()
            if n not in seen:
                seen.add(n)
                waiting += self.nodes[n][1:]
        return seen

    def head(self, number: int) -> str:
        """The name of a variable, or of a function that is applied."""
        node = self.nodes[number]
        return self.head(node[1]) if node[0] == "app" else str(node[0])

    def conjuncts(self, number: int) -> Iterator[int]:
        """The parts of a conjunction, or the term itself."""
        if self.nodes[number][0] == "app" and self.head(number) == "and":
            for part in self.nodes[number][2:]:
                yield from self.conjuncts(part)
        else:
            yield number

    def renamed(self, number: int, old: str, new: str, done: dict[int, int] | None = None) -> int:
        """A term with names that begin otherwise."""
        done = {} if done is None else done
        if number not in done:
            node = self.nodes[number]
            if node[0] == "app":
                done[number] = self.number(("app", *(self.renamed(part, old, new, done) for part in node[1:])))
            else:
                name = new + node[0].removeprefix(old) if node[0].startswith(old) else node[0]
                done[number] = self.number((name,))
        return done[number]


@dataclass
class Script:
    """A script that was read.

    Attributes:
        defined: the values of definitions, by name.
        parameters: of each definition, by name.
        asserted: names that are asserted.
        goals: names of which it is asserted that they do not all hold.
        members: of each datatype.
        wrong: what a script must not have.
    """

    terms: Terms
    defined: dict[str, int] = field(default_factory=dict)
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asserted: list[str] = field(default_factory=list)
    goals: list[str] = field(default_factory=list)
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def values(self, kind: str) -> list[int]:
        """The terms of definitions whose names begin so, and that are asserted."""
        return [self.defined[name] for name in self.asserted if name.startswith(kind) and name in self.defined]

    def is_same(self, name: str) -> bool:
        """Returns whether a variable of a state after is that of the state before."""
        if name not in self.defined:
            return False
        before, places = self.terms.number(("s." + name[2:],)), self.parameters[name]
        if places:
            before = self.terms.number(("app", before, *(self.terms.number((p,)) for p in places)))
        return self.defined[name] == before


def read(terms: Terms, text: str) -> Script:
    """A script; what it must not have is said in `wrong`."""
    found, commands = Script(terms), _commands(text)
    order = [str(c[0]) if isinstance(c, list) and c else "" for c in commands]
    if order[:1] != ["set-logic"] or commands[0] != ["set-logic", "ALL"]:
        found.wrong.append("does not begin with the logic ALL")
    if order[-1:] != ["check-sat"] or order.count("check-sat") != 1:
        found.wrong.append("does not end with its one check-sat")
    for command in commands[1:-1]:
        _take(found, command)
    if len(commands) < 3 or not _is_goal(commands[-2]):
        found.wrong.append("does not end with its claims")
    return found


def _take(found: Script, command: Any) -> None:
    match command:
        case ["declare-datatypes", [[str(name), "0"]], [members]]:
            found.members[name] = tuple(member for (member,) in members)
        case ["declare-fun", str(name), _, _] if not re.match(r"[tw]\.", name) and not NAMES.fullmatch(name):
            pass
        case ["define-fun", str(name), parameters, _, value] if NAMES.fullmatch(name) and name not in found.defined:
            found.parameters[name] = tuple(place for place, _ in parameters)
            found.defined[name] = found.terms.read(value, {})
        case ["assert", str(name)] if name in found.defined:
            found.asserted.append(name)
        case ["assert", ["not", ["and", "true", *names]]] if not found.goals and {*names} <= found.defined.keys():
            found.goals += names
        case _:
            found.wrong.append(f"has another command: {' '.join(map(str, command))[:60]}")


def _is_goal(command: Any) -> bool:
    match command:
        case ["assert", ["not", ["and", "true", *names]]]:
            return bool(names)
    return False


def _commands(text: str) -> Sequence[Any]:
    """The expressions of a text as lists of lists."""
    stack: list[list[Any]] = [[]]
    for token in TOKEN.findall("\n".join(line for line in text.splitlines() if not line.startswith(";"))):
        if token == "(":
            stack.append([])
        elif token == ")" and len(stack) > 1:
            last = stack.pop()
            stack[-1].append(last)
        else:
            stack[-1].append(token.strip("|"))
    return stack[0]
