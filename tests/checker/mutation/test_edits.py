"""Edits of a role: which mutants each rule makes, and which cases a changed guard leaves to which transition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.mutation.battery import Trial
from leasehold.checker.mutation.judge import Verdict
from leasehold.checker.mutation.mutate import Kill, MutantOutcome, MutationReport, RuleScore, _after
from leasehold.checker.mutation.operators import Mutation, mutations, sampled
from leasehold.spec import System
from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import NOWHERE
from leasehold.spec.language.lower.outlive import with_remembering_states, without_remembering_states
from leasehold.spec.language.model import Transition
from tests.systems import TESTS, load, written

SHOP = TESTS / "checker/mutation/systems/shop"

CONDITIONS = ("drop_condition", "drop_condition_operand", "shift_condition", "negate_condition")  # of tasks
MADE = (TESTS / "checker/mutation/systems/shop/mutants.txt").read_text()  # by rule


@pytest.fixture
def shop() -> System:
    return load(SHOP)


def test_the_mutants_of_each_rule(shop: System) -> None:
    """Mutants come in the order of the rules and of the text."""
    found: dict[str, list[str]] = {}
    for mutation in mutations(shop):
        found.setdefault(mutation.rule, []).append(mutation.name.partition(" ")[2])
    assert "".join(f"{rule}\n" + "".join(f"  {name}\n" for name in names) for rule, names in found.items()) == MADE


def test_no_mutant_has_the_text_of_the_system(shop: System) -> None:
    """Another value of an update or a field is another text, also where a set is empty already."""
    for m in of_rule(shop, "change_update", "change_field"):
        assert f"not `{m.item.partition(': ')[2]}`" not in m.what


GENERATED = {  # by system: how the names of what lowering has made of its text begin or end
    "constructs/captures": ("hand_in__", "deliver__"),
    "spec/language/systems/outlives": ("closing__", "closed__"),
}


@pytest.mark.parametrize("folder", GENERATED)
def test_what_lowering_has_made_has_no_mutants_of_its_own(folder: str) -> None:
    system = load(TESTS / folder)
    made = [m for m in mutations(system, every_target=True) if m.rule not in ("change_field", *CONDITIONS)]
    assert made
    for mutation in made:
        assert not any(word in f"{mutation.subject} {mutation.item}" for word in GENERATED[folder]), mutation.name
    for mutation in of_rule(system, "change_field"):
        assert not mutation.item.partition(": ")[2].startswith(GENERATED[folder]) or "not " in mutation.item


def test_a_mistake_in_a_state_is_one_in_all_that_stand_for_it() -> None:
    """The text has the transition once, whichever tasks still run when it is taken."""
    system = load(TESTS / "spec/language/systems/outlives")
    (mutation,) = (m for m in mutations(system) if m.name == "swap_target owner/closing#leave -> saving")
    states = mutation.applied(system).roles["owner"].states
    targets = {
        s.name: {t.target for t in s.on["leave"]} for s in states.values() if s.base == "closing" or s.name == "closing"
    }
    assert targets == {"closing": {"saving"}, "closing__backup": {"saving"}}
    role = system.roles["owner"]
    assert with_remembering_states(without_remembering_states(role)) == role


def of_rule(system: System, *rules: str) -> Iterator[Mutation]:
    return (m for m in mutations(system) if m.rule in rules)


class Cases:
    """The records that a keeper may have, and which guards hold in them."""

    def __init__(self, system: System) -> None:
        world = reference_of(system)
        layout, first = world.layout, list(world.initial_states()[0])
        self.machine = world.by_name["keeper", 0]
        self.states = []
        values = {"left": range(5), "seen": range(5), "clean": (False, True)}
        for chosen in product(*values.values()):
            s = list(first)
            for name, value in zip(values, chosen, strict=True):
                s[layout.at("keeper", 0, name)] = value
            self.states.append(tuple(s))

    def changed(self, guard: x.Expression | None, mutation: Mutation) -> list[bool]:
        """The cases of a guard that is changed as the mutation says."""
        text, item = x.text(guard or x.TRUE), mutation.item
        if mutation.rule == "shift_comparison":
            text = text.replace(*item.split(" -> "))
        elif mutation.rule == "drop_operand":
            text = " and ".join(part for part in text.split(" and ") if part != item.removesuffix(" (and)"))
        else:
            text = f"({text}) and ({item})"
        code = compile(text.replace("true", "True"), "guard", "eval")
        at = self.machine.layout.at
        return [
            bool(eval(code, {name: s[at("keeper", 0, name)] for name in ("left", "seen", "clean")}))
            for s in self.states
        ]

    def of(self, guard: x.Expression | None) -> list[bool]:
        holds = self.machine.function(guard or x.TRUE)
        return [bool(holds(s, (), -1)) for s in self.states]


def test_a_changed_guard_takes_cases_from_the_others_and_leaves_its_own_to_the_next(shop: System) -> None:
    """A state that ignores or refuses the event in some cases does so in those that are left, too."""
    cases, lost = Cases(shop), set()
    for mutation in of_rule(shop, "drop_operand", "shift_comparison", "add_conjunct"):
        source, _, event = mutation.subject.removeprefix("keeper/").partition("#")
        if not event:
            continue  # a definition
        event, _, position = event.partition(".")
        before = shop.roles["keeper"].states[source]
        after = mutation.applied(shop).roles["keeper"].states[source]
        at = int(position or 1) - 1
        was, now = ([cases.of(t.guard) for t in state.on[event]] for state in (before, after))
        covered = event in before.ignore or event in before.refuse
        assert [replace(t, guard=None) for t in after.on[event]] == [replace(t, guard=None) for t in before.on[event]]
        assert now[at] == cases.changed(before.on[event][at].guard, mutation)
        for n, guard in enumerate(now):
            if n == at:
                continue
            inherits = not covered and n == (at + 1) % len(now)
            wanted = [
                not mine and (had or (inherits and own))
                for mine, had, own in zip(now[at], was[n], was[at], strict=True)
            ]
            assert guard == wanted, mutation.name
            lost.add((covered, inherits, wanted != was[n]))
        alone = len(now) == 1
        assert after.ignore.keys() == {*before.ignore, *([event] if alone and not covered else [])}
        assert (after.refuse, after.tasks) == (before.refuse, before.tasks)
    assert lost >= {(False, True, True), (False, False, True)}


def test_a_changed_definition_is_changed_wherever_it_is_used(shop: System) -> None:
    """With its contrary too: the two transitions of a state still leave out no case and share none."""
    cases = Cases(shop)
    wanted = {
        "left >= 2 (and)": lambda left, clean: clean,
        "clean (and)": lambda left, clean: left >= 2,
        "left >= 2 -> left > 2": lambda left, clean: left > 2 and clean,
        "left >= 2 -> left >= 1": lambda left, clean: left >= 1 and clean,
    }
    found = {m.item: m for m in mutations(shop) if m.subject == "keeper/enough"}
    assert found.keys() == wanted.keys()
    at = [cases.machine.layout.at("keeper", 0, name) for name in ("left", "clean")]
    for item, mutation in found.items():
        holds = [bool(wanted[item](*(s[cell] for cell in at))) for s in cases.states]
        states = mutation.applied(shop).roles["keeper"].states
        first, second = (cases.of(t.guard) for t in states["serving"].on["ask"])
        assert cases.of(states["open"].on["close"][0].guard) == first == holds
        assert second == [not one for one in holds]
        assert states["open"].on["ask"] == shop.roles["keeper"].states["open"].on["ask"]


def transitions(system: System) -> dict[str, Transition]:
    return {t.name: t for t in system.roles["keeper"].transitions()}


def test_other_edits_change_one_part_of_one_thing(shop: System) -> None:
    """Labels say what is done."""
    own, tasks = transitions(shop), shop.roles["keeper"].tasks
    for m in of_rule(shop, "swap_target", "drop_update", "change_update", "drop_guard"):
        changed, was = transitions(m.applied(shop)), own[m.subject]
        assert {name for name in own if changed[name] != own[name]} == {m.subject}
        now, item = changed[m.subject], m.item
        match m.rule:
            case "swap_target":
                assert now == replace(was, target=item.removeprefix("-> "), internal=False)
            case "drop_update":
                assert now == replace(was, updates=tuple(u for u in was.updates if u.target != item))
            case "drop_guard":
                assert now == replace(was, guard=None)
            case "change_update":
                name, _, value = item.partition(": ")
                texts = [(u.target, x.text(u.value)) for u in was.updates]
                assert [(u.target, x.text(u.value)) for u in now.updates] == [
                    (target, value if target == name else text) for target, text in texts
                ]
    for m in of_rule(shop, "change_field"):
        name, _, value = m.item.partition(": ")
        now_tasks = m.applied(shop).roles["keeper"].tasks
        assert {task for task in tasks if now_tasks[task] != tasks[task]} == {"tell"}
        texts = {field: x.text(e) for field, e in now_tasks["tell"].fields.items()}  # type: ignore[union-attr]
        assert texts == {**{f: x.text(e) for f, e in tasks["tell"].fields.items()}, name: value}  # type: ignore[union-attr]
    for m in of_rule(shop, "ignore_event"):
        left = transitions(m.applied(shop))
        assert len(left) == len(own) - 1
        source, event = own[m.subject].source, own[m.subject].event
        state = m.applied(shop).roles["keeper"].states[source]
        assert event in state.ignore or event in state.refuse
    for m in of_rule(shop, "drop_task"):
        state = m.subject.removeprefix("keeper/")
        for name, kept in shop.roles["keeper"].states.items():
            dropped = {m.item} if name == state else set()
            assert m.applied(shop).roles["keeper"].states[name].tasks == tuple(
                t for t in kept.tasks if t not in dropped
            )


def test_a_sample_is_of_the_mutants_in_their_order(shop: System) -> None:
    every = mutations(shop)
    for count in (0, 1, 5, len(every) - 1):
        some = sampled(every, count, seed=3)
        assert len(some) == len(set(some)) == count
        assert list(some) == [m for m in every if m in some]
        assert some == sampled(every, count, seed=3)
    assert sampled(every, 5, seed=3) != sampled(every, 5, seed=4)
    assert sampled(every, 5) == sampled(every, 5, seed=0)
    assert sampled(every, len(every)) == sampled(every, 10_000) == every


# What a report counts


def outcome(number: int, rule: str, **parts: Any) -> MutantOutcome:
    return MutantOutcome(Mutation(rule, f"a/{number}", "", "", NOWHERE), **parts)


def test_a_report_counts_each_outcome_once() -> None:
    killed = [Kill(by, Trial(), 3) for by in ("one", "two", "two", "three")]
    outcomes = [
        outcome(0, "drop_guard", kill=killed[0]),
        outcome(1, "drop_guard", refused="LH412: b"),
        outcome(2, "drop_guard"),
        outcome(3, "drop_task", kill=killed[1]),
        outcome(4, "drop_task", equivalent=True),
        outcome(5, "drop_task", unseen=True),
        outcome(6, "drop_task", explanation="why"),
        outcome(7, "swap_target", kill=killed[2]),
        outcome(8, "swap_target", refused="LH402: a"),
        outcome(9, "swap_target", refused="LH412: c"),
        outcome(10, "swap_target", kill=killed[3]),
    ]
    report = MutationReport(tuple(outcomes), 1.0)
    assert [o.word for o in outcomes] == [
        "killed",
        "refused",
        "survives",
        "killed",
        "equivalent",
        "unseen",
        "explained",
        "killed",
        "refused",
        "refused",
        "killed",
    ]
    assert [o.mutation.subject for o in report.survivors] == ["a/2", "a/6"]
    assert [o.mutation.subject for o in report.unexplained] == ["a/2"]
    assert [m.subject for m in report.equivalent] == ["a/4"]
    assert [m.subject for m in report.unseen] == ["a/5"]
    assert [(m.subject, kill) for m, kill in report.kills] == list(
        zip(("a/0", "a/3", "a/7", "a/10"), killed, strict=True)
    )
    assert list(report.by_property().items()) == [("two", 2), ("one", 1), ("three", 1)]
    assert list(report.refusals().items()) == [("LH402", 1), ("LH412", 2)]
    assert report.total == RuleScore(made=11, refused=3, equivalent=1, killed=4, unseen=1)
    assert list(report.by_rule().items()) == [
        ("drop_guard", RuleScore(3, 1, 0, 1, 0)),
        ("swap_target", RuleScore(4, 2, 0, 2, 0)),
        ("drop_task", RuleScore(4, 0, 1, 1, 1)),
    ]
    assert (report.total.others, report.total.score) == (6, 4 / 6)
    assert RuleScore(made=3, refused=1, equivalent=1, killed=0, unseen=1).score == 1.0


VERDICTS = [
    Verdict(),
    Verdict("safe", 3),
    Verdict("convergence"),
    Verdict(refused="guards_disjoint: both"),
    Verdict(noticed="seen"),
    Verdict(cut_short=True, noticed="other"),
    Verdict(states=True, seconds=2.0),
]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_one_more_trial_decides_or_adds_to_what_was_noticed(verdict: Verdict) -> None:
    """A kill or a refusal is all that is said; else the first notice stays, and that a trial was cut short."""
    trial = Trial((("a", "1"),))
    for before in (outcome(0, "drop_task"), outcome(0, "drop_task", noticed="first", cut_short=True, seconds=1.0)):
        found = _after(before, verdict, trial)
        assert found.mutation == before.mutation
        assert found.seconds == before.seconds + verdict.seconds
        assert found.kill == (Kill(verdict.by, trial, verdict.steps) if verdict.by else None)
        assert found.refused == verdict.refused
        if verdict.by or verdict.refused:
            assert (found.noticed, found.cut_short, found.survives) == ("", False, False)
        else:
            assert found.noticed == (before.noticed or verdict.noticed)
            assert found.cut_short == (before.cut_short or verdict.cut_short)
            assert found.survives


ALWAYS = "press: {to: dark, when: n <= 1}"
BOTH = "press: [{to: dark, when: n < 1}, {to: dark, when: n >= 1}]"
TIMED = "tick: [{to: dark, when: now >= 1}, {to: dark, when: now < 1}], press: {to: dark}"
IGNORED = ", ignore: {press: it is worn}"
FIRST, LAST = ("n < 1 -> n <= 1", "n < 1 -> n < 0"), ("n >= 1 -> n > 1", "n >= 1 -> n >= 0")


@pytest.mark.parametrize(
    ("choices", "wanted"),
    [
        (ALWAYS, ("n <= 1 -> n < 1", "n <= 1 -> n <= 2")),
        (ALWAYS + "}" + IGNORED[:-1], ("n <= 1 -> n < 1", "n <= 1 -> n <= 2")),
        ("press: {to: dark, when: n < 1}}" + IGNORED[:-1], FIRST),
        (BOTH, FIRST),
        (BOTH + "}" + IGNORED[:-1], FIRST + LAST),
        (TIMED, ("now >= 1 -> now > 1", "now >= 1 -> now >= 0", "now < 1 -> now <= 1", "now < 1 -> now < 0")),
    ],
)
def test_the_last_of_several_guards_that_leave_no_case_out_is_not_tried(
    choices: str, wanted: tuple[str, ...], tmp_path: Path
) -> None:
    """A guard that stands alone is, though it leaves no case out either; and so is each of a timer's."""
    clock = "clock: {horizon: 2}\n" if "tick" in choices else ""
    system = written(
        tmp_path,
        {
            "system.yaml": f"system: lamp\nroles: {{lamp: {{}}}}\nenvironment: {{press: {{to: lamp}}}}\n{clock}",
            "roles/lamp.yaml": "role: lamp\ndata: {n: {type: int, min: 0, max: 1}}\n"
            f"events: {{press: Somebody presses it.}}\nstates:\n  dark: {{initial: true, on: {{{choices}}}}}\n",
        },
    )
    assert tuple(m.item for m in of_rule(system, "shift_comparison")) == wanted
