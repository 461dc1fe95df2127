"""Candidate lemmas: implications between attributes of states that hold in every explored state of a small setting.

Theory of operation. A case is that attributes (attributes.py) have certain values: none, one or two of them. In each
case some values of each other attribute occur, and that no others do is a candidate: "when the coordinator is
committing, every participant is prepared or committed". A candidate is left out where one about a wider case already
says it. Attributes about one instance of a role make candidates about all instances; none names an instance, so that
they can be asked of any number.

Nothing is assumed: induction decides which candidates hold (strengthen.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product, zip_longest

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import State as Cells
from leasehold.checker.prove.decide.cti import explored_within
from leasehold.checker.prove.discover.attributes import Attribute, Value, Values, Vocabulary
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.spec.language.model import Role, System
from leasehold.spec.language.read.source import MAX_NAME

LEVELS = (1, 2, 3)  # the most attributes that tell a case
MOST = 4000  # candidates of a level
MOST_STATES = 20_000  # that candidates are made from; of more, every second or third
EXPLORE_SECONDS = 20.0


@dataclass(frozen=True)
class ExploredStates:
    """States that were reached in a small setting.

    Attributes:
        system: the small setting.
        states: without what faults add to them, each once.
        explored: what was explored, in words.
    """

    system: System
    states: tuple[Cells, ...]
    explored: tuple[str, ...] = ()


def explored_states(
    small: System, budgets: Sequence[str] | None = None, seconds: float = EXPLORE_SECONDS
) -> ExploredStates:
    """The states that a small setting reaches, under each of some budgets of faults.

    Args:
        small: a system with small constants.
        budgets: empty words: no faults; left out: none, and the budget that `check` takes.
        seconds: for each exploration; a part of the states is enough, as candidates are proved or left out.
    """
    size = reference_of(small).layout.size
    states: dict[Cells, None] = {}
    explored = []
    for budget in dict.fromkeys(["", FaultScope.of(small).usual(small)] if budgets is None else budgets):
        exploration, where = explored_within(small, {}, budget, seconds)
        states |= dict.fromkeys(state[:size] for state in exploration.paths.states)
        explored.append(where)
    return ExploredStates(small, tuple(states), tuple(explored))


def candidates(small: System, known: ExploredStates | None = None, level: int = LEVELS[-1]) -> list[CandidateLemma]:
    """Candidates that hold in every explored state, and of which a case was reached.

    Args:
        small: a system with small constants.
        known: as `explored_states` finds them; left out: the system is explored.
        level: the most attributes that tell a case.
    """
    return list(islice(_Generator(known or explored_states(small)).candidates(level), MOST))


Literal = tuple[int, Value]  # an attribute, by its number, and its value
Case = tuple[Literal, ...]


class _Table:
    """The distinct rows of attributes' values.

    Attributes:
        rows: for each attribute and each of its values, the rows that have it, as a bit mask.
    """

    def __init__(self, attributes: Sequence[Attribute], keys: Sequence[tuple[Cells, int]]) -> None:
        self.attributes = attributes
        columns = [[a.read(s, i) for s, i in keys] for a in attributes]
        distinct = list(dict.fromkeys(zip(*columns, strict=True)))
        self.all = (1 << len(distinct)) - 1
        self.rows: list[dict[Value, int]] = []
        for n in range(len(attributes)):
            numbers: dict[Value, list[int]] = defaultdict(list)
            for row, values in enumerate(distinct):
                for value in values[n]:
                    numbers[value].append(row)
            self.rows.append({value: _mask(rows, len(distinct)) for value, rows in numbers.items()})

    def mask(self, case: Case) -> int:
        """The rows of a case."""
        mask = self.all
        for n, value in case:
            mask &= self.rows[n][value]
        return mask

    def seen(self, n: int, mask: int) -> Values:
        """The values that an attribute has in some rows."""
        return frozenset(value for value, rows in self.rows[n].items() if rows & mask)


def _mask(rows: Sequence[int], count: int) -> int:
    bits = bytearray(count // 8 + 1)
    for row in rows:
        bits[row // 8] |= 1 << row % 8
    return int.from_bytes(bits, "little")


class _Generator:
    def __init__(self, known: ExploredStates) -> None:
        self.states = known.states[:: 1 + len(known.states) // MOST_STATES]
        self.vocabulary = Vocabulary(known.system)
        self.neighbours = {frozenset((c.sender, c.receiver)) for c in known.system.channels.values()}
        self.names = {*known.system.properties, *known.system.lemmas}

    def candidates(self, level: int) -> Iterator[CandidateLemma]:
        """Yields candidates of the system and of each role of several machines in turn; each has a share of `MOST`."""
        of_system = list(self.vocabulary.of_system())
        iterators = [self._implied(_Table(of_system, [(s, -1) for s in self.states]), level, 0, None)]
        telling = [a for a in of_system if a.cases]
        for role in self.vocabulary.several:
            attributes = [*telling, *self.vocabulary.of_instance(role)]
            keys = [(s, i) for s in self.states for i in range(role.count)]
            iterators.append(self._implied(_Table(attributes, keys), level, len(telling), role))
        for each in zip_longest(*iterators):
            yield from filter(None, each)

    def _implied(self, table: _Table, level: int, first: int, role: Role | None) -> Iterator[CandidateLemma]:
        """The candidates about attributes from a number on, in each case."""
        seen: dict[Case, dict[int, Values]] = {}
        for case in self._cases(table, level, first):
            mask = table.mask(case)
            if not mask:
                continue
            narrower = seen[case] = {}
            around = self._around(table, case, mask) if len(case) == 1 else []
            for n in range(first, len(table.attributes)):
                attribute = table.attributes[n]
                if attribute.predicate or any(n == m for m, _ in case) or not self._belongs(attribute, table, case):
                    continue
                if attribute.member and not any(m > first for m, _ in case):
                    continue  # it is claimed of the set, or the other way round
                values = narrower[n] = table.seen(n, mask)
                wider = [seen[c][n] for c in _wider(case) if n in seen.get(c, ())]
                if any(values == known for known in wider) or not values:
                    continue
                if any(table.seen(n, rows) <= values for at, rows in around if at != n):
                    continue  # it follows from where that machine is in this case
                if not case and not attribute.roles:
                    continue  # a property is asked by itself
                if claim := attribute.text(values):
                    yield self._lemma(table, case, n, values, claim, role)

    def _cases(self, table: _Table, level: int, first: int) -> Iterator[Case]:
        telling = [n for n, a in enumerate(table.attributes) if a.cases]
        yield ()
        for n in telling:
            yield from (((n, value),) for value in self._telling(table, n))
        for count in range(2, level + 1):
            for some in combinations(telling, count):
                if self._goes_together(table, some, first):
                    values = ([(n, v) for v in self._telling(table, n)] for n in some)
                    yield from product(*values)

    def _goes_together(self, table: _Table, some: Sequence[int], first: int) -> bool:
        """Returns whether attributes make a case: of an instance and what it depends on, or of two that talk."""
        attributes = [table.attributes[n] for n in some]
        if first:
            return some[-1] >= first and (len(some) == 2 or not any(a.predicate for a in attributes))
        return len(some) == 2 and all(a.location for a in attributes) and self._are_neighbours(*attributes)

    def _telling(self, table: _Table, n: int) -> list[Value]:
        return [value for value in table.rows[n] if value in table.attributes[n].cases]

    def _are_neighbours(self, one: Attribute, other: Attribute) -> bool:
        return one.roles | other.roles in self.neighbours

    def _belongs(self, attribute: Attribute, table: _Table, case: Case) -> bool:
        """Returns whether a case may decide an attribute: it has one of its roles, or a case of several has all."""
        if attribute.cases or not attribute.roles or not case:
            return True
        roles = frozenset[str]().union(*(table.attributes[m].roles for m, _ in case))
        return bool(attribute.roles & roles) if len(case) == 1 else attribute.roles <= roles

    def _around(self, table: _Table, case: Case, mask: int) -> list[tuple[int, int]]:
        """Returns the rows in which a machine is where it may be in a case, by the attribute of its location."""
        ((n, _),) = case
        if table.attributes[n].location:
            return []
        around = []
        for m, attribute in enumerate(table.attributes):
            if attribute.location:
                rows = 0
                for value in table.seen(m, mask):
                    rows |= table.rows[m][value]
                around.append((m, rows))
        return around

    def _lemma(
        self, table: _Table, case: Case, n: int, values: Values, claim: str, role: Role | None
    ) -> CandidateLemma:
        own = len(table.attributes) if role is None else self._first_own(table, role)
        said = ((m, table.attributes[m].text(frozenset((value,)))) for m, value in case)
        texts = [(m, text) for m, text in said if text]  # nothing is said of the state of a machine that has one
        when = " and ".join(text for m, text in texts if m < own)
        if role is not None:
            one, inner = self.vocabulary.variable[role.name], " and ".join(text for m, text in texts if m >= own)
            claim = f"all({claim} for {one} in {role.name}{f' if {inner}' if inner else ''})"
        parts = [_called(table.attributes[m], frozenset((value,))) for m, value in case]
        return CandidateLemma(self._name([*parts, _called(table.attributes[n], values)]), when, claim)

    def _first_own(self, table: _Table, role: Role) -> int:
        return next(n for n, a in enumerate(table.attributes) if a.location and a.roles == {role.name})

    def _name(self, parts: Sequence[str]) -> str:
        stem = re.sub(r"[^a-z0-9]+", "_", "_".join(parts).lower()).strip("_")[: MAX_NAME - 4].rstrip("_")
        name, n = stem, 1
        while name in self.names:
            n += 1
            name = f"{stem}_{n}"
        self.names.add(name)
        return name


def _wider(case: Case) -> Iterator[Case]:
    """The cases that have one literal less."""
    for n in range(len(case)):
        yield (*case[:n], *case[n + 1 :])


SIGN_NAMES = {"<": "below", "==": "equal", ">": "above", True: "", False: "not"}


def _called(attribute: Attribute, values: Values) -> str:
    some = sorted(str(SIGN_NAMES.get(v, v)) for v in values)
    return f"{attribute.name}_{'_or_'.join(some) if len(some) <= 2 else f'{len(some)}_values'}"
