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
from functools import partial

from leasehold.impl.compiler.lines import bare, tuple_lines
from leasehold.impl.compiler.work_source import Near, WorkSource
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Offer
from leasehold.spec.language.lower.captures import first_value
from leasehold.spec.language.model import Datum, Drive, Send, State, Transition

ACT = "(record: Record, fields: tuple[Any, ...], neighbour: int, number: int, now: int) -> Stepped:"


OPPOSITE = {"==": "!=", "!=": "==", "in": "not in", "not in": "in", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FIXED_SET = re.compile(r"frozenset\(\((?:\d+, ?)+\d*\)\)|frozenset\(\)(?!\.)")


class RoleSource(WorkSource):
    """The source of one role."""

    # Parts of the source

    def lines(self) -> Iterator[str]:
        """All of it; sets that are the same at each evaluation are made once."""
        sets: dict[str, str] = {}
        lines = [_FIXED_SET.sub(partial(self._set_name, sets), line) for line in self._lines()]
        yield lines[0]
        yield from (f"{name}: frozenset[Any] = {source}" for source, name in sets.items())
        if any(self.constant("all", "only") in line for line in lines):
            most = max(self.system.roles[role].count for role, _ in self.near.first)
            yield f"{self.constant('all', 'only')} = tuple(frozenset((it,)) for it in range({most}))"
        yield from lines[1:]

    def _set_name(self, sets: dict[str, str], matched: re.Match[str]) -> str:
        name = "none" if matched[0] == "frozenset()" else f"set{len(sets) + 1}"
        return sets.setdefault(matched[0], self.constant("all", name))

    def _lines(self) -> Iterator[str]:
        yield f"# {self.role.name}: {self.role.doc}" if self.role.doc else f"# {self.role.name}"
        yield f"# record: {', '.join(self.shape.fields)}"
        yield ""
        for name in self.tasks:
            yield from self._task(name)
        for state in self.role.states.values():
            yield from self._work(state)
        for state in self.role.states.values():
            for choices in state.on.values():
                yield from self._act(state, choices)
        yield from self._answers()
        yield from self._timers()
        yield from self._table()

    # Transitions

    def _act(self, state: State, choices: tuple[Transition, ...]) -> Iterator[str]:
        event = choices[0].event
        message = self.system.messages.get(event)
        heard = message is not None and message.receiver == self.role.name
        fields = self.system.fields_of(self.role.name, event)
        kind = "msg" if heard else "event"
        for choice in choices:
            if not self._fixed(self.after(choice)) and self._alone(choice):
                yield from self._work_function(self._work_after_name(choice), self.after(choice))
            yield self._outcome(choice)
        function = self._function(state.name, event)
        yield f"def {function}{ACT}"
        yield from self.unpacked()
        used = [f.name for f in fields if any(_mentions(c, f.name) for c in choices)]
        if used:
            names = [f"{kind}_{f.name}" if f.name in used else "_" for f in fields]
            yield f"    {', '.join(names)}{',' if len(names) == 1 else ''} = fields"
        if heard and message is not None:
            yield from self._hear((message.sender, self.system.apart_of(event)), choices)
        shared = self._shared(choices, fields, kind)
        yield from (f"    {name} = {bare(value)}" for value, name in shared.items())
        certain = False  # whether a guard always holds that is asked this far
        for i, choice in enumerate(choices):
            indent = "    "
            certain = choice.guard is None or (i > 0 and _opposite(choices[i - 1].guard, choice.guard))
            if choice.guard is not None and not certain:
                yield f"    if {bare(_with(shared, self._operand(choice.guard, fields, kind)))}:"
                indent = "        "
            yield from (indent + line for line in self._moved(choice, fields, kind, shared))
            if certain:
                break
        if not certain:
            why = self._because(state, event)
            outcome = self.constant(state.name, event, "not")
            if heard:
                yield from ("    " + line for line in tuple_lines("return (", self._cells({}), f"), {outcome}"))
            else:
                yield f"    return record, {outcome}"
        yield ""
        if not certain:
            yield f"{outcome} = Outcome({why[0]!r}, {event!r}, reason={why[1]!r})"
            yield ""

    def _shared(self, choices: tuple[Transition, ...], fields: tuple[Datum, ...], kind: str) -> dict[str, str]:
        """Values that the first guard computes in any case and an update writes: their source, and their new names."""
        if choices[0].guard is None:
            return {}
        asked = {self._operand(e, fields, kind) for e in _always_evaluated(choices[0].guard)}
        shared: dict[str, str] = {}
        for update in (u for c in choices for u in c.updates if u.key is None):
            value = self._operand(update.value, fields, kind)
            if value in asked and _computes(update.value):
                shared.setdefault(value, self._next_name(update.name, shared.values()))
        return shared

    def _next_name(self, datum: str, taken: Collection[str]) -> str:
        """A local name for what a field becomes."""
        name = f"next_{datum}"
        while name in self.shape.fields or name in taken:
            name += "_"
        return name

    def _hear(self, sender: Near, choices: tuple[Transition, ...]) -> Iterator[str]:
        first, count, size = self.near.first[sender], self.near.count[sender], self.near.size
        if not self.near.unrolled:
            yield "    received = with_cell(received, neighbour, number)"
        for i in range(first, first + count) if self.near.unrolled else ():
            cells = ", ".join("number" if k == i else f"received[{k}]" for k in range(size))
            assignment = f"received = ({cells}{',' if size == 1 else ''})"
            if count == 1:
                yield f"    {assignment}"
            else:
                last = i == first + count - 1
                yield "    else:" if last else f"    {'if' if i == first else 'elif'} neighbour == {i}:"
                yield f"        {assignment}"
        if any(_asks_sender(c) for c in choices):
            yield f"    sender = {self.near.index(sender)}"

    def _because(self, state: State, event: str) -> tuple[str, str]:
        if event in state.refused:
            return "refused", state.refused[event]
        if event in state.ignored:
            return "ignored", state.ignored[event]
        return "unmoved", "no guard holds"

    def _alone(self, choice: Transition) -> bool:
        """Returns whether the work after a transition is its own, not that of its target."""
        return bool(choice.also) or choice.internal or bool(self.passed_to(self.after(choice)))

    def _outcome(self, choice: Transition) -> str:
        """A constant, or what makes it of the fields that its work depends on."""
        tasks, name = self.after(choice), self._outcome_name(choice)
        if self._fixed(tasks):
            work = f", {self._work_source(tasks)}" if tasks else ""
            return f"{name} = Outcome('taken', {choice.event!r}, {choice.name!r}{work})"
        work = self._work_after_name(choice) if self._alone(choice) else self._function("work_of", choice.target)
        make = "remembered" if self._remembered(tasks) else "made"
        return f"{name} = {make}({choice.event!r}, {choice.name!r}, {work})"

    def _moved(
        self, choice: Transition, fields: tuple[Datum, ...], kind: str, shared: Mapping[str, str]
    ) -> Iterator[str]:
        changed: dict[str, str] = {}
        for update in choice.updates:
            name = self.shape.data[update.name]
            value = bare(_with(shared, self._operand(update.value, fields, kind)))
            if update.key is not None:
                key = self._source(update.key, fields, kind)
                if isinstance(update.key.type, t.Enum):
                    key = f"{update.key.type.members!r}.index({key})"
                value = f"with_cell({changed.get(name, name)}, {key}, {value})"
            changed[name] = value
        if choice.target != choice.source:
            changed["state"] = repr(choice.target)
        if not choice.internal:
            changed["entry"] = "entry + 1"
            target = self.role.states[choice.target]
            for task, field in self.shape.since.items():
                if task in target.tasks and task not in target.remembers:
                    changed[field] = "entry + 1"
        tasks = self.after(choice)
        outcome = self._outcome_name(choice)
        sends = [piece for name in tasks if isinstance(piece := self.tasks[name], Send)]
        if self._fixed(tasks):
            if sends:
                changed["sent"] = self._numbered([slot for s in sends for slot in self._slots(s)])
            yield from tuple_lines("return (", self._cells(changed), f"), {outcome}")
            return
        read = self._read_by(tasks)
        for update in choice.updates:
            field = self.shape.data[update.name]
            if field in read and not changed[field].isidentifier():
                name = self._next_name(update.name, shared.values())
                yield f"{name} = {changed[field]}"
                changed[field] = name
        values = {u.name: u.value for u in choice.passes}
        given = (values.get(n) or first_value(of, choice.place) for n, of in self.passed_to(tasks).items())
        passed = (self._source(e, fields, kind) for e in given)
        outcome = f"{outcome}({', '.join((*(changed.get(field, field) for field in read), *passed))})"
        if sends:
            yield from tuple_lines("return numbered((", self._cells(changed), f"), {self.shape.at('sent')}, {outcome})")
        else:
            yield from tuple_lines("return (", self._cells(changed), f"), {outcome}")

    def _numbered(self, slots: list[int]) -> str:
        """The sent numbers after messages to these neighbours."""
        if not self.near.unrolled:
            return f"increment_sent(sent, {tuple(slots)!r})"
        cells = [f"sent[{i}] + 1" if i in slots else f"sent[{i}]" for i in range(self.near.size)]
        return f"({', '.join(cells)}{',' if len(cells) == 1 else ''})"

    def _cells(self, changed: Mapping[str, str]) -> list[str]:
        """The fields of a record, of which some have changed."""
        return [changed.get(field, field) for field in self.shape.fields]

    # What comes by itself

    def _offers(self, state: State) -> tuple[Offer, ...]:
        return self.lowered.offers[self.role.name, state.name]

    def _answers(self) -> Iterator[str]:
        """Yields the source that gives, by state, the answers of its drive tasks that have come true."""
        bodies: dict[str, list[str]] = {}
        for state in self.role.states.values():
            offers = [o for o in self._offers(state) if o.cause == "answer" and o.conditions]
            body = []
            for offer in (o for o in offers if isinstance(self.role.tasks[o.name], Drive)):
                body.append(f"if {' and '.join(map(self._operand, offer.conditions))}:")
                body.append(f"    found.append({offer.event!r})")
            if body:
                bodies[state.name] = ["found = []", *body, "return tuple(found)"]
        yield from self._by_state("answers", "Answers", "tuple[str, ...]", bodies)

    def _timers(self) -> Iterator[str]:
        """Yields the source that gives, by state, the earliest time at which a tick may be due."""
        bodies: dict[str, list[str]] = {}
        for state in self.role.states.values():
            times = [self._earliest(c.guard) for o in self._offers(state) if o.cause == "tick" for c in o.choices]
            if times:
                earliest = times[0] if len(times) == 1 else f"min({', '.join(times)})"
                bodies[state.name] = [f"earliest: int = {earliest}", "return earliest"]
        yield from self._by_state("wakes", "Wakes", "int", bodies)

    def _by_state(self, table: str, kind: str, returns: str, bodies: Mapping[str, list[str]]) -> Iterator[str]:
        """A function of the record for each of some states, and their table."""
        names = {state: self._function(f"{table}_in", state) for state in bodies}
        for state, body in bodies.items():
            yield f"def {names[state]}(record: Record) -> {returns}:"
            yield from self.unpacked()
            yield from (f"    {line}" for line in body)
            yield ""
        yield f"{self.constant('all', table)}: {kind} = {{{', '.join(f'{s!r}: {name}' for s, name in names.items())}}}"

    def _earliest(self, guard: x.Expression | None) -> str:
        """A time before which a guard cannot hold; 0 where the guard does not show one."""
        times = []
        for e in () if guard is None else x.conjuncts(guard):
            match e:
                case x.Apply(op=op, operands=(x.Now(), bound)) if op in (">=", ">", "=="):
                    later = op == ">"
                case x.Apply(op=op, operands=(bound, x.Now())) if op in ("<=", "<", "=="):
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
            for event, reason in (*state.ignored.items(), *state.refused.items()):
                if event not in state.on:
                    kind = "refused" if event in state.refused else "ignored"
                    name = self._function(state.name, event)
                    yield f"{name} = unmoved(Outcome({kind!r}, {event!r}, reason={reason!r}), {received})"
        yield ""
        yield f"{self.constant('all', 'table')}: Table = {{"
        for state in self.role.states.values():
            events = dict.fromkeys((*state.on, *state.ignored, *state.refused))
            yield f"    {state.name!r}: {{"
            for event in events:
                yield f"        {event!r}: {self._function(state.name, event)},"
            yield "    },"
        yield "}"
        yield f"{self.constant('all', 'work')}: WorkOf = {{"
        for state in self.role.states.values():
            tasks = self.again(state)
            if self._fixed(tasks):
                work = self._work_source(tasks)
            else:
                read = ", ".join(f"record[{self.shape.at(field)}]" for field in self._read_by(tasks))
                work = f"{self._function('work_of', state.name)}({read})"
            yield f"    {state.name!r}: lambda record: {work},"
        yield "}"
        yield ""


def _mentions(choice: Transition, name: str) -> bool:
    """Returns whether a transition reads a field of its event."""
    inside = (choice.guard, *(e for u in (*choice.updates, *choice.passes) for e in (u.value, u.key)))
    return any(x.mentions(e, lambda n: isinstance(n, x.Argument) and n.name == name) for e in inside)


def _asks_sender(choice: Transition) -> bool:
    inside = (choice.guard, *(e for u in (*choice.updates, *choice.passes) for e in (u.value, u.key)))
    return any(x.mentions(e, lambda n: isinstance(n, x.Sender)) for e in inside)


def _always_evaluated(e: x.Expression) -> Iterator[x.Expression]:
    """The parts of an expression that are computed whatever its values are."""
    yield e
    match e:
        case x.Apply(op="and" | "or", operands=(first, *_)):
            yield from _always_evaluated(first)
        case x.Apply(op=op, operands=(left, right)) if op in OPPOSITE:
            yield from _always_evaluated(left)
            if not (isinstance(right, x.Apply) and right.op == "{}"):  # may be asked of its items one by one
                yield from _always_evaluated(right)
        case x.Apply(op="not" | "negative" | "len", operands=(operand,)):
            yield from _always_evaluated(operand)


def _opposite(one: x.Expression | None, other: x.Expression) -> bool:
    """Returns whether one guard holds just where the other does not, as can be seen from their form."""
    match one, other:
        case (x.Apply(op="not", operands=(inner,)), outer) | (outer, x.Apply(op="not", operands=(inner,))) if (
            inner == outer
        ):
            return True
        case x.Apply(op=op, operands=operands), x.Apply() if op in OPPOSITE:
            # Of two sets, each may have what the other has not: then neither `<=` nor `>` holds.
            total = op in ("==", "!=", "in", "not in") or not isinstance(operands[0].type, t.Set)
            return total and (other.op, other.operands) == (OPPOSITE[op], operands)
    return False


def _computes(e: x.Expression) -> bool:
    """Returns whether a value is more than read."""
    return not isinstance(
        e, x.Literal_ | x.ConstantRef | x.Now | x.Self | x.Data | x.ControlState | x.Argument | x.Sender
    )


def _with(names: Mapping[str, str], source: str) -> str:
    """Source in which what has a name stands by it; each is an operand, in parentheses or a call."""
    for value, name in sorted(names.items(), key=lambda item: -len(item[0])):  # one may be part of another
        source = re.sub(rf"(?<!\w){re.escape(value)}", name, source)
    return source
