"""One role as Python source: a function for each transition, and a table that says which state takes which.

Theory of operation. A transition becomes a function over the unpacked record, so its guard and its updates read as they
do in the specification (`msg.units` is `msg_units`). It returns the new record and a constant that says what happened
and what work follows. Only work that depends on the record (a condition, a choice of receivers) is worked out in the
step; nothing else of the specification is left to be looked at while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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

    def running(self, role: str, instance: str) -> str:
        raise NotImplementedError

    def reachable(self, role: str, instance: str, other_role: str, other: str) -> str:
        raise NotImplementedError

    def byzantine(self, role: str) -> bool:
        raise NotImplementedError

    def field(self, kind: str, name: str) -> int:
        raise NotImplementedError


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
        arguments = {f.name: f"{kind}_{f.name}" for f in fields}
        frame = Frame(
            self.layout, self.values, "instance" if self.role.indexed else 0, arguments, "sender", {"it": it},
            state="", constant_names=self.constants, unrolled=False,
        )  # fmt: skip
        return _bare(source(e, frame))

    # Parts of the source

    def lines(self) -> Iterator[str]:
        """All of it."""
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
        return isinstance(task, Call) or (task.only is None and self._one_receiver(task))

    def _work(self, state: State) -> Iterator[str]:
        """W(x) of a state, for recovery and where it depends on the record."""
        if not self._fixed(state.tasks):
            yield from self._work_function(self._work_name(state.name), state.tasks)

    def _work_function(self, name: str, tasks: tuple[str, ...]) -> Iterator[str]:
        yield f"def {name}(record: Record) -> tuple[Work, ...]:"
        yield from self._unpack()
        yield "    work: list[Work] = []"
        for task_name in tasks:
            task = self.role.tasks[task_name]
            indent = "    "
            if task.when is not None:
                yield f"{indent}if {self._source(task.when)}:"
                indent += "    "
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
                yield f"{indent}work += [piece for it, piece in enumerate({constant}) if {self._source(task.only)}]"
        yield "    return tuple(work)"
        yield ""

    def _work_source(self, tasks: tuple[str, ...]) -> str:
        return "(" + "".join(f"{self._task_name(name)}, " for name in tasks).rstrip() + ")"

    # Transitions

    def _act(self, state: State, choices: tuple[Transition, ...]) -> Iterator[str]:
        event = choices[0].event
        message = self.system.messages.get(event)
        heard = message is not None and message.receiver == self.role.name
        fields = self.system.fields_of(self.role.name, event)
        kind = "msg" if heard else "event"
        for choice in choices:
            yield from self._outcome(choice)
            if not self._fixed(self._tasks(choice)) and (choice.also or choice.internal):
                yield from self._work_function(self._work_after_name(choice), self._tasks(choice))
        function = self._act_name(state.name, event)
        yield f"def {function}{ACT}"
        yield from self._unpack()
        used = [f.name for f in fields if any(_mentions(c, f.name) for c in choices)]
        if used:
            names = [f"{kind}_{f.name}" if f.name in used else "_" for f in fields]
            yield f"    {', '.join(names)}{',' if len(names) == 1 else ''} = fields"
        if heard:
            yield from self._hear(message.sender if message else "", choices)
        if not all(self._fixed(self._tasks(choice)) for choice in choices):
            yield "    moved: Record"
        guarded = False
        for choice in choices:
            indent = "    "
            if choice.guard is not None:
                yield f"    if {self._source(choice.guard, fields, kind)}:"
                indent, guarded = "        ", True
            yield from (indent + line for line in self._moved(choice, fields, kind))
        if guarded:
            why = self._because(state, event)
            outcome = self._not_name(state.name, event)
            if heard:
                yield from ("    " + line for line in _wrapped("return (", self._cells({}), f"), {outcome}"))
            else:
                yield f"    return record, {outcome}"
        yield ""
        if guarded:
            yield f"{outcome} = Outcome({why[0]!r}, {event!r}, reason={why[1]!r})"
            yield ""

    def _hear(self, sender: str, choices: tuple[Transition, ...]) -> Iterator[str]:
        first, count = self.near.first[sender], self.near.count[sender]
        if self.near.size == 1:
            yield "    received = (number,)"
        elif count == 1 and self.near.size <= 3:
            cells = [f"received[{i}]" if i != first else "number" for i in range(self.near.size)]
            yield f"    received = ({', '.join(cells)})"
        else:
            yield "    received = heard(received, neighbour, number)"
        if any(_asks_sender(c) for c in choices):
            own = sender in self.near.same_index
            yield "    sender = instance" if own else f"    sender = neighbour - {first}"

    def _because(self, state: State, event: str) -> tuple[str, str]:
        if event in state.refuse:
            return "refused", state.refuse[event]
        if event in state.ignore:
            return "ignored", state.ignore[event]
        return "unmoved", "no guard holds"

    def _tasks(self, choice: Transition) -> tuple[str, ...]:
        own = () if choice.internal else self.role.states[choice.target].tasks
        return (*own, *choice.also)

    def _outcome(self, choice: Transition) -> Iterator[str]:
        tasks = self._tasks(choice)
        work = f", {self._work_source(tasks)}" if tasks and self._fixed(tasks) else ""
        name = self._outcome_name(choice)
        yield f"{name} = Outcome('taken', {choice.event!r}, {choice.name!r}{work})"

    def _moved(self, choice: Transition, fields: tuple[Datum, ...], kind: str) -> Iterator[str]:
        changed: dict[str, str] = {}
        maps: dict[str, str] = {}
        for update in choice.updates:
            name = self.shape.data[update.name]
            value = self._source(update.value, fields, kind)
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
        if self._fixed(tasks):
            sends = [piece for name in tasks if isinstance(piece := self.role.tasks[name], Send)]
            if sends:
                changed["sent"] = self._numbered([self.near.first[s.receiver] for s in sends])
            yield from _wrapped("return (", self._cells(changed), f"), {outcome}")
            return
        alone = choice.also or choice.internal
        work = self._work_after_name(choice) if alone else self._work_name(choice.target)
        yield from _wrapped("moved = (", self._cells(changed), ")")
        if self.shape.subsidiary:
            yield f"return moved, Outcome('taken', {choice.event!r}, {choice.name!r}, {work}(moved))"
        else:
            yield f"return entered(moved, {self.shape.at('sent')}, {outcome}, {work}(moved))"

    def _numbered(self, slots: list[int]) -> str:
        """The sent numbers after messages to these neighbours."""
        if self.near.size > 3:
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
                conditions = [self._source(c) for c in (task.when, e) if c is not None]
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
                times.append(self._source(bound) + (" + 1" if later else ""))
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
                yield f"    {state.name!r}: lambda record: {self._work_source(state.tasks)},"
            else:
                yield f"    {state.name!r}: {self._work_name(state.name)},"
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
