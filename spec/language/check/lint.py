"""The linter: whether the machines make sense, every pair covered, guards disjoint, nothing unreachable or unused.

Guards are tried over the explore ranges of what they read; a solver can do it for all values, so what is found here is
an error, and what is not found is only as good as the ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from leasehold.spec.language import expression as x
from leasehold.spec.language import parts
from leasehold.spec.language.check.first_states import check_first_state
from leasehold.spec.language.check.lint_guards import MAX_WORK, Combinations, check_guards
from leasehold.spec.language.check.unbounded import reached, warn_of_unbounded
from leasehold.spec.language.declare.build import TICK
from leasehold.spec.language.diagnostics import NOWHERE, EntryFix, Place, Sink
from leasehold.spec.language.lower import work_of
from leasehold.spec.language.lower.others import must_cover, unnamed
from leasehold.spec.language.model import Datum, Drive, Message, Role, Send, State, System, Task
from leasehold.spec.language.operators import COMPARISONS
from leasehold.spec.language.types import Int, Map, Opaque, finite

# The reason that `lint --fix` writes. Refused, as an event that nobody has thought about is not to be dropped silently.
TO_DO = "to do: nobody has thought about {event} in {state} yet; lint --fix wrote this"


def lint(
    system: System,
    sink: Sink,
    reasons: Mapping[tuple[str, str, str], Place],
    states: Collection[tuple[str, str]] | None = None,
) -> None:
    """Reports the mistakes in the machines; `reasons` says where the ignore or refuse of a pair stands.

    With `states`, by role and name, only these are asked whether they cover every event, and nothing is warned of.

    Earlier errors leave holes in the model. Where a finding could be no more than the echo of one, none is made.
    """
    doubt = _Doubt(sink)
    work = Combinations(0 if doubt.of_values else MAX_WORK)
    for role in system.roles.values():
        if not doubt.of_role(role, "LH404"):
            _reachable_states(role, sink)
        for state in role.states.values():
            if not doubt.of_state(role, state) and (states is None or (role.name, state.name) in states):
                _covered(system, role, state, sink, reasons, work)
            _one_message_per_neighbour(system, role, state, sink)
            _internal_keeps_what_was_sent(system, role, state, sink)
            _drives_are_repeated(role, state, sink)
            _ticks_ask_the_clock(role, state, sink)
        if not doubt.of_role(role):
            _tasks_started(role, sink)
    if not doubt.anywhere:
        for role in system.roles.values():
            _events_arise(system, role, sink)
            _values_to_try_end(system, role, sink)
            _fairness_of_answers(system, role, sink)
        _first_values_end(system.shared.values(), x.SHARED.name, sink)
        _messages_and_channels(system, sink)
        _answers_are_known(system, sink)
    if not sink.errors:
        check_first_state(system, sink)
    if not sink.errors and states is None:
        for role in system.roles.values():
            _first_tasks_begin(role, sink)
        _all_is_read(system, sink)
        _times_of_contracts(system, sink)
        warn_of_unbounded(system, sink)


# Errors that leave every name, state, event and task of the model in its place.
_HARMLESS = frozenset(
    f"LH{n}"
    for n in (301, 302, 303, 304, 305, 306, 307, 308, 309, 404, 413, 416, 507, 601, 602, 603, 604, 605, 701, 702)
)


class _Doubt:
    """The places where earlier errors leave the model incomplete."""

    def __init__(self, sink: Sink) -> None:
        self.errors = [d for d in sink.errors if d.place != NOWHERE]
        self.anywhere = any(d.code not in _HARMLESS for d in self.errors)
        self.of_values = any(d.code in ("LH307", "LH702") for d in sink.errors)

    def _places(self, role: Role, *more: str) -> list[Place]:
        return [
            d.place
            for d in self.errors
            if d.place.file == role.place.file and (d.code not in _HARMLESS or d.code in more)
        ]

    def of_role(self, role: Role, *more: str) -> bool:
        return bool(self._places(role, *more))

    def of_state(self, role: Role, state: State) -> bool:
        """An error within another state is of no concern here; one before or after the states may be."""
        starts = sorted(s.place for s in role.states.values())
        end = next((p for p in starts if p > state.place), starts[-1])
        return any(p < starts[0] or p >= starts[-1] or state.place <= p < end for p in self._places(role))


def _covered(
    system: System,
    role: Role,
    state: State,
    sink: Sink,
    reasons: Mapping[tuple[str, str, str], Place],
    work: Combinations,
) -> None:
    wanted = must_cover(system, role, state)
    left = unnamed(system, role, state)
    if state.others is not None and not left:
        sink.error("no_others", state.others.place, role=role.name, state=state.name)
    if state.others is None and left:
        details = {"role": role.name, "state": state.name, "keys": ", ".join(f'{e}: "why"' for e in left)}
        reasons_to_write = tuple((e, TO_DO.format(event=e, state=state.name)) for e in left)
        fix = EntryFix(state.place, ("states", state.name), "refuse", reasons_to_write)
        sink.error_to_fix("uncovered_pairs", state.place, fix, events=[f"`{e}`" for e in left], **details)
    for event, choices in state.on.items():
        if event != TICK and event not in wanted:
            sink.error("event_cannot_come", choices[0].place, event=event, role=role.name, state=state.name)
        check_guards(system, role, state, event, choices, sink, reasons, work)
    if begun := [event for kind in (state.ignored, state.refused) for event, why in kind.items() if _is_to_do(why)]:
        sink.warning("reason_to_do", state.place, role=role.name, state=state.name, events=[f"`{e}`" for e in begun])
    for kind in (state.ignore, state.refuse):
        for event in kind:
            if event not in wanted and event != TICK:
                place = reasons[role.name, state.name, event]
                sink.error("reason_cannot_apply", place, role=role.name, state=state.name, event=event)


def _is_to_do(reason: str) -> bool:
    """Returns whether a reason stands for one that somebody has still to write."""
    return reason.lower().startswith(("to do", "todo"))


def _reachable_states(role: Role, sink: Sink) -> None:
    targets = {s.name: {t.target for choices in s.on.values() for t in choices} for s in role.states.values()}
    seen = {name for s in role.states.values() if s.initial for name in reached(targets, s.name)}
    for state in role.states.values():
        if state.name not in seen:
            sink.error("unreachable_state", state.place, role=role.name, state=state.name)


def _sends(role: Role, names: Iterable[str]) -> list[Send]:
    return [t for t in (role.tasks.get(n) for n in names) if isinstance(t, Send)]


def _repeating(system: System, role: Role, names: Iterable[str]) -> list[Send]:
    """The sends among tasks whose messages a channel may repeat."""
    lasting = {m for c in system.channels.values() if not c.repeats for m in c.messages}
    return [t for t in _sends(role, names) if t.message not in lasting]


def _one_message_per_neighbour(system: System, role: Role, state: State, sink: Sink) -> None:
    """A transition numbers one message per neighbour, so that recovery gives a resent one its number again."""
    lists: list[tuple[str, ...]] = [state.tasks]
    lists += [work_of(role, t) for t in role.transitions() if t.target == state.name and t.also]
    for names in lists:
        for first, second in sent_together(_repeating(system, role, names)):
            sends = {"first": first.message, "second": second.message, "receiver": first.receiver}
            sink.error("two_messages", state.place, role=role.name, state=state.name, **sends)


def _drives_are_repeated(role: Role, state: State, sink: Sink) -> None:
    """An internal transition may drive what its state drives as well, so that recovery does it again."""
    for choices in state.on.values():
        for transition in choices:
            for name in transition.also:
                if isinstance(role.tasks.get(name), Drive) and not (transition.internal and name in state.tasks):
                    sink.error("also_drives", transition.place, task=name, state=state.name)


def sent_together(sends: Sequence[Send]) -> Iterator[tuple[Send, Send]]:
    """The first two messages of each receiver that is sent several in one step."""
    reported: set[str] = set()
    for i, second in enumerate(sends):
        for first in sends[:i]:
            if first.receiver == second.receiver and first.receiver not in reported and not exclusive(first, second):
                reported.add(second.receiver)
                yield first, second


def exclusive(first: Send, second: Send) -> bool:
    """Returns whether two sends plainly exclude each other: `when: p`, `when: not p and q`, or so for `only`."""
    for a, b in ((first.when, second.when), (first.only, second.only)):
        if a is not None and b is not None and (_negates_a_part(a, b) or _negates_a_part(b, a)):
            return True
    return False


def _negates_a_part(negating: x.Expression, of: x.Expression) -> bool:
    parts = x.conjuncts(of)
    return any(isinstance(q, x.Apply) and q.op == "not" and q.operands[0] in parts for q in x.conjuncts(negating))


def _read_by(task: Task) -> set[str]:
    inside = (e for whole in parts.expressions(task) for e in x.walk(whole))
    return {e.name for e in inside if isinstance(e, x.Data) and e.owner is None}


def _internal_keeps_what_was_sent(system: System, role: Role, state: State, sink: Sink) -> None:
    """A message that is sent again must be the one that its number was first given to."""
    sent = {name: t.message for t in _repeating(system, role, state.tasks) for name in _read_by(t)}
    for choices in state.on.values():
        for transition in choices:
            if transition.internal:
                for update in transition.updates:
                    if update.name in sent and not update.shared:
                        details = {"message": sent[update.name], "field": update.name}
                        sink.error("internal_changes_sent", update.place, role=role.name, state=state.name, **details)


def _ticks_ask_the_clock(role: Role, state: State, sink: Sink) -> None:
    for transition in state.on.get(TICK, ()):
        if not x.mentions(transition.guard, lambda e: isinstance(e, x.Now)):
            sink.error("every_tick", transition.place, transition=transition.name)


def _times_of_contracts(system: System, sink: Sink) -> None:
    """A number with which a contract compares the time says how far is explored: in a run, the time is far beyond."""
    for outside in system.environment.values():
        for node in x.walk(outside.when) if outside.when is not None else ():
            if not isinstance(node, x.Apply) or node.op not in COMPARISONS:
                continue
            parts = [part for part in x.walk(node) if not isinstance(part, x.Apply)]
            numbers = [part for part in parts if isinstance(part, x.Literal_)]
            if numbers and any(isinstance(p, x.Now) for p in parts) and len(parts) == len(numbers) + 1:
                sink.warning("time_by_a_number", node.place, contract=outside.name, text=x.text(node))


def _first_tasks_begin(role: Role, sink: Sink) -> None:
    """A machine begins its first state without a step, so what it sends or drives there needs a step that enters it."""
    entered = {t.target for t in role.transitions() if not t.internal}
    for state in role.initial:
        idle = [name for name in state.tasks if isinstance(role.tasks.get(name), Send | Drive)]
        if idle and state.name not in entered:
            sink.warning("first_tasks", state.place, role=role.name, state=state.name, tasks=[f"`{t}`" for t in idle])


def _tasks_started(role: Role, sink: Sink) -> None:
    started = {t for s in role.states.values() for t in s.tasks} | {t for tr in role.transitions() for t in tr.also}
    for task in role.tasks.values():
        if task.name not in started:
            sink.error("task_not_started", task.place, role=role.name, task=task.name)


def _events_arise(system: System, role: Role, sink: Sink) -> None:
    offered = {o.event for o in system.environment.values() if o.role == role.name}
    driven = {
        t.event for r in system.roles.values() for t in r.tasks.values() if isinstance(t, Drive) and t.role == role.name
    }
    for event in role.events.values():
        if event.name not in role.answers | offered | driven:
            sink.error("event_never_arises", event.place, event=event.name, role=role.name)


def _fairness_of_answers(system: System, role: Role, sink: Sink) -> None:
    for o in system.environment.values():
        if o.role == role.name and o.event in role.answers and o.fair_for_each:
            sink.error("fair_for_each_of_answer", o.place, name=o.name, event=o.event)


def _values_to_try_end(system: System, role: Role, sink: Sink) -> None:
    """The explorer tries every first value that is `any`, and every value of the events that come by themselves."""
    _first_values_end(role.data.values(), role.name, sink)
    tried = role.answers | {o.event for o in system.environment.values() if o.role == role.name}
    for event in (e for e in role.events.values() if e.name in tried):
        for datum in event.fields:
            _ends(datum, f"`{event.name}` comes with any `{datum.name}`", sink)


def _first_values_end(data: Iterable[Datum], owner: str, sink: Sink) -> None:
    for datum in (d for d in data if d.any_initial):
        _ends(datum, f"`{owner}.{datum.name}` begins with any value", sink)


def _ends(datum: Datum, lead: str, sink: Sink) -> None:
    if not finite(datum.type, datum.explore is not None):
        kinds = {Int: "endless_int", Map: "endless_cells"}
        wording = kinds.get(type(datum.type), "endless_number")
        sink.error(wording, datum.place, lead=lead, kind=datum.type)


# The system


def _messages_and_channels(system: System, sink: Sink) -> None:
    sent = {t.message for r in system.roles.values() for t in r.tasks.values() if isinstance(t, Send)}
    for message in system.messages.values():
        ends = {"message": message.name, "sender": message.sender, "receiver": message.receiver}
        if message.name not in sent:
            sink.error("message_never_sent", message.place, **ends)
        carriers = [c for c in system.channels.values() if message.name in c.messages]
        if not carriers:
            sink.error("no_channel", message.place, **ends)
        elif len(carriers) > 1:
            names = " and ".join(f"`{c.name}`" for c in carriers)
            sink.error("several_channels", message.place, names=names, message=message.name)
    for channel in system.channels.values():
        if not channel.messages:
            sink.warning("empty_channel", channel.place, channel=channel.name)


def _answers_are_known(system: System, sink: Sink) -> None:
    """A duplicate is answered by what its receiver's state sends. If both sides answered so, neither would ever end."""
    numbered = {name for channel in system.channels.values() if "mailbox" in channel.kinds for name in channel.messages}
    requests: dict[tuple[str, str], Message] = {}
    for message in system.messages.values():
        if not message.answer and message.name in numbered:
            requests.setdefault((message.sender, message.receiver), message)
    for (sender, receiver), there in requests.items():
        here = requests.get((receiver, sender))
        if here is not None and sender <= receiver:
            ends = {"sender": sender, "receiver": receiver}
            sink.error("two_requests", here.place, there=there.name, here=here.name, **ends)


def linted_expressions(system: System) -> Iterator[x.Expression]:
    """Every expression of a system, but of its lemmas and faults."""
    claims = (system.properties, system.ends, system.initially, system.constraint)
    mapping = system.refines.values if system.refines is not None else {}
    return parts.expressions((system.roles, system.shared, system.messages, system.environment, claims, mapping))


def _all_is_read(system: System, sink: Sink) -> None:
    inside = [e for whole in linted_expressions(system) for e in x.walk(whole)]
    fields = {(e.role, e.name) for e in inside if isinstance(e, x.Data)}
    constants = {e.name for e in inside if isinstance(e, x.ConstantRef)} | system.counting
    for role in system.holders.values():
        for datum in role.data.values():
            if (role.name, datum.name) not in fields and not isinstance(datum.type, Opaque):
                sink.warning("unread_field", datum.place, datum=datum.name, role=role.name)
    for constant in system.constants.values():
        if constant.name not in constants:
            sink.warning("unread_constant", constant.place, constant=constant.name)
    beside = parts.expressions((system.lemmas, system.faults.modes))
    places = {e.place for e in inside} | {e.place for whole in beside for e in x.walk(whole)}
    for definition in chain(system.definitions.values(), *(r.definitions.values() for r in system.roles.values())):
        if definition.parts.isdisjoint(places):
            sink.warning("unused_definition", definition.place, definition=definition.usage)
