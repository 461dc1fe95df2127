"""Values of the specification as plain data (what JSON and MessagePack can hold), and back, checked.

A set becomes a list in the order of its type, a map a list by the order of its key's members, a sequence a list, an
option null or its value. A map over the machines of a dynamic role becomes a mapping, from their names, of the values
that differ from its `rest`, in a run (`SparseMap`) as in the model. All others are plain already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from leasehold.impl.core.sparse import Sparse
from leasehold.spec.language import types as t
from leasehold.spec.language.diagnostics import listed, near_miss

Plain = Any
DEEPEST = 20  # nesting of opaque values in records
# Limits of an opaque value that comes from outside, so that each message that carries it can be signed.
OPAQUE_BYTES = 16 * 1024  # a message carries several, in base64
OPAQUE_DEEPEST = 14  # it lies in the fields of a message, and there perhaps in a map
OPAQUE_NAME = 200  # characters of a name in it
LARGEST = 2**63 - 1  # what every store and peer can hold


class ValueFault(ValueError):
    """Plain data is no value of its type. The message says what was wanted and what came."""


def to_plain(kind: t.Type, value: t.Value) -> Plain:
    """A value as plain data."""
    match kind:
        case t.Set(of=of) if of is not None:
            order = of
            return sorted(value, key=lambda v: t.position(order, v))
        case t.Map(key=key, of=of, rest=rest) if rest is not ...:
            cells = sorted(value.items()) if isinstance(value, Sparse) else enumerate(value)
            return {t.show(key, number): to_plain(of, v) for number, v in cells if v != rest}
        case t.Map(of=of) | t.Seq(of=of) if of is not None:
            return _each(to_plain, of, value)
        case t.Option(of=of) if of is not None and value is not None:
            return to_plain(of, value)
    return value


def from_plain(kind: t.Type, plain: Plain) -> t.Value:
    """Plain data as a value of a type.

    Raises:
        ValueFault: it is none.
    """
    match kind:
        case t.Bool():
            if isinstance(plain, bool):
                return plain
        case t.Instance(name=name) if isinstance(plain, str):  # as the language writes it
            number = plain.removeprefix(f"{name}[").removesuffix("]") if kind.indexed else "0"
            last = bounds(kind)[1] or 0
            if number.isdecimal() and len(number) <= 10 and int(number) <= last and plain == t.show(kind, int(number)):
                return int(number)
            reason = f"is none of {name}[0] to {name}[{last}]" if kind.indexed else f"is not {name}"
            raise ValueFault(f"{_short(plain)} {reason}")
        case t.Int() | t.Time() | t.Instance():
            if isinstance(plain, int) and not isinstance(plain, bool):
                low, high = bounds(kind)
                if abs(plain) > LARGEST:
                    raise ValueFault(f"{_short(plain)} has more than 64 bits")
                if (low is None or plain >= low) and (high is None or plain <= high):
                    return plain
                raise ValueFault(f"{_short(plain)} is not within {_range(low, high)}")
        case t.Enum(members=members):
            if plain in members:
                return plain
            hint = near_miss(str(plain), members)
            reason = f"{_short(plain)} is none of {listed(members)}"
            raise ValueFault(f"{reason}; did you mean {hint}?" if hint else reason)
        case t.Opaque():
            return _opaque(plain, DEEPEST)
        case t.Set(of=of) if of is not None:
            if isinstance(plain, list | tuple | set | frozenset):
                values = [from_plain(of, v) for v in plain]
                if len(set(values)) != len(values):
                    raise ValueFault(f"{_short(plain)} names a member twice")
                return frozenset(values)
        case t.Map(key=t.Instance() as key, of=of, rest=rest) if rest is not ...:
            if isinstance(plain, Mapping):
                return _sparse(kind, {from_plain(key, name): from_plain(of, v) for name, v in _by_name(plain)})
        case t.Map(key=key, of=of):
            if isinstance(plain, list | tuple) and len(plain) == len(t.members(key)):
                return tuple(_each(from_plain, of, plain))
        case t.Seq(of=of, most=most) if of is not None:
            if isinstance(plain, list | tuple):
                if len(plain) > most:
                    raise ValueFault(f"{_short(plain)} has {len(plain)} values, and {most} are the most")
                return tuple(from_plain(of, v) for v in plain)
        case t.Option() if plain is None:
            return None
        case t.Option(of=of) if of is not None:
            return from_plain(of, plain)
    raise ValueFault(f"{_short(plain)} is no {kind}")


def _each(convert: Callable[[t.Type, Any], Any], of: t.Type, values: Sequence[Any]) -> list[Any]:
    """Values, each converted; one object that stands at many places, as a default does, is converted once."""
    converted = {place: convert(of, value) for place, value in {id(value): value for value in values}.items()}
    return [converted[id(value)] for value in values]


def _by_name(plain: Mapping[Any, Plain]) -> Iterator[tuple[str, Plain]]:
    for name, value in plain.items():
        if not isinstance(name, str):
            raise ValueFault(f"{_short(name)} is no name of a machine")
        yield name, value


def _sparse(kind: t.Map, entries: Mapping[int, t.Value]) -> t.Value:
    """The map of a run; that of the model, which has a value for each machine that it has."""
    value = Sparse(kind.rest, entries.items())
    return value if isinstance(kind, t.SparseMap) else value.cells(len(t.members(kind.key)))


def bounds(kind: t.Type) -> tuple[int | None, int | None]:
    """The least and the greatest value of a type of numbers; None is no bound."""
    match kind:
        case t.Int(low=low, high=high):
            return low, high
        case t.Time():
            return 0, None
        case t.Instance(count=count, dynamic=dynamic):
            return 0, t.LARGEST_NUMBER if dynamic else count - 1
    return None, None


def checked_plain(kind: t.Type, value: t.Value) -> Plain:
    """A value as plain data.

    Raises:
        ValueFault: it has left its type's range.
    """
    plain = to_plain(kind, value)
    from_plain(kind, plain)
    return plain


def named_fields(fields: tuple[tuple[str, t.Type], ...], given: Mapping[str, Any]) -> tuple[t.Value, ...]:
    """The fields of an event or message, given by name, in their order.

    Raises:
        ValueFault: one is missing, unknown, or no value of its type.
    """
    names = [name for name, _ in fields]
    for name in given:
        if name not in names:
            hint = near_miss(str(name), names)
            more = f"did you mean {hint}?" if hint else f"it has {listed(names)}"
            raise ValueFault(f"there is no field {_short(name)}; {more}")
    values = []
    for name, kind in fields:
        if name not in given:
            raise ValueFault(f"field `{name}` is missing")
        try:
            values.append(from_plain(kind, given[name]))
        except ValueFault as fault:
            raise ValueFault(f"field `{name}`: {fault}") from None
    return tuple(values)


def given_fields(fields: tuple[tuple[str, t.Type], ...], given: Mapping[str, Any]) -> tuple[t.Value, ...]:
    """The fields of an event of a policy, a client or a handler: what is opaque need not be said, and is empty then.

    Raises:
        ValueFault: as `named_fields`.
    """
    unsaid = {name: t.default(kind) for name, kind in fields if isinstance(kind, t.Opaque)}
    return named_fields(fields, {**unsaid, **given})


def check_sizes(fields: tuple[tuple[str, t.Type], ...], values: tuple[t.Value, ...]) -> None:
    """Refuses opaque values, of what the world outside gives, that are too large for the messages that may carry them.

    Raises:
        ValueFault: one has too many bytes, lies too deep, has too long a name, or a number that is none.
    """
    for (name, kind), value in zip(fields, values, strict=True):
        for opaque in _opaque_in(kind, value):
            size = len(msgspec.json.encode(opaque))
            if size > OPAQUE_BYTES:
                raise ValueFault(f"field `{name}`: it has {size} bytes, and {OPAQUE_BYTES} are the most")
            try:
                _check_carried(opaque, OPAQUE_DEEPEST)
            except ValueFault as fault:
                raise ValueFault(f"field `{name}`: {fault}") from None


def check_kept(name: str, given: Any) -> None:
    """Refuses a value that no record can hold, and none of its messages can carry; whoever keeps it asks this first.

    Raises:
        ValueFault: it is no opaque value, or is too large.
    """
    kind = ((name, t.OPAQUE),)
    check_sizes(kind, named_fields(kind, {name: given}))


def _check_carried(plain: Plain, deep: int) -> None:
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueFault(f"{plain} is no number that JSON has")
    if not isinstance(plain, list | tuple | Mapping):
        return
    if not deep:
        raise ValueFault(f"it is nested more than {OPAQUE_DEEPEST} deep")
    for name in plain if isinstance(plain, Mapping) else ():
        if len(name) > OPAQUE_NAME:
            raise ValueFault(f"the name {_short(name)} has {len(name)} characters, and {OPAQUE_NAME} are the most")
    for inner in plain.values() if isinstance(plain, Mapping) else plain:
        _check_carried(inner, deep - 1)


def _opaque_in(kind: t.Type, value: t.Value) -> Iterator[Plain]:
    match kind:
        case t.Opaque():
            yield value
        case t.Map(of=of):
            for one in value.values() if isinstance(value, Sparse) else value:
                yield from _opaque_in(of, one)
        case t.Option(of=of) if of is not None and value is not None:
            yield from _opaque_in(of, value)


def _opaque(plain: Plain, deep: int) -> Plain:
    if isinstance(plain, int) and abs(plain) > LARGEST:
        raise ValueFault(f"{_short(plain)} has more than 64 bits")
    if isinstance(plain, str) and not plain.isascii() and any("\ud800" <= c <= "\udfff" for c in plain):
        raise ValueFault(f"{_short(plain)} has half of a surrogate pair, which UTF-8 cannot hold")
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    if deep and isinstance(plain, list | tuple):
        return [_opaque(v, deep - 1) for v in plain]
    if deep and isinstance(plain, Mapping) and all(isinstance(k, str) for k in plain):
        return {_opaque(k, 0): _opaque(v, deep - 1) for k, v in plain.items()}
    if not deep and isinstance(plain, list | tuple | Mapping):
        raise ValueFault(f"it is nested more than {DEEPEST} deep")
    raise ValueFault(f"{_short(plain)} is not plain data")


def _short(plain: Plain) -> str:
    text = "none" if plain is None else repr(plain)
    return text if len(text) <= 60 else text[:57] + "..."


def _range(low: int | None, high: int | None) -> str:
    return f"{'' if low is None else low}..{'' if high is None else high}"
