"""Expressions of the language by chance: of a type, over what a place may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

SCALARS = ("bool", "int", "colour", "option")


@dataclass
class Terms:
    """Draws expressions.

    Attributes:
        atoms: what may be read, by type: `bool`, `int`, `colour`, `option` (of a colour), a small type by its name, and
            `set` before that for its sets.
        divides: whether numbers are divided and multiplied.
    """

    rng: Random
    atoms: Mapping[str, Sequence[str]]
    divides: bool = True
    variables: int = 0

    def of(self, type_: str, depth: int = 2) -> str:
        """An expression of a type; of a small type, one of its names for its first member where nothing is read."""
        made = self._leaf(type_) if depth <= 0 or self.rng.random() < 0.2 else self._made(type_, depth - 1)
        return made

    def has(self, *types: str) -> bool:
        """Returns whether something of each type may be read."""
        return all(self.atoms.get(type_) for type_ in types)

    def _pick(self, *among: str) -> str:
        return self.rng.choice(among)

    def _leaf(self, type_: str) -> str:
        known = self.atoms.get(type_, ())
        if known and self.rng.random() < 0.8:
            return self._pick(*known)
        if type_.startswith("set "):
            small = type_.removeprefix("set ")
            return self._pick(small, f"{{{small}[0]}}")
        first = {
            "bool": ("true", "false"),
            "int": ("0", "1", "2", "cap"),
            "colour": ("red", "green"),
            "option": ("none", "red"),
        }
        return self._pick(*first.get(type_, (f"{type_}[0]",)))

    def _made(self, type_: str, depth: int) -> str:
        rows = {"bool": self._truths, "int": self._numbers, "colour": self._colours, "option": self._options}
        if type_ in rows:
            ways = rows[type_](depth)
        elif type_.startswith("set "):
            ways = self._sets(type_, depth)
        else:
            ways = [self._chosen(type_, depth), lambda: self._numbered(type_, depth)]
        return self.rng.choice(ways)()

    def _numbered(self, type_: str, depth: int) -> str:
        """The instance of a number that is worked out, and counted around."""
        return f"{type_}[{self.of('int', depth)} {self._pick('+', '+', '-')} {self._pick('1', '1', '2', 'cap')}]"

    def _chosen(self, type_: str, depth: int) -> Callable[[], str]:
        return lambda: f"({self.of(type_, depth)} if {self.of('bool', depth)} else {self.of(type_, depth)})"

    def _domains(self) -> list[str]:
        """The small types whose members a quantifier here goes through."""
        return [type_ for type_ in self.atoms if type_ not in SCALARS and not type_.startswith("set ")]

    def _over(self, small: str, body: str, depth: int) -> tuple[str, str]:
        """A variable of a small type, and an expression of a type that may read it."""
        self.variables += 1
        variable = f"v{self.variables}"
        inner = {**self.atoms, small: [*self.atoms[small], variable, variable]}
        return variable, Terms(self.rng, inner, self.divides, self.variables).of(body, depth)

    def _truths(self, depth: int) -> list[Callable[[], str]]:
        pick, of = self._pick, self.of
        ways: list[Callable[[], str]] = [
            lambda: f"not ({of('bool', depth)})",
            lambda: f"({of('bool', depth)} {pick('and', 'or')} {of('bool', depth)})",
            lambda: f"({of('int', depth)} {pick('==', '!=', '<', '<=', '>', '>=')} {of('int', depth)})",
        ]
        if self.has("colour"):
            ways.append(lambda: f"({pick(*self.atoms['colour'])} {pick('==', '!=')} {of('colour', depth)})")
        if self.has("option"):
            other = pick("none", "red", of("colour", depth), *(of("option", depth) for _ in range(3)))
            ways += [lambda: f"({pick(*self.atoms['option'])} {pick('==', '!=')} {other})"] * 2
        for small in self._domains():
            if self.has(small):
                ways.append(lambda small=small: f"({pick(*self.atoms[small])} {pick('==', '!=')} {of(small, 0)})")  # type: ignore[misc]
            if self.has(f"set {small}"):
                ways += [partial_set(self, small, depth)] * 2
        return ways

    def _numbers(self, depth: int) -> list[Callable[[], str]]:
        pick, of = self._pick, self.of
        ways: list[Callable[[], str]] = [
            lambda: f"({of('int', depth)} {pick('+', '-')} {of('int', depth)})",
            lambda: f"{pick('min', 'max')}({of('int', depth)}, {of('int', depth)})",
            lambda: f"abs({of('int', depth)})",
            self._chosen("int", depth),
        ]
        if self.divides:
            ways += [lambda: f"({of('int', depth)} {pick('//', '%', '*')} {pick('2', '-2', '-2', '0', '3')})"] * 2
        for small in self._domains():
            ways.append(lambda small=small: f"index({of(small, min(depth, 1))})")  # type: ignore[misc]
            ways.append(extreme(self, small, depth))
            if self.has(f"set {small}"):
                ways.append(lambda small=small: f"len({of(f'set {small}', depth)})")  # type: ignore[misc]
                ways.append(counted(self, small, depth))
        return ways

    def _colours(self, depth: int) -> list[Callable[[], str]]:
        ways = [self._chosen("colour", depth)]
        if self.has("option"):
            ways += [lambda: f"get({self._pick(*self.atoms['option'])}, {self.of('colour', depth)})"] * 2
        return ways

    def _options(self, depth: int) -> list[Callable[[], str]]:
        ways = [self._chosen("option", depth)]
        if self.has("colour"):
            ways.append(lambda: self._pick(*self.atoms["colour"]))
        return ways

    def _sets(self, type_: str, depth: int) -> list[Callable[[], str]]:
        small = type_.removeprefix("set ")

        def chosen() -> str:
            variable, words = self._over(small, "bool", depth)
            return f"{{{variable} for {variable} in {self.of(type_, 0)} if {words}}}"

        def joined() -> str:
            variable, words = self._over(small, type_, 0)
            return f"union({words} for {variable} in {self.of(type_, 0)})"

        return [
            lambda: f"({self.of(type_, depth)} {self._pick('|', '&', '-')} {self.of(type_, depth)})",
            lambda: f"{{{self.of(small, 0)}}}",
            chosen,
            chosen,
            joined,
            self._chosen(type_, depth),
        ]


def partial_set(terms: Terms, small: str, depth: int) -> Callable[[], str]:
    """Something about a set, or about its members."""

    def made() -> str:
        mine = terms.rng.choice(terms.atoms[f"set {small}"])
        other = terms.of(f"set {small}", depth)
        variable, words = terms._over(small, "bool", depth)
        return terms.rng.choice(
            (
                f"({mine} {terms.rng.choice(('==', '!=', '<=', '>='))} {other})",
                f"({terms.of(small, 0)} {terms.rng.choice(('in', 'not in'))} {mine})",
                f"(len({mine}) {terms.rng.choice(('==', '<=', '>'))} {terms.rng.choice(('0', '1', '1'))})",
                f"{terms.rng.choice(('all', 'any'))}({words} for {variable} in {mine})",
            )
        )

    return made


def counted(terms: Terms, small: str, depth: int) -> Callable[[], str]:
    """A number of members, or a sum over them, with a condition or without."""

    def made() -> str:
        of = terms.of(f"set {small}", 0)
        variable, words = terms._over(small, "bool", 0)
        if terms.rng.random() < 0.5:
            some = f" if {variable} in {terms.of(f'set {small}', 0)}" if terms.rng.random() < 0.5 else ""
            return f"count({words} for {variable} in {of}{some})"
        return f"sum((2 if {words} else 1) for {variable} in {of})"

    return made


def extreme(terms: Terms, small: str, depth: int) -> Callable[[], str]:
    """The least or greatest number of some members, where there may be none; or of all, of which there is one."""

    def made() -> str:
        which, pick = terms.rng.choice(("min", "max")), terms.rng.choice
        variable, number = terms._over(small, "int", 0)
        number = pick((f"index({variable})", f"(1 - index({variable}))", number))
        if pick((True, False, False)):
            return f"{which}({number} for {variable} in {small})"
        some = f" if {variable} in {terms.of(f'set {small}', 0)}" if pick((True, False)) else ""
        of = terms.of(f"set {small}", depth)
        return f"{which}(({number} for {variable} in {of}{some}), default={terms.of('int', 0)})"

    return made
