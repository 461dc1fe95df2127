"""The expression language: its tree, as every reading of a spec takes it.

Guards, updates, fields of messages and claims of properties are all expressions. They are parsed and typed once (see
parse.py); evaluate.py gives their meaning; other readings translate the tree. A tree is immutable and closed: every
name in it has been resolved. Places do not take part in equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.operators import OPERATORS
from leasehold.spec.language.types import BOOL, INT, TIME, Enum, Instance, Seq, Set, Type, Value, members, show


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of an expression; `written` is the whole expression as its author wrote it, where it was read."""

    type: Type
    place: Place = field(default=NOWHERE, compare=False, repr=False)
    written: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal_(Node):
    """A value; one that is a `stand_in` stands where a value is needed and none is there, and nothing depends on it."""

    value: Value
    stand_in: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantRef(Node):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Now(Node):
    type: Type = TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Self(Node):
    """The instance whose machine takes the step."""


SHARED = Instance("shared", 1, indexed=False)
"""What holds the variables that all machines share: no machine, and named as the one of a role would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data(Node):
    """A field of a machine's record; `owner` None is the machine's own. A shared variable is one of SHARED."""

    role: str
    name: str
    owner: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlState(Node):
    """A machine's control state; `owner` None is the machine's own."""

    role: str
    owner: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument(Node):
    """A field of the event (or message) that is being consumed."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender(Node):
    """The instance that sent the message being consumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundVariable(Node):
    """The variable of an enclosing quantifier, or `it`."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceAt(Node):
    """The instance of a number, counted around: behind the last one comes the first again."""

    number: Expression
    type: Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply(Node):
    """A pure operator on its operands; operators.py has a row for each."""

    op: str
    operands: tuple[Expression, ...]


QuantifierKind: TypeAlias = Literal["all", "any", "count", "sum", "min", "max", "union", "set", "map"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantifier(Node):
    """`all(body for variable in domain if condition)` and its kin.

    `set` collects the variable itself; `map` has the body as the cell of the variable, for all members of a type.

    Attributes:
        default: of `min` and `max`, the value where there is nothing; None where there is always something.
    """

    kind: QuantifierKind
    variable: str
    domain: Expression
    condition: Expression | None
    body: Expression
    default: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending(Node):
    """The messages on their way: of one kind, or of one channel."""

    name: str


# What each message on its way has besides its fields: its number, its kind, whether it is the latest one of its lane,
# and the two machines between which it is.
OF_MESSAGES = ("number", "kind", "latest", "sender", "receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageField(Node):
    """A field of a message on its way, or what OF_MESSAGES names."""

    variable: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Old(Node):
    """The value before the step, in a step property."""

    operand: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Took(Node):
    """The condition that in the step a machine of the role consumed the event (None: any event).

    Attributes:
        ignored: whether it took no transition for it, and so changed nothing.
    """

    role: str
    owner: Expression | None
    event: str | None
    ignored: bool = False
    type: Type = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepts(Node):
    """The condition that a machine of the role has a transition for the event, for some values of the event's fields.

    Attributes:
        means: the same as an expression over the state (accepting.py), which readings take; None until it is made.
    """

    role: str
    owner: Expression | None
    event: str
    means: Expression | None = None
    type: Type = BOOL

    @property
    def meaning(self) -> Expression:
        assert self.means is not None, "accepting.with_meanings comes before any reading"
        return self.means


QueryName: TypeAlias = Literal["heard", "running", "reachable", "byzantine"]
WITHOUT_FAULTS: Mapping[str, bool] = {"running": True, "reachable": True, "byzantine": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalQuery(Node):
    """A fact about channels, actors and the network, which no machine sees.

    Attributes:
        name: `heard`, whether the last message sent through a channel was received: nothing new is on its way or lost;
            `running`, whether a machine's actor is up; `reachable`, whether no partition lies between the actors of
            two machines; `byzantine`, whether a role is taken to send any message that it can sign.
        subjects: the channel or role; of two machines, both roles; of a channel and a machine, it and the role.
        owners: the instances, one for each role of `running` and `reachable`; of `heard` that of one end of the
            channel, whose messages alone are asked about.
    """

    name: QueryName
    subjects: tuple[str, ...]
    owners: tuple[Expression, ...] = ()
    type: Type = BOOL

    def arguments(self, owners: Iterable[Any]) -> list[Any]:
        """The arguments of a function of this name: each subject, followed by what stands for its owner."""
        bare = len(self.subjects) - len(self.owners)
        return [*self.subjects[:bare], *chain(*zip(self.subjects[bare:], owners, strict=True))]


Expression: TypeAlias = (
    Literal_
    | ConstantRef
    | Now
    | Self
    | Data
    | ControlState
    | Argument
    | Sender
    | BoundVariable
    | InstanceAt
    | Apply
    | Quantifier
    | Pending
    | MessageField
    | GlobalQuery
    | Old
    | Took
    | Accepts
)

TRUE = Literal_(type=BOOL, value=True)


def shared_variable(name: str, kind: Type, place: Place = NOWHERE) -> Expression:
    """The value of a shared variable."""
    owner = Literal_(type=SHARED, value=0, place=place)
    return Data(type=kind, role=SHARED.name, name=name, owner=owner, place=place)


def reads_shared(e: Expression) -> bool:
    """Returns whether it is a shared variable."""
    return isinstance(e, Data) and e.role == SHARED.name


def negation(e: Expression, place: Place = NOWHERE) -> Expression:
    return Apply(type=BOOL, op="not", operands=(e,), place=place)


def conjunction(operands: Iterable[Expression], place: Place = NOWHERE) -> Expression:
    return Apply(type=BOOL, op="and", operands=tuple(operands), place=place)


def disjunction(operands: Iterable[Expression], place: Place = NOWHERE) -> Expression:
    return Apply(type=BOOL, op="or", operands=tuple(operands), place=place)


def conjuncts(e: Expression) -> tuple[Expression, ...]:
    """The parts that `and` joins; the expression itself where it joins none."""
    return e.operands if isinstance(e, Apply) and e.op == "and" else (e,)


def all_members(of: Enum | Instance, place: Place = NOWHERE) -> Expression:
    """All members of a small type, as a set: the domain `for r in resource_manager`."""
    return Literal_(type=Set(of), value=frozenset(members(of)), place=place)


def holds_all_members(e: Expression) -> bool:
    """Returns whether it is the set of all members of a small type."""
    match e:
        case Literal_(type=Set(of=of), value=value) if of is not None:
            return bool(value == frozenset(members(of)))
    return False


def longest(e: Expression) -> int:
    """The greatest length that a sequence may have, as it is made."""
    match e:
        case Literal_(value=value):
            return len(value)
        case Apply(op="[,]", operands=items):
            return len(items)
        case Apply(op="append", operands=(values, _)):
            return longest(values) + 1
        case Apply(op="+", operands=(a, b)):
            return longest(a) + longest(b)
        case Apply(op="if", operands=(_, a, b)):
            return max(longest(a), longest(b))
        case Apply(op="rest", operands=(values,)):
            return max(longest(values) - 1, 0)
        case Apply(op="take", operands=(values, Literal_(value=int(count)))):
            return min(longest(values), max(count, 0))
        case Apply(op="take", operands=(values, _)) | Old(operand=values):
            return longest(values)
    assert isinstance(e.type, Seq)
    return e.type.most


def is_query(e: Expression, name: QueryName) -> bool:
    return isinstance(e, GlobalQuery) and e.name == name


def asked_of_message(e: Quantifier) -> frozenset[str]:
    """The names in OF_MESSAGES that a quantifier over messages asks of each."""
    inside = (part for whole in (e.body, e.condition) if whole is not None for part in walk(whole))
    return frozenset(
        part.name
        for part in inside
        if isinstance(part, MessageField) and part.variable == e.variable and part.name in OF_MESSAGES
    )


def reads_messages(e: Expression) -> bool:
    """Returns whether it looks at messages on their way."""
    return isinstance(e, Pending) or is_query(e, "heard")


def pending_count(of: Pending, place: Place = NOWHERE) -> Expression:
    """The number of messages on their way."""
    return Quantifier(type=INT, kind="count", variable="_", domain=of, condition=None, body=TRUE, place=place)


def counts_pending(e: Expression) -> bool:
    """Returns whether it is the number of messages on their way, as `len` says it."""
    return (
        isinstance(e, Quantifier)
        and e.kind == "count"
        and isinstance(e.domain, Pending)
        and e.variable == "_"
        and e.condition is None
        and e.body == TRUE
    )


# The fields of each kind of node that hold others: annotations are text here.
_PARTS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(spec.name for spec in fields(kind) if "Expression" in str(spec.type)) for kind in get_args(Expression)
}


def children(expression: Expression) -> list[Expression]:
    parts: list[Expression] = []
    for name in _PARTS[type(expression)]:
        value = getattr(expression, name)
        if isinstance(value, tuple):
            parts += [v for v in value if v is not None]
        elif value is not None:
            parts.append(value)
    return parts


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything inside it."""
    todo = [expression]
    while todo:
        part = todo.pop()
        yield part
        if _PARTS[type(part)]:
            todo += reversed(children(part))


def rewrites(
    expression: Expression, change: Callable[[Expression], Iterable[tuple[Expression, str]]]
) -> Iterator[tuple[Expression, str]]:
    """The expression with one part changed, for every part and each of its changes, with the words for the change."""
    yield from change(expression)
    for name in _PARTS[type(expression)]:
        value = getattr(expression, name)
        if isinstance(value, Node):
            for new, description in rewrites(value, change):  # type: ignore[arg-type]
                yield replace(expression, **{name: new}), description  # type: ignore[arg-type]
        elif isinstance(value, tuple):
            for i, part in enumerate(value):
                for new, description in rewrites(part, change) if isinstance(part, Node) else ():  # type: ignore[arg-type]
                    changed = (*value[:i], new, *value[i + 1 :])
                    yield replace(expression, **{name: changed}), description  # type: ignore[arg-type]


def with_parts(e: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with each of its direct parts changed; itself where none of them does."""
    changes: dict[str, Any] = {}
    for name in _PARTS[type(e)]:
        value = getattr(e, name)
        if isinstance(value, Node):
            new: Any = change(value)  # type: ignore[arg-type]
        elif isinstance(value, tuple):
            new = tuple([change(v) if isinstance(v, Node) else v for v in value])  # type: ignore[arg-type]
            new = value if all(a is b for a, b in zip(new, value, strict=True)) else new
        else:
            continue
        if new is not value:
            changes[name] = new
    return replace(e, **changes) if changes else e


def with_variables(e: Expression, of: Mapping[str, Callable[[BoundVariable], Expression]]) -> Expression:
    """An expression with others in place of its free variables of some names."""
    match e:
        case BoundVariable(name=name) if name in of:
            return of[name](e)
        case Quantifier(variable=variable, domain=domain, default=default) if variable in of:
            inner = {name: value for name, value in of.items() if name != variable}
            return with_parts(e, lambda part: with_variables(part, of if part is domain or part is default else inner))
    return with_parts(e, lambda part: with_variables(part, of))


def case_count(expression: Expression) -> int:
    """Returns the number of parts of the expression once its quantifiers over small types are written out."""
    inner = 1 + sum(case_count(c) for c in children(expression))
    if isinstance(expression, Quantifier) and isinstance(expression.domain.type, Set):
        of = expression.domain.type.of
        return inner * max(1, len(members(of)) if of is not None else 1)
    return inner


def mentions(expression: Expression | None, wanted: Callable[[Expression], bool]) -> bool:
    return expression is not None and any(wanted(e) for e in walk(expression))


def as_written(e: Expression) -> str:
    """The expression as its author wrote it, with the names of definitions; or as the language writes it."""
    return e.written or text(e)


def text(e: Expression, binding: int = 0) -> str:
    """The expression as the language writes it."""

    def machine(role: str, owner: Expression | None) -> str:
        if owner is None:
            return ""
        if isinstance(owner, Literal_):
            return f"{show(owner.type, owner.value)}."
        return f"{text(owner)}."

    match e:
        case Literal_(type=Set(of=of)) if of is not None and holds_all_members(e):
            return of.name
        case Literal_(type=t, value=value):
            return show(t, value)
        case ConstantRef(name=name) | BoundVariable(name=name):
            return name
        case Now():
            return "now"
        case Self():
            return "self"
        case Data(role=role, name=name, owner=owner):
            return machine(role, owner) + name
        case ControlState(role=role, owner=owner):
            return machine(role, owner) + "state"
        case Argument(name=name):
            return f"event.{name}"
        case Sender():
            return "event.sender"
        case InstanceAt(type=of, number=number):
            return f"{of.name}[{text(number)}]"
        case Apply(op=op, operands=operands):
            return OPERATORS[op].write([partial(text, o) for o in operands], binding)
        case Quantifier(domain=Pending(name=name)) if counts_pending(e):
            return f"len(pending({name}))"
        case Quantifier(kind=kind, variable=variable, domain=domain, condition=condition, body=body):
            tail = f" for {variable} in {text(domain, 2)}" + (f" if {text(condition, 2)}" if condition else "")
            if kind == "set":
                return "{" + variable + tail + "}"
            if kind == "map":
                return "{" + f"{variable}: {text(body)}{tail}" + "}"
            if e.default is not None:
                return f"{kind}(({text(body)}{tail}), default={text(e.default)})"
            return f"{kind}({text(body)}{tail})"
        case Pending(name=name):
            return f"pending({name})"
        case GlobalQuery(name=name, subjects=subjects, owners=()):
            return f"{name}({', '.join(subjects)})"
        case GlobalQuery(name=name, subjects=subjects, owners=owners):
            bare, roles = subjects[: -len(owners)], subjects[-len(owners) :]
            machines = [machine(role, owner)[:-1] for role, owner in zip(roles, owners, strict=True)]
            return f"{name}({', '.join((*bare, *machines))})"
        case MessageField(variable=variable, name=name):
            return f"{variable}.{name}"
        case Old(operand=operand):
            return f"old({text(operand)})"
        case Took(role=role, owner=owner, event=event) | Accepts(role=role, owner=owner, event=event):
            who = role if owner is None else machine(role, owner)[:-1]
            name = "accepts" if isinstance(e, Accepts) else "ignored" if e.ignored else "took"
            return f"{name}({who}.{event})" if event else f"{name}({who})"
