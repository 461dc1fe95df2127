"""Second pass: every declaration to its part of the model, every expression parsed and typed where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language.declare.build_fields import READ_AT_FIRST, FieldBuilder
from leasehold.spec.language.declare.declare import doc_of, text_of, type_node
from leasehold.spec.language.diagnostics import DiscardingSink, Place, a, near_miss
from leasehold.spec.language.lower.captures import starting_events
from leasehold.spec.language.read import shape
from leasehold.spec.language.read.files import as_mapping
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.render.evaluate import Context, NoState, evaluate
from leasehold.spec.language.types import BOOL, UNKNOWN, Map, Type, UnknownType
from leasehold.spec.language.typing.names import Scope
from leasehold.spec.language.typing.parse import optional, parse
from leasehold.spec.language.typing.parse_type import parse_type

_TARGET = re.compile(rf"\s*({x.SHARED.name}\.)?([a-z][a-z0-9_]*)\s*(?:\[(.*)\]\s*)?\Z", re.S)
TICK = "tick"
_LEFT_ALONE: tuple[Literal["ignore", "refuse"], ...] = ("ignore", "refuse")
_STATE, _TRANSITION, _TASK = (shape.record(f"a {name}").keys for name in ("state", "transition", "task"))


class Builder(FieldBuilder):
    """Runs the second pass; errors go to the sink, and wrong declarations are left out of the model."""

    # Roles

    def role(self, name: str, node: YamlNode) -> m.Role:
        names = self.names.roles[name]
        own = text_of(node, "role")
        if own != name:
            place = (node.get("role") or node).place
            self.sink.error("other_role_name", place, name=name, own=own)
        data, events = self.data(name, node.get("data")), self.events(node.get("events"))
        for event in events.values():
            if self._is_message_to(name, event.name) or event.name == TICK:
                self.sink.error("event_is_message", event.place, event=event.name, name=name)
        parent = self._role(node.get("subsidiary")) if node.get("subsidiary") is not None else None
        if parent is None and node.get("belongs_to") is not None:
            self.sink.error("belongs_without_parent", node.key_place("belongs_to"), name=name)
        starts = starting_events(node)
        tasks = {t: self._task(name, t, place, decl, starts.get(t, [])) for t, place, decl in node.pairs_of("tasks")}
        kept = {t: task for t, task in tasks.items() if task is not None}
        groups = {str(kind): self._groups(name, kind, node.get(kind)) for kind in _LEFT_ALONE}
        states = {s: self._state(name, s, place, decl, tasks, groups) for s, place, decl in node.pairs_of("states")}
        begin: tuple[str, ...] = ()
        initial = [s for s in states.values() if s.initial]
        marred = any(key not in _STATE for _, _, s in node.pairs_of("states") for key, _, _ in s.pairs())
        if any(s.starts is not None for s in initial):
            begin = self._begin(name, initial)
        elif len(initial) != 1 and not marred:
            at = initial[1].place if initial else node.key_place("states")
            count = f"{len(initial)} initial states" if initial else "no initial state"
            self.sink.error("one_initial_state", at, role=a(name), count=count, states=states)
        if not initial:
            first = next(iter(states.values()), None)
            if first is not None:
                states[first.name] = replace(first, initial=True)
        place = node.key_place("role")
        return m.Role(
            name,
            names.instance,
            names.indexed,
            states,
            data,
            events,
            kept,
            parent,
            doc_of(node),
            place,
            names.definitions,
            begin,
            text_of(node, "belongs_to") == "run",
        )

    def _begin(self, role: str, initial: Sequence[m.State]) -> tuple[str, ...]:
        """The initial state of each machine of a role whose machines do not all start alike; empty if it is wrong."""
        instance, values = self.names.roles[role].instance, self.declared.values()
        states = []
        for i in range(instance.count):
            context = Context(NoState(), values, self=i)
            of = [s for s in initial if s.starts is None or (_is_sound(s.starts) and evaluate(s.starts, context))]
            if len(of) != 1 and all(s.starts is None or _is_sound(s.starts) for s in initial):
                count = " and ".join(f"`{s.name}`" for s in of) or "none"
                machine = f"{role}[{i}]" if instance.indexed else role
                self.sink.error("initial_state_of", initial[-1].place, machine=machine, count=count)
                return ()
            states += [s.name for s in of]
        return tuple(states) if len(states) == instance.count else ()

    def _starts(self, role: str, node: YamlNode | None) -> x.Expression | None:
        """Returns the condition on machines for which a state is the initial one; None: `true`, `false` or nothing."""
        if node is None or node.text in ("true", "false"):
            return None
        condition = parse(node, Scope(self.names, role, clock=False), self.sink, BOOL)
        if x.mentions(condition, lambda e: not isinstance(e, READ_AT_FIRST)):
            self.sink.error("initial_reads", node.place)
            return x.Literal_(type=UNKNOWN, value=None, place=node.place)
        return condition

    def _groups(self, role: str, kind: str, node: YamlNode | None) -> dict[str, dict[str, tuple[str, Place]]]:
        """state: event: (reason, place) of the role's grouped ignores or refusals."""
        groups: dict[str, dict[str, tuple[str, Place]]] = {}
        for group in node or ():
            because = group.get("because")
            where = f"a group under `{kind}` of {role}"
            reason = "" if because is None else self._reason(because, where, "its events", 'because: "why"')
            for state in group.names("in"):
                self._known_state(role, state)
                for event in group.names("events"):
                    if self._known_event(role, event.text, event.place):
                        cell = groups.setdefault(state.text, {})
                        if event.text in cell:
                            self.sink.error("two_groups", event.place, event=event.text, role=role, state=state.text)
                        cell[event.text] = (reason, event.place)
        return groups

    def _known_state(self, role: str, node: YamlNode) -> bool:
        names = self.names.roles[role]
        states = names.declared
        if node.text in states:
            return True
        if node.text in names.states.members:
            self.sink.error("remembering_state", node.place, role=a(role), name=node.text)
        else:
            self.sink.unknown("unknown_state", node.place, node.text, states, role=a(role))
        return False

    def _known_event(self, role: str, event: str, place: Place) -> bool:
        events = self.names.roles[role].events
        if event not in events:
            self.sink.unknown("unknown_event", place, event, sorted(events), role=a(role))
            return False
        return True

    def _state(
        self,
        role: str,
        name: str,
        place: Place,
        node: YamlNode,
        tasks: Mapping[str, Any],
        groups: Mapping[str, Mapping[str, Mapping[str, tuple[str, Place]]]],
    ) -> m.State:
        started = tuple(t.text for t in self._each_once(node, "tasks") if self._known_task(role, t, tasks))
        on: dict[str, tuple[m.Transition, ...]] = {}
        for event, where, decl in node.pairs_of("on"):
            if self._known_event(role, event, where):
                choices = decl.items if decl.kind == "list" else (decl,)
                on[event] = tuple(
                    self._transition(role, name, event, i, choice, tasks) for i, choice in enumerate(choices)
                )
        left_alone: dict[str, dict[str, str]] = {kind: {} for kind in _LEFT_ALONE}
        for kind, reasons in left_alone.items():
            for event, where, reason in node.pairs_of(kind):
                if self._known_event(role, event, where):
                    example = f'{kind}: {{{event}: "why"}}'
                    reasons[event] = self._reason(reason, f"{role}/{name}", f"`{event}`", example)
                    if (role, name, event) in self.reasons:
                        self.sink.error("ignored_and_refused", where, role=role, name=name, event=event)
                    self.reasons[role, name, event] = where
            for event, (text, where) in groups[kind].get(name, {}).items():
                if event in reasons:
                    self.sink.error("listed_twice", where, event=event, role=role, name=name, kind=kind)
                elif (role, name, event) in self.reasons:
                    self.sink.error("ignored_and_refused", where, role=role, name=name, event=event)
                reasons[event] = text
                self.reasons[role, name, event] = where
        starts = self._starts(role, node.get("initial"))
        others = node.get("others")
        return m.State(
            name,
            starts is not None or text_of(node, "initial") == "true",
            started,
            on,
            left_alone["ignore"],
            left_alone["refuse"],
            doc=doc_of(node),
            place=place,
            starts=starts,
            ends=text_of(node, "over") == "true",
            others=None if others is None else self._others(role, name, others),
        )

    def _reason(self, node: YamlNode, where: str, events: str, example: str) -> str:
        text = " ".join(node.text.split())
        if not text:
            self.sink.error("no_reason", node.place, where=where, events=events, example=example)
        return text

    def _others(self, role: str, name: str, node: YamlNode) -> m.Others | None:
        given = [(kind, reason) for kind in _LEFT_ALONE if (reason := node.get(kind)) is not None]
        if len(given) == 1:
            kind, reason = given[0]
            why = self._reason(reason, f"{role}/{name}", "all other events", f'others: {{{kind}: "why"}}')
            return m.Others(kind, why, place=node.place)
        if all(key in _LEFT_ALONE for key, _, _ in node.pairs()):  # else reported: may have meant one of the two
            both = "both `ignore` and `refuse`" if given else "neither `ignore` nor `refuse`"
            self.sink.error("others_kind", node.place, role=role, name=name, given=both)
        return None

    def _each_once(self, node: YamlNode, key: str) -> Iterator[YamlNode]:
        seen: set[str] = set()
        for item in node.names(key):
            if item.text in seen:
                self.sink.error("stands_twice", item.place, item=item.text, key=key)
            else:
                seen.add(item.text)
                yield item

    def _known_task(self, role: str, node: YamlNode, tasks: Mapping[str, Any]) -> bool:
        if node.text not in tasks:
            self.sink.unknown("unknown_task", node.place, node.text, tasks, role=a(role))
            return False
        return tasks[node.text] is not None

    def _transition(
        self, role: str, state: str, event: str, position: int, node: YamlNode, tasks: Mapping[str, Any]
    ) -> m.Transition:
        scope = self._event_scope(role, event)
        to, stay = node.get("to"), text_of(node, "stay") == "true"
        marred = any(key not in _TRANSITION for key, _, _ in node.pairs())  # reported: may have meant one of the two
        if (to is None) == (not stay) and not marred:
            self.sink.error("to_or_stay", node.place, role=role, state=state, event=event)
        target = state if to is None or not self._known_state(role, to) else to.text
        updates = [self._update(role, name, place, value, scope) for name, place, value in node.pairs_of("set")]
        also = []
        for task in self._each_once(node, "also"):
            if self._known_task(role, task, tasks):
                if isinstance(tasks[task.text], m.Call):
                    self.sink.error("also_no_send", task.place, task=task.text)
                also.append(task.text)
        return m.Transition(
            role,
            state,
            event,
            position,
            target,
            optional(node.get("when"), scope, self.sink),
            tuple(u for u in updates if u is not None),
            stay and to is None,
            tuple(also),
            doc_of(node),
            node.place,
        )

    def _is_message_to(self, role: str, event: str) -> bool:
        item = self.files.messages.get(event)
        return item is not None and text_of(item.node, "to") == role

    def _event_scope(self, role: str, event: str) -> Scope:
        if self._is_message_to(role, event):
            sender = text_of(self.files.messages[event].node, "from")
            instance = self.names.roles[sender].instance if sender in self.names.roles else None
            return Scope(self.names, role, self.names.messages[event], instance, clock=self.timed)
        local = as_mapping(as_mapping(self.files.roles[role].get("events")).get(event))
        fields = local.get("fields") if local.kind == "mapping" else None
        quiet = DiscardingSink()
        number_of = self.declarer.number_of
        types = {n: parse_type(type_node(d), self.small, quiet, number_of) for n, _, d in as_mapping(fields).pairs()}
        return Scope(self.names, role, types, clock=self.timed)

    def _update(self, role: str, target: str, place: Place, value: YamlNode, scope: Scope) -> m.Update | None:
        data = self.names.roles[role].data
        match = _TARGET.match(target)
        shared = bool(match and match.group(1) and self.names.shared)
        name, key_text = (target, None) if match is None or (match.group(1) and not shared) else match.group(2, 3)
        kind = (self.names.shared if shared else data).get(name)
        if kind is None and shared:
            self.sink.unknown("unknown_shared", place, name, self.names.shared)
        elif kind is None:
            near = f"`{x.SHARED.name}.{name}`" if name in self.names.shared else near_miss(name, data)
            known = [*data, *(f"{x.SHARED.name}.{word}" for word in self.names.shared)]
            self.sink.error("unknown_target", place, near=near, role=a(role), word=name[:60], known=known)
        if kind is None:
            return None
        key: x.Expression | None = None
        if key_text is not None:
            if not isinstance(kind, Map):
                self.sink.error("set_no_map", place, name=name, kind=kind)
                return None
            if "][" in key_text.replace(" ", ""):
                self.sink.error("cell_in_cell", place, target=target[:60], key=kind.key)
                return None
            key = parse(YamlNode("text", place, key_text), scope, self.sink, kind.key)
            kind = kind.of
        return m.Update(name, key, parse(value, scope, self.sink, kind), place, shared)

    # Tasks

    def _task(self, role: str, name: str, place: Place, node: YamlNode, starts: list[str]) -> m.Task | None:
        kinds = [k for k in ("send", "call", "drive") if node.get(k) is not None]
        if not kinds and any(key not in _TASK for key, _, _ in node.pairs()):
            return None  # reported: the key that is not known may be the one that is missing
        if len(kinds) != 1:
            self.sink.error("task_kind", place, name=name, kinds=kinds)
            return None
        allowed = {
            "send": {"send", "to", "with", "only", "when", "doc"},
            "call": {"call", "answers", "when", "doc"},
            "drive": {"drive", "event", "with", "only", "when", "answers", "doc"},
        }[kinds[0]]
        for key, where, _ in node.pairs():
            if key not in allowed and key in _TASK and key != "outlives":
                others = sorted(allowed - {kinds[0]})
                self.sink.error("useless_task_key", where, name=name, key=key, kind=kinds[0], keys=others)
        if text_of(node, "outlives") == "true" and (kinds[0] != "call" or not _some(node.get("answers"))):
            wording = "outlives_without_answers" if kinds[0] == "call" else "cannot_outlive"
            self.sink.error(wording, node.key_place("outlives"), name=name, kind=kinds[0])
        scope = Scope(self.names, role, clock=False)
        if kinds[0] != "call":
            scope = self._step_scope(role, scope, starts)
        when = optional(node.get("when"), scope, self.sink)
        make = {"send": self._send, "call": self._call, "drive": self._drive}[kinds[0]]
        return make(role, name, place, node, scope, when)

    def _step_scope(self, role: str, scope: Scope, starts: list[str]) -> Scope:
        """The scope of a task that may read the step which starts it: what all events that do so have alike."""
        scopes = [self._event_scope(role, event) for event in starts if event in self.names.roles[role].events]
        alike = dict(scopes[0].arguments or {}) if scopes else {}
        for other in scopes[1:]:
            alike = {n: of for n, of in alike.items() if (other.arguments or {}).get(n) == of}
        senders = {s.sender for s in scopes}
        return replace(scope, arguments=alike, sender=senders.pop() if len(senders) == 1 else None, before=True)

    def _send(
        self, role: str, name: str, place: Place, node: YamlNode, scope: Scope, when: x.Expression | None
    ) -> m.Task | None:
        sent = node.get("send")
        assert sent is not None
        if sent.text not in self.names.messages:
            self.sink.unknown("unknown_message", sent.place, sent.text, self.names.messages)
            return None
        declared = self.files.messages[sent.text].node
        sender, receiver = text_of(declared, "from"), text_of(declared, "to")
        to = node.get("to")
        word = "" if to is None else to.text.strip()
        named = sender == role and (not word.isidentifier() or word in self.names.roles[role].data) and bool(word)
        if sender != role or (to is not None and not named and to.text != receiver):
            ends = {"message": sent.text, "sender": sender, "receiver": receiver, "role": role}
            if to is not None and sender == role:
                self.sink.error("wrong_receiver", to.place, near=f"`{receiver}`", to=to.text, **ends)
            else:
                other = f" to {to.text}" if to else ""
                self.sink.error("wrong_sender", (to or sent).place, a_sender=a(sender), to=other, **ends)
            return None
        if receiver not in self.names.roles:
            return None  # reported with the message
        each = scope.bind(it=self.names.roles[receiver].instance)
        fields = self._with(node, self.names.messages[sent.text], sent.text, each)
        only = self._only(node.get("only"), scope, receiver)
        if to is not None and named:
            only = self._addressed(to, scope, receiver, only)
        return m.Send(name, sent.text, receiver, fields, only, when, doc_of(node), place)

    def _addressed(self, to: YamlNode, scope: Scope, role: str, only: x.Expression | None) -> x.Expression:
        """The condition that a receiver is the machine that a text names."""
        named = self._only(YamlNode("text", to.place, f"it == ({to.text})"), scope, role)
        return x.conjunction([e for e in (only, named) if e is not None], to.place)

    def _with(self, node: YamlNode, wanted: Mapping[str, Type], subject: str, scope: Scope) -> dict[str, x.Expression]:
        given = as_mapping(node.get("with"))
        fields: dict[str, x.Expression] = {}
        for name, place, value in given.pairs():
            if name not in wanted:
                self.sink.unknown("unknown_sent_field", place, name, wanted, what=subject)
            else:
                fields[name] = parse(value, scope, self.sink, wanted[name])
        for name in wanted:
            if given.get(name) is None:
                self.sink.error("missing_sent_field", node.place, what=subject, name=name)
        return fields

    def _only(self, node: YamlNode | None, scope: Scope, role: str) -> x.Expression | None:
        return optional(node, scope.bind(it=self.names.roles[role].instance), self.sink)

    def _call(
        self, role: str, name: str, place: Place, node: YamlNode, scope: Scope, when: x.Expression | None
    ) -> m.Task | None:
        answers = node.get("answers")
        if answers is not None and answers.kind == "mapping":
            self.sink.error("call_answers", answers.place, name=name)
            return None
        known = tuple(a.text for a in answers or () if self._known_event(role, a.text, a.place))
        target = text_of(node, "call")
        kind, _, called = target.partition(".")
        if kind not in ("policy", "handler") or not called:
            near = near_miss(target, [f"{one}.{called or 'NAME'}" for one in ("policy", "handler")])
            self.sink.error("call_of_nothing", (node.get("call") or node).place, near=near, word=target[:60])
        return m.Call(name, target, known, when, text_of(node, "outlives") == "true", doc_of(node), place)

    def _drive(
        self, role: str, name: str, place: Place, node: YamlNode, scope: Scope, when: x.Expression | None
    ) -> m.Task | None:
        driven, event = node.get("drive"), node.get("event")
        target = self._role(driven)
        if target is None or driven is None:
            return None
        parent = text_of(as_mapping(self.files.roles.get(target)), "subsidiary")
        if parent != role:
            self.sink.error("not_subsidiary", driven.place, target=a(target), a_role=a(role), role=role)
            return None
        if event is None:
            self.sink.error("drives_no_event", node.place, name=name, known=sorted(self.names.roles[target].events))
            return None
        if not self._known_event(target, event.text, event.place):
            return None
        each = scope.bind(it=self.names.roles[target].instance)
        fields = self._with(node, dict(self._event_scope(target, event.text).arguments or {}), event.text, each)
        answers = {}
        for answer, where, condition in node.pairs_of("answers"):
            if self._known_event(role, answer, where):
                answers[answer] = parse(condition, scope, self.sink, BOOL)
        only = self._only(node.get("only"), scope, target)
        return m.Drive(name, target, event.text, fields, answers, only, when, doc_of(node), place)


def _is_sound(e: x.Expression) -> bool:
    return not x.mentions(e, lambda part: isinstance(part.type, UnknownType))


def _some(answers: YamlNode | None) -> bool:
    return answers is not None and (answers.kind != "list" or bool(answers.items))
