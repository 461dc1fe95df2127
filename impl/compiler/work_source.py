"""The work of a role's states as Python source: tasks, and what of them depends on the record.

`WorkSource` also holds what a role's source is made with: names, the layout of a record, and expressions.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from leasehold.impl.compiler.lines import bare, tuple_lines
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import lower, work_of
from leasehold.spec.language.lower.captures import passed, read_of_step, reads_kept
from leasehold.spec.language.model import Call, Datum, Drive, Role, Send, State, System, Transition
from leasehold.spec.language.others import OthersOf, others_of, over_all_members
from leasehold.spec.language.render.python_source import Frame, SourceLayout, source

TAKEN = frozenset(
    {
        "state",
        "sent",
        "received",
        "entry",
        "instance",
        "now",
        "fields",
        "neighbour",
        "number",
        "record",
        "work",
        "it",
        "found",
        "earliest",
        "own",
        "machines",
        "sender",
        "numbered",
        "remembered",
        "made",
        "increment_sent",
        "with_cell",
        "unmoved",
        "partial",
        "q",  # what stands for a long operand that is needed twice
    }
)


def safe(name: str) -> str:
    """A name that means nothing else within a generated function."""
    if name.startswith(("msg_", "event_", "passed_")):
        return f"own_{name}"  # the others are fields of what is being consumed, or passed to work
    return f"{name}_" if keyword.iskeyword(name) or hasattr(builtins, name) or name in TAKEN else name


class GeneratedNames:
    """Names of generated functions and constants: what they are for, made unique."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], str] = {}
        self._used: set[str] = set()

    def function(self, *parts: str) -> str:
        """The function for a role, what it is for, and of what."""
        return self._name(parts, "__".join(p for p in parts if p))

    def constant(self, *parts: str) -> str:
        return self._name(("constant", *parts), "__".join(p for p in parts if p).upper())

    def _name(self, key: tuple[str, ...], wish: str) -> str:
        if key not in self._known:
            while wish in self._used:
                wish += "_"
            self._used.add(wish)
            self._known[key] = wish
        return self._known[key]


Near: TypeAlias = tuple[str, str]  # a role, and the channel whose messages are numbered apart; "": all that there are


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The machines that a machine talks with, in the order of the system; each has a sent and a received number.

    It has one of each for every channel whose messages are numbered apart (`System.apart`).

    Attributes:
        first: by role and channel, the position of its first machine.
        count: how many there are; one where only machines of equal index talk; 0 of a dynamic role.
        same_index: those of which only the machine with the own index is a neighbour.
        dynamic: those with any number of machines; these have the positions behind all others, in turns.
    """

    first: dict[Near, int]
    count: dict[Near, int]
    same_index: frozenset[Near]
    dynamic: tuple[Near, ...] = ()

    @property
    def size(self) -> int:
        """Returns how many positions there are that are not of a dynamic role."""
        return sum(self.count.values())

    @property
    def several(self) -> bool:
        """Returns whether these are of several machines."""
        return self.size > 1 and (len({role for role, _ in self.first}) > 1 or any(n > 1 for n in self.count.values()))

    @property
    def unrolled(self) -> bool:
        """Returns whether what is counted of them is written out."""
        return not self.dynamic and self.size <= UNROLLED

    def names(self) -> tuple[tuple[str, int], ...]:
        """Role and index of each that is not of a dynamic role; -1 is the own index."""
        return tuple(
            (near[0], -1 if near in self.same_index else i) for near in self.first for i in range(self.count[near])
        )

    @property
    def channels(self) -> tuple[str, ...]:
        """The channel of each, then of the dynamic ones in their turns; none where no channel is numbered apart."""
        fixed = (near[1] for near in self.first for _ in range(self.count[near]))
        channels = *fixed, *(channel for _, channel in self.dynamic)
        return channels if any(channels) else ()

    def position(self, near: Near, index: str) -> str:
        """The source of the position of a machine."""
        if near in self.dynamic:
            stride = f"{index} * {len(self.dynamic)}" if len(self.dynamic) > 1 else index
            index = stride
        return f"{self.first[near]} + {index}" if self.first[near] else index

    def index(self, near: Near) -> str:
        """The source of the index of the machine at the position `neighbour`."""
        if near in self.same_index:
            return "instance"
        own = f"neighbour - {self.first[near]}" if self.first[near] else "neighbour"
        if near in self.dynamic and len(self.dynamic) > 1:
            return f"({own}) // {len(self.dynamic)}"
        return own


def neighbours(system: System, role: Role) -> Neighbours:
    """The neighbours of a role's machines."""
    first: dict[Near, int] = {}
    count: dict[Near, int] = {}
    same: set[Near] = set()
    at = 0
    for other in system.roles.values():
        for channel in system.channels.values():
            near = other.name, channel.name if channel.name in system.apart else ""
            if {channel.sender, channel.receiver} != {role.name, other.name} or near in first:
                continue
            if channel.same_index:  # so does one back, unless they are apart
                same.add(near)
            first[near], count[near] = at, 1 if near in same else 0 if other.instance.dynamic else other.count
            at += count[near]
    dynamic_ones = tuple(near for near in first if not count[near])
    first |= {near: at + n for n, near in enumerate(dynamic_ones)}
    return Neighbours(first, count, frozenset(same), dynamic_ones)


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a record, in order: state, data, numbers, subsidiaries.

    Attributes:
        data: the data fields, as Python names.
        since: for each task that may outlive its state, the field that says which entry began it.
        subsidiaries: for each subsidiary role, the field of its machines.
    """

    indexed: bool
    data: dict[str, str]
    since: dict[str, str]
    subsidiaries: dict[str, str]
    subsidiary: bool

    @property
    def fields(self) -> tuple[str, ...]:
        own = ("instance",) if self.indexed else ()
        numbers = () if self.subsidiary else ("sent", "received")
        below = self.subsidiaries.values()
        return ("state", *own, *self.data.values(), *numbers, "entry", *self.since.values(), *below)

    def at(self, name: str) -> int:
        return self.fields.index(name)


def record_shape(system: System, role: Role) -> Shape:
    """The shape of a role's records."""
    used: set[str] = set(TAKEN)

    def fresh(name: str) -> str:
        while name in used:
            name += "_"
        used.add(name)
        return name

    data = {name: fresh(safe(name)) for name in role.data}
    since = {t.name: fresh(f"since_{t.name}") for t in role.tasks.values() if isinstance(t, Call) and t.outlives}
    below = {r.name: fresh(f"{r.name}s") for r in system.roles.values() if r.parent == role.name}
    return Shape(role.indexed, data, since, below, role.parent is not None)


UNROLLED = 3  # up to so many neighbours, what is counted of them is written out


@dataclass(frozen=True, slots=True)
class RecordLayout(SourceLayout):
    """The layout of a record, whose fields are local names; machines that run read nothing else."""

    system: System
    role: Role
    shape: Shape
    others: OthersOf

    def looked_at(self, e: x.Quantifier, f: Frame) -> str:
        """Source of the members; of a dynamic role those that something tells apart."""
        if not over_all_members(e):
            return SourceLayout.looked_at(self, e, f)
        apart = self.others.who(e)
        assert apart is not None, "it is no system that runs (LH806)"
        match [(kind, source(part, f)) for kind, part in apart]:
            case []:
                return "()"
            case [("keys", entries)]:
                return entries
            case named:
                members = ", ".join(machine if kind == "one" else f"*{machine}" for kind, machine in named)
        absent = any(isinstance(part.type, t.Option) for _, part in apart)
        return f"({{{members}}} - {{None}})" if absent else f"{{{members}}}"

    def made_map(self, e: x.Quantifier) -> str | None:
        if not over_all_members(e):
            return None
        others = self.others.of_map(e)
        assert others is not None, "it is no system that runs (LH806)"
        return f"Sparse({others.value!r}, {{cells}})"

    def place(self, role: str, name: str | None, instance: str | None) -> str:
        if role == self.role.name:
            return "state" if name is None else self.shape.data[name]
        below = record_shape(self.system, self.system.roles[role])
        at = 0 if name is None else below.at(below.data[name])
        return f"{self.shape.subsidiaries[role]}[{instance}][{at}]"

    def now(self) -> str:
        return "now"


class WorkSource:
    """The source of a role's work."""

    def __init__(self, system: System, role: Role, names: GeneratedNames) -> None:
        self.system, self.role, self.names = system, role, names
        self.lowered = lower(system)
        self.shape = record_shape(system, role)
        self.near: Neighbours = neighbours(system, role)
        self.layout = RecordLayout(system, role, self.shape, others_of(system))
        self.values = system.values()
        self.constants = {name: names.constant("", name) for name in self.values}
        self.tasks: dict[str, Send | Call | Drive] = dict(role.tasks)
        for name in (name for transition in role.transitions() for name in transition.also):
            if (other := self._passing(name)) not in self.tasks:
                task = role.tasks[name]
                assert not isinstance(task, Call)
                only, when = (None if e is None else passed(e, role) for e in (task.only, task.when))
                fields = {field: passed(e, role) for field, e in task.fields.items()}
                self.tasks[other] = replace(task, fields=fields, only=only, when=when)

    # Expressions

    def _source(self, e: x.Expression, fields: tuple[Datum, ...] = (), kind: str = "", it: str = "it") -> str:
        """An expression that stands alone; beside an operator its parentheses are needed (`_operand`)."""
        return bare(self._operand(e, fields, kind, it))

    def _operand(self, e: x.Expression, fields: tuple[Datum, ...] = (), kind: str = "", it: str = "it") -> str:
        arguments = {f.name: f"{kind}_{f.name}" for f in fields}
        if not fields:
            passed = (n for n in x.walk(e) if isinstance(n, x.Argument))
            arguments = {n.name: f"passed_{n.name}" for n in passed}
        frame = Frame(
            replace(self.layout, others=others_of(self.system, fields)) if fields else self.layout,
            self.values,
            "instance" if self.role.indexed else 0,
            arguments,
            "sender",
            {"it": it},
            state="",
            constant_names=self.constants,
            unrolled=False,
        )
        only = "frozenset((sender,))" if self.near.dynamic else f"{self.constant('all', 'only')}[sender]"
        return source(e, frame).replace("{sender}", only)

    def unpacked(self) -> Iterator[str]:
        """The fields of a record as local names."""
        yield from ("    " + line for line in tuple_lines("(", list(self.shape.fields), ") = record"))

    # Tasks

    def _passing(self, name: str) -> str:
        """The name of a task that `also` starts: another one than its own, where what it reads of the step is kept."""
        return f"{name}__passed" if reads_kept(self.role.tasks[name], self.role) else name

    def after(self, transition: Transition) -> tuple[str, ...]:
        """The tasks of a transition, which may read what it passes along."""
        repeated = self.role.states[transition.target].tasks
        also = tuple(name if name in repeated else self._passing(name) for name in transition.also)
        return (*work_of(self.role, replace(transition, also=())), *also)

    def again(self, state: State) -> tuple[str, ...]:
        """The tasks of a state that are done again."""
        return tuple(name for name in state.tasks if not read_of_step(self.tasks[name]))

    def _task(self, key: str) -> Iterator[str]:
        task, name = self.tasks[key], self.constant("", key)
        if isinstance(task, Call):
            machine = ", outlives=True" if task.outlives else ""
            yield f"{name} = CallWork({task.name!r}, {task.target!r}, {task.answers!r}{machine})"
            return
        fields = self._fields_of(task)
        one = self._one_receiver(task)
        values = [self._source(task.fields[f.name], it=self._it(task)) for f in fields]
        names = f"def {self._function('fields_of', key)}(record: Record" + ("" if one else ", it: int")
        names += "".join(f", passed_{name}: {python_type(kind)}" for name, kind in read_of_step(task).items())
        yield f"{names}) -> tuple[Any, ...]:"
        if values and any(self._uses_record(task.fields[f.name], self._it(task)) for f in fields):
            yield from self.unpacked()
        yield f"    return ({''.join(v + ', ' for v in values).rstrip()})" if values else "    return ()"
        yield ""
        if read_of_step(task):
            return  # it is made with what is passed to it
        if one:
            yield f"{name} = {self._piece(key, '0')}"
        elif self._is_dynamic(task):
            yield f"{name} = Pieces(lambda it: {self._piece(key, 'it')})"
        else:
            yield f"{name} = tuple("
            yield f"    {self._piece(key, 'it')}"
            yield f"    for it in range({self._receiver(task).count})"
            yield ")"

    def _piece(self, key: str, it: str) -> str:
        """A constructor of the work for one receiver."""
        task, build = self.tasks[key], self._function("fields_of", key)
        assert not isinstance(task, Call)
        bound = [] if self._one_receiver(task) else [f"it={it}"]
        bound += [f"passed_{name}=passed_{name}" for name in read_of_step(task)]
        build = f"partial({build}, {', '.join(bound)})" if bound else build
        if isinstance(task, Drive):
            return f"DriveWork({task.name!r}, {task.event!r}, ({task.role!r}, {it}), {build})"
        one = self._one_receiver(task)
        near = self._near(task)
        at = str(self.near.first[near]) if one else self.near.position(near, it)
        answer = ", answer=True" if self.system.messages[task.message].answer else ""
        return f"SendWork({task.name!r}, {task.message!r}, {at}, {build}{answer})"

    def _one_receiver(self, task: Send | Drive) -> bool:
        if isinstance(task, Drive):
            return not self.system.roles[task.role].indexed
        return self._near(task) in self.near.same_index or not self.system.roles[task.receiver].indexed

    def _near(self, task: Send) -> Near:
        """The neighbours, and the channel to them, that a message goes to."""
        return task.receiver, self.system.apart_of(task.message)

    def _it(self, task: Send | Drive) -> str:
        """The source of the index of the machine that a task is about."""
        if not self._one_receiver(task):
            return "it"
        return "instance" if isinstance(task, Send) and self._near(task) in self.near.same_index else "0"

    def _receiver(self, task: Send | Drive) -> Role:
        return self.system.roles[task.receiver if isinstance(task, Send) else task.role]

    def _is_dynamic(self, task: Send | Drive) -> bool:
        return self._receiver(task).instance.dynamic

    def _fields_of(self, task: Send | Drive) -> tuple[Datum, ...]:
        if isinstance(task, Send):
            return self.system.messages[task.message].fields
        return self.system.fields_of(task.role, task.event)

    def _uses_record(self, e: x.Expression, it: str = "it") -> bool:
        return x.mentions(
            e, lambda n: isinstance(n, x.Data | x.ControlState | x.Self) or (it == "instance" and is_it(n))
        )

    # Work

    def _fixed(self, names: tuple[str, ...]) -> bool:
        """Returns whether a work list is the same for every record."""
        return all(self._is_fixed(self.tasks[name]) for name in names)

    def _is_fixed(self, task: Send | Call | Drive) -> bool:
        if task.when is not None or read_of_step(task):
            return False
        return isinstance(task, Call) or task.only is None

    def passed_to(self, names: tuple[str, ...]) -> dict[str, t.Type]:
        """Returns what tasks read of the step, by name."""
        return {name: kind for task in names for name, kind in read_of_step(self.tasks[task]).items()}

    def _work(self, state: State) -> Iterator[str]:
        """W(x) of a state, where it depends on the record."""
        if not self._fixed(self.again(state)):
            yield from self._work_function(self._function("work_of", state.name), self.again(state))

    def _work_function(self, name: str, tasks: tuple[str, ...]) -> Iterator[str]:
        read = self._read_by(tasks) | {f"passed_{n}": python_type(kind) for n, kind in self.passed_to(tasks).items()}
        fields = ", ".join(f"{field}: {kind}" for field, kind in read.items())
        yield f"def {name}({fields}) -> tuple[Work, ...]:"
        yield "    work: list[Work] = []"
        asked: x.Expression | None = None
        for task_name in tasks:
            task = self.tasks[task_name]
            indent = "    "
            if task.when is not None:
                if task.when != asked:
                    yield f"{indent}if {self._source(task.when)}:"
                indent += "    "
            asked = task.when
            constant, with_passed = self.constant("", task_name), bool(read_of_step(task))
            if isinstance(task, Call) or self._one_receiver(task):
                if not isinstance(task, Call) and task.only is not None:
                    yield f"{indent}if {self._source(task.only, it=self._it(task))}:"
                    indent += "    "
                yield f"{indent}work.append({self._piece(task_name, '0') if with_passed else constant})"
            elif task.only is None and not with_passed:
                yield f"{indent}work += {constant}"
            elif task.only is not None and (receivers := named_receivers(task.only)) is not None:
                among, rest = receivers
                piece = self._piece(task_name, "it") if with_passed else f"{constant}[it]"
                named = self._source(among)
                of = f"sorted({named})" if isinstance(among.type, t.Set) else f"({named},)"
                condition = "".join(f" if {self._operand(e)}" for e in rest)
                yield f"{indent}work += [{piece} for it in {of}{condition}]"
            elif with_passed:
                condition = "" if task.only is None else f" if {self._operand(task.only)}"
                every = f"range({self._receiver(task).count})"
                yield f"{indent}work += [{self._piece(task_name, 'it')} for it in {every}{condition}]"
            else:
                assert task.only is not None
                yield f"{indent}work += [piece for it, piece in enumerate({constant}) if {self._operand(task.only)}]"
        yield "    return tuple(work)"
        yield ""

    def _read_by(self, tasks: tuple[str, ...]) -> dict[str, str]:
        """The fields of a record that decide about work, in order, each with its type in Python."""
        read = {"state": "str", "instance": "int"} | dict.fromkeys(self.shape.subsidiaries.values(), "Machines")
        read |= {self.shape.data[name]: python_type(datum.type) for name, datum in self.role.data.items()}
        used: set[str] = set()
        own = {self._it(task) for name in tasks if not isinstance(task := self.tasks[name], Call)}
        for node in self._deciding(tasks):
            match node:
                case x.Self():
                    used.add("instance")
                case x.BoundVariable(name="it") if "instance" in own:
                    used.add("instance")
                case x.Data(role=role, name=name) if role == self.role.name:
                    used.add(self.shape.data[name])
                case x.ControlState(role=role) if role == self.role.name:
                    used.add("state")
                case x.Data(role=role) | x.ControlState(role=role):
                    used.add(self.shape.subsidiaries[role])
        return {field: read[field] for field in self.shape.fields if field in used}

    def _deciding(self, tasks: tuple[str, ...]) -> Iterator[x.Expression]:
        for name in tasks:
            task = self.tasks[name]
            for e in (task.when, None if isinstance(task, Call) else task.only):
                yield from x.walk(e) if e is not None else ()

    def _remembered(self, tasks: tuple[str, ...]) -> bool:
        """Returns whether work is worth remembering: it depends only on own fields of few values that can be hashed."""
        return not self.passed_to(tasks) and all(
            not isinstance(node, x.Data | x.ControlState) or (node.role == self.role.name and few(node.type))
            for node in self._deciding(tasks)
        )

    def _work_source(self, tasks: tuple[str, ...]) -> str:
        """The work of a list that is the same for every record; what goes to several machines is a tuple already."""
        return "(" + "".join(f"{self._many(name)}{self.constant('', name)}, " for name in tasks).rstrip() + ")"

    def _many(self, name: str) -> str:
        task = self.tasks[name]
        return "" if isinstance(task, Call) or self._one_receiver(task) else "*"

    def _slots(self, task: Send) -> list[int]:
        """The neighbours that a message without conditions goes to."""
        first = self.near.first[self._near(task)]
        count = 1 if self._one_receiver(task) else self.system.roles[task.receiver].count
        return list(range(first, first + count))

    # Names

    def constant(self, *parts: str) -> str:
        """The name of a constant of the role: what it is for, and of what."""
        return self.names.constant(self.role.name, *parts)

    def _function(self, *parts: str) -> str:
        return self.names.function(self.role.name, *parts)

    def _work_after_name(self, choice: Transition) -> str:
        number = (str(choice.position + 1),) if choice.position else ()
        return self._function("work_after", choice.source, choice.event, *number)

    def _outcome_name(self, choice: Transition) -> str:
        number = str(choice.position + 1) if choice.position else ""
        return self.constant(choice.source, choice.event, number)


def is_it(e: x.Expression) -> bool:
    """Returns whether it is the receiver that a task looks at."""
    return isinstance(e, x.BoundVariable) and e.name == "it"


def named_receivers(only: x.Expression) -> tuple[x.Expression, list[x.Expression]] | None:
    """The receiver, or the set of them, that a condition on `it` names, and the rest of it; None: it names none."""
    parts = list(x.conjuncts(only))
    for part in parts:
        match part:
            case x.Apply(op="in", operands=(it, among)) if is_it(it):
                named = among
            case x.Apply(op="==", operands=(it, named)) if is_it(it):
                pass
            case x.Apply(op="==", operands=(named, it)) if is_it(it):
                pass
            case _:
                continue
        if not isinstance(named.type, t.Option) and not x.mentions(named, is_it):
            return named, [other for other in parts if other is not part]
    return None


def few(kind: t.Type) -> bool:
    """Returns whether a field tends to come back to values that it had, and can be hashed."""
    match kind:
        case t.Option(of=of) | t.Seq(of=of):
            return of is not None and few(of)
        case t.Bool() | t.Int() | t.Enum() | t.Instance() | t.Set():
            return True
    return False


def python_type(kind: t.Type) -> str:
    match kind:
        case t.Bool():
            return "bool"
        case t.Int() | t.Time() | t.Instance():
            return "int"
        case t.Enum():
            return "str"
        case t.Set(of=of):
            return f"frozenset[{'Any' if of is None else python_type(of)}]"
        case t.Option(of=of) if of is not None:
            return f"{python_type(of)} | None"
        case t.Map(rest=rest) if rest is not ...:
            return "Sparse"
        case t.Seq(of=of) if of is not None:
            return f"tuple[{python_type(of)}, ...]"
    return "Any"
