"""Mutants of conditions: of tasks, of contracts of the environment, and guards and answers that are exchanged."""

from __future__ import annotations

import pytest

from leasehold.checker.mutation.operators import Mutation, mutations
from leasehold.spec import System
from leasehold.spec.language import expression as x
from leasehold.spec.language.model import Drive
from tests.systems import TESTS, load

KITCHEN = TESTS / "checker/mutation/systems/kitchen"


@pytest.fixture
def kitchen() -> System:
    return load(KITCHEN)


def made(system: System, *rules: str) -> dict[str, Mutation]:
    """The mutants of some rules, by name without the rule."""
    return {m.name.partition(" ")[2]: m for m in mutations(system) if m.rule in rules}


def test_a_task_s_conditions_are_dropped(kitchen: System) -> None:
    found = made(kitchen, "drop_condition")
    assert list(found) == [
        "cook/taste when",
        "cook/wash when",
        "cook/wash only",
        "cook/wash answers.washed",
        "cook/wash answers.broken",
    ]
    tasks = {name: m.applied(kitchen).roles["cook"].tasks["wash"] for name, m in found.items()}
    was = kitchen.roles["cook"].tasks["wash"]
    assert isinstance(was, Drive)
    assert found["cook/taste when"].applied(kitchen).roles["cook"].tasks["taste"].when is None
    assert tasks["cook/taste when"] == was
    assert tasks["cook/wash when"].when is None
    for name, task in tasks.items():
        assert isinstance(task, Drive)
        assert (task.only is None) == (name == "cook/wash only")
        at_once = {answer for answer, condition in task.answers.items() if condition == x.TRUE}
        assert at_once == ({name.partition("answers.")[2]} if "answers." in name else set())
    assert found["cook/wash only"].what == "without `only: it.state == dirty`"


def test_parts_of_a_task_s_conditions_are_changed(kitchen: System) -> None:
    assert list(made(kitchen, "drop_condition_operand")) == [
        "cook/wash when: courses >= 1 (and)",
        "cook/wash when: not hurry (and)",
        "cook/wash answers.broken: any(d.state == shards for d in dish) (and)",
        "cook/wash answers.broken: hurry (and)",
    ]
    assert list(made(kitchen, "shift_condition")) == [
        "cook/wash when: courses >= 1 -> courses > 1",
        "cook/wash when: courses >= 1 -> courses >= 0",
    ]
    contrary = made(kitchen, "negate_condition")
    assert len(contrary) == 9
    tasks = {name: m.applied(kitchen).roles["cook"].tasks["wash"] for name, m in contrary.items()}
    when = tasks["cook/wash when: courses >= 1"].when
    assert when is not None
    assert x.text(when) == "not courses >= 1 and not hurry"


def test_what_a_definition_says_is_changed_in_all_conditions_that_use_it() -> None:
    system = load("lease")
    shifted = [m for m in mutations(system) if m.rule == "shift_condition" and m.subject == "authority/all_up"]
    assert len(shifted) == 2
    for mutation in shifted:
        before, after = system.roles["authority"].tasks, mutation.applied(system).roles["authority"].tasks
        assert {name for name in before if before[name] != after[name]} == {"setup", "modify", "replace"}


def test_operators_on_sets_lose_operands() -> None:
    found = made(load("lease"), "drop_condition_operand")
    assert {"authority/release only: chosen (-)", "authority/keep only: renewed (&)"} <= found.keys()
    released = found["authority/release only: chosen (-)"].applied(load("lease")).roles["authority"].tasks["release"]
    assert isinstance(released, Drive)
    assert x.text(released.only or x.TRUE) == "it in assigned"


def test_contracts_are_dropped_and_changed(kitchen: System) -> None:
    dropped = made(kitchen, "drop_contract")
    assert list(dropped) == ["cook/begin", "dish/eat"]
    mutant = dropped["cook/begin"].applied(kitchen)
    assert mutant.environment["begin"].when is None
    assert mutant.environment["eat"] == kitchen.environment["eat"]
    assert mutant.roles == kitchen.roles
    parts = made(kitchen, "drop_contract_operand", "shift_contract")
    whens = [x.text(m.applied(kitchen).environment["begin"].when or x.TRUE) for m in parts.values()]
    assert whens == [
        "all(d.state == clean for d in dish)",
        "it.courses < 2",
        "it.courses <= 2 and all(d.state == clean for d in dish)",
        "it.courses < 1 and all(d.state == clean for d in dish)",
    ]


def test_guards_and_answers_are_exchanged(kitchen: System) -> None:
    (guards,) = made(kitchen, "exchange_guards").values()
    first, second = guards.applied(kitchen).roles["cook"].states["idle"].on["begin"]
    was = kitchen.roles["cook"].states["idle"].on["begin"]
    assert (first.guard, second.guard) == (was[1].guard, was[0].guard)
    assert (first.target, second.target, second.name) == ("tasting", "washing", was[1].name)
    answers = made(kitchen, "exchange_answers")
    assert list(answers) == ["cook/tasting good <-> bad", "cook/washing washed <-> broken"]
    tasting = answers["cook/tasting good <-> bad"].applied(kitchen).roles["cook"].states["tasting"]
    assert {e: [(t.event, t.target) for t in on] for e, on in tasting.on.items()} == {
        "good": [("good", "washing")],
        "bad": [("bad", "idle")],
    }


def test_answers_whose_fields_are_read_are_not_exchanged() -> None:
    found = made(load("lease"), "exchange_answers")
    assert "authority/priming primed <-> setup_failed" in found
    assert not any("granted" in name for name in found)  # what is granted is kept
