"""The expression language: its tree, as every reading of a spec takes it.

Guards, updates, fields of messages and claims of properties are all expressions. They are parsed and typed once (see
parse.py); evaluate.py gives their meaning; other readings translate the tree. A tree is immutable and closed: every
name in it has been resolved. Places do not take part in equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

from leasehold.spec.language.diagnostics import NOWHERE, Place
from leasehold.spec.language.types import BOOL, INT, TIME, Enum, Instance, Set, Type, Value, members, show


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    type: Type
    place: Place = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal_(Node):
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Node):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Now(Node):
    type: Type = TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Self(Node):
    """The instance whose machine takes the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data(Node):
    """A field of a machine's record; `owner` None is the machine's own."""

    role: str
    name: str
    owner: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Node):
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
class Variable(Node):
    """The variable of an enclosing quantifier, or `it`."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Node):
    op: Literal["not", "-"]
    operand: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Node):
    """Arithmetic on ints and times; `|`, `&` and `-` on sets."""

    op: Literal["+", "-", "*", "//", "%", "|", "&"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Node):
    """Comparison; on sets `<=` is inclusion; `in` asks for membership."""

    op: Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
    left: Expression
    right: Expression
    type: Type = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Logic(Node):
    op: Literal["and", "or"]
    operands: tuple[Expression, ...]
    type: Type = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional(Node):
    test: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme(Node):
    op: Literal["min", "max"]
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Length(Node):
    """The size of a set, or the number of messages on their way."""

    operand: Expression
    type: Type = INT


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Node):
    """The number of an instance, from 0."""

    operand: Expression
    type: Type = INT


@dataclass(frozen=True, slots=True, kw_only=True)
class Get(Node):
    """The value of an option, or the fallback when it is none."""

    option: Expression
    fallback: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOf(Node):
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Members(Node):
    """All members of a small type, as a set: the domain `for r in resource_manager`."""

    of: Enum | Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Element(Node):
    """A cell of a map."""

    map: Expression
    key: Expression


QuantifierKind: TypeAlias = Literal["all", "any", "count", "sum", "union", "set"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantifier(Node):
    """`all(body for variable in domain if condition)` and its kin; `set` collects the variable itself."""

    kind: QuantifierKind
    variable: str
    domain: Expression
    condition: Expression | None
    body: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending(Node):
    """The messages on their way: of one kind, or of one channel."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Node):
    """Whether the last message sent through a channel was received: nothing new is, or has been lost, on its way."""

    name: str
    type: Type = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageField(Node):
    """A field of a message on its way, or its `number` or `kind`."""

    variable: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Old(Node):
    """The value before the step, in a step property."""

    operand: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Took(Node):
    """Whether the step is that a machine of the role consumed the event (None: any event)."""

    role: str
    owner: Expression | None
    event: str | None
    type: Type = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(Node):
    """Whether a machine's actor is up. Without faults it always is."""

    role: str
    owner: Expression
    type: Type = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable(Node):
    """Whether no partition lies between the actors of two machines. Without faults none does."""

    role: str
    owner: Expression
    other_role: str
    other: Expression
    type: Type = BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Byzantine(Node):
    """Whether a role is taken to send whatever it can sign. Without such a fault none is."""

    role: str
    type: Type = BOOL


Expression: TypeAlias = (
    Literal_ | Constant | Now | Self | Data | State | Argument | Sender | Variable | Unary | Binary | Compare | Logic
    | Conditional | Extreme | Length | Index | Get | SetOf | Members | Element | Quantifier | Pending | MessageField
    | Heard | Old | Took | Running | Reachable | Byzantine
)  # fmt: skip

TRUE = Literal_(type=BOOL, value=True)


def children(expression: Expression) -> Iterator[Expression]:
    for spec in fields(expression):
        value = getattr(expression, spec.name)
        if isinstance(value, Node):
            yield value  # type: ignore[misc]
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, Node))  # type: ignore[misc]


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything inside it."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def cases(expression: Expression) -> int:
    """How many parts the expression has once its quantifiers over small types are written out, member by member."""
    inner = 1 + sum(cases(c) for c in children(expression))
    if isinstance(expression, Quantifier) and isinstance(expression.domain.type, Set):
        of = expression.domain.type.of
        return inner * max(1, len(members(of)) if of is not None else 1)
    return inner


def mentions(expression: Expression | None, wanted: Callable[[Expression], bool]) -> bool:
    return expression is not None and any(wanted(e) for e in walk(expression))


# How tightly each operator binds, for printing with no more parentheses than are needed.
_BINDING = {"or": 1, "and": 2, "not": 3, "|": 5, "&": 6, "+": 7, "-": 7, "*": 8, "//": 8, "%": 8}


def text(e: Expression, binding: int = 0) -> str:
    """The expression as the language writes it."""

    def wrap(level: int, words: str) -> str:
        return f"({words})" if level < binding else words

    def machine(role: str, owner: Expression | None) -> str:
        if owner is None:
            return ""
        if isinstance(owner, Literal_):
            return f"{show(owner.type, owner.value)}."
        return f"{text(owner)}."

    match e:
        case Literal_(type=t, value=value):
            return show(t, value)
        case Constant(name=name) | Variable(name=name):
            return name
        case Now():
            return "now"
        case Self():
            return "self"
        case Data(role=role, name=name, owner=owner):
            return machine(role, owner) + name
        case State(role=role, owner=owner):
            return machine(role, owner) + "state"
        case Argument(name=name):
            return f"event.{name}"
        case Sender():
            return "event.sender"
        case Unary(op="not", operand=operand):
            return wrap(3, f"not {text(operand, 3)}")
        case Unary(operand=operand):
            return wrap(9, f"-{text(operand, 9)}")
        case Binary(op=op, left=left, right=right):
            level = _BINDING[op]
            return wrap(level, f"{text(left, level)} {op} {text(right, level + 1)}")
        case Compare(op=op, left=left, right=right):
            return wrap(4, f"{text(left, 5)} {op} {text(right, 5)}")
        case Logic(op=op, operands=operands):
            level = _BINDING[op]
            return wrap(level, f" {op} ".join(text(o, level + 1) for o in operands))
        case Conditional(test=test, then=then, otherwise=otherwise):
            return wrap(1, f"{text(then, 2)} if {text(test, 2)} else {text(otherwise, 1)}") if binding else (
                f"{text(then, 2)} if {text(test, 2)} else {text(otherwise, 1)}"
            )  # fmt: skip
        case Extreme(op=op, operands=operands):
            return f"{op}({', '.join(text(o) for o in operands)})"
        case Length(operand=operand):
            return f"len({text(operand)})"
        case Index(operand=operand):
            return f"index({text(operand)})"
        case Get(option=option, fallback=fallback):
            return f"get({text(option)}, {text(fallback)})"
        case SetOf(items=items):
            return "{" + ", ".join(text(i) for i in items) + "}"
        case Members(of=of):
            return of.name
        case Element(map=map_, key=key):
            return f"{text(map_, 9)}[{text(key)}]"
        case Quantifier(kind=kind, variable=variable, domain=domain, condition=condition, body=body):
            tail = f" for {variable} in {text(domain, 2)}" + (f" if {text(condition, 2)}" if condition else "")
            if kind == "set":
                return "{" + variable + tail + "}"
            return f"{kind}({text(body)}{tail})"
        case Pending(name=name):
            return f"pending({name})"
        case Heard(name=name):
            return f"heard({name})"
        case MessageField(variable=variable, name=name):
            return f"{variable}.{name}"
        case Old(operand=operand):
            return f"old({text(operand)})"
        case Took(role=role, owner=owner, event=event):
            who = role if owner is None else machine(role, owner)[:-1]
            return f"took({who}.{event})" if event else f"took({who})"
        case Running(role=role, owner=owner):
            return f"running({machine(role, owner)[:-1]})"
        case Byzantine(role=role):
            return f"byzantine({role})"
        case Reachable(role=role, owner=owner, other_role=other_role, other=other):
            return f"reachable({machine(role, owner)[:-1]}, {machine(other_role, other)[:-1]})"
