"""Symmetry: roles whose instances nothing tells apart; they may change places in every state without a difference.

Theory of operation (Ip and Dill, "Better verification through symmetry", 1996: scalarsets). A role's instances are
alike if their numbers are only compared for equality, looked up, put into sets, counted over, sent to and heard from.
Then every permutation of the numbers is an automorphism: it takes first states to first states, steps to steps, and
leaves what is claimed as it was. So one state of each orbit is enough. Roles whose numbers are paired (a channel with
`pairs: same`, `index(a) == index(b)`, `b[index(a)]`) are permuted together: they are one group. A role whose numbers
are pairs of others' (`index(g) // units == index(a)`, `unit[index(g) % units]`) is moved by what moves these: it is a
product. The members of counted types are instances like those of roles.

What tells instances apart is found in the text: every expression is walked, and all that it may consist of is listed in
`_Reader.read`; what is not listed there tells apart. Besides expressions, numbers occur in first values, in the ends of
explored ranges, and in the order in which a parent drives its subsidiaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.diagnostics import NOWHERE, Place, a
from leasehold.spec.language.for_each import Binding, bindings, bound, each
from leasehold.spec.language.model import OF_FAIR_RUNS, Drive, End, Property, Role, Send, System, Task
from leasehold.spec.language.operators import OF_SEQUENCES
from leasehold.spec.language.parts import expressions


@dataclass(frozen=True, slots=True)
class Group:
    """Roles whose instances change places together."""

    roles: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        return " and ".join(self.roles)


@dataclass(frozen=True, slots=True)
class Product:
    """A role with an instance for each pair of others': number n has those of numbers n // `of_low` and n % `of_low`.

    Attributes:
        high, low: roles that have these numbers; None: nothing else has them.
    """

    role: str
    high: str | None
    low: str | None
    of_low: int

    def moved(self, number: int, p: Permutation) -> int:
        """The new number of an instance where others have theirs."""
        high, low = divmod(number, self.of_low)
        high = p[self.high][high] if self.high in p else high  # type: ignore[index]
        return high * self.of_low + (p[self.low][low] if self.low in p else low)  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class Symmetry:
    """The roles and counted types whose instances may change places.

    Attributes:
        groups: roles whose instances nothing tells apart.
        why_not: a sentence for each other role with several instances, or one for the whole system.
        products: roles whose instances are moved with those of two groups, or of one.
    """

    groups: tuple[Group, ...]
    why_not: tuple[str, ...]
    products: tuple[Product, ...] = ()


def symmetry_of(system: System) -> Symmetry:
    """The roles whose instances nothing in a system tells apart, while no fault but those of channels is explored."""
    liveness = [p for p in system.properties.values() if p.kind in OF_FAIR_RUNS]
    if liveness:
        reason = (
            f"is {a(liveness[0].kind)}: what is fair is asked of each machine, and orbits do not keep machines apart"
        )
        return Symmetry((), (f"{_named(liveness[0])} {reason}",))
    if system.refines is not None:
        reason = f"the steps of {system.refines.abstract.name}, which it refines, are compared state by state"
        return Symmetry((), (reason,))
    reader = _Reader(system)
    if not reader.group_of:
        return Symmetry((), ("no role has several instances",))
    reader.read_all()
    reader.read_variables()
    groups = dict.fromkeys(reader.group_of.values())
    alike = [g for g in groups if g not in reader.told]
    return Symmetry(
        tuple(Group(g, reader.count(g[0])) for g in alike),
        tuple(reader.told[g] for g in groups if g in reader.told),
        tuple(p for p in reader.products.values() if any(g in alike for g in reader.groups_of(p.role))),
    )


def distinct_bindings(system: System, p: Property, faulty: bool = False) -> list[Property]:
    """A property with values in place of its variables, for each binding that no other stands for.

    Instances that nothing but other properties tells apart may change places in every run, so a binding is violated if
    and only if it is with its instances in another order, and by a path of as many steps.
    """
    if not p.variables or faulty:
        return each(p)
    reader = _Reader(replace(system, properties={p.name: p}, ends=None))
    reader.read_all()
    group_of = {role: group for role, group in reader.group_of.items() if group not in reader.told}
    return [bound(p, binding) for binding in bindings(p) if _is_first(p, binding, group_of)]


def _is_first(p: Property, binding: Binding, group_of: Mapping[str, tuple[str, ...]]) -> bool:
    """Returns whether instances that are alike are numbered in the order in which they come."""
    used: dict[tuple[str, ...], int] = {}
    for name, number in binding.items():
        of = p.variables[name]
        group = group_of.get(of.name) if isinstance(of, t.Instance) else None
        if group is not None:
            assert isinstance(number, int)
            if number > used.get(group, 0):
                return False
            used[group] = max(used.get(group, 0), number + 1)
    return True


def _named(p: Property | End) -> str:
    return p.name + (f" ({p.place})" if p.place is not NOWHERE else "")


# What takes instances that changed places to what it took the others to, with the same change.
_HARMLESS = frozenset(
    [
        x.Quantifier,
        x.Now,
        x.Self,
        x.Sender,
        x.Argument,
        x.BoundVariable,
        x.Data,
        x.ControlState,
        x.Pending,
        x.MessageField,
        x.Old,
        x.Took,
        x.Accepts,
        x.GlobalQuery,
    ]
)
_HARMLESS_OPERATORS = frozenset(
    ["if", "or", "and", "not", "==", "!=", "in", "not in", "{}", "[]", "len", "get", "+", *OF_SEQUENCES]
)
_TELLS = {"index": "takes the number of", **dict.fromkeys(("<", "<=", ">", ">=", "min", "max"), "puts in order")}


@dataclass(frozen=True, slots=True)
class _Site:
    """The place in which an expression stands; `of` is the property, if it is one's."""

    words: str
    place: Place
    of: str = ""


class _Reader:
    """Walks a system for what tells instances apart.

    Attributes:
        group_of: by role with several instances, the roles of its group.
        products: by role whose instances are pairs, which.
        told: by group, the first reason found why its instances are not alike.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.told: dict[tuple[str, ...], str] = {}
        matches = [sides for _, top in self._expressions() for e in x.walk(top) if (sides := _matched(e)) is not None]
        paired = [(c.sender, c.receiver) for c in system.channels.values() if c.same_index]
        paired += [(one.type.name, other.type.name) for one, other in matches if not one.part and not other.part]
        self.products = self._products(matches, {name for names in paired for name in names})
        several = [
            name for name in (*system.roles, *system.types) if self.count(name) > 1 and name not in self.products
        ]
        self.group_of: dict[str, tuple[str, ...]] = {name: (name,) for name in several}
        for one, other in paired:
            a, b = self.group_of.get(one), self.group_of.get(other)
            if a and b and a != b and self.count(one) == self.count(other):
                joined = tuple(name for name in several if name in {*a, *b})
                self.group_of |= dict.fromkeys(joined, joined)

    def _products(self, matches: Sequence[tuple[_Side, _Side]], paired: Set[str]) -> dict[str, Product]:
        """The roles whose instances are taken as pairs of others, always of the same number of them."""
        products: dict[str, Product] = {}
        for sides in matches:
            for side, other in (sides, sides[::-1]):
                name, low = side.type.name, self._divisor(side)
                if not side.part or other.part or name in paired or not low or self.count(name) % low:
                    continue
                of = products.setdefault(name, Product(name, None, None, low))
                if side.part == "//" and self.count(other.type.name) * low == self.count(name):
                    products[name] = replace(of, high=of.high or other.type.name)
                elif side.part == "%" and self.count(other.type.name) == low:
                    products[name] = replace(of, low=of.low or other.type.name)
        return {name: p for name, p in products.items() if p.high != name != p.low}

    def _divisor(self, side: _Side) -> int:
        """The number by which a number is divided, if it is known; 0: it is not."""
        match side.by:
            case x.Literal_(value=int(value)) if value > 0:
                return value
            case x.ConstantRef(name=name) if isinstance(value := self.system.values()[name], int) and value > 0:
                return value
        return 0

    def count(self, name: str) -> int:
        """The instances of a role, or the members of a counted type."""
        if name in self.system.roles:
            return self.system.roles[name].count
        of = self.system.types.get(name)
        return of.count if isinstance(of, t.Instance) else 0

    def groups_of(self, name: str) -> list[tuple[str, ...]]:
        """The groups whose permutations move the instances of a role."""
        product = self.products.get(name)
        names = (name,) if product is None else (product.high, product.low)
        return [group for n in names if n is not None and (group := self.group_of.get(n)) is not None]

    # Places

    def read_all(self) -> None:
        """Looks at every place of the system where an instance can be meant."""
        for channel in self.system.channels.values():
            if channel.same_index and self.count(channel.sender) != self.count(channel.receiver):
                reason = f"channel {channel.name} pairs instances of {channel.sender} and {channel.receiver}"
                reason += ", of which there are not as many"
                for name in (channel.sender, channel.receiver):
                    self._tell_all(name, reason, _Site("", channel.place), channel.place)
        for role in self.system.holders.values():
            self._first_values(role)
            for task in role.tasks.values():
                self._order(role, task)
        for site, e in self._expressions():
            self.read(e, site)

    def read_variables(self) -> None:
        """Looks at variables of properties: a state shows what is claimed of one instance, its orbit of another."""
        for p in self.system.properties.values():
            site = _Site(f"property {p.name}", p.place, p.name)
            for name, of in p.variables.items():
                self._in(of, f"is claimed of each `{name}` by itself", site, p.place)

    def _expressions(self) -> Iterator[tuple[_Site, x.Expression]]:
        """Every expression that steps, first states, bounds or claims are made of."""
        for site, part in self._sites():
            for e in expressions(part):
                yield site, e

    def _sites(self) -> Iterator[tuple[_Site, object]]:
        system = self.system
        fields = [(m.name, m.fields) for m in system.messages.values()]
        fields.append((x.SHARED.name, tuple(system.shared.values())))
        for role in system.roles.values():
            fields += [(f"{role.name}#{event.name}", event.fields) for event in role.events.values()]
            fields.append((role.name, tuple(role.data.values())))
            for state in role.initial:
                if state.starts is not None:
                    yield _Site(f"the first state {state.name} of {role.name}", state.place), state.starts
            for tr in role.transitions():
                yield _Site(tr.name, tr.place), tr
            for task in role.tasks.values():
                yield _Site(f"task {role.name}.{task.name}", task.place), task
        for owner, data in fields:
            for datum in data:
                yield _Site(f"the range of {owner}.{datum.name}", datum.place), datum
        for outside in system.environment.values():
            yield _Site(f"environment {outside.name}", outside.place), outside
        for label, condition in (("initially", system.initially), ("constraint", system.constraint)):
            if condition is not None:
                yield _Site(label, condition.place), condition
        for p in system.properties.values():
            yield _Site(f"property {p.name}", p.place, p.name), (p.when, p.claim)
        for end in system.ends or ():
            yield _Site(f"end {end.name}", end.place, end.name), end

    def _first_values(self, role: Role) -> None:
        for datum in role.data.values():
            site = _Site(f"{role.name}.{datum.name}", datum.place)
            if not datum.any_initial and datum.begins_as is None:  # which is read as an expression
                self._value(datum.type, datum.initial, "is at first", site, datum.place)

    def _order(self, role: Role, task: Task) -> None:
        """A parent drives its subsidiaries one after the other, by number, and sends so to many: can that be seen?"""
        if isinstance(task, Send):
            if any(x.mentions(e, x.reads_messages) for e in expressions(task)):
                site = _Site(f"task {role.name}.{task.name}", task.place)
                self._tell_all(task.receiver, "is sent by number and reads what was sent before", site, task.place)
        elif isinstance(task, Drive) and self.groups_of(task.role):
            driven = self.system.roles[task.role]
            sees = [*expressions(task), *expressions(driven.states), *expressions(driven.tasks)]
            answers = {id(e) for e in task.answers.values()}  # they are asked later, in steps of their own
            seen = any(id(e) not in answers and x.mentions(e, _of_others) for e in sees)
            seen = seen or any(u.shared for tr in driven.transitions() for u in tr.updates)
            seen = seen or any(self._in_line(other) for other in driven.tasks.values())
            if seen or any(isinstance(other, Drive) for other in driven.tasks.values()):
                site = _Site(f"task {role.name}.{task.name}", task.place)
                reason = f"drives {task.role} by number, and what one does others may see"
                self._tell_all(task.role, reason, site, task.place)

    def _in_line(self, task: Task) -> bool:
        """Returns whether a task sends through a queue, in which others that are driven in the same step stand too."""
        return isinstance(task, Send) and self.system.channel_of(task.message).kind == "queue"

    # Expressions

    def read(self, e: x.Expression, site: _Site) -> None:
        """Looks at an expression for what tells instances apart; what is not known here does."""
        matched = _matched(e)
        for child in x.children(e) if matched is None else [side.of for side in matched if side.of is not None]:
            self.read(child, site)
        if matched is not None and not self._match(*matched):
            for side in matched:
                self._in(side.type, f"matches by number with others: `{x.text(e)}`", site, e.place)
        match e:
            case x.Literal_(value=value):
                if not e.stand_in:
                    self._value(e.type, value, "names", site, e.place)
            case x.ConstantRef():
                self._in(e.type, f"names by a constant: `{x.text(e)}`", site, e.place)
            case x.Apply(op=op, operands=operands) if op not in _HARMLESS_OPERATORS:
                does = _TELLS.get(op, "calculates with")
                for operand in operands:
                    if not isinstance(operand.type, t.Set):
                        self._in(operand.type, f"{does}: `{x.text(e)}`", site, e.place)
            case x.InstanceAt() if matched is None:
                self._in(e.type, f"takes by number: `{x.text(e)}`", site, e.place)
            case x.Apply() | x.InstanceAt():
                pass
            case _ if type(e) not in _HARMLESS:
                for group in dict.fromkeys(self.group_of.values()):
                    self._tells(group, f"says something that may tell apart: `{x.text(e)}`", site, e.place)

    def _value(self, kind: t.Type, value: t.Value, verb: str, site: _Site, place: Place) -> None:
        """A value that is written down tells instances apart unless it is the same whoever changes places."""
        for group in dict.fromkeys(self.group_of.values()):
            count = self.count(group[0])
            for i in range(1, count):
                places = tuple({0: i, i: 0}.get(n, n) for n in range(count))
                swap = with_products(dict.fromkeys(group, places), self.products.values(), self.count)
                mover = mover_of(kind, frozenset(swap))
                if mover is not None and mover(value, swap) != value:
                    self._tells(group, f"{verb} `{t.show(kind, value)}`", site, place)

    def _in(self, kind: t.Type, reason: str, site: _Site, place: Place) -> None:
        """Notes that a use of a value of a type tells apart the instances that it can hold."""
        for role in roles_in(kind):
            self._tell_all(role, reason, site, place)

    def _match(self, one: _Side, other: _Side) -> bool:
        """Returns whether the numbers of two sides are moved by one group, or by none."""
        groups = []
        for side in (one, other):
            product = self.products.get(side.type.name)
            if (product is None) == bool(side.part) or (product and self._divisor(side) != product.of_low):
                return False  # a part of what is no pair, or a pair as a whole
            name = side.type.name if product is None else product.high if side.part == "//" else product.low
            groups.append(self.group_of.get(name or ""))
        return groups[0] == groups[1]

    def _tell_all(self, role: str, reason: str, site: _Site, place: Place) -> None:
        for group in self.groups_of(role):
            self._tells(group, reason, site, place)

    def _tells(self, group: tuple[str, ...], reason: str, site: _Site, place: Place) -> None:
        if group in self.told:
            return
        at = place if place is not NOWHERE else site.place
        where = f" ({at})" if at is not NOWHERE else ""
        who = " and ".join(group)
        lead = f"{site.words} " if site.words else ""
        if site.of:
            self.told[group] = f"{site.words} is not symmetric in {who}: it {reason}{where}"
        else:
            self.told[group] = f"the instances of {who} are told apart: {lead}{reason}{where}"


def _of_others(e: x.Expression) -> bool:
    """Returns whether it reads another machine than its own or the one that is driven (`it`), or messages."""
    if isinstance(e, x.Quantifier):
        return e.variable == "it"  # then `it` is not always the machine that is driven
    if not isinstance(e, x.Data | x.ControlState):
        return x.reads_messages(e)
    return not (e.owner is None or (isinstance(e.owner, x.BoundVariable) and e.owner.name == "it"))


class _Side(NamedTuple):
    """The number of an instance, or a part of it: `//` and `%` by a number. `of` is the instance, if it is given."""

    type: t.Instance
    of: x.Expression | None = None
    part: str = ""
    by: x.Expression | None = None


def _matched(e: x.Expression) -> tuple[_Side, _Side] | None:
    """Returns the sides that are matched by number, as in `index(a) == index(b)`, `b[index(a)]`, `b[index(a) // 2]`."""
    match e:
        case x.Apply(op="==" | "!=", operands=(left, right)):
            one, other = _side(left), _side(right)
        case x.InstanceAt(type=t.Instance() as taken, number=number):
            one, other = _Side(taken), _side(number)
        case _:
            return None
    return None if one is None or other is None else (one, other)


def _side(e: x.Expression) -> _Side | None:
    match e:
        case x.Apply(op="index", operands=(of,)) if isinstance(of.type, t.Instance):
            return _Side(of.type, of)
        case x.Apply(op="//" | "%" as part, operands=(inner, by)) if (side := _side(inner)) and not side.part:
            return side._replace(part=part, by=by)
    return None


def roles_in(kind: t.Type | None) -> Iterator[str]:
    """The names of the roles (and counted types) whose instances a value of a type may hold, or be arranged by."""
    match kind:
        case t.Instance(name=name):
            yield name
        case t.Set(of=of) | t.Option(of=of) | t.Seq(of=of):
            yield from roles_in(of)
        case t.Map(key=key, of=of):
            yield from roles_in(key)
            yield from roles_in(of)


Permutation: TypeAlias = Mapping[str, tuple[int, ...]]
"""By role, the new number of each instance; roles that are not named stay as they are."""


def with_products(p: Permutation, products: Iterable[Product], count: Callable[[str], int]) -> Permutation:
    """A permutation with the new numbers of products' instances; `count` says how many each has."""
    return {**p, **{of.role: tuple([of.moved(n, p) for n in range(count(of.role))]) for of in products}}


Mover: TypeAlias = Callable[[t.Value, Permutation], t.Value]


def mover_of(kind: t.Type | None, roles: frozenset[str]) -> Mover | None:
    """A function from a value of a type and a permutation to the value under it; None where none of these is in it."""
    if not roles.intersection(roles_in(kind)):
        return None
    match kind:
        case t.Instance(name=name):
            return lambda value, p: p[name][value] if name in p else value
        case t.Set(of=of):
            inner = _sure(mover_of(of, roles))
            return lambda value, p: frozenset([inner(v, p) for v in value])
        case t.Option(of=of):
            inner = _sure(mover_of(of, roles))
            return lambda value, p: None if value is None else inner(value, p)
        case t.Seq(of=of):
            inner = _sure(mover_of(of, roles))
            return lambda value, p: tuple([inner(v, p) for v in value])
        case t.Map(key=key, of=of):
            return _map_mover(key, mover_of(of, roles))
    raise AssertionError(kind)


def _map_mover(key: t.Type, within: Mover | None) -> Mover:
    def move(value: t.Value, p: Permutation) -> t.Value:
        cells = value if within is None else [within(v, p) for v in value]
        order = p.get(key.name) if isinstance(key, t.Instance) else None
        return tuple(cells) if order is None else tuple([cells[i] for i in inverse(order)])

    return move


def _sure(mover: Mover | None) -> Mover:
    assert mover is not None
    return mover


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that takes back."""
    positions = [0] * len(order)
    for i, j in enumerate(order):
        positions[j] = i
    return tuple(positions)
