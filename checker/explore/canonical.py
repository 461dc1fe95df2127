"""One state for each orbit: the same for all states that differ in which instance is which.

Theory of operation. A permutation of a group's instances moves their cells, the messages between them, and the numbers
that lie in values. Of all states that come of a state so, one is chosen; the choice is exact, so two states have the
same form if and only if a permutation takes one to the other.

Mostly everything that concerns an instance is a *slice* of its own: its record, its lanes to machines that are not of
a group, its cells of maps and its place in sets that others keep. Then slices are sorted, and slices that are equal
say how large the orbit is. Where values hold instances otherwise (a field of one instance names another), instances
are first told apart as far as a view of the state goes that does not depend on numbers: what an instance's cells say
of it and of others, by what is known of them so far, again and again until nothing more is told. Then the smallest
state of all arrangements that are left is taken; instances whose change of places changes nothing need no arrangement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import factorial, prod
from typing import Any, Literal

from leasehold.checker.explore.layout import Lane, Layout, State
from leasehold.checker.explore.packed.fields import Elements, Shape, as_sliced, shapes
from leasehold.checker.explore.result import Orbits
from leasehold.checker.explore.step import Action
from leasehold.checker.explore.symmetry import Group, Mover, Permutation, inverse, mover_of
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import messages_of
from leasehold.spec.language.types import Value

MOST_ARRANGED = 40_320  # arrangements (8!) that are tried for one state, where slices are not all
KEPT_FORMS = 200_000


class Unsliced(Exception):
    """Something does not lie in a slice; the words say what."""


@dataclass(frozen=True, slots=True)
class Column:
    """One part of every slice of a group.

    Attributes:
        cells: by instance, its cell; for a part of one cell that all share, that cell each time.
        shared: whether all share a cell: a set of instances, or a map by them.
        shape: that of the values in a cell; of a map that all share, that of its elements.
    """

    cells: tuple[int, ...]
    shared: Literal["", "set", "map"]
    shape: Shape

    def key(self, s: State, i: int) -> Any:
        """The value of an instance's slice here, in an order that all values have."""
        value = s[self.cells[i]]
        if self.shared == "set":
            return i in value
        return as_sliced(self.shape, value[i] if self.shared else value, ordered)


class Canonical:
    """The forms of a layout's states under permutations of some groups.

    Attributes:
        groups: what is permuted.
        columns: by group, what slices are made of; None where there is more than slices.
        why_unsliced: then, what.
    """

    def __init__(self, layout: Layout, groups: Sequence[Group]) -> None:
        self.layout, self.groups = layout, tuple(groups)
        self.roles = frozenset(role for group in groups for role in group.roles)
        self.group_of = {role: group for group in groups for role in group.roles}
        self._machines, self._lanes = self._moving()
        self.columns: list[list[Column]] | None = None
        self.why_unsliced = ""
        try:
            self.columns = [self._columns(group) for group in groups]
        except Unsliced as error:
            self.why_unsliced = str(error)
            self._arranged = lru_cache(KEPT_FORMS)(self._arrange)

    @property
    def permutations(self) -> int:
        return prod(factorial(group.count) for group in self.groups)

    # Moving

    def _moving(self) -> tuple[list[_Record], list[_Joint]]:
        """The cells of machines, shared variables and lanes that a permutation may change."""
        layout, system = self.layout, self.layout.system
        machines, lanes = [], []
        for role in system.holders.values():
            control = [(None, None)] if role.states else []
            for name, kind in [*control, *((d.name, d.type) for d in role.data.values())]:
                mover = mover_of(kind, self.roles)
                if mover is not None or role.name in self.roles:
                    cells = tuple(layout.at(role.name, i, name) for i in range(role.count))
                    machines.append(_Record(role.name, name, kind, cells, mover))
        known = {(lane.channel.name, lane.sender, lane.receiver): lane.cell for lane in layout.lanes}
        for lane in layout.lanes:
            types, movers = {}, {}
            for message in messages_of(system, lane.channel):
                types[message.name] = tuple(f.type for f in message.fields)
                movers[message.name] = tuple(mover_of(f.type, self.roles) for f in message.fields)
            typed = any(m is not None for fields in movers.values() for m in fields)
            if typed or {lane.channel.sender, lane.channel.receiver} & self.roles:
                lanes.append(_Joint(lane, known, types, movers if typed else None))
        return machines, lanes

    def moved(self, s: State, p: Permutation) -> State:
        """The state in which every instance has its new number."""
        new = list(s)
        for record in self._machines:
            order = p.get(record.role)
            for i, cell in enumerate(record.cells):
                value = s[cell] if record.mover is None else record.mover(s[cell], p)
                new[cell if order is None else record.cells[order[i]]] = value
        for joint in self._lanes:
            new[joint.place(p)] = joint.content(s[joint.lane.cell], p)
        return tuple(new)

    def moved_action(self, action: Action, p: Permutation) -> tuple[object, ...]:
        """The action and its machine under a permutation: they tell steps to one state apart."""
        role, sender = action.role, action.sender
        if role is None:
            return action.kind, action.event
        fields = self.layout.system.fields_of(role, action.event)
        movers = [mover_of(f.type, self.roles) for f in fields]
        values = [v if m is None else m(v, p) for m, v in zip(movers, action.fields, strict=True)]
        if action.lane is not None and action.lane.channel.sender in p:
            sender = p[action.lane.channel.sender][sender]
        at = p[role][action.instance] if role in p else action.instance
        return action.kind, role, at, action.event, sender, tuple(values), id(action.transition), action.copy

    # Forms

    def form(self, s: State) -> State:
        """The state that stands for the orbit."""
        if self.columns is None:
            return self.moved(s, self._arranged(s)[0])
        orders = [self._order(group, columns, s) for group, columns in zip(self.groups, self.columns, strict=True)]
        if all(order is None for order in orders):
            return s
        return self.moved(s, self._by_role(orders))

    def onto(self, s: State) -> Permutation:
        """A permutation that takes the state to its form."""
        if self.columns is None:
            return self._arranged(s)[0]
        return self._by_role([self._order(g, c, s) for g, c in zip(self.groups, self.columns, strict=True)])

    def size(self, s: State) -> int:
        """Returns how many states the orbit has: all permutations, by those that change nothing."""
        if self.columns is None:
            return self.permutations // self._arranged(s)[1]
        still = 1
        for group, columns in zip(self.groups, self.columns, strict=True):
            equal = Counter(tuple([c.key(s, i) for c in columns]) for i in range(group.count))
            still *= prod(map(factorial, equal.values()))
        return self.permutations // still

    def orbits(self, forms: Iterable[State]) -> Orbits:
        """The orbits that forms stand for."""
        return self.found(sum(map(self.size, forms)))

    def found(self, states: int) -> Orbits:
        """Orbits of so many states."""
        return Orbits(tuple(group.roles for group in self.groups), states)

    def _by_role(self, orders: Sequence[tuple[int, ...] | None]) -> Permutation:
        by_role: dict[str, tuple[int, ...]] = {}
        for group, order in zip(self.groups, orders, strict=True):
            by_role |= dict.fromkeys(group.roles, order or tuple(range(group.count)))
        return by_role

    # Slices

    def _columns(self, group: Group) -> list[Column]:
        """The columns that the slices of a group are made of.

        Raises:
            Unsliced: a value holds an instance otherwise.
        """
        known = shapes(self.layout)
        columns = []
        for record in self._machines:
            if record.role in group.roles:
                if record.mover is not None:
                    raise Unsliced(f"{record.role}.{record.name} holds instances of roles that are alike")
                columns.append(Column(record.cells, "", known[record.cells[0]]))
            elif mover_of(record.type, frozenset(group.roles)) is not None:
                shared = self._shared(record)
                for cell in record.cells:
                    shape = known[cell]
                    columns.append(
                        Column((cell,) * group.count, shared, shape.of if isinstance(shape, Elements) else shape)
                    )
        lanes: dict[tuple[str, int], dict[int, int]] = {}  # by channel and other end: by instance, the lane's cell
        for joint in self._lanes:
            lane, channel = joint.lane, joint.lane.channel
            if joint.movers is not None:
                raise Unsliced(f"messages of {channel.name} hold instances of roles that are alike")
            if {channel.sender, channel.receiver} <= self.roles and not channel.same_index:
                raise Unsliced(f"{channel.name} joins instances of roles that are alike")
            if channel.sender in group.roles:
                far = -1 if channel.same_index else lane.receiver
                lanes.setdefault((channel.name, far), {})[lane.sender] = lane.cell
            elif channel.receiver in group.roles:
                lanes.setdefault((channel.name, lane.sender), {})[lane.receiver] = lane.cell
        for by_instance in lanes.values():
            cells = tuple(by_instance[i] for i in range(group.count))
            columns.append(Column(cells, "", known[cells[0]]))
        return columns

    def _shared(self, record: _Record) -> Literal["set", "map"]:
        if record.role not in self.roles:
            match record.type:
                case t.Set():
                    return "set"
                case t.Map(of=of) if mover_of(of, self.roles) is None:
                    return "map"
        raise Unsliced(f"{record.role}.{record.name} holds instances of roles that are alike")

    def _order(self, group: Group, columns: Sequence[Column], s: State) -> tuple[int, ...] | None:
        """The new number of each instance; None where they stay."""
        keys = [tuple([c.key(s, i) for c in columns]) for i in range(group.count)]
        if all(keys[i] <= keys[i + 1] for i in range(group.count - 1)):
            return None
        return inverse(tuple(sorted(range(group.count), key=keys.__getitem__)))

    # Everything else

    def _arrange(self, s: State) -> tuple[Permutation, int]:
        """A permutation that takes the state to its form, and how many change nothing."""
        classes = self._classes(s)
        choices, twins = [], 1
        for group, parts in classes:
            for part in parts:
                alike = self._twins(s, group, part)
                twins *= prod(factorial(len(same)) for same in alike)
                choices.append([(group, order) for order in _arrangements(alike)])
        best: Any = None
        for chosen in product(*choices):
            orders: dict[Group, list[int]] = {}
            for group, order in chosen:
                orders.setdefault(group, []).extend(order)
            p = {role: inverse(tuple(order)) for group, order in orders.items() for role in group.roles}
            key = self._comparable(self.moved(s, p))
            if best is None or key < best[0]:
                best = [key, p, 1]
            elif key == best[0]:
                best[2] += 1
        return best[1], best[2] * twins

    def _twins(self, s: State, group: Group, part: Sequence[int]) -> list[list[int]]:
        """Instances that can change places without a change, together."""
        twins: list[list[int]] = []
        for i in part:
            for same in twins:
                swap = list(range(group.count))
                swap[i], swap[same[0]] = same[0], i
                if self.moved(s, dict.fromkeys(group.roles, tuple(swap))) == s:
                    same.append(i)
                    break
            else:
                twins.append([i])
        return twins

    def _comparable(self, s: State) -> Any:
        cells = [cell for record in self._machines for cell in record.cells]
        return [ordered(s[cell]) for cell in (*cells, *(joint.lane.cell for joint in self._lanes))]

    def _classes(self, s: State) -> list[tuple[Group, list[list[int]]]]:
        """Returns the instances of each group in classes that no permutation can mix, in an order that none changes."""
        colours = {role: [0] * group.count for role, group in self.group_of.items()}
        parts = 0
        while True:
            for group in self.groups:
                keys = [self._view(s, group, i, colours) for i in range(group.count)]
                ranks = {key: n for n, key in enumerate(sorted(set(keys)))}
                new = [ranks[key] for key in keys]
                colours |= dict.fromkeys(group.roles, new)
            now = sum(len(set(colours[group.roles[0]])) for group in self.groups)
            if now == parts:
                break
            parts = now
        classes = []
        for group in self.groups:
            of = colours[group.roles[0]]
            classes.append((group, [[i for i, c in enumerate(of) if c == colour] for colour in sorted(set(of))]))
        return classes

    def _view(self, s: State, group: Group, i: int, colours: dict[str, list[int]]) -> Any:
        """A view of an instance in a state that does not depend on numbers."""

        def end(role: str, n: int) -> Any:
            if role not in self.group_of:
                return (n, 0)
            return (colours[role][n], int(self.group_of[role] is group and n == i))

        seen = []
        for number, record in enumerate(self._machines):
            for n, cell in enumerate(record.cells):
                seen.append((number, end(record.role, n), (0, 0), _seen(record.type, s[cell], end)))
        names: dict[str, int] = {}
        for joint in self._lanes:
            lane = joint.lane
            number = len(self._machines) + names.setdefault(lane.channel.name, len(names))
            ends = end(lane.channel.sender, lane.sender), end(lane.channel.receiver, lane.receiver)
            seen.append((number, *ends, joint.seen(s[lane.cell], end)))
        own = colours[group.roles[0]][i]
        return (own, tuple(sorted(seen)))


@dataclass(frozen=True, slots=True)
class _Record:
    """A field of a role's machines (`name` None: the control state) or a shared variable, and how its values move."""

    role: str
    name: str | None
    type: t.Type | None
    cells: tuple[int, ...]
    mover: Mover | None


@dataclass(frozen=True, slots=True)
class _Joint:
    """A lane, and what a permutation does to the fields of its messages; None: nothing."""

    lane: Lane
    known: Mapping[tuple[str, int, int], int]
    types: Mapping[str, tuple[t.Type, ...]]
    movers: dict[str, tuple[Mover | None, ...]] | None

    def place(self, p: Permutation) -> int:
        """The cell of the lane between the machines that these become."""
        channel, sender, receiver = self.lane.channel, self.lane.sender, self.lane.receiver
        one, other = p.get(channel.sender), p.get(channel.receiver)
        return self.known[
            channel.name, sender if one is None else one[sender], receiver if other is None else other[receiver]
        ]

    def content(self, content: Any, p: Permutation) -> Any:
        """The messages on their way, with new numbers in them."""
        movers = self.movers
        if movers is None or not content:
            return content

        def move(entry: Any) -> Any:
            number, kind, values = entry
            fields = [v if m is None else m(v, p) for m, v in zip(movers[kind], values, strict=True)]
            return number, kind, tuple(fields)

        match self.lane.channel.kind:
            case "mailbox":
                return content[0], tuple([move(e) for e in content[1]])
            case "set":
                return frozenset([move(e) for e in content])
            case "bag" | "multiset":
                return tuple(sorted([move(e) for e in content], key=repr))
            case _:
                return tuple([move(e) for e in content])

    def seen(self, content: Any, end: Callable[[str, int], Any]) -> Any:
        """The messages on their way, in a form that does not depend on numbers."""
        kind = self.lane.channel.kind
        rank, entries = content if kind == "mailbox" else (0, content)
        messages = [
            (n, name, tuple([_seen(f, v, end) for f, v in zip(self.types[name], values, strict=True)]))
            for n, name, values in entries
        ]
        return rank, tuple(messages if kind in ("mailbox", "fifo") else sorted(messages))


def _seen(kind: t.Type | None, value: Value, end: Callable[[str, int], Any]) -> Any:
    """A value with what is known of instances in place of their numbers."""
    match kind:
        case t.Instance(name=name):
            return end(name, value)
        case t.Set(of=t.Instance() as of):
            return tuple(sorted(_seen(of, v, end) for v in value))
        case t.Map(key=t.Instance(name=name), of=of):
            return tuple(sorted((end(name, k), _seen(of, v, end)) for k, v in enumerate(value)))
        case t.Map(of=of) | t.Seq(of=of) if of is not None:
            return tuple([_seen(of, v, end) for v in value])
        case t.Option(of=of):
            return () if value is None else (_seen(of, value, end),)
        case _:
            return ordered(value)


@lru_cache(1 << 16)
def ordered(value: Value) -> Any:
    """Something that stands to others as this value, in an order that all values have."""
    match value:
        case None:
            return (0,)
        case int():
            return (1, value)
        case str():
            return (2, value)
        case frozenset():
            return (3, tuple(sorted(map(ordered, value))))
        case _:
            return (4, tuple(map(ordered, value)))


def _arrangements(alike: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The orders of all these, but for the order of those that are listed together."""
    if not any(alike):
        yield []
    for n, same in enumerate(alike):
        if same:
            for rest in _arrangements([*alike[:n], same[1:], *alike[n + 1 :]]):
                yield [same[0], *rest]
