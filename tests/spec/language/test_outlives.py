"""Tasks that outlive their state: the paper's transformation of Figure 2 (section 3.4), made by the loader.

What the loader makes is compared with specifications in which the states of the figure are written out by hand.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from leasehold.checker.explore import Exploration, explore
from leasehold.faults.model import Budget
from leasehold.reports.dot import product_dot, role_dot
from leasehold.reports.markdown import markdown
from leasehold.reports.product import product
from leasehold.reports.trace import trace_text
from leasehold.spec import SHIPPED, SpecError, System, load
from leasehold.spec.language import expression as x
from leasehold.spec.language.lower.outlive import with_remembering_states
from leasehold.spec.language.render.evaluate import Context, NoState, evaluate
from tests.systems import files_of, write

CRASH = Budget(crash=1)

OUTLIVES = files_of("spec/language/systems/outlives")
ALONE = files_of("spec/language/systems/owner_alone")
OWNER = OUTLIVES["roles/owner.yaml"]
# The same with the states x_j^t written out. An answer enters x_j by `to`, so here x_j must begin nothing.
PLAIN = OWNER.replace(", outlives: true", "").replace("    tasks: [stop]\n", "").replace("  stop: {send: stop", "  # ")
BY_HAND = (
    PLAIN.replace(
        "leave: {to: closing}}\n    ignore: {back: it is here}\n  idle",
        "leave: {to: closing__backup}}\n    ignore: {back: it is here}\n  idle",
    )
    .replace(
        "  closed: {}\n",
        """
  closed: {}
  closing__backup:
    tasks: [backup]
    on: {saved: {to: closing}, leave: {to: closed__backup}, back: {to: saving}}
  closed__backup:
    tasks: [backup]
    on: {saved: {to: closed}}
""",
    )
    .replace("in: closed,", "in: [closed, closed__backup],")
)
ENDS = OUTLIVES["invariants.yaml"]


def spec(folder: Path, owner: str, invariants: str = "", **more: str) -> Path:
    """Writes a specification; one whose owner sends nothing has nobody to send it to."""
    files = OUTLIVES if "send: stop" in owner else ALONE
    texts = {**files, "roles/owner.yaml": owner, "invariants.yaml": invariants, **more}
    return write(folder, {name: text for name, text in texts.items() if text})


def counts(found: Exploration) -> tuple[int, ...]:
    return found.distinct, found.generated, found.edges, found.depth, len(found.cells)


def verdicts(found: Exploration) -> dict[str, str]:
    return {p.name: p.verdict for p in found.properties}


@pytest.fixture
def figure(tmp_path: Path) -> System:
    return load(spec(tmp_path, OWNER, ENDS))


# The states


def test_each_state_that_can_be_entered_while_the_task_runs_is_made_once_more(figure: System) -> None:
    owner = figure.roles["owner"]
    assert list(owner.states) == ["saving", "idle", "closing", "closing__backup", "closed", "closed__backup"]
    made = owner.states["closing__backup"]
    assert (made.title, made.base, made.remembers) == ("closing + backup", "closing", ("backup",))
    assert made.doc == "closing, while backup still runs. The disk is told."
    assert made.tasks == ("stop", "backup")
    assert not made.initial
    assert figure.product_size() == 6


def test_its_transitions_are_those_of_the_state_it_stands_for(figure: System) -> None:
    owner = figure.roles["owner"]
    went = {t.name: t.target for t in owner.transitions()}
    assert went["owner/saving#leave"] == "closing__backup"
    assert went["owner/closing__backup#leave"] == "closed__backup"
    assert went["owner/closing__backup#back"] == "saving"  # which starts the task itself
    assert (went["owner/closing#leave"], went["owner/idle#leave"]) == ("closed", "closed")
    assert owner.states["closed__backup"].ignore == owner.states["closed"].ignore


def test_an_answer_leads_to_the_plain_state_and_starts_nothing_anew(figure: System) -> None:
    transition = figure.roles["owner"].states["closing__backup"].on["saved"][0]
    assert (transition.target, transition.internal, transition.updates) == ("closing", True, ())
    found = explore(figure)
    path = next(found.path_to(c) for c in found.cells if c.control == ("closing", "spinning"))
    assert [s.transition for s in path.steps] == ["owner/saving#leave", "owner/closing__backup#saved"]
    first, second = path.steps
    assert [m.message for m in first.sent] == ["stop"]
    assert second.sent == ()
    assert first.state.channels == second.state.channels


def test_what_no_run_of_the_control_states_reaches_is_not_made(tmp_path: Path) -> None:
    waits = OWNER.replace("leave: {to: closing}", "leave: {to: saving}").replace(
        "on: {leave: {to: closed}}", "on: {leave: {to: closing}}"
    )
    assert not any(s.remembers for s in load(spec(tmp_path / "waits", waits)).roles["owner"].states.values())
    lists_it = OWNER.replace("tasks: [stop]", "tasks: [stop, backup]").replace(
        "on: {leave: {to: closed}, back", "on: {saved: {to: idle}, leave: {to: saving}, back"
    )
    assert not any(s.remembers for s in load(spec(tmp_path / "lists", lists_it)).roles["owner"].states.values())


def test_a_system_without_outliving_tasks_is_left_as_it_is() -> None:
    for name in SHIPPED:
        for role in load(name).roles.values():
            assert with_remembering_states(role) is role


def test_a_transition_of_a_remembering_state_has_a_name_to_be_explained_by(tmp_path: Path) -> None:
    owner = OWNER.replace("back: {to: saving}}", "back: {to: saving, when: false}}").replace(
        "  closed: {}", "    ignore: {back: never}\n  closed: {}"
    )
    expected = "runs: {all: {unvisited: {'owner/closing__backup#back': its guard is false}}}\n"
    system = load(spec(tmp_path, owner, **{"expected.yaml": expected}))
    assert set(explore(system).unvisited_transitions) == {"owner/closing#back", "owner/closing__backup#back"}
    assert "owner/closing__backup#back" in system.expectations[0].explained


def test_states_without_number_are_refused_at_once(tmp_path: Path) -> None:
    tasks = "\n".join(f"  t{i}: {{call: handler.work, answers: [a{i}], outlives: true}}" for i in range(40))
    states = "\n".join(f"  s{i}: {{tasks: t{i}, on: {{a{i}: {{to: s0}}, leave: {{to: s{i + 1}}}}}}}" for i in range(40))
    events = "\n".join(f"  a{i}: {{doc: One ends.}}" for i in range(40))
    owner = f"role: owner\nevents:\n  leave: It goes on.\n{events}\ntasks:\n{tasks}\nstates:\n{states}\n"
    owner = owner.replace("s0: {tasks", "s0: {initial: true, tasks") + "  s40: {on: {leave: {to: s0}}}\n"
    system = ALONE["system.yaml"].replace("  back: {to: owner}\n", "")
    with pytest.raises(SpecError, match="LH113"):
        load(spec(tmp_path, owner, **{"system.yaml": system}))


# Against what is written out by hand


@pytest.mark.parametrize("budget", [None, CRASH], ids=str)
def test_it_is_what_the_figure_writes_out(tmp_path: Path, budget: Budget | None) -> None:
    outlives = PLAIN.replace("answers: [saved]}", "answers: [saved], outlives: true}")
    made, by_hand = (
        load(spec(tmp_path / name, owner, ENDS)) for name, owner in (("made", outlives), ("by_hand", BY_HAND))
    )
    assert counts(explore(made, budget=budget)) == counts(explore(by_hand, budget=budget))
    transitions = [{t.name: t.target for t in s.roles["owner"].transitions()} for s in (made, by_hand)]
    assert transitions[0] == transitions[1]


@dataclass(frozen=True)
class Drawn:
    """A machine at random: by state its tasks, and where its events lead; task i has the one answer `a<i>`."""

    tasks: tuple[frozenset[int], ...]
    moves: tuple[dict[str, int], ...]

    @staticmethod
    def draw(chance: random.Random, states: int, tasks: int) -> Drawn:
        begun = tuple(frozenset(i for i in range(tasks) if chance.random() < 0.4) for _ in range(states))
        moves = []
        for number in range(states):
            events = [f"a{i}" for i in sorted(begun[number])] + [e for e in ("e0", "e1") if chance.random() < 0.7]
            moves.append({e: chance.randrange(states) for e in events} | {"go": (number + 1) % states})
        return Drawn(begun, tuple(moves))

    def text(self, outlives: bool) -> str:
        """The machine with outliving tasks, or with its states and all that runs in them written out."""
        found: dict[tuple[int, frozenset[int]], dict[str, tuple[int, frozenset[int]]]] = {}
        todo: list[tuple[int, frozenset[int]]] = [(0, self.tasks[0])]
        while todo:
            state, running = place = todo.pop()
            if place in found:
                continue
            found[place] = {}
            for event, target in self.moves[state].items():
                still = self.tasks[target] if outlives else self.tasks[target] | (running - self.ended(event))
                found[place][event] = (target, still)
            for i in () if outlives else running - self.tasks[state]:
                found[place][f"a{i}"] = (state, running - {i})
            todo += found[place].values()
        lines = ["role: owner", "events:"]
        lines += [f"  {e}: It comes." for e in ("e0", "e1", "go", *(f"a{i}" for i in self.begun(found)))]
        flag = ", outlives: true" if outlives else ""
        lines += ["tasks:"] * bool(self.begun(found))
        lines += [f"  t{i}: {{call: handler.work, answers: [a{i}]{flag}}}" for i in self.begun(found)]
        lines.append("states:")
        for place, moves in found.items():
            on = ", ".join(f"{event}: {{to: {self.name(*target)}}}" for event, target in moves.items())
            ignore = ", ".join(f"{e}: not here" for e in ("e0", "e1") if e not in moves)
            work = ", ".join(f"t{i}" for i in sorted(place[1]))
            lines.append(f"  {self.name(*place)}: {{tasks: [{work}], on: {{{on}}}, ignore: {{{ignore}}}}}")
        return "\n".join(lines).replace("{tasks", "{initial: true, tasks", 1) + "\n"

    def ended(self, event: str) -> frozenset[int]:
        return frozenset({int(event[1:])} if event.startswith("a") else ())

    def begun(self, places: Iterable[tuple[int, frozenset[int]]]) -> list[int]:
        return sorted({i for _, running in places for i in running})

    def name(self, state: int, running: frozenset[int]) -> str:
        return "__".join((f"s{state}", *(f"t{i}" for i in sorted(running - self.tasks[state]))))


@pytest.mark.parametrize("seed", range(12))
def test_machines_at_random_are_those_with_everything_written_out(tmp_path: Path, seed: int) -> None:
    drawn = Drawn.draw(random.Random(seed), states=4, tasks=3)
    system = "system: drawn\nroles: {owner: {}}\nenvironment: {e0: {to: owner}, e1: {to: owner}, go: {to: owner}}\n"
    made, by_hand = (
        load(spec(tmp_path / str(outlives), drawn.text(outlives), **{"system.yaml": system}))
        for outlives in (True, False)
    )
    assert set(made.roles["owner"].states) == set(by_hand.roles["owner"].states)
    for budget in (None, CRASH):
        assert counts(explore(made, budget=budget)) == counts(explore(by_hand, budget=budget))


# Recovery


def test_recovery_asks_the_task_again_so_it_ends(figure: System) -> None:
    found = explore(figure, budget=CRASH)
    assert verdicts(found) == {"the_task_ends": "exhausted"}
    assert found.unvisited_transitions == ()


@pytest.mark.parametrize("budget", [None, CRASH], ids=str)
def test_where_the_state_does_not_list_the_task_it_never_ends(tmp_path: Path, budget: Budget | None) -> None:
    """The figure's first machine: after x_i is left, nobody starts the task again, or waits for its answer."""
    forgets = BY_HAND.replace(
        "closed__backup:\n    tasks: [backup]\n    on: {saved: {to: closed}}", "closed__backup: {}"
    )
    found = explore(load(spec(tmp_path, forgets, ENDS)), budget=budget)
    assert verdicts(found) == {"the_task_ends": "violated"}


# Expressions

STATES = ("saving", "idle", "closing", "closing__backup", "closed", "closed__backup")
CLOSED = {"closed", "closed__backup"}
CLOSING = {"closing", "closing__backup"}
MEANT = {
    "owner.state == closed": CLOSED,
    "closed == owner.state": CLOSED,
    "owner.state == idle": {"idle"},
    "owner.state == closed__backup": {"closed__backup"},
    "owner.state != closed": set(STATES) - CLOSED,
    "owner.state != closed__backup": set(STATES) - {"closed__backup"},
    "not (owner.state == closed)": set(STATES) - CLOSED,
    "owner.state in {closed, idle}": CLOSED | {"idle"},
    "owner.state in {closed__backup, closing}": CLOSING | {"closed__backup"},
    "owner.state not in {closed, closing}": {"saving", "idle"},
    "owner.state in {closed} | {closing}": CLOSED | CLOSING,
    "owner.state not in {closed, idle} - {idle}": set(STATES) - CLOSED,
    "{owner.state} <= {closed, idle}": CLOSED | {"idle"},
    "{owner.state} == {closed}": CLOSED,
    "len({owner.state} | {closed}) == 1": CLOSED,
    "owner.state == (closed if true else idle)": CLOSED,
    "(owner.state if owner.state == closing else closed__backup) == closing": CLOSING,
    "owner.state == owner.state": set(STATES),
    "any(s == closed for s in {owner.state, idle})": CLOSED,
    "count(owner.state == s for s in {owner.state, closed}) == len({owner.state} | {closed})": CLOSED,
    "saving == owner.state != closed": {"saving"},
}


@dataclass
class At(NoState):
    """The owner is in a given state."""

    where: str
    now: int = 0

    def state(self, role: str, instance: int) -> str:
        return self.where


@pytest.mark.parametrize("words", MEANT)
def test_a_state_is_meant_whether_or_not_a_task_still_runs(tmp_path: Path, words: str) -> None:
    claims = [f'  meant: {{sometimes: "{words}"}}']
    claims += [f'  at_{s}: {{always: "not (owner.state == {s}) or ({words})"}}' for s in STATES if "__" in s]
    system = load(spec(tmp_path, OWNER, "properties:\n" + "\n".join(claims)))
    claim = system.properties["meant"].claim
    assert {s for s in STATES if evaluate(claim, Context(At(s), {}))} == MEANT[words]
    found = verdicts(explore(system))  # the explorer's own reading
    assert {s for s in STATES if found.get(f"at_{s}") == "exhausted"} == {s for s in MEANT[words] if "__" in s}


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        # The end of a task that has outlived its state changes no state that the text has.
        ("old(owner.state) == owner.state or old(owner.state) in {saving, idle} or not took(owner.saved)", True),
        ("old(owner.state == closed) == (owner.state == closed) or not took(owner.saved)", True),
        ("old(owner.state) != closed or owner.state == closed", True),
        ("old(owner.state) != closed__backup or owner.state == closed__backup", False),
        ("old(owner.state) == owner.state or not took(owner.leave)", False),
    ],
)
def test_before_and_after_a_step(tmp_path: Path, words: str, holds: bool) -> None:
    words = words.replace(
        "old(owner.state == closed) == (owner.state == closed)",
        "(not old(owner.state == closed) or owner.state == closed)",
    )
    found = explore(load(spec(tmp_path, OWNER, f'properties: {{it: {{step: "{words}"}}}}\n')))
    assert verdicts(found) == {"it": "exhausted" if holds else "violated"}


def test_guards_and_the_environment_mean_the_state_too(tmp_path: Path) -> None:
    system = OUTLIVES["system.yaml"].replace("back: {to: owner}", "back: {to: owner, when: it.state == closing}")
    owner = OWNER.replace("saved: {to: idle}", "saved: {to: idle, when: state != closing}")
    loaded = load(spec(tmp_path, owner, **{"system.yaml": system}))
    when = loaded.environment["back"].when
    assert when is not None
    assert x.text(when) == "it.state in {closing, closing__backup}"
    guard = loaded.roles["owner"].states["saving"].on["saved"][0].guard
    assert guard is not None
    assert x.text(guard) == "state not in {closing, closing__backup}"
    assert "owner/closing__backup#back" not in explore(loaded).unvisited_transitions


def test_nested_comparisons_are_refused_before_they_grow_beyond_measure(tmp_path: Path) -> None:
    words = "owner.state"
    for _ in range(30):
        words = f"(owner.state if ({words}) == old(owner.state) else old(owner.state))"
    with pytest.raises(SpecError, match="LH306"):
        load(spec(tmp_path, OWNER, f'properties: {{it: {{step: "{words} == owner.state"}}}}\n'))


# Reports


def test_reports_say_what_the_states_are(figure: System) -> None:
    found = explore(figure)
    assert "<b>closing + backup</b>" in role_dot(figure.roles["owner"])
    assert "closed + backup" in product_dot(product(found))
    assert 'state "closing + backup' in markdown(found)
    path = next(found.path_to(c) for c in found.cells if c.control[0] == "closed__backup")
    assert "owner is closing + backup" in trace_text(path)
    assert "owner is closed + backup" in trace_text(path)
    assert path.steps[-1].state.control["owner"] == "closed__backup"  # for programs, by name
