"""One role as Python source: a function for each transition, and a table that says which state takes which.

Theory of operation. A transition becomes a function over the unpacked record, so its guard and its updates read as they
do in the specification (`msg.units` is `msg_units`). It returns the new record and a constant that says what happened
and what work follows. Work that depends on the record (a condition, a choice of receivers) is a function of the fields
that it reads, whose last answers are remembered; nothing else of the specification is left to be looked at while it
runs. A value that is needed twice, as in `agreed | {sender}`, which a guard asks about and an update then writes, is
computed once, and the second of two guards that are opposites is not asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from leasehold.impl.compiler.names import Names, Neighbours, Shape, neighbours, shape
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Call, Datum, Drive, Role, Send, State, System, Transition
from leasehold.spec.language.python_source import Frame, source

WIDTH = 100
ACT = "(record: Record, fields: tuple[Any, ...], neighbour: int, number: int, now: int) -> Ready:"


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Implements `leasehold.spec.language.python_source.Layout` where a record's fields are local names."""

    system: System
    role: Role
    shape: Shape

    def place(self, role: str, name: str | None, instance: str | None) -> str:
        if role == self.role.name:
            return "state" if name is None else self.shape.data[name]
        below = shape(self.system, self.system.roles[role])
        at = 0 if name is None else below.at(below.data[name])
        return f"{self.shape.subsidiaries[role]}[{instance}][{at}]"

    def now(self) -> str:
        return "now"

    def pending(self, name: str) -> list[str]:
        raise NotImplementedError

    def heard(self, name: str) -> str:
        raise NotImplementedError

    def running(self, role: str, instance: str) -> str:
        raise NotImplementedError

    def reachable(self, role: str, instance: str, other_role: str, other: str) -> str:
        raise NotImplementedError

    def byzantine(self, role: str) -> bool:
        raise NotImplementedError

    def field(self, kind: str, name: str) -> int:
        raise NotImplementedError


OPPOSITE = {"==": "!=", "!=": "==", "in": "not in", "not in": "in", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
UNROLLED = 3  # up to so many neighbours, what is counted of them is written out

_FIXED_SET = re.compile(r"frozenset\(\((?:\d+, ?)+\d*\)\)|frozenset\(\)(?!\.)")


class RoleSource:
    """The source of one role."""

    def __init__(self, system: System, role: Role, names: Names) -> None:
        self.system, self.role, self.names = system, role, names
        self.shape = shape(system, role)
        self.near: Neighbours = neighbours(system, role)
        self.layout = RecordLayout(system, role, self.shape)
        self.values = system.values()
        self.constants = {name: names.constant("", name) for name in self.values}

    # Expressions

    def _source(self, e: x.Expression, fields: tuple[Datum, ...] = (), kind: str = "", it: str = "it") -> str:
        """An expression that stands alone; beside an operator its parentheses are needed (`_operand`)."""
        return _bare(self._operand(e, fields, kind, it))

    def _operand(self, e: x.Expression, fields: tuple[Datum, ...] = (), kind: str = "", it: str = "it") -> str:
        arguments = {f.name: f"{kind}_{f.name}" for f in fields}
        frame = Frame(
            self.layout, self.values, "instance" if self.role.indexed else 0, arguments, "sender", {"it": it},
            state="", constant_names=self.constants, unrolled=False,
        )  # fmt: skip
        return source(e, frame).replace("{sender}", f"{self._only_name()}[sender]")

    # Parts of the source

    def lines(self) -> Iterator[str]:
        """All of it; sets that are the same at each evaluation are made once."""
        sets: dict[str, str] = {}
        found = [_FIXED_SET.sub(partial(self._set_name, sets), line) for line in self._lines()]
        yield found[0]
        yield from (f"{name}: frozenset[Any] = {source}" for source, name in sets.items())
        if any(self._only_name() in line for line in found):
            most = max(self.system.roles[name].count for name in self.near.first)
            yield f"{self._only_name()} = tuple(frozenset((it,)) for it in range({most}))"
        yield from found[1:]

    def _set_name(self, sets: dict[str, str], found: re.Match[str]) -> str:
        name = "none" if found[0] == "frozenset()" else f"set{len(sets) + 1}"
        return sets.setdefault(found[0], self.names.constant(self.role.name, "all", name))

    def _lines(self) -> Iterator[str]:
        yield f"# {self.role.name}: {self.role.doc}" if self.role.doc else f"# {self.role.name}"
        yield f"# record: {', '.join(self.shape.fields)}"
        yield ""
        for task in self.role.tasks.values():
            yield from self._task(task)
        for state in self.role.states.values():
            yield from self._work(state)
        for state in self.role.states.values():
            for choices in state.on.values():
                yield from self._act(state, choices)
        yield from self._answers()
        yield from self._timers()
        yield from self._table()

    # Tasks

    def _task(self, task: Send | Call | Drive) -> Iterator[str]:
        name = self._task_name(task.name)
        if isinstance(task, Call):
            machine = ", outlives=True" if task.outlives else ""
            yield f"{name} = Call({task.name!r}, {task.target!r}, {task.answers!r}{machine})"
            return
        fields = self._fields_of(task)
        values = [self._source(task.fields[f.name]) for f in fields]
        one = self._one_receiver(task)
        names = f"def {self._fields_name(task.name)}(record: Record"
        yield names + ("" if one else ", it: int") + ") -> tuple[Any, ...]:"
        if values and any(self._uses_record(task.fields[f.name]) for f in fields):
            yield from self._unpack()
        yield f"    return ({''.join(v + ', ' for v in values).rstrip()})" if values else "    return ()"
        yield ""
        if one:
            yield f"{name} = {self._piece(task, '0')}"
        else:
            count = self.system.roles[task.receiver if isinstance(task, Send) else task.role].count
            yield f"{name} = tuple("
            yield f"    {self._piece(task, 'it')}"
            yield f"    for it in range({count})"
            yield ")"

    def _piece(self, task: Send | Drive, it: str) -> str:
        """A constructor of the work for one receiver."""
        fields = self._fields_name(task.name)
        build = fields if self._one_receiver(task) else f"partial({fields}, it={it})"
        if isinstance(task, Drive):
            return f"Drive({task.name!r}, {task.event!r}, ({task.role!r}, {it}), {build})"
        first = self.near.first[task.receiver]
        at = str(first) if self._one_receiver(task) else f"{first} + {it}"
        answer = ", answer=True" if self.system.messages[task.message].answer else ""
        return f"Send({task.name!r}, {task.message!r}, {at}, {build}{answer})"

    def _one_receiver(self, task: Send | Drive) -> bool:
        if isinstance(task, Drive):
            return not self.system.roles[task.role].indexed
        return task.receiver in self.near.same_index or not self.system.roles[task.receiver].indexed

    def _fields_of(self, task: Send | Drive) -> tuple[Datum, ...]:
        if isinstance(task, Send):
            return self.system.messages[task.message].fields
        return self.system.fields_of(task.role, task.event)

    def _uses_record(self, e: x.Expression) -> bool:
        return x.mentions(e, lambda n: isinstance(n, x.Data | x.State | x.Self))

    # Work

    def _fixed(self, names: tuple[str, ...]) -> bool:
        """Whether a work list is the same for every record."""
        return all(self._is_fixed(self.role.tasks[name]) for name in names)

    def _is_fixed(self, task: Send | Call | Drive) -> bool:
        if task.when is not None:
            return False
        return isinstance(task, Call) or task.only is None

    def _work(self, state: State) -> Iterator[str]:
        """W(x) of a state, where it depends on the record."""
        if not self._fixed(state.tasks):
            yield from self._work_function(self._work_name(state.name), state.tasks)

    def _work_function(self, name: str, tasks: tuple[str, ...]) -> Iterator[str]:
        fields = ", ".join(f"{field}: {kind}" for field, kind in self._read_by(tasks).items())
        yield f"def {name}({fields}) -> tuple[Work, ...]:"
        yield "    work: list[Work] = []"
        asked: x.Expression | None = None
        for task_name in tasks:
            task = self.role.tasks[task_name]
            indent = "    "
            if task.when is not None:
                if task.when != asked:
                    yield f"{indent}if {self._source(task.when)}:"
                indent += "    "
            asked = task.when
            constant = self._task_name(task_name)
            if isinstance(task, Call) or self._one_receiver(task):
                if not isinstance(task, Call) and task.only is not None:
                    yield f"{indent}if {self._source(task.only, it='0')}:"
                    indent += "    "
                yield f"{indent}work.append({constant})"
            elif task.only is None:
                yield f"{indent}work += {constant}"
            elif isinstance(task.only, x.Compare) and task.only.op == "in" and _is_it(task.only.left):
                yield f"{indent}work += [{constant}[it] for it in sorted({self._source(task.only.right)})]"
            else:
                yield f"{indent}work += [piece for it, piece in enumerate({constant}) if {self._operand(task.only)}]"
        yield "    return tuple(work)"
        yield ""

    def _read_by(self, tasks: tuple[str, ...]) -> dict[str, str]:
        """The fields of a record that decide about work, in order, each with its type in Python."""
        read = {"state": "str", "instance": "int"} | dict.fromkeys(self.shape.subsidiaries.values(), "Machines")
        read |= {self.shape.data[name]: _python_type(datum.type) for name, datum in self.role.data.items()}
        found: set[str] = set()
        for node in self._deciding(tasks):
            match node:
                case x.Self():
                    found.add("instance")
                case x.Data(role=role, name=name) if role == self.role.name:
                    found.add(self.shape.data[name])
                case x.State(role=role) if role == self.role.name:
                    found.add("state")
                case x.Data(role=role) | x.State(role=role):
                    found.add(self.shape.subsidiaries[role])
        return {field: read[field] for field in self.shape.fields if field in found}

    def _deciding(self, tasks: tuple[str, ...]) -> Iterator[x.Expression]:
        for name in tasks:
            task = self.role.tasks[name]
            for e in (task.when, None if isinstance(task, Call) else task.only):
                yield from x.walk(e) if e is not None else ()

    def _remembered(self, tasks: tuple[str, ...]) -> bool:
        """Whether work is worth remembering: it depends on nothing but fields of few values that can be hashed."""
        return all(
            not isinstance(node, x.Data | x.State) or (node.role == self.role.name and _few(node.type))
            for node in self._deciding(tasks)
        )

    def _work_source(self, tasks: tuple[str, ...]) -> str:
        """The work of a list that is the same for every record; what goes to several machines is a tuple already."""
        return "(" + "".join(f"{self._many(name)}{self._task_name(name)}, " for name in tasks).rstrip() + ")"

    def _many(self, name: str) -> str:
        task = self.role.tasks[name]
        return "" if isinstance(task, Call) or self._one_receiver(task) else "*"

    def _slots(self, task: Send) -> list[int]:
        """The neighbours that a message without conditions goes to."""
        first = self.near.first[task.receiver]
        count = 1 if self._one_receiver(task) else self.system.roles[task.receiver].count
        return list(range(first, first + count))

    # Transitions

    def _act(self, state: State, choices: tuple[Transition, ...]) -> Iterator[str]:
        event = choices[0].event
        message = self.system.messages.get(event)
        heard = message is not None and message.receiver == self.role.name
        fields = self.system.fields_of(self.role.name, event)
        kind = "msg" if heard else "event"
        for choice in choices:
            if not self._fixed(self._tasks(choice)) and self._alone(choice):
                yield from self._work_function(self._work_after_name(choice), self._tasks(choice))
            yield self._outcome(choice)
        function = self._act_name(state.name, event)
        yield f"def {function}{ACT}"
        yield from self._unpack()
        used = [f.name for f in fields if any(_mentions(c, f.name) for c in choices)]
        if used:
            names = [f"{kind}_{f.name}" if f.name in used else "_" for f in fields]
            yield f"    {', '.join(names)}{',' if len(names) == 1 else ''} = fields"
        if heard:
            yield from self._hear(message.sender if message else "", choices)
        shared = self._shared(choices, fields, kind)
        yield from (f"    {name} = {_bare(value)}" for value, name in shared.items())
        certain = False  # whether a guard always holds that is asked this far
        for i, choice in enumerate(choices):
            indent = "    "
            certain = choice.guard is None or (i > 0 and _opposite(choices[i - 1].guard, choice.guard))
            if choice.guard is not None and not certain:
                yield f"    if {_bare(_with(shared, self._operand(choice.guard, fields, kind)))}:"
                indent = "        "
            yield from (indent + line for line in self._moved(choice, fields, kind, shared))
            if certain:
                break
        if not certain:
            why = self._because(state, event)
            outcome = self._not_name(state.name, event)
            if heard:
                yield from ("    " + line for line in _wrapped("return (", self._cells({}), f"), {outcome}"))
            else:
                yield f"    return record, {outcome}"
        yield ""
        if not certain:
            yield f"{outcome} = Outcome({why[0]!r}, {event!r}, reason={why[1]!r})"
            yield ""

    def _shared(self, choices: tuple[Transition, ...], fields: tuple[Datum, ...], kind: str) -> dict[str, str]:
        """What the first guard computes in any case and an update writes: its source, and the name that it is given."""
        if choices[0].guard is None:
            return {}
        asked = {self._operand(e, fields, kind) for e in _always_evaluated(choices[0].guard)}
        found: dict[str, str] = {}
        for update in (u for c in choices for u in c.updates if u.key is None):
            value = self._operand(update.value, fields, kind)
            if value in asked and _computes(update.value):
                found.setdefault(value, self._next_name(update.name, found.values()))
        return found

    def _next_name(self, datum: str, taken: Collection[str]) -> str:
        """A local name for what a field becomes."""
        name = f"next_{datum}"
        while name in self.shape.fields or name in taken:
            name += "_"
        return name

    def _hear(self, sender: str, choices: tuple[Transition, ...]) -> Iterator[str]:
        first, count, size = self.near.first[sender], self.near.count[sender], self.near.size
        if size > UNROLLED:
            yield "    received = heard(received, neighbour, number)"
        for i in range(first, first + count) if size <= UNROLLED else ():
            cells = ", ".join("number" if k == i else f"received[{k}]" for k in range(size))
            made = f"received = ({cells}{',' if size == 1 else ''})"
            if count == 1:
                yield f"    {made}"
            else:
                last = i == first + count - 1
                yield "    else:" if last else f"    {'if' if i == first else 'elif'} neighbour == {i}:"
                yield f"        {made}"
        if any(_asks_sender(c) for c in choices):
            own = "neighbour" if first == 0 else f"neighbour - {first}"
            yield f"    sender = {'instance' if sender in self.near.same_index else own}"

    def _because(self, state: State, event: str) -> tuple[str, str]:
        if event in state.refuse:
            return "refused", state.refuse[event]
        if event in state.ignore:
            return "ignored", state.ignore[event]
        return "unmoved", "no guard holds"

    def _tasks(self, choice: Transition) -> tuple[str, ...]:
        own = () if choice.internal else self.role.states[choice.target].tasks
        return (*own, *choice.also)

    def _alone(self, choice: Transition) -> bool:
        """Whether the work after a transition is its own, not that of its target."""
        return bool(choice.also) or choice.internal

    def _outcome(self, choice: Transition) -> str:
        """A constant, or what makes it of the fields that its work depends on."""
        tasks, name = self._tasks(choice), self._outcome_name(choice)
        if self._fixed(tasks):
            work = f", {self._work_source(tasks)}" if tasks else ""
            return f"{name} = Outcome('taken', {choice.event!r}, {choice.name!r}{work})"
        work = self._work_after_name(choice) if self._alone(choice) else self._work_name(choice.target)
        make = "remembered" if self._remembered(tasks) else "made"
        return f"{name} = {make}({choice.event!r}, {choice.name!r}, {work})"

    def _moved(
        self, choice: Transition, fields: tuple[Datum, ...], kind: str, shared: Mapping[str, str]
    ) -> Iterator[str]:
        changed: dict[str, str] = {}
        maps: dict[str, str] = {}
        for update in choice.updates:
            name = self.shape.data[update.name]
            value = _bare(_with(shared, self._operand(update.value, fields, kind)))
            if update.key is not None:
                key = self._source(update.key, fields, kind)
                if isinstance(update.key.type, t.Enum):
                    key = f"{update.key.type.members!r}.index({key})"
                maps[name] = f"with_cell({maps.get(name, name)}, {key}, {value})"
            else:
                changed[name] = value
        changed.update(maps)
        if choice.target != choice.source:
            changed["state"] = repr(choice.target)
        if not choice.internal:
            changed["entry"] = "entry + 1"
            target = self.role.states[choice.target]
            for task, field in self.shape.since.items():
                if task in target.tasks and task not in target.remembers:
                    changed[field] = "entry + 1"
        tasks = self._tasks(choice)
        outcome = self._outcome_name(choice)
        sends = [piece for name in tasks if isinstance(piece := self.role.tasks[name], Send)]
        if self._fixed(tasks):
            if sends:
                changed["sent"] = self._numbered([slot for s in sends for slot in self._slots(s)])
            yield from _wrapped("return (", self._cells(changed), f"), {outcome}")
            return
        read = self._read_by(tasks)
        for update in choice.updates:
            field = self.shape.data[update.name]
            if field in read and not changed[field].isidentifier():
                name = self._next_name(update.name, shared.values())
                yield f"{name} = {changed[field]}"
                changed[field] = name
        outcome = f"{outcome}({', '.join(changed.get(field, field) for field in read)})"
        if sends:
            yield from _wrapped("return numbered((", self._cells(changed), f"), {self.shape.at('sent')}, {outcome})")
        else:
            yield from _wrapped("return (", self._cells(changed), f"), {outcome}")

    def _numbered(self, slots: list[int]) -> str:
        """The sent numbers after messages to these neighbours."""
        if self.near.size > UNROLLED:
            return f"counted(sent, {tuple(slots)!r})"
        cells = [f"sent[{i}] + 1" if i in slots else f"sent[{i}]" for i in range(self.near.size)]
        return f"({', '.join(cells)}{',' if len(cells) == 1 else ''})"

    def _cells(self, changed: Mapping[str, str]) -> list[str]:
        """The fields of a record, of which some have changed."""
        return [changed.get(field, field) for field in self.shape.fields]

    def _unpack(self) -> Iterator[str]:
        """The fields of a record as local names."""
        yield from ("    " + line for line in _wrapped("(", list(self.shape.fields), ") = record"))

    # What comes by itself

    def _answers(self) -> Iterator[str]:
        """By state, the answers of its drive tasks that have come true."""
        states = []
        for state in self.role.states.values():
            drives = [task for n in state.tasks if isinstance(task := self.role.tasks[n], Drive)]
            pairs = [(task, event, e) for task in drives for event, e in task.answers.items()]
            if not pairs:
                continue
            states.append(state.name)
            function = self.names.function(self.role.name, "answers_in", state.name)
            yield f"def {function}(record: Record) -> tuple[str, ...]:"
            yield from self._unpack()
            yield "    found = []"
            for task, event, e in pairs:
                conditions = [self._operand(c) for c in (task.when, e) if c is not None]
                yield f"    if {' and '.join(conditions)}:"
                yield f"        found.append({event!r})"
            yield "    return tuple(found)"
            yield ""
        table = ", ".join(f"{s!r}: {self.names.function(self.role.name, 'answers_in', s)}" for s in states)
        yield f"{self.table_name('answers')}: Answers = {{{table}}}"

    def _timers(self) -> Iterator[str]:
        """By state, the earliest time at which a tick may be due."""
        states = []
        for state in self.role.states.values():
            choices = state.on.get("tick", ())
            if choices:
                states.append(state.name)
                yield f"def {self.names.function(self.role.name, 'wakes_in', state.name)}(record: Record) -> int:"
                yield from self._unpack()
                times = [self._earliest(c.guard) for c in choices]
                yield f"    earliest: int = {times[0] if len(times) == 1 else 'min(' + ', '.join(times) + ')'}"
                yield "    return earliest"
                yield ""
        table = ", ".join(f"{s!r}: {self.names.function(self.role.name, 'wakes_in', s)}" for s in states)
        yield f"{self.table_name('wakes')}: Wakes = {{{table}}}"

    def _earliest(self, guard: x.Expression | None) -> str:
        """A time before which a guard cannot hold; 0 where the guard does not show one."""
        operands = guard.operands if isinstance(guard, x.Logic) and guard.op == "and" else (guard,)
        times = []
        for e in operands:
            match e:
                case x.Compare(op=op, left=x.Now(), right=bound) if op in (">=", ">", "=="):
                    later = op == ">"
                case x.Compare(op=op, left=bound, right=x.Now()) if op in ("<=", "<", "=="):
                    later = op == "<"
                case _:
                    continue
            if not x.mentions(bound, lambda n: isinstance(n, x.Now)):
                times.append(self._operand(bound) + " + 1" if later else self._source(bound))
        return "0" if not times else times[0] if len(times) == 1 else f"max({', '.join(times)})"

    # The table

    def _table(self) -> Iterator[str]:
        received = -1 if self.shape.subsidiary else self.shape.at("received")
        for state in self.role.states.values():
            for event, reason in (*state.ignore.items(), *state.refuse.items()):
                if event not in state.on:
                    kind = "refused" if event in state.refuse else "ignored"
                    name = self._act_name(state.name, event)
                    yield f"{name} = unmoved(Outcome({kind!r}, {event!r}, reason={reason!r}), {received})"
        yield ""
        yield f"{self.table_name('table')}: Table = {{"
        for state in self.role.states.values():
            events = dict.fromkeys((*state.on, *state.ignore, *state.refuse))
            yield f"    {state.name!r}: {{"
            for event in events:
                yield f"        {event!r}: {self._act_name(state.name, event)},"
            yield "    },"
        yield "}"
        yield f"{self.table_name('work')}: WorkOf = {{"
        for state in self.role.states.values():
            if self._fixed(state.tasks):
                work = self._work_source(state.tasks)
            else:
                read = ", ".join(f"record[{self.shape.at(field)}]" for field in self._read_by(state.tasks))
                work = f"{self._work_name(state.name)}({read})"
            yield f"    {state.name!r}: lambda record: {work},"
        yield "}"
        yield ""

    # Names

    def _task_name(self, task: str) -> str:
        return self.names.constant(self.role.name, "", task)

    def _fields_name(self, task: str) -> str:
        return self.names.function(self.role.name, "fields_of", task)

    def _work_name(self, state: str) -> str:
        return self.names.function(self.role.name, "work_of", state)

    def _work_after_name(self, choice: Transition) -> str:
        return self.names.function(self.role.name, "work_after", choice.name.partition("/")[2])

    def _act_name(self, state: str, event: str) -> str:
        return self.names.function(self.role.name, state, event)

    def _outcome_name(self, choice: Transition) -> str:
        number = str(choice.position + 1) if choice.position else ""
        return self.names.constant(self.role.name, choice.source, choice.event, number)

    def _only_name(self) -> str:
        """The constant with the set of each neighbour alone, by its number."""
        return self.names.constant(self.role.name, "all", "only")

    def _not_name(self, state: str, event: str) -> str:
        return self.names.constant(self.role.name, state, event, "not")

    def table_name(self, what: str) -> str:
        """The name of a table of the role: `table`, `work`, `answers` or `wakes`."""
        return self.names.constant(self.role.name, "all", what)


def _is_it(e: x.Expression) -> bool:
    return isinstance(e, x.Variable) and e.name == "it"


def _mentions(choice: Transition, name: str) -> bool:
    """Whether a transition reads a field of its event."""
    inside = (choice.guard, *(u.value for u in choice.updates), *(u.key for u in choice.updates))
    return any(x.mentions(e, lambda n: isinstance(n, x.Argument) and n.name == name) for e in inside)


def _asks_sender(choice: Transition) -> bool:
    inside = (choice.guard, *(u.value for u in choice.updates), *(u.key for u in choice.updates))
    return any(x.mentions(e, lambda n: isinstance(n, x.Sender)) for e in inside)


def _always_evaluated(e: x.Expression) -> Iterator[x.Expression]:
    """The parts of an expression that are computed whatever its values are."""
    yield e
    match e:
        case x.Logic(operands=(first, *_)):
            yield from _always_evaluated(first)
        case x.Compare(left=left, right=right):
            yield from _always_evaluated(left)
            if not isinstance(right, x.SetOf):  # a membership may be asked of its items one by one
                yield from _always_evaluated(right)
        case x.Unary(operand=operand) | x.Length(operand=operand):
            yield from _always_evaluated(operand)


def _opposite(one: x.Expression | None, other: x.Expression) -> bool:
    """Whether one guard holds just where the other does not, as can be seen from their form."""
    match one, other:
        case (x.Unary(op="not", operand=inner), outer) | (outer, x.Unary(op="not", operand=inner)) if inner == outer:
            return True
        case x.Compare(op=op, left=left, right=right), x.Compare():
            # Of two sets, each may have what the other has not: then neither `<=` nor `>` holds.
            total = op in ("==", "!=", "in", "not in") or not isinstance(left.type, t.Set)
            return total and (other.op, other.left, other.right) == (OPPOSITE[op], left, right)
    return False


def _computes(e: x.Expression) -> bool:
    """Whether a value is more than read."""
    return not isinstance(e, x.Literal_ | x.Constant | x.Now | x.Self | x.Data | x.State | x.Argument | x.Sender)


def _with(names: Mapping[str, str], words: str) -> str:
    """Source in which what has a name stands by it; each is an operand, in parentheses or a call."""
    for value, name in sorted(names.items(), key=lambda item: -len(item[0])):  # one may be part of another
        words = re.sub(rf"(?<!\w){re.escape(value)}", name, words)
    return words


def _few(kind: t.Type) -> bool:
    """Whether a field tends to come back to values that it had, and can be hashed."""
    match kind:
        case t.Option(of=of):
            return of is not None and _few(of)
        case t.Bool() | t.Int() | t.Enum() | t.Instance() | t.Set():
            return True
    return False


def _python_type(kind: t.Type) -> str:
    match kind:
        case t.Bool():
            return "bool"
        case t.Int() | t.Time() | t.Instance():
            return "int"
        case t.Enum():
            return "str"
        case t.Set(of=of):
            return f"frozenset[{'Any' if of is None else _python_type(of)}]"
        case t.Option(of=of) if of is not None:
            return f"{_python_type(of)} | None"
    return "Any"


def _bare(words: str) -> str:
    """Without parentheses round the whole, unless they make a tuple."""
    if not (words.startswith("(") and words.endswith(")")):
        return words
    depth = 0
    for i, character in enumerate(words):
        depth += character in "([{"
        depth -= character in ")]}"
        if (depth == 0 and i < len(words) - 1) or (depth == 1 and character == ","):
            return words
    return words[1:-1]


def _wrapped(before: str, items: list[str], after: str) -> Iterator[str]:
    """A tuple on one line, or on several where it is long."""
    line = before + ", ".join(items) + after
    if len(line) <= WIDTH:
        yield line
        return
    yield before
    row = "   "
    for item in items:
        if len(row) + len(item) + 2 > WIDTH:
            yield row
            row = "   "
        row += f" {item},"
    yield row
    yield after
