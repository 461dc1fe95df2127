"""Tasks that outlive their state, and the states that remember them (paper, section 3.4, Figure 2).

Theory of operation. Recovery starts W(x) of the state that a machine is in, and nothing that an earlier state began. A
call with `outlives: true` goes on when its state is left by an event that is not one of its answers, so from then on
the machine's control state is a pair: the state that the text names, and the outliving tasks that may still run beside
those of its own W(x). Such a pair is a state of its own here, `closing__backup`. It is in all respects the state
`closing`, but that its W(x) has the task as well, so that recovery starts it again, and that the task's answers lead to
the pair without it. That is an internal transition: the work of `closing` was begun when `closing` was entered.

Only pairs that control states and transitions alone can reach are made. They are counted twice, with one rule: by
declare.py from the text, as expressions may name them, and here from the model, to build them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.model import Call, Role, State, Transition
from leasehold.spec.language.read.source import YamlNode

Running: TypeAlias = frozenset[str]
NONE: Running = frozenset()


def name_of(state: str, running: Running) -> str:
    """The name of a state in which tasks of earlier states still run: `closing__backup`."""
    return "__".join((state, *sorted(running)))


@dataclass(frozen=True, slots=True)
class ControlGraph:
    """The control states, tasks and transitions of a machine, which decide where outliving tasks may still run."""

    initial: tuple[str, ...]
    work: Mapping[str, tuple[str, ...]]  # by state: its tasks
    moves: Mapping[str, tuple[tuple[str, str], ...]]  # by state: event and target of its transitions
    outliving: Mapping[str, tuple[str, ...]]  # by task that may outlive its state: its answers

    def left_running(self, state: str, running: Running, event: str, target: str) -> Running:
        """The tasks that still run after a transition, besides those that its target starts."""
        begun = running.union(t for t in self.work[state] if t in self.outliving)
        return frozenset(t for t in begun if event not in self.outliving[t] and t not in self.work[target])

    def remembering(self, most: int | None = None) -> dict[str, list[Running]]:
        """Returns the sets of earlier tasks that may run in each state, smaller ones first; cut after `most` in all."""
        todo: list[tuple[str, Running]] = [(state, NONE) for state in self.initial]
        seen = set(todo)
        while todo and (most is None or len(seen) <= most):
            state, running = todo.pop()
            after = [(target, self.left_running(state, running, e, target)) for e, target in self.moves[state]]
            after += [(state, running - {task}) for task in sorted(running)]
            for pair in after:
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
        task_sets: dict[str, list[Running]] = {}
        for state, running in sorted(seen, key=lambda pair: (len(pair[1]), sorted(pair[1]))):
            if running:
                task_sets.setdefault(state, []).append(running)
        return task_sets


def control_of_text(role: YamlNode) -> ControlGraph | None:
    """The control of a role as it is written; None where no task outlives its state."""
    outliving = {}
    for name, _, task in role.pairs_of("tasks"):
        flag, answers = task.get("outlives"), task.get("answers")
        if flag is not None and flag.text == "true" and task.get("call") is not None and answers is not None:
            outliving[name] = tuple(a.text for a in answers)
    outliving = {name: answers for name, answers in outliving.items() if answers}
    states = {name: node for name, _, node in role.pairs_of("states")}
    if not outliving or not states:
        return None
    first = tuple(s for s, node in states.items() if (flag := node.get("initial")) is not None and flag.text != "false")
    moves = {name: tuple(_moves(name, node, states)) for name, node in states.items()}
    work = {name: tuple(t.text for t in node.names("tasks")) for name, node in states.items()}
    return ControlGraph(first or tuple(states)[:1], work, moves, outliving)


def _moves(state: str, node: YamlNode, states: Mapping[str, YamlNode]) -> Iterator[tuple[str, str]]:
    for event, _, choices in node.pairs_of("on"):
        for choice in choices.items if choices.kind == "list" else (choices,):
            to = choice.get("to")
            if to is None or to.text in states:
                yield event, state if to is None else to.text


def control_of(role: Role) -> ControlGraph:
    """The control of a role whose remembering states are not made yet."""
    moves: dict[str, list[tuple[str, str]]] = {name: [] for name in role.states}
    for transition in role.transitions():
        moves[transition.source].append((transition.event, transition.target))
    return ControlGraph(
        tuple(state.name for state in role.initial),
        {name: state.tasks for name, state in role.states.items()},
        {name: tuple(pairs) for name, pairs in moves.items()},
        {t.name: t.answers for t in role.tasks.values() if isinstance(t, Call) and t.outlives and t.answers},
    )


def check_outlives(role: Role, reasons: Mapping[tuple[str, str, str], Place], sink: Sink) -> None:
    """Reports answers that could not be told from something else while the task that they end still runs."""
    control = control_of(role)
    reported: set[frozenset[str]] = set()
    remembering = control.remembering() if control.outliving else {}
    for state in role.states.values() if control.outliving else ():
        for running in (NONE, *remembering.get(state.name, ())):
            begun = (*state.tasks, *sorted(running))
            for task in (t for t in begun if t in control.outliving):
                for answer in control.outliving[task]:
                    others = [t for t in begun if t != task and t in role.tasks and answer in role.tasks[t].answers]
                    if others and frozenset((task, *others)) not in reported:
                        reported.add(frozenset((task, *others)))
                        details = {"answer": answer, "task": task, "other": others[0]}
                        sink.error("shared_answer", role.tasks[task].place, role=role.name, state=state.name, **details)
                    elif not others and task in running:
                        own_place = state.on[answer][0].place if answer in state.on else None
                        if place := own_place or reasons.get((role.name, state.name, answer)):
                            details = {"task": task, "role": role.name, "state": state.name, "answer": answer}
                            sink.error("answer_of_outliving", place, **details)


def with_remembering_states(role: Role) -> Role:
    """The role with the states that remember its outliving tasks, each after the state that it stands for."""
    control = control_of(role)
    if not control.outliving:
        return role
    remembering = control.remembering()
    states = {}
    for state in role.states.values():
        for running in (NONE, *remembering.get(state.name, ())):
            variant = _remembering(role, control, state, running)
            states[variant.name] = variant
    return replace(role, states=states)


def without_remembering_states(role: Role) -> Role:
    """The role as its text has it, for which `with_remembering_states` gives this one."""
    written = {s.name: s.base or s.name for s in role.states.values()}

    def moved(t: Transition) -> Transition:
        return replace(t, target=written[t.target])

    states = {
        name: replace(state, on={event: tuple(map(moved, choices)) for event, choices in state.on.items()})
        for name, state in role.states.items()
        if not state.remembers
    }
    return replace(role, states=states)


def _remembering(role: Role, control: ControlGraph, state: State, running: Running) -> State:
    name = name_of(state.name, running)

    def moved(t: Transition) -> Transition:
        target = name_of(t.target, control.left_running(state.name, running, t.event, t.target))
        return replace(t, source=name, target=target)

    on = {event: tuple(moved(t) for t in choices) for event, choices in state.on.items()}
    if not running:
        return replace(state, on=on)
    tasks = tuple(sorted(running))
    for task in tasks:
        target, place = name_of(state.name, running - {task}), role.tasks[task].place
        for answer in control.outliving[task]:
            ended = Transition(role.name, name, answer, 0, target, internal=True, doc=f"{task} has ended.", place=place)
            on[answer] = (ended,)
    still = f"{' and '.join(tasks)} still {'runs' if len(tasks) == 1 else 'run'}"
    doc = f"{state.name}, while {still}." + (f" {state.doc}" if state.doc else "")
    return replace(
        state, name=name, initial=False, tasks=(*state.tasks, *tasks), on=on, doc=doc, remembers=tasks, base=state.name
    )
