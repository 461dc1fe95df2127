"""One state for each orbit: the same for all states that differ in which instance is which.

Theory of operation. A permutation of a group's instances moves their cells, the messages between them, and the numbers
that lie in values. Of all states that come of a state so, one is chosen, its form. Two states have the same form if and
only if a permutation takes one to the other.

A state is taken as *attributes* of instances: a field is an attribute of one machine, a lane between two roles one of
two, a set that a machine keeps one of it and of each member. The value of an attribute may name more instances. The
form is found in three stages, as canonical labellings of graphs are (McKay, "Practical graph isomorphism", 1981):

1. Instances are put in the order of what concerns each of them alone: attributes of one instance whose values name
   none. These are its *slice*. Often nothing else concerns it, and the form is found.
2. Instances that are still equal make a cell. Cells are split by what the other attributes say of an instance, with
   cells in place of the instances that they name, again and again until nothing is split (refinement).
3. While a cell has several instances, each in turn is put before the others, and the cells are refined. Each way to the
   end is an arrangement; the form is the least of the states that they make, cell by cell. Instances whose exchange
   changes nothing (twins) make the same states, so one of them is tried for all.

No stage asks for a number, so all states of an orbit have the same arrangements. Refinement compares sums of hashes: if
two happen to be equal, a cell stays whole and more arrangements are tried. Nothing else depends on a hash; states are
compared as they are.

This is the definition. The C engine (packed/engine/alike.h) finds the same forms, with fewer arrangements.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import chain, combinations, permutations
from math import factorial, prod
from typing import Any, NamedTuple, TypeAlias

from leasehold.checker.explore.layout import Lane, Layout, State
from leasehold.checker.explore.packed.fields import (
    CellAtoms,
    Fields,
    MapCell,
    SetCell,
    StatePart,
    as_sliced,
    shapes,
)
from leasehold.checker.explore.result import Orbits
from leasehold.checker.explore.step import Action
from leasehold.checker.explore.symmetry import Group, Mover, Permutation, Product, mover_of, with_products
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import messages_of
from leasehold.spec.language.types import Value

KEPT_FORMS = 200_000
MOST_KINDS = 16  # of the instances in one attribute that refinement tells apart; later ones count as one kind


# What values say, apart from whom they name


class Named(NamedTuple):
    """An instance in a value: the position of its group, its number there, and where in the value it lies.

    Those that lie in one place, such as the members of a set, have no order.
    """

    group: int
    number: int
    place: tuple[Any, ...]


class Apart(NamedTuple):
    """A value taken apart: what it says without the instances that it names, and these.

    Values that a permutation takes to one another have equal skeletons, and names that it takes to one another.
    """

    skeleton: Any
    names: tuple[Named, ...]

    @property
    def kinds(self) -> tuple[int, ...]:
        """Numbers of the names' places."""
        first: dict[tuple[Any, ...], int] = {}
        return tuple([first.setdefault(name.place, len(first)) for name in self.names])

    @property
    def digest(self) -> int:
        """A hash of the skeleton: 64 bits, the same in every process."""
        return int.from_bytes(blake2b(repr(self.skeleton).encode(), digest_size=8).digest(), "little")


# By role whose instances are moved: takes the number of one apart, which lies in a place.
Groups: TypeAlias = Mapping[str, Callable[[int, tuple[Any, ...]], Apart]]


def apart(kind: t.Type | None, value: Value, groups: Groups, place: tuple[Any, ...] = ()) -> Apart:
    """A value of a type, taken apart."""
    if mover_of(kind, frozenset(groups)) is None:
        return Apart(ordered(value), ())
    match kind:
        case t.Instance(name=name):
            return groups[name](value, place)
        case t.Set(of=of):
            return _gathered("set", value, lambda v, at: apart(of, v, groups, at), place)
        case t.Map(key=t.Instance(name=name), of=of) if name in groups:

            def element(pair: tuple[int, Value], at: tuple[Any, ...]) -> Apart:
                return _listed("at", [groups[name](pair[0], (*at, "key")), apart(of, pair[1], groups, (*at, "value"))])

            return _gathered("map", enumerate(value), element, place)
        case t.Map(of=of) | t.Seq(of=of):
            return _listed("list", [apart(of, v, groups, (*place, n)) for n, v in enumerate(value)])
        case t.Option(of=of):
            return Apart("none", ()) if value is None else _listed("some", [apart(of, value, groups, place)])
    raise AssertionError(kind)


def _listed(what: Any, parts: Sequence[Apart]) -> Apart:
    """Parts that are told apart by where they stand."""
    return Apart((what, *(p.skeleton for p in parts)), tuple([name for p in parts for name in p.names]))


def _gathered(
    what: Any, values: Iterable[Any], take: Callable[[Any, tuple[Any, ...]], Apart], place: tuple[Any, ...]
) -> Apart:
    """Parts that have no order: those with equal skeletons lie in one place. `take` takes one apart for its place."""
    placed = []
    for value in values:
        skeleton = repr(take(value, place).skeleton)
        placed.append((skeleton, take(value, (*place, skeleton))))
    placed.sort(key=lambda each: (each[0], [name[:2] for name in each[1].names]))
    return _listed(what, [part for _, part in placed])


# Attributes


@dataclass(frozen=True, eq=False, slots=True)
class InstanceAttribute:
    """Something that is so of instances in a state, and which a permutation moves with them.

    Attributes:
        groups: of the instances, the positions of their groups.
        kinds: a number for each of them; those of one number have no order.
        parts: by their numbers, where the value is; by numbers of one kind in any order.
        apart: takes a value apart; None where values name no instance.
        moved: the value that a permutation makes of one.
    """

    groups: tuple[int, ...]
    kinds: tuple[int, ...]
    parts: dict[tuple[int, ...], StatePart]
    apart: Callable[[Value], Apart] | None
    moved: Mover | None


class Canonical:
    """The forms of a layout's states under permutations of some groups.

    Attributes:
        groups: what is permuted.
        slices: by group, the attributes of one instance whose values name none.
        others: all other attributes; none where everything lies in slices.
    """

    def __init__(self, layout: Layout, groups: Sequence[Group], products: Sequence[Product] = ()) -> None:
        self.layout, self.groups, self.products = layout, tuple(groups), tuple(products)
        self.positions = {role: n for n, group in enumerate(groups) for role in group.roles}
        self.roles = frozenset([*self.positions, *(product.role for product in products)])
        self._instances: Groups = {
            **{role: partial(_member, n) for role, n in self.positions.items()},
            **{product.role: partial(_pair, product, self.positions) for product in products},
        }
        self._machines, self._lanes = self._moving()
        self._places = Fields(layout).cells
        self._shapes = shapes(layout)
        every = list(self._attributes())
        self.slices = [[a for a in every if a.groups == (n,) and a.apart is None] for n in range(len(groups))]
        self.others = [a for a in every if len(a.groups) != 1 or a.apart is not None]
        self._arranged = lru_cache(KEPT_FORMS)(self._arrange)

    @property
    def sliced(self) -> bool:
        """Returns whether every instance has a slice, and nothing else concerns it."""
        return not self.others and all(self.slices)

    @property
    def permutations(self) -> int:
        """Returns how many permutations there are."""
        return prod(factorial(group.count) for group in self.groups)

    # Moving

    def permutation(self, orders: Sequence[Sequence[int]]) -> Permutation:
        """The permutation that gives instances new numbers: by group, those of its instances."""
        p = {role: tuple(orders[n]) for role, n in self.positions.items()}
        return with_products(p, self.products, lambda role: self.layout.system.roles[role].count)

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
        return self._arranged(s)[0]

    def onto(self, s: State) -> Permutation:
        """A permutation that takes the state to its form."""
        return self._arranged(s)[1]

    def size(self, s: State) -> int:
        """Returns how many states the orbit has: all permutations, by those that change nothing."""
        return self.permutations // self._arranged(s)[2]

    def orbits(self, forms: Iterable[State]) -> Orbits:
        """The orbits that forms stand for."""
        return self.found(sum(map(self.size, forms)))

    def found(self, states: int) -> Orbits:
        """Orbits of so many states."""
        return Orbits(tuple(group.roles for group in self.groups), states)

    def _arrange(self, s: State) -> tuple[State, Permutation, int]:
        """The form, a permutation that takes the state to it, and how many permutations change nothing."""
        best: Any = None
        still = 0
        for cells, twins in self._arrangements(s, self._facts(s), self._sliced(s)):
            p = self.permutation(cells)
            form = self.moved(s, p)
            key = self._comparable(form)
            if best is None or key < best[0]:
                best, still = (key, form, p), 0
            if key == best[0]:
                still += twins
        return best[1], best[2], still

    def _comparable(self, s: State) -> Any:
        return [as_sliced(self._shapes[cell], s[cell], ordered) for cell in self._cells]

    @cached_property
    def _cells(self) -> list[int]:
        """The cells that permutations change."""
        cells = [cell for record in self._machines for cell in record.cells]
        return sorted([*cells, *(joint.lane.cell for joint in self._lanes)])

    def alike(self) -> list[list[StatePart]]:
        """Parts of states that permutations take to one another."""
        return [[*a.parts.values()] for a in (*chain(*self.slices), *self.others)]

    def value(self, part: StatePart, s: State) -> Value:
        """The value of a part of a state."""
        return self._places[part.cell].part(s[part.cell], part.key)

    # Cells of instances: by group and instance, where its cell begins

    def _sliced(self, s: State) -> Cells:
        """The order of slices."""
        cells = []
        for group, attributes in zip(self.groups, self.slices, strict=True):
            cells.append(
                _ranks([[ordered(self.value(a.parts[i,], s)) for a in attributes] for i in range(group.count)])
            )
        return cells

    def _facts(self, s: State) -> list[_Fact]:
        """The values of other attributes, and the instances that each is about, in the order of their kinds."""
        facts = []
        for n, attribute in enumerate(self.others):
            numbers_of = {part: numbers for numbers, part in attribute.parts.items()}  # in one order
            for part, numbers in numbers_of.items():
                value = self.value(part, s)
                said = Apart(ordered(value), ()) if attribute.apart is None else attribute.apart(value)
                kinds = (*attribute.kinds, *(len(attribute.kinds) + kind for kind in said.kinds))
                of = (*zip(attribute.groups, numbers, strict=True), *((name.group, name.number) for name in said.names))
                facts.append(_Fact(hash_of(n, said.digest), tuple([min(k, MOST_KINDS - 1) for k in kinds]), of))
        return facts

    def _refined(self, cells: Cells, facts: Sequence[_Fact]) -> Cells:
        while True:
            sums = [[0] * len(of) for of in cells]
            for about, kinds, of in facts:
                fact = about
                for kind, (g, i) in zip(kinds, of, strict=True):
                    fact += hash_of(kind, cells[g][i] + 1)
                for one, other in combinations(range(len(of)), 2):
                    if of[one] == of[other]:
                        fact += hash_of(kinds[one] + kinds[other], SAME)
                for kind, (g, i) in zip(kinds, of, strict=True):
                    sums[g][i] += hash_of(kind, fact)
            new = [
                _ranks([(cell, total % WORD) for cell, total in zip(before, more, strict=True)])
                for before, more in zip(cells, sums, strict=True)
            ]
            if new == cells:
                return cells
            cells = new

    def _arrangements(self, s: State, facts: Sequence[_Fact], cells: Cells) -> Iterator[tuple[Cells, int]]:
        """Arrangements that refine cells, and how many others each stands for that make the same state."""
        cells = self._refined(cells, facts)
        several = next(((g, c) for g, of in enumerate(cells) for c in sorted(of) if of.count(c) > 1), None)
        if several is None:
            yield cells, 1
            return
        g, cell = several
        for same in self._twins(s, g, [i for i, c in enumerate(cells[g]) if c == cell]):
            first = [c + (c == cell and i != same[0]) for i, c in enumerate(cells[g])]
            for arrangement, twins in self._arrangements(s, facts, [*cells[:g], first, *cells[g + 1 :]]):
                yield arrangement, twins * len(same)

    def _twins(self, s: State, group: int, instances: Sequence[int]) -> list[list[int]]:
        """Instances that can change places without a change, together."""
        twins: list[list[int]] = []
        for i in instances:
            for same in twins:
                orders = [list(range(g.count)) for g in self.groups]
                orders[group][i], orders[group][same[0]] = same[0], i
                if self.moved(s, self.permutation(orders)) == s:
                    same.append(i)
                    break
            else:
                twins.append([i])
        return twins

    # Attributes

    def _attributes(self) -> Iterator[InstanceAttribute]:
        """All attributes of instances, in the order of their first parts."""
        parts: dict[Any, dict[tuple[int, ...], StatePart]] = {}
        about: dict[Any, _About] = {}
        for key, of, part, said in self._parts():
            parts.setdefault(key, {})
            kinds = Apart(None, of).kinds
            for numbers in _orders(kinds, [name.number for name in of]):
                parts[key].setdefault(numbers, part)
            about[key] = said._replace(groups=tuple([name.group for name in of]), kinds=kinds)
        for key, where in parts.items():
            yield InstanceAttribute(about[key].groups, about[key].kinds, where, about[key].apart, about[key].moved)

    def _parts(self) -> Iterator[tuple[Any, tuple[Named, ...], StatePart, _About]]:
        """The parts of a state that permutations move: of each its attribute, its instances, and where it is."""
        for record in self._machines:
            for i, cell in enumerate(record.cells):
                owner = self._instance(record.role, i, "owner")
                begin = _Walk((record.role, record.name, owner.skeleton), owner.names, cell)
                yield from self._within(begin, record.type, self._places[cell], ())
        for joint in self._lanes:
            lane = joint.lane
            sender = self._instance(lane.channel.sender, lane.sender, "sender")
            receiver = self._instance(lane.channel.receiver, lane.receiver, "receiver")
            same = lane.channel.same_index and sender.names
            ends = sender.names if same else (*sender.names, *receiver.names)
            key = (lane.channel.name, sender.skeleton, receiver.skeleton)
            place = self._places[lane.cell]
            if isinstance(place, SetCell):
                for entry in place.atoms:
                    said = joint.entry(entry, self._instances, ())
                    yield (*key, repr(said.skeleton)), (*ends, *said.names), StatePart(lane.cell, entry), _About()
            else:
                about = _About() if joint.movers is None else _About(joint.apart(self._instances), joint.content)
                yield key, ends, StatePart(lane.cell, None), about

    def _instance(self, role: str, number: int, place: str) -> Apart:
        """A machine as something that is named; one whose role is in no group is told by its number."""
        return self._instances[role](number, (place,)) if role in self._instances else Apart(number, ())

    def _within(
        self, at: _Walk, kind: t.Type | None, place: CellAtoms, key: tuple[Any, ...]
    ) -> Iterator[tuple[Any, tuple[Named, ...], StatePart, _About]]:
        """The parts of a cell, or of an element of a map in it, which `key` leads to."""
        match place, kind:
            case SetCell(), t.Set(of=of):
                for member in place.atoms:
                    said = apart(of, member, self._instances, ("member",))
                    then = at.to(repr(said.skeleton), said.names)
                    yield then.key, then.of, StatePart(at.cell, _nested(key, member)), _About()
            case MapCell(elements=elements), t.Map(key=t.Instance() | t.Enum() as of, of=inner):
                for n, element in enumerate(elements):
                    said = apart(of, t.members(of)[n], self._instances, ("key", len(key)))
                    yield from self._within(at.to(repr(said.skeleton), said.names), inner, element, (*key, n))
            case _:
                mover = mover_of(kind, self.roles)
                taken = None if mover is None else lambda value: apart(kind, value, self._instances)
                yield at.key, at.of, StatePart(at.cell, _nested(key, None)), _About(taken, mover)


def _member(group: int, number: int, place: tuple[Any, ...]) -> Apart:
    """An instance of a group, taken apart."""
    return Apart((), (Named(group, number, place),))


def _pair(product: Product, positions: Mapping[str, int], number: int, place: tuple[Any, ...]) -> Apart:
    """An instance of a product, taken apart: a number that nothing moves belongs to the skeleton."""
    numbers = zip((product.high, product.low), divmod(number, product.of_low), strict=True)
    parts = [
        _member(positions[role], n, (*place, at)) if role is not None and role in positions else Apart(n, ())
        for at, (role, n) in enumerate(numbers)
    ]
    return _listed("pair", parts)


SAME, WORD = 0x5A3E, 1 << 64
Cells: TypeAlias = Sequence[Sequence[int]]


def hash_of(kind: int, number: int) -> int:
    """A hash of two numbers: 64 bits, as alike.h has it."""
    x = (number * 0x9E3779B97F4A7C15 + (kind + 1) * 0xC2B2AE3D27D4EB4F) % WORD
    x ^= x >> 32
    x = x * 0xBF58476D1CE4E5B9 % WORD
    x ^= x >> 29
    x = x * 0x94D049BB133111EB % WORD
    return x ^ x >> 32


def _ranks(keys: Sequence[Any]) -> list[int]:
    """Returns for each key how many are less."""
    ordered_keys = sorted(keys)
    return [bisect_left(ordered_keys, key) for key in keys]


class _Fact(NamedTuple):
    """A hash of what is so, and the instances of which it is so, with their kinds."""

    about: int
    kinds: tuple[int, ...]
    of: tuple[tuple[int, int], ...]


class _About(NamedTuple):
    """The values of an attribute."""

    apart: Callable[[Value], Apart] | None = None
    moved: Mover | None = None
    groups: tuple[int, ...] = ()
    kinds: tuple[int, ...] = ()


class _Walk(NamedTuple):
    """A way into a cell: what names the attribute, and the instances so far."""

    key: tuple[Any, ...]
    of: tuple[Named, ...]
    cell: int

    def to(self, step: str, more: tuple[Named, ...]) -> _Walk:
        return _Walk((*self.key, step), (*self.of, *more), self.cell)


def _nested(key: Sequence[Any], last: Any) -> Any:
    """The key of an atom of a cell: positions in maps, one within the other, around the last."""
    for position in reversed(key):
        last = (position, last)
    return last


def _orders(kinds: Sequence[int], numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Numbers in all orders that keep their kinds."""
    if len(set(kinds)) == len(kinds):
        yield tuple(numbers)
        return
    for order in permutations(range(len(kinds))):
        if all(kinds[n] == kind for n, kind in zip(order, kinds, strict=True)):
            yield tuple([numbers[n] for n in order])


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

    def apart(self, groups: Groups) -> Callable[[Value], Apart]:
        """Takes the messages on their way apart."""
        kind = self.lane.channel.kind

        def taken(content: Any) -> Apart:
            if kind == "mailbox":
                return _listed(content[0], [self.entry(e, groups, (n,)) for n, e in enumerate(content[1])])
            if kind in ("fifo", "queue"):
                return _listed("queue", [self.entry(e, groups, (n,)) for n, e in enumerate(content)])
            return _gathered("bag", content, lambda e, at: self.entry(e, groups, at), ())

        return taken

    def entry(self, entry: Any, groups: Groups, place: tuple[Any, ...]) -> Apart:
        """Takes a message apart."""
        number, name, values = entry
        fields = zip(self.types[name], values, strict=True)
        return _listed((number, name), [apart(kind, v, groups, (*place, n)) for n, (kind, v) in enumerate(fields)])


@lru_cache(1 << 16)
def ordered(value: Value) -> Any:
    """Something that stands to others as this value, in an order that all values have."""
    match value:
        case None:
            return (0,)
        case int():
            return (1, int(value))
        case str():
            return (2, value)
        case frozenset():
            return (3, tuple(sorted(map(ordered, value))))
        case _:
            return (4, tuple(map(ordered, value)))
