"""The types of data, event fields and expressions, and the values that belong to them.

Values are plain immutable Python: bool, int (int, time, instance and opaque), str (enum members), frozenset (set),
tuple (map, by the order of its key's members; sequence) and None or the value itself (option). Runs have maps over the
machines of a dynamic role as entries (`SparseMap`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from typing import Any, TypeAlias

Value: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Bool:
    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class Int:
    low: int | None = None
    high: int | None = None

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class Time:
    """A point on the virtual clock, in ticks."""

    def __str__(self) -> str:
        return "time"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Carried and stored, compared for equality by properties alone, never read by a machine."""

    def __str__(self) -> str:
        return "opaque"


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    members: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


LARGEST_NUMBER = 2**31 - 1  # of a machine of a dynamic role


@dataclass(frozen=True, slots=True)
class Instance:
    """One of `count` interchangeable things: the instances of a role, or a counted type."""

    name: str
    count: int
    indexed: bool = True  # False: the one machine of a role that is declared without a number of instances
    counted_by: str = field(default="", compare=False)  # the constant that the number is, where it is one
    dynamic: bool = field(default=False, compare=False)  # at run time there may be more than `count`

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Set:
    of: Enum | Instance | None  # None: the empty set, before its type is known

    def __str__(self) -> str:
        return f"set[{self.of or '?'}]"


@dataclass(frozen=True, slots=True)
class Map:
    """A value for each member of `key`.

    Attributes:
        rest: of a field whose keys are machines of a dynamic role, the value of each machine of which nothing has been
            heard; `...` where there is no such one value.
    """

    key: Enum | Instance
    of: Type
    rest: Value = field(default=..., compare=False, repr=False)

    def __str__(self) -> str:
        return f"map[{self.key}, {self.of}]"


@dataclass(frozen=True, slots=True)
class SparseMap(Map):
    """A map over the machines of a dynamic role as a run has it: its values are entries, of any number of machines.

    A value is a mapping from numbers of machines to what differs from `rest`.
    """

    rest: Value = field(default=..., compare=False)


@dataclass(frozen=True, slots=True)
class Option:
    of: Type | None  # None: the literal `none`, before its type is known

    def __str__(self) -> str:
        return f"option[{self.of or '?'}]"


@dataclass(frozen=True, slots=True)
class Seq:
    """A sequence, at most so many values long; of what an expression makes, only the values' type is known."""

    of: Type | None  # no Option and no Opaque; None: the empty sequence, before its type is known
    most: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"seq[{self.of or '?'}{f', {self.most}' if self.most else ''}]"


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message on its way, as the variable of a quantifier over `pending(...)`."""

    kinds: tuple[str, ...]

    def __str__(self) -> str:
        return "message"


@dataclass(frozen=True, slots=True)
class UnknownType:
    """The type of an expression that was already reported as wrong; agrees with every type."""

    def __str__(self) -> str:
        return "?"


Type: TypeAlias = Bool | Int | Time | Opaque | Enum | Instance | Set | Map | Option | Seq | MessageType | UnknownType

BOOL, INT, TIME, OPAQUE, UNKNOWN = Bool(), Int(), Time(), Opaque(), UnknownType()


def parts(type_: Type) -> Iterator[Type]:
    """A type, and the types of the values in its values."""
    yield type_
    of = type_.of if isinstance(type_, Set | Map | Option | Seq) else None
    if of is not None:
        yield from parts(of)


def holds_sequence(type_: Type) -> bool:
    """Returns whether a value of a type is a sequence, or has one in it."""
    return any(isinstance(part, Seq) for part in parts(type_))


def over_members(type_: Type | None) -> bool:
    """Returns whether it is a map over the machines of a dynamic role."""
    return isinstance(type_, Map) and isinstance(type_.key, Instance) and type_.key.dynamic


def with_rest(type_: Type) -> Type:
    """The type of a field that begins as its type says: a map over a dynamic role has the first value of its cells."""
    return replace(type_, rest=default(type_.of)) if isinstance(type_, Map) and over_members(type_) else type_


def as_run(type_: Type) -> Type:
    """The type of a field as a run has it: of a map over a dynamic role, entries."""
    return SparseMap(type_.key, type_.of, type_.rest) if isinstance(type_, Map) and type_.rest is not ... else type_


def members(type_: Enum | Instance) -> tuple[Value, ...]:
    """The members of a small type, in order."""
    return type_.members if isinstance(type_, Enum) else tuple(range(type_.count))


def position(type_: Enum | Instance, value: Value) -> int:
    """Returns the position of a member in its type's order, which is the index of its cell in a map."""
    return type_.members.index(value) if isinstance(type_, Enum) else int(value)


def finite(type_: Type, explored: bool) -> bool:
    """Returns whether `domain` has an end: every number in a value is between two bounds, or has a range to explore."""
    match type_:
        case Int(low=low, high=high):
            return explored or (low is not None and high is not None)
        case Time() | Opaque():
            return explored
        case Map(of=of) | Option(of=of) | Seq(of=of) if of is not None:
            return finite(of, explored)
        case _:
            return True


def numbers(type_: Int | Time | Opaque, explore: tuple[int, int] | None) -> range:
    """The numbers of a type within `explore`, both ends included, or without it.

    No time is before 0. A type that is not `finite` then has its least number alone: nothing ranges over all of it
    (LH420).
    """
    low, high = (type_.low, type_.high) if isinstance(type_, Int) else (0 if isinstance(type_, Time) else None, None)
    if explore is None:
        least = default(type_)
        return range(least, least + 1) if low is None or high is None else range(low, high + 1)
    first, last = explore
    return range(first if low is None else max(first, low), (last if high is None else min(last, high)) + 1)


def domain(type_: Type, explore: tuple[int, int] | None) -> Iterator[Value]:
    """All values of a type; its numbers are those of `numbers`."""
    match type_:
        case Bool():
            yield from (False, True)
        case Int() | Time() | Opaque():
            yield from numbers(type_, explore)
        case Enum() | Instance():
            yield from members(type_)
        case Set(of=of) if of is not None:
            every = members(of)
            for size in range(len(every) + 1):
                yield from (frozenset(chosen) for chosen in combinations(every, size))
        case Map(key=key, of=of):
            yield from product(tuple(domain(of, explore)), repeat=len(members(key)))
        case Option(of=of) if of is not None:
            yield None
            yield from domain(of, explore)
        case Seq(of=of, most=most) if of is not None:
            for length in range(most + 1):
                yield from product(tuple(domain(of, explore)), repeat=length)
        case _:
            raise TypeError(f"no values of {type_}")


def size(type_: Type, explore: tuple[int, int] | None) -> int:
    """Returns the number of values that `domain` gives, without making them."""
    match type_:
        case Bool():
            return 2
        case Int() | Time() | Opaque():
            return len(numbers(type_, explore))
        case Enum() | Instance():
            return len(members(type_))
        case Set(of=of) if of is not None:
            return int(2 ** len(members(of)))
        case Map(key=key, of=of):
            return int(size(of, explore) ** len(members(key)))
        case Option(of=of) if of is not None:
            return 1 + size(of, explore)
        case Seq(of=of, most=most) if of is not None:
            return int(sum(size(of, explore) ** length for length in range(most + 1)))
        case _:
            return 1


def default(type_: Type) -> Value:
    """The initial value of data that declares none: zero, false, the first member, empty, none."""
    match type_:
        case Bool():
            return False
        case Int(low=low, high=high):
            return low if low is not None else min(0, high) if high is not None else 0
        case Time() | Opaque():
            return 0
        case Enum() | Instance():
            return members(type_)[0]
        case Set():
            return frozenset()
        case Map(key=key, of=of):
            return (default(of),) * len(members(key))
        case Seq():
            return ()
        case _:
            return None


def in_range(type_: Type, value: Value) -> bool:
    """Returns whether a value of the right kind lies within the bounds that its type declares."""
    match type_:
        case Int(low=low, high=high):
            return (low is None or value >= low) and (high is None or value <= high)
        case Time():
            return bool(value >= 0)
        case SparseMap(of=of):
            return all(in_range(of, v) for v in value.values())
        case Map(of=of):
            return all(in_range(of, v) for v in value)
        case Option(of=of) if of is not None and value is not None:
            return in_range(of, value)
        case Seq(of=of, most=most) if of is not None:
            return len(value) <= most and all(in_range(of, v) for v in value)
        case _:
            return True


def number_of(type_: Type) -> Type:
    """Returns the type that `min` and `max` of a field speak of: its own, or that of its values or cells."""
    return number_of(type_.of) if isinstance(type_, Option | Map | Seq) and type_.of is not None else type_


def has_bounds(type_: Type) -> bool:
    """Returns whether a value of the right kind may lie outside the bounds that a type declares."""
    match type_:
        case Int(low=low, high=high):
            return low is not None or high is not None
        case Map(of=of) | Option(of=of) if of is not None:
            return has_bounds(of)
    return isinstance(type_, Time | Seq)


def agrees(expected: Type, actual: Type) -> bool:
    """Returns whether a value of the actual type may stand where the expected type is wanted."""
    match expected, actual:
        case (UnknownType(), _) | (_, UnknownType()):
            return True
        case Int() | Time(), Int():
            return True  # a literal number of ticks may stand for a time
        case Set(), Set():
            return expected.of is None or actual.of is None or expected.of == actual.of
        case Option(), Option():
            return expected.of is None or actual.of is None or agrees(expected.of, actual.of)
        case Option(of=of), _ if of is not None:
            return agrees(of, actual)
        case Seq(), Seq():
            return expected.of is None or actual.of is None or agrees(expected.of, actual.of)
        case Map(), Map():
            return expected.key == actual.key and agrees(expected.of, actual.of)
        case _:
            return type(expected) is type(actual) and (not isinstance(expected, (Enum, Instance)) or expected == actual)


def wider(a: Type, b: Type) -> Type:
    """The type that has the values of two types that agree: options where one has them, sequences of any length."""

    def both(*inner: Type | None) -> Type | None:
        known = [of for of in inner if of is not None]
        return wider(known[0], known[-1]) if known else None

    if isinstance(a, Option) or isinstance(b, Option):
        return Option(both(*(kind.of if isinstance(kind, Option) else kind for kind in (a, b))))
    match a, b:
        case Map(key=key, of=one), Map(of=other):
            return Map(key, wider(one, other))
        case Seq(of=of_one), Seq(of=of_other):
            return Seq(both(of_one, of_other))
    return b if isinstance(a, UnknownType) or (isinstance(a, Set) and a.of is None) else a


def show(type_: Type, value: Value) -> str:
    """A value as the language writes it."""
    match type_:
        case Bool():
            return "true" if value else "false"
        case Instance(name=name, indexed=indexed):
            return f"{name}[{value}]" if indexed else name
        case Set(of=Enum() | Instance() as member):
            return "{" + ", ".join(show(member, v) for v in sorted(value, key=partial(position, member))) + "}"
        case SparseMap(key=key, of=of, rest=rest) if isinstance(value, Mapping):
            entries = [f"{show(key, k)}: {show(of, v)}" for k, v in sorted(value.items())]
            return "{" + ", ".join([*entries, f"others: {show(of, rest)}"]) + "}"
        case Map(key=key, of=of):
            cells = zip(members(key), value, strict=True)
            return "{" + ", ".join(f"{show(key, k)}: {show(of, v)}" for k, v in cells) + "}"
        case Option(of=of):
            return "none" if value is None or of is None else show(of, value)
        case Seq(of=of):
            return f"[{', '.join(show(of, v) for v in value)}]" if of is not None else "[]"
        case Opaque():
            return show_plain(value)
        case _:
            return str(value)


def show_plain(value: Any) -> str:
    """Plain data as the language would write it, where its type is not at hand: a list counts as a set."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case dict():
            return "{" + ", ".join(f"{k}: {show_plain(v)}" for k, v in value.items()) + "}"
        case list():
            return "{" + ", ".join(map(show_plain, value)) + "}"
        case set() | frozenset():
            return "{" + ", ".join(sorted(map(show_plain, value))) + "}"
        case tuple():
            return "(" + ", ".join(map(show_plain, value)) + ")"
    return str(value)
