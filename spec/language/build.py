"""Second pass: every declaration to its part of the model, every expression parsed and typed where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language import shape
from leasehold.spec.language.build_fields import FieldBuilder
from leasehold.spec.language.declare import doc_of, text_of, type_node
from leasehold.spec.language.diagnostics import Place, Quiet, a, listed, near_miss
from leasehold.spec.language.files import as_mapping
from leasehold.spec.language.names import Scope
from leasehold.spec.language.parse import parse
from leasehold.spec.language.parse_type import parse_type
from leasehold.spec.language.source import Node
from leasehold.spec.language.types import (
    BOOL,
    Map,
    Type,
)

_TARGET = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(?:\[(.*)\]\s*)?\Z", re.S)
TICK = "tick"


class Builder(FieldBuilder):
    """Runs the second pass; errors go to the sink, and what was wrong is left out of the model."""

    # Roles

    def role(self, name: str, node: Node) -> m.Role:
        names = self.names.roles[name]
        own = text_of(node, "role")
        if own != name:
            place = (node.get("role") or node).place
            self.sink.error(
                "LH503", place, f"this file is read as the role `{name}`, but calls itself `{own}`",
                remedy=f"write `role: {name}`",
            )  # fmt: skip
        data, events = self.data(node.get("data")), self.events(node.get("events"))
        for event in events.values():
            if self._is_message_to(name, event.name) or event.name == TICK:
                self.sink.error(
                    "LH206", event.place, f"`{event.name}` is a message to {name}, or the tick, already",
                    remedy="choose another name for the local event",
                )  # fmt: skip
        parent = self._role(node.get("subsidiary")) if node.get("subsidiary") is not None else None
        tasks = {t: self._task(name, t, place, decl) for t, place, decl in as_mapping(node.get("tasks")).pairs()}
        kept = {t: task for t, task in tasks.items() if task is not None}
        groups = {kind: self._groups(name, node.get(kind)) for kind in ("ignore", "refuse")}
        states = {
            s: self._state(name, s, place, decl, tasks, groups)
            for s, place, decl in as_mapping(node.get("states")).pairs()
        }
        initial = [s for s in states.values() if s.initial]
        marred = any(
            key not in shape.record("a state").keys
            for _, _, s in as_mapping(node.get("states")).pairs()
            for key, _, _ in s.pairs()
        )
        if len(initial) != 1 and not marred:
            self.sink.error(
                "LH407", initial[1].place if initial else node.key_place("states"),
                f"{a(name)} has {len(initial) or 'no'} initial state{'s' if initial else ''}; it needs one",
                remedy=f"write `initial: true` in one of {listed(states)}",
            )  # fmt: skip
        if not initial:
            first = next(iter(states.values()), None)
            if first is not None:
                states[first.name] = m.State(**{**_fields(first), "initial": True})
        place = node.key_place("role")
        return m.Role(name, names.instance, names.indexed, states, data, events, kept, parent, doc_of(node), place)

    def _groups(self, role: str, node: Node | None) -> dict[str, dict[str, tuple[str, Place]]]:
        """state: event: (reason, place) of the role's grouped ignores or refusals."""
        found: dict[str, dict[str, tuple[str, Place]]] = {}
        for group in node or ():
            reason = " ".join(text_of(group, "because").split())
            for state in _names(group.get("in")):
                self._known_state(role, state)
                for event in _names(group.get("events")):
                    if self._known_event(role, event.text, event.place):
                        cell = found.setdefault(state.text, {})
                        if event.text in cell:
                            self.sink.error(
                                "LH206", event.place, f"`{event.text}` in {role}/{state.text} stands in two groups",
                                remedy="keep one reason for each pair",
                            )  # fmt: skip
                        cell[event.text] = (reason, event.place)
        return found

    def _known_state(self, role: str, node: Node) -> bool:
        names = self.names.roles[role]
        states = names.declared
        if node.text not in states:
            made = node.text in names.states.members
            self.sink.error(
                "LH404", node.place, f"{a(role)} has no state `{node.text}`" + " of its own" * made,
                near=None if made else near_miss(node.text, states),
                remedy="write the state that it is made for: which tasks still run is not for the text to say" if made
                else f"its states: {listed(states, 20)}",
            )  # fmt: skip
            return False
        return True

    def _known_event(self, role: str, event: str, place: Place) -> bool:
        events = self.names.roles[role].events
        if event not in events:
            self.sink.error(
                "LH406", place, f"{a(role)} consumes no event `{event}`", near=near_miss(event, events),
                remedy=f"its events: {listed(sorted(events), 30)}",
            )  # fmt: skip
            return False
        return True

    def _state(
        self, role: str, name: str, place: Place, node: Node, tasks: Mapping[str, Any],
        groups: Mapping[str, Mapping[str, Mapping[str, tuple[str, Place]]]],
    ) -> m.State:  # fmt: skip
        started = tuple(t.text for t in self._each_once(node.get("tasks"), "tasks") if self._known_task(role, t, tasks))
        on: dict[str, tuple[m.Transition, ...]] = {}
        for event, where, decl in as_mapping(node.get("on")).pairs():
            if self._known_event(role, event, where):
                choices = decl.items if decl.kind == "list" else (decl,)
                on[event] = tuple(
                    self._transition(role, name, event, i, choice, tasks) for i, choice in enumerate(choices)
                )
        left_alone: dict[str, dict[str, str]] = {"ignore": {}, "refuse": {}}
        for kind, reasons in left_alone.items():
            for event, where, reason in as_mapping(node.get(kind)).pairs():
                if self._known_event(role, event, where):
                    reasons[event] = " ".join(reason.text.split())
                    if (role, name, event) in self.reasons:
                        self.sink.error(
                            "LH204", where, f"{role}/{name} both ignores and refuses `{event}`", remedy="remove one"
                        )
                    self.reasons[role, name, event] = where
            for event, (text, where) in groups[kind].get(name, {}).items():
                if event in reasons:
                    self.sink.error(
                        "LH206", where, f"`{event}` in {role}/{name} is listed twice under {kind}", remedy="remove one"
                    )
                elif (role, name, event) in self.reasons:
                    self.sink.error(
                        "LH204", where, f"{role}/{name} both ignores and refuses `{event}`", remedy="remove one"
                    )
                reasons[event] = text
                self.reasons[role, name, event] = where
        return m.State(
            name, text_of(node, "initial") == "true", started, on, left_alone["ignore"], left_alone["refuse"],
            doc=doc_of(node), place=place,
        )  # fmt: skip

    def _each_once(self, node: Node | None, key: str) -> Iterator[Node]:
        seen: set[str] = set()
        for item in _names(node):
            if item.text in seen:
                self.sink.error("LH206", item.place, f"`{item.text}` stands twice under {key}", remedy="remove one")
            else:
                seen.add(item.text)
                yield item

    def _known_task(self, role: str, node: Node, tasks: Mapping[str, Any]) -> bool:
        if node.text not in tasks:
            self.sink.error(
                "LH405", node.place, f"{a(role)} has no task `{node.text}`", near=near_miss(node.text, tasks),
                remedy=f"its tasks: {listed(tasks, 30)}",
            )  # fmt: skip
            return False
        return tasks[node.text] is not None

    def _transition(
        self, role: str, state: str, event: str, position: int, node: Node, tasks: Mapping[str, Any]
    ) -> m.Transition:
        scope = self._event_scope(role, event)
        to, stay = node.get("to"), text_of(node, "stay") == "true"
        marred = any(
            key not in shape.record("a transition").keys for key, _, _ in node.pairs()
        )  # reported: may have meant this
        if (to is None) == (not stay) and not marred:
            self.sink.error(
                "LH204", node.place, f"{role}/{state} on {event}: a transition has either `to` or `stay: true`",
                remedy="`to: STATE` enters a state and starts its tasks; `stay: true` only updates the record",
            )  # fmt: skip
        target = state if to is None or not self._known_state(role, to) else to.text
        when = node.get("when")
        updates = []
        for name, place, value in as_mapping(node.get("set")).pairs():
            update = self._update(role, name, place, value, scope)
            if update is not None:
                updates.append(update)
        also = []
        for task in self._each_once(node.get("also"), "also"):
            if self._known_task(role, task, tasks):
                if not isinstance(tasks[task.text], m.Send):
                    self.sink.error(
                        "LH416", task.place, f"`{task.text}` is no send: recovery does not start it again, so its "
                        "answer may never come", remedy="list it under a state's `tasks`",
                    )  # fmt: skip
                also.append(task.text)
        return m.Transition(
            role, state, event, position, target, parse(when, scope, self.sink, BOOL) if when else None,
            tuple(updates), stay and to is None, tuple(also), doc_of(node), node.place,
        )  # fmt: skip

    def _is_message_to(self, role: str, event: str) -> bool:
        item = self.files.messages.get(event)
        return item is not None and text_of(item.node, "to") == role

    def _event_scope(self, role: str, event: str) -> Scope:
        if self._is_message_to(role, event):
            sender = text_of(self.files.messages[event].node, "from")
            instance = self.names.roles[sender].instance if sender in self.names.roles else None
            return Scope(self.names, role, self.names.messages[event], instance, clock=self.clock)
        local = as_mapping(as_mapping(self.files.roles[role].get("events")).get(event))
        fields = local.get("fields") if local.kind == "mapping" else None
        quiet = Quiet()
        types = {n: parse_type(type_node(d), self.small, quiet) for n, _, d in as_mapping(fields).pairs()}
        return Scope(self.names, role, types, clock=self.clock)

    def _update(self, role: str, target: str, place: Place, value: Node, scope: Scope) -> m.Update | None:
        data = self.names.roles[role].data
        found = _TARGET.match(target)
        name, key_text = (found.group(1), found.group(2)) if found else (target, None)
        kind = data.get(name)
        if kind is None:
            self.sink.error(
                "LH305", place, f"{a(role)} has no field `{name[:40]}` to set", near=near_miss(name, data),
                remedy=f"its data: {listed(data, 30)}",
            )  # fmt: skip
            return None
        key: x.Expression | None = None
        if key_text is not None:
            if not isinstance(kind, Map):
                self.sink.error(
                    "LH303", place, f"`{name}` is of type {kind}, not a map", remedy=f"set it whole: `{name}: ...`"
                )
                return None
            if "][" in key_text.replace(" ", ""):
                self.sink.error(
                    "LH303", place, f"`{target[:60]}` names a cell within a cell; one cell is set at a time",
                    remedy=f"keep a map for each {kind.key}, or one map whose key is a type of its own with a member "
                    "for each pair",
                )  # fmt: skip
                return None
            key = parse(Node("text", place, key_text), scope, self.sink, kind.key)
            kind = kind.of
        return m.Update(name, key, parse(value, scope, self.sink, kind), place)

    # Tasks

    def _task(self, role: str, name: str, place: Place, node: Node) -> m.Task | None:
        kinds = [k for k in ("send", "call", "drive") if node.get(k) is not None]
        if not kinds and any(key not in shape.record("a task").keys for key, _, _ in node.pairs()):
            return None  # reported: the key that is not known may be the one that is missing
        if len(kinds) != 1:
            self.sink.error(
                "LH204", place, f"the task `{name}` needs one of send, call and drive; it has {listed(kinds)}",
                remedy="a task sends a message, calls a policy or handler, or drives subsidiary machines",
            )  # fmt: skip
            return None
        allowed = {
            "send": {"send", "to", "with", "only", "when", "doc"}, "call": {"call", "answers", "when", "doc"},
            "drive": {"drive", "event", "with", "only", "when", "answers", "doc"},
        }[kinds[0]]  # fmt: skip
        for key, where, _ in node.pairs():
            if key not in allowed and key in shape.record("a task").keys and key != "outlives":
                self.sink.error(
                    "LH204", where, f"the task `{name}` has no use for `{key}`: it is a {kinds[0]}",
                    remedy=f"a {kinds[0]} takes {listed(sorted(allowed - {kinds[0]}))}",
                )  # fmt: skip
        if text_of(node, "outlives") == "true" and (kinds[0] != "call" or not _some(node.get("answers"))):
            why = "a call without answers never tells that it has ended" if kinds[0] == "call" else (
                f"a {kinds[0]} is done with in the step that enters its state"
            )  # fmt: skip
            self.sink.error(
                "LH417", node.key_place("outlives"), f"the task `{name}` cannot outlive its state: {why}",
                remedy="name its `answers`, or leave `outlives` out" if kinds[0] == "call" else "leave `outlives` out",
            )  # fmt: skip
        scope = Scope(self.names, role, clock=False)
        when = self._maybe(node.get("when"), scope)
        make = {"send": self._send, "call": self._call, "drive": self._drive}[kinds[0]]
        return make(role, name, place, node, scope, when)

    def _maybe(self, node: Node | None, scope: Scope) -> x.Expression | None:
        return parse(node, scope, self.sink, BOOL) if node is not None else None

    def _send(
        self, role: str, name: str, place: Place, node: Node, scope: Scope, when: x.Expression | None
    ) -> m.Task | None:
        sent = node.get("send")
        assert sent is not None
        if sent.text not in self.names.messages:
            self.sink.error(
                "LH406", sent.place, f"`{sent.text}` is not a message", near=near_miss(sent.text, self.names.messages),
                remedy=f"messages: {listed(self.names.messages, 30)}",
            )  # fmt: skip
            return None
        declared = self.files.messages[sent.text].node
        sender, receiver = text_of(declared, "from"), text_of(declared, "to")
        to = node.get("to")
        if sender != role or (to is not None and to.text != receiver):
            self.sink.error(
                "LH503", (to or sent).place, f"`{sent.text}` goes from {sender} to {receiver}, not from {role}"
                + (f" to {to.text}" if to else ""), near=f"`{receiver}`" if to and sender == role else None,
                remedy=f"leave `to` out, or write `to: {receiver}`" if sender == role else f"only {a(sender)} sends it",
            )  # fmt: skip
            return None
        if receiver not in self.names.roles:
            return None  # reported with the message
        fields = self._with(node, self.names.messages[sent.text], sent.text, scope)
        only = self._only(node.get("only"), scope, receiver)
        return m.Send(name, sent.text, receiver, fields, only, when, doc_of(node), place)

    def _with(self, node: Node, wanted: Mapping[str, Type], what: str, scope: Scope) -> dict[str, x.Expression]:
        given = as_mapping(node.get("with"))
        fields: dict[str, x.Expression] = {}
        for name, place, value in given.pairs():
            if name not in wanted:
                self.sink.error(
                    "LH413", place, f"`{what}` has no field `{name}`", near=near_miss(name, wanted),
                    remedy=f"its fields: {listed(wanted)}",
                )  # fmt: skip
            else:
                fields[name] = parse(value, scope, self.sink, wanted[name])
        for name in wanted:
            if given.get(name) is None:
                self.sink.error(
                    "LH413", node.place, f"`{what}` is sent without its field `{name}`",
                    remedy=f"write `with: {{{name}: ...}}`",
                )  # fmt: skip
        return fields

    def _only(self, node: Node | None, scope: Scope, role: str) -> x.Expression | None:
        return self._maybe(node, scope.bind(it=self.names.roles[role].instance)) if node is not None else None

    def _call(
        self, role: str, name: str, place: Place, node: Node, scope: Scope, when: x.Expression | None
    ) -> m.Task | None:
        answers = node.get("answers")
        if answers is not None and answers.kind == "mapping":
            self.sink.error(
                "LH203", answers.place, f"the answers of the call `{name}` are a list of events",
                remedy="write `answers: [one, two]`; only a driven task has conditions",
            )  # fmt: skip
            return None
        known = tuple(a.text for a in answers or () if self._known_event(role, a.text, a.place))
        return m.Call(
            name, text_of(node, "call"), known, when, text_of(node, "outlives") == "true", doc_of(node), place
        )

    def _drive(
        self, role: str, name: str, place: Place, node: Node, scope: Scope, when: x.Expression | None
    ) -> m.Task | None:
        driven, event = node.get("drive"), node.get("event")
        target = self._role(driven)
        if target is None or driven is None:
            return None
        parent = text_of(as_mapping(self.files.roles.get(target)), "subsidiary")
        if parent != role:
            self.sink.error(
                "LH503", driven.place, f"{a(target)} is not subsidiary to {a(role)}, so it cannot be driven by one",
                remedy=f"write `subsidiary: {role}` in its file, or send it a message",
            )  # fmt: skip
            return None
        if event is None:
            self.sink.error(
                "LH202", node.place, f"the task `{name}` does not say which `event` it drives",
                remedy=f"write `event: ...`, one of {listed(sorted(self.names.roles[target].events))}",
            )  # fmt: skip
            return None
        if not self._known_event(target, event.text, event.place):
            return None
        fields = self._with(node, dict(self._event_scope(target, event.text).arguments or {}), event.text, scope)
        answers = {}
        for answer, where, condition in as_mapping(node.get("answers")).pairs():
            if self._known_event(role, answer, where):
                answers[answer] = parse(condition, scope, self.sink, BOOL)
        only = self._only(node.get("only"), scope, target)
        return m.Drive(name, target, event.text, fields, answers, only, when, doc_of(node), place)


def _names(node: Node | None) -> Iterable[Node]:
    """A name or a list of names, as a list."""
    if node is None:
        return ()
    return (node,) if node.kind == "text" else node.items


def _some(answers: Node | None) -> bool:
    return answers is not None and (answers.kind != "list" or bool(answers.items))


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
