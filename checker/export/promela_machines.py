"""Machines in Promela: for each transition when it may be taken, and what it does.

    When_T(Me, From, Arg_...)   the machine is in the transition's state, and its guard holds
    Room_T(...)                 the channels that it sends into have room; only where some have a capacity
    Take_T(...)                 commits the record, then starts the tasks of the new state
    Start_R_task(Me)            sends, or drives subsidiary machines
    May_R_state_n(Me, Arg_...)  a local event may come: the n-th that the state knows

`Me` is the machine's number, `From` the sender's, `Arg_f` the event's field f; each is there only where it says
something. Updates read the record as it was before, so where one reads what another writes they are worked out first.
"""

from __future__ import annotations

from collections.abc import Iterator

from leasehold.checker.export.promela_channels import put
from leasehold.checker.export.promela_layout import PromelaNames, declared, safe, scalars, stored
from leasehold.checker.export.promela_messages import Commit, PromelaBindings
from leasehold.checker.export.promela_terms import initial_scalars, row, term
from leasehold.checker.export.shared import (
    Unsupported,
    low_high,
    moving,
    sentence,
    wrapped,
)
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Offer, work_of
from leasehold.spec.language.model import Call, Drive, Role, Send, Transition, Update


class PromelaMachines:
    """The machines of a system, role by role."""

    def __init__(self, layout: PromelaNames) -> None:
        self.layout, self.system = layout, layout.system
        self.scratch: dict[str, str] = {}  # hidden variables: name and declaration

    # Names and parameters

    def word(self, transition: Transition) -> str:
        """A transition's name within an identifier."""
        words = f"{transition.role}_{transition.source}_{transition.event}"
        wish = words + (f"_{transition.position + 1}" if transition.position else "")
        return self.layout.names.name(("transition", transition.name), wish)

    def event_scalars(self, role: str, event: str) -> list[tuple[str, t.Type]]:
        return [s for f in self.system.fields_of(role, event) for s in scalars(f.name, f.type)]

    def sender(self, role: str, event: str) -> Role | None:
        """Who sends an event that is a message."""
        message = self.system.messages.get(event)
        return self.system.roles[message.sender] if message is not None and message.receiver == role else None

    def parameters(self, role: Role, event: str) -> list[str]:
        sender = self.sender(role.name, event)
        return [
            *(["Me"] if role.indexed else []),
            *(["From"] if sender is not None and sender.indexed else []),
            *(f"Arg_{name}" for name, _ in self.event_scalars(role.name, event)),
        ]

    def arguments(self, role: Role, event: str, me: str, sender: str, rows: list[str]) -> str:
        """What stands between the brackets where a transition is asked for or taken."""
        who = self.sender(role.name, event)
        words = [*([me] if role.indexed else []), *([sender] if who is not None and who.indexed else []), *rows]
        return f"({', '.join(words)})"

    def frame(self, role: Role, event: str | None = None) -> PromelaBindings:
        """Of an expression of a machine that consumes an event."""
        fields = self.system.fields_of(role.name, event) if event is not None else ()
        sender = self.sender(role.name, event) if event is not None else None
        return PromelaBindings(
            self.layout, role.name, "Me" if role.indexed else "0",
            {f.name: [f"Arg_{name}" for name, _ in scalars(f.name, f.type)] for f in fields},
            "From" if sender is not None and sender.indexed else "0",
        )  # fmt: skip

    def hide(self, name: str, kind: t.Type, cells: int | None = None) -> str:
        """A scratch variable, which is no part of a state."""
        self.scratch[name] = f"hidden {declared(kind)} {name}" + (f"[{cells}];" if cells is not None else ";")
        return name

    # Records

    def record(self, role: Role) -> list[str]:
        """The type of a role's records."""
        lines = wrapped(f"{role.name}: {role.doc}", "/* ", " * ", " */")
        lines += [f"typedef {role.name}_Record {{", f"\tbyte state = {self.layout.state(role, role.initial.name)};"]
        for d in role.data.values():
            words = initial_scalars(self.layout, d.name, d.type, d.initial) if not d.any_initial else []
            firsts = {name.split("[")[0]: word for name, word in words}
            if len(set(words)) != len(words) or any(firsts[n.split("[")[0]] != w for n, w in words):
                raise Unsupported(f"the cells of `{role.name}.{d.name}` begin with several values", "make them equal",
                                  d.place)  # fmt: skip
            comment = f"  /* {sentence(d.doc)} */" if d.doc else ""
            for leaf, of, cells in stored(d.name, d.type):
                first = firsts.get(safe(leaf), "0")
                array = f"[{cells}]" if cells is not None else ""
                begin = f" = {first}" if first not in ("0", "false") else ""
                lines.append(f"\t{declared(of)} {safe(leaf)}{array}{begin};{comment}")
                comment = ""
        return [*lines, "};"]

    # Transitions

    def transition(self, role: Role, tr: Transition) -> list[str]:
        """What a transition asks for and does, with its documentation."""
        name, parameters = self.word(tr), self.parameters(role, tr.event)
        listed = f"({', '.join(parameters)})"
        f = self.frame(role, tr.event)
        machine = self.layout.machine(role.name, f.me)
        guard = f" && {term(tr.guard, f)}" if tr.guard is not None else ""
        goal = "stays" if tr.internal and tr.target == tr.source else f"to {tr.target}"
        lines = wrapped(f"{tr.name}: {goal}. {tr.doc}", "/* ", " * ", " */")
        lines.append(f"#define When_{name}{listed} ({machine}.state == {self.layout.state(role, tr.source)}{guard})")
        if room := self.room(role, tr):
            lines.append(f"#define Room_{name}{listed} ({' && '.join(room)})")
        body = [*self._commit(role, tr, f), *self._starts(role, tr)] or ["skip"]
        return [*lines, f"inline Take_{name}{listed} {{", *(f"\t{line}" for line in _terminated(body)), "}"]

    def _commit(self, role: Role, tr: Transition, f: PromelaBindings) -> list[str]:
        """The updates and the new control state. All updates read the record as it was."""
        reads: list[str] = []
        writes: list[str] = []
        first = _reads_what_is_written(role, tr.updates)
        for n, update in enumerate(tr.updates):
            kind = role.data[update.name].type
            of = kind.of if update.key is not None and isinstance(kind, t.Map) else kind
            values = row(update.value, f, of)
            key = term(update.key, f) if update.key is not None else ""
            if first:
                before = values
                values = [self.hide(f"New_{role.name}_{n}_{name}", part) for name, part in scalars(update.name, of)]
                reads += [f"{a} = {v}" for a, v in zip(values, before, strict=True)]
                if update.key is not None:
                    reads.append(f"{self.hide(f'New_{role.name}_{n}_key', update.key.type)} = {key}")
                    key = f"New_{role.name}_{n}_key"
            places = self._places(role, update, f.me, key)
            writes += [*self._in_range(role, update, values)]
            writes += [f"{place} = {value}" for place, value in zip(places, values, strict=True)]
        state = f"{self.layout.machine(role.name, f.me)}.state = {self.layout.state(role, tr.target)}"
        return [*reads, *writes, *([state] if tr.target != tr.source else [])]

    def _places(self, role: Role, update: Update, me: str, key: str) -> list[str]:
        """Where an update writes."""
        kind = role.data[update.name].type
        machine = self.layout.machine(role.name, me)
        if update.key is None:
            return [f"{machine}.{p}" for p, _ in initial_scalars(self.layout, update.name, kind, t.default(kind))]
        return [f"{machine}.{safe(leaf)}[{key}]" for leaf, _, _ in stored(update.name, kind)]

    def _in_range(self, role: Role, update: Update, values: list[str]) -> list[str]:
        """Every value stays in its type's range, which the language claims of every system."""
        kind = role.data[update.name].type
        ends = low_high(kind)
        if ends is None:
            return []
        if update.key is not None:
            assert isinstance(kind, t.Map)
            kind = kind.of
        option = isinstance(kind, t.Option) or (isinstance(kind, t.Map) and isinstance(kind.of, t.Option))
        tests = []
        for n, value in enumerate(values):
            if option and n % 2 == 0:
                continue
            low, high = ends
            both = " && ".join([f"{low} <= {value}"] * (low is not None) + [f"{value} <= {high}"] * (high is not None))
            tests.append(f"(!{values[n - 1]} || ({both}))" if option else f"({both})")
        self.hide("Types_hold", t.BOOL)
        return [f"Types_hold = ({' && '.join(tests)}); assert(Types_hold)"]

    def _starts(self, role: Role, tr: Transition) -> list[str]:
        me = "(Me)" if role.indexed else "()"
        return [
            f"{self.task_word(role, name)}{me}" for name in work_of(role, tr) if not isinstance(role.tasks[name], Call)
        ]

    # Tasks

    def task_word(self, role: Role, name: str) -> str:
        return "Start_" + self.layout.names.name(("task", role.name, name), f"{role.name}_{name}")

    def task(self, role: Role, name: str) -> list[str]:
        """What a task does at once."""
        task = role.tasks[name]
        assert not isinstance(task, Call)
        body = [
            line
            for it, test in self.receivers(role, task)
            for line in _if(self._wanted(role, task, it, test), self._act(role, task, it))
        ]
        what = f"sends {task.message}" if isinstance(task, Send) else f"drives {task.role} by {task.event}"
        lines = wrapped(f"{name}: {what}. {task.doc}", "/* ", " * ", " */")
        parameter = "(Me)" if role.indexed else "()"
        start = f"inline {self.task_word(role, name)}{parameter} {{"
        return [*lines, start, *(f"\t{line}" for line in _terminated(body or ["skip"])), "}"]

    def receivers(self, role: Role, task: Send | Drive) -> list[tuple[str, str]]:
        """The machines that a task may be about, each with a condition for there to be one."""
        if isinstance(task, Drive):
            return [(str(i), "") for i in range(self.system.roles[task.role].count)]
        receiver = self.system.roles[task.receiver]
        channel = self.system.channel_between(role.name, task.receiver)
        if not channel.same_index:
            return [(str(i), "") for i in range(receiver.count)]
        if not role.indexed:
            return [("0", "")]
        return [("Me", f"Me < {receiver.count}" if receiver.count < role.count else "")]

    def _wanted(self, role: Role, task: Send | Drive, it: str, test: str) -> str:
        f = self.frame(role)
        f = PromelaBindings(f.layout, f.role, f.me, variables={"it": it})
        parts = [test] if test else []
        parts += [term(e, f) for e in (task.when, task.only) if e is not None]
        return " && ".join(parts)

    def _act(self, role: Role, task: Send | Drive, it: str, again: bool = False) -> list[str]:
        f = self.frame(role)
        f = PromelaBindings(f.layout, f.role, f.me, variables={"it": it})
        if isinstance(task, Send):
            message = self.system.messages[task.message]
            channel = self.system.channel_between(role.name, task.receiver)
            rows = [s for field in message.fields for s in row(task.fields[field.name], f, field.type)]
            return put(self.layout, channel, message, self.layout.joint(channel, f.me, it).place, rows, again)
        driven = self.system.roles[task.role]
        given: list[str] = []
        lines = []
        for field in self.system.fields_of(task.role, task.event):
            values = row(task.fields[field.name], f, field.type)
            for (name, of), value in zip(scalars(field.name, field.type), values, strict=True):
                hidden = self.hide(f"Got_{task.role}_{task.event}_{name}", of)
                lines.append(f"{hidden} = {value}")
                given.append(hidden)
        arguments = [*([it] if driven.indexed else []), *given]
        return [*lines, f"{self.drive_word(driven, task.event)}({', '.join(arguments)})"]

    def drive_word(self, role: Role, event: str) -> str:
        return "Drive_" + self.layout.names.name(("drive", role.name, event), f"{role.name}_{event}")

    def driven(self, role: Role, event: str) -> list[str]:
        """What a subsidiary machine does when it is driven by an event."""
        parameters = f"({', '.join(self.parameters(role, event))})"
        lines = [f"inline {self.drive_word(role, event)}{parameters} {{", "\tif"]
        moves = self.layout.relation.moves.items()
        for tr in (c.transition for (r, _, e), found in moves if (r, e) == (role.name, event) for c in found):
            others = self.disjoint(role, tr, parameters)
            lines.append(f"\t:: When_{self.word(tr)}{parameters} -> {others}Take_{self.word(tr)}{parameters}")
        return [*lines, "\t:: else", "\tfi", "}"]

    def disjoint(self, role: Role, tr: Transition, arguments: str) -> str:
        """An assertion that no other transition of the state takes the event."""
        choices = self.layout.relation.moves[role.name, tr.source, tr.event]
        others = [c.transition for c in choices if c.transition is not tr]
        if not others:
            return ""
        self.hide("Guards_disjoint", t.BOOL)
        words = " || ".join(f"When_{self.word(o)}{arguments}" for o in others)
        return f"Guards_disjoint = !({words}); assert(Guards_disjoint); "

    def resend(self, role: Role, peer: Role) -> list[str]:
        """What a machine does with a duplicate: its state's messages to the sender are sent again."""
        parameters = f"({', '.join([*(['Me'] if role.indexed else []), *(['From'] if peer.indexed else [])])})"
        lines = [f"inline {self.resend_word(role, peer)}{parameters} {{", "\tif"]
        to = "From" if peer.indexed else "0"
        for state in role.states.values():
            body: list[str] = []
            for name in state.tasks:
                task = role.tasks[name]
                if isinstance(task, Send) and task.receiver == peer.name:
                    channel = self.system.channel_between(role.name, peer.name)
                    if channel.capacity is not None:
                        raise Unsupported(
                            f"a duplicate makes {role.name} send again over {channel.name}, which has a capacity",
                            "make that channel a mailbox", channel.place,
                        )  # fmt: skip
                    body += _if(self._wanted(role, task, to, ""), self._act(role, task, to, again=True))
            if body:
                place = f"{self.layout.machine(role.name, 'Me')}.state == {self.layout.state(role, state.name)}"
                lines += [f"\t:: {place} ->", *(f"\t\t{line}" for line in _terminated(body))]
        return [*lines, "\t:: else", "\tfi", "}"]

    def resend_word(self, role: Role, peer: Role) -> str:
        return "Resend_" + self.layout.names.name(("resend", role.name, peer.name), f"{role.name}_{peer.name}")

    # Room

    def room(self, role: Role, tr: Transition) -> list[str]:
        """Conditions for every channel that a transition sends into to have room; they are of the state before it."""
        f = self.frame(role, tr.event)
        commit = Commit({u.name: u for u in tr.updates}, self.layout.state(role, tr.target), f)
        found = []
        for name in work_of(role, tr):
            task = role.tasks[name]
            if isinstance(task, Drive):
                self._refuse_driven_sends(self.system.roles[task.role], task)
            if not isinstance(task, Send):
                continue
            channel = self.system.channel_between(role.name, task.receiver)
            if channel.kind in ("mailbox", "set") or channel.capacity is None:
                continue
            if channel.sender == channel.receiver:
                raise Unsupported(
                    f"channel {channel.name} joins machines of one role and has a capacity", "make it a mailbox",
                    channel.place,
                )  # fmt: skip
            for it, test in self.receivers(role, task):
                after = PromelaBindings(self.layout, role.name, f.me, variables={"it": it}, commit=commit)
                self._refuse_reading_driven(role, tr, task)
                tests = [*([test] if test else []), *(term(e, after) for e in (task.when, task.only) if e is not None)]
                place = self.layout.joint(channel, f.me, it).place
                free = f"{place}.slot[{channel.capacity - 1}].kind == 0"
                found.append(f"(!({' && '.join(tests)}) || {free})" if tests else f"({free})")
        return found

    def _refuse_driven_sends(self, driven: Role, task: Drive) -> None:
        for other in driven.tasks.values():
            if isinstance(other, Send) and self.system.channel_between(driven.name, other.receiver).capacity:
                raise Unsupported(
                    f"subsidiary {driven.name} sends {other.message} over a channel with a capacity",
                    "let its parent send it, or make the channel a mailbox", task.place,
                )  # fmt: skip
            if isinstance(other, Drive):
                self._refuse_driven_sends(self.system.roles[other.role], task)

    def _refuse_reading_driven(self, role: Role, tr: Transition, task: Send) -> None:
        """What the condition of a send reads must not change between the commit and the send."""
        conditions = [e for e in (task.when, task.only) if e is not None]
        others = any(
            x.mentions(e, lambda n: x.reads_messages(n)
                       or (isinstance(n, x.Data | x.ControlState) and n.role != role.name))
            for e in conditions
        )  # fmt: skip
        if others and len([n for n in work_of(role, tr) if not isinstance(role.tasks[n], Call)]) > 1:
            raise Unsupported(
                f"whether task {task.name} sends into a channel with a capacity depends on what other tasks do",
                "let it read its own record alone", task.place,
            )  # fmt: skip

    # Local events

    def offered(self, role: Role) -> Iterator[tuple[Offer, str]]:
        """The offers of local events to a role, each with the name of its condition, if it has one."""
        for state in role.states:
            for n, offer in enumerate(self.layout.relation.offers[role.name, state]):
                wish = f"May_{role.name}_{state}_{n + 1}"
                if offer.cause != "tick":
                    name = self.layout.names.name(("may", role.name, state, str(n)), wish)
                    yield offer, name if self._conditions(role, offer) else ""

    def may(self, role: Role, offer: Offer, name: str) -> list[str]:
        """The condition under which a local event may come."""
        parameters = ", ".join(self.parameters(role, offer.event))
        what = f"answers {offer.name}" if offer.cause == "answer" else offer.name
        comment = wrapped(f"{name}: {offer.event}, {what}", "/* ", " * ", " */")
        conditions = " && ".join(self._conditions(role, offer))
        return [*comment, f"#define {name}({parameters}) ({conditions})"]

    def _conditions(self, role: Role, offer: Offer) -> list[str]:
        f = self.frame(role, offer.event)
        found = [term(e, f) for e in offer.conditions]
        if offer.outside:
            outside = PromelaBindings(self.layout, arguments=f.arguments, variables={"it": f.me})
            found.append("(" + " || ".join(term(e, outside) for e in offer.outside) + ")")
        for field in self.system.fields_of(role.name, offer.event):
            if field.explore is not None and moving(field):
                low, high = (term(e, PromelaBindings(self.layout)) for e in field.explore)
                found += self._between(field.type, f.arguments[field.name], low, high)
        return found

    def _between(self, kind: t.Type, words: list[str], low: str, high: str) -> list[str]:
        found = []
        for n, (_, of) in enumerate(scalars("", kind)):
            if isinstance(of, t.Int | t.Time | t.Opaque):
                test = f"{low} <= {words[n]} && {words[n]} <= {high}"
                option = isinstance(kind, t.Option) or (isinstance(kind, t.Map) and isinstance(kind.of, t.Option))
                found.append(f"(!{words[n - 1]} || ({test}))" if option else f"({test})")
        return found


def _reads_what_is_written(role: Role, updates: tuple[Update, ...]) -> bool:
    """Whether an update reads a field that one before it, or another part of itself, writes."""
    written: set[str] = set()
    for update in updates:
        if isinstance(role.data[update.name].type, t.Map | t.Option):
            written.add(update.name)
        for e in (update.value, update.key):
            if x.mentions(e, lambda n: isinstance(n, x.Data) and n.name in written):
                return True
        written.add(update.name)
    return False


def _if(test: str, body: list[str]) -> list[str]:
    """Statements under a condition, or without one."""
    if not test:
        return body
    return ["if", f":: {test} ->", *(f"\t{line}" for line in _terminated(body)), ":: else", "fi"]


def _terminated(lines: list[str]) -> list[str]:
    """Statements with what stands between them."""
    found = []
    for n, line in enumerate(lines):
        opens = line.strip() in ("if", "do", ":: else") or line.rstrip().endswith(("->", ";"))
        following = lines[n + 1].strip() if n + 1 < len(lines) else "fi"
        ends = following.startswith("::") or following in ("fi", "od")
        found.append(line if opens or ends else f"{line};")
    return found
