"""Attacks on a certificate: the independent reader notices each; prover.md names those that it cannot notice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import z3

from leasehold.checker.prove import Certificate, Setting
from leasehold.checker.prove.decide.induction import induct
from leasehold.spec import shipped_folder
from tests.checker.prove.certificate_reader import missing, wrong_step
from tests.checker.prove.script_reader import Terms, read
from tests.systems import load

FOLDER = shipped_folder("two_phase_commit")
MARK = "ee54e45f"  # of the coordinator's states, whatever else the process has proved
STATES = f"idle..aborted!{MARK}"


class Written:
    """A certificate: its header, its conditions (comments and script) and its index."""

    def __init__(self, header: str, conditions: list[str], index: dict[str, Any]) -> None:
        self.header, self.conditions, self.index = header, conditions, index

    @property
    def lacks(self) -> list[str]:
        return missing(FOLDER, self.index, self.header + "".join(self.conditions))

    def at(self, name: str) -> int:
        return [c["name"] for c in self.index["conditions"]].index(name)

    def edit(self, name: str, pattern: str, new: str) -> None:
        """Replaces a part of one condition."""
        at = self.at(name)
        changed = re.sub(pattern, lambda _: new, self.conditions[at], count=1, flags=re.DOTALL)
        assert changed != self.conditions[at]
        self.conditions[at] = changed

    def edit_all(self, pattern: str, new: str | Callable[[re.Match[str]], str]) -> None:
        """Replaces a part of every condition that has it."""
        changed = [re.sub(pattern, new, text, flags=re.DOTALL) for text in self.conditions]
        assert changed != self.conditions
        self.conditions = changed


@pytest.fixture(scope="module")
def original() -> Written:
    system = load("two_phase_commit")
    certificate = Certificate(system, Setting(), induct(system))
    conditions = list(certificate.conditions())
    texts = [c.text(number) for number, c in enumerate(conditions, 1)]
    made = Written(certificate.header, texts, json.loads(json.dumps(certificate.index(conditions))))
    assert made.lacks == []
    return made


@pytest.fixture
def written(original: Written) -> Written:
    return deepcopy(original)


AGREE, LOSS, START = "coordinator/asking#agree", "orders loses a message", "the initial states"
GOAL = r"\(assert \(not \(and true.*?\)\)\)\n"
VALUE = r"(\(define-fun \|{}\| \(\) Bool ).*?(?=\n\((?:define-fun|assert))"


def _unchanged(w: Written) -> None:
    """A claim that the step changes is moved to those that need no script."""
    condition = w.index["conditions"][w.at(AGREE)]
    condition["establishes"].remove("who_commits_was_told")
    condition["unchanged"].insert(0, "who_commits_was_told")
    w.edit(AGREE, "who_commits_was_told, ", "")
    w.edit(AGREE, "(?<=unchanged by the step: )", "who_commits_was_told, ")
    w.edit(AGREE, r" \|after who_commits_was_told\|", "")


def _not_established(w: Written) -> None:
    """A lemma is used that no condition establishes."""
    w.index["conditions"][w.at(AGREE)]["uses"].insert(0, "all_is_well")
    w.edit(AGREE, "(?<=uses, of the state before: )", "all_is_well, ")
    w.edit(
        AGREE,
        r"\(assert \|constants 1\|\)",
        "(define-fun |before all_is_well| () Bool false)\n(assert |constants 1|)\n(assert |before all_is_well|)",
    )


def _circular(w: Written) -> None:
    """A claim is used of the state after, to establish itself."""
    w.edit(AGREE, r"\(assert \|constants 1\|\)", "(assert |after who_commits_was_told|)")


def _circular_by_name(w: Written) -> None:
    """The same, under the name of what is known before."""
    text = w.conditions[w.at(AGREE)]
    after = re.search(VALUE.format("after who_commits_was_told"), text, re.DOTALL)
    assert after is not None
    value = after[0].removeprefix(after[1])
    w.edit(
        AGREE, VALUE.format("before who_commits_was_told"), f"(define-fun |before who_commits_was_told| () Bool {value}"
    )


def _copied(w: Written) -> None:
    """Another loss is shown in place of one."""
    parts = [w.conditions[w.at(name)].partition("(set-logic") for name in (LOSS, "answers loses a message")]
    w.conditions[w.at(LOSS)] = parts[0][0] + parts[1][1] + parts[1][2]


def _left_out(w: Written) -> None:
    """A condition twice, in place of another: under its own name."""
    one, other = w.at(LOSS), w.at("answers loses a message")
    number = w.index["conditions"][one]["number"]
    w.index["conditions"][one] = w.index["conditions"][other] | {"number": number}
    w.conditions[one] = re.sub(r"Condition \d+", f"Condition {number}", w.conditions[other], count=1)


def _other_digest(w: Written) -> None:
    digest = w.index["spec_digest"]
    w.index["spec_digest"] = "0" * len(digest)
    w.header = w.header.replace(digest, "0" * len(digest))


def _header(w: Written) -> None:
    w.header = w.header.replace("any number of crashes and losses", "any number of instances, crashes and losses")


def _no_faults(w: Written) -> None:
    w.header = w.header.replace(w.index["faults"], "no faults but those that channels declare")
    w.index["faults"] = "no faults but those that channels declare"


def _three_machines(w: Written) -> None:
    w.header = w.header.replace("participant any number from 1 on", "participant 3 (--instances)")
    w.index["assumptions"]["machines"]["participant"] = "3 (--instances)"


def _weaker_everywhere(w: Written) -> None:
    """A property that is true, in all scripts."""
    for name in ("before", "after"):
        w.edit_all(VALUE.format(f"{name} commit_needs_all"), rf"(define-fun |{name} commit_needs_all| () Bool true)")


def _of_a_part(w: Written) -> None:
    """They are asked before the rest of a step is done."""
    claims = r"\(define-fun \|of the step \w+\| \(\) Bool .*?(?=\n\((?:define-fun|assert))"
    w.edit_all(claims, lambda claim: claim[0].replace("(w.", "(t."))


ATTACKS: dict[str, Callable[[Written], None]] = {
    "a script is emptied": lambda w: w.edit(AGREE, r"\(set-logic.*", "(set-logic ALL)\n(check-sat)\n(reset)\n"),
    "a script is gone": lambda w: w.edit(AGREE, r"\(set-logic.*", ""),
    "a script shows nothing": lambda w: w.edit(AGREE, GOAL, "(assert (not (and true)))\n"),
    "a script shows `true`": lambda w: w.edit(AGREE, GOAL, "(assert (not true))\n"),
    "a script has no claims to show": lambda w: w.edit(AGREE, GOAL, ""),
    "one claim less is shown": lambda w: w.edit(AGREE, r" \|after numbers in orders\|", ""),
    "the negation is dropped": lambda w: w.edit(AGREE, r"\(assert \(not (?=\(and true)", "(assert (or false "),
    "`false` is asserted": lambda w: w.edit(AGREE, r"\(check-sat\)", "(assert false)\n(check-sat)"),
    "`false` is a guard": lambda w: w.edit(AGREE, VALUE.format("guard 2"), "(define-fun |guard 2| () Bool false)"),
    "a claim is called unchanged": _unchanged,
    "a lemma is cited that nobody establishes": _not_established,
    "a claim is used to show itself": _circular,
    "a claim is used to show itself, under another name": _circular_by_name,
    "a claim is another after the step": lambda w: w.edit(
        AGREE, VALUE.format("after who_commits_was_told"), "(define-fun |after who_commits_was_told| () Bool true)"
    ),
    "a claim is another before the step": lambda w: w.edit(
        AGREE, VALUE.format("before who_commits_was_told"), "(define-fun |before who_commits_was_told| () Bool false)"
    ),
    "a property is `true` in all scripts": _weaker_everywhere,
    "claims about steps are `true`": lambda w: w.edit_all(
        r"(\(define-fun \|of the step \w+\| \(\) Bool ).*?(?=\n\((?:define-fun|assert))", r"\1true)"
    ),
    "claims about steps are of a part of their step": _of_a_part,
    "the step does nothing": lambda w: w.edit(
        AGREE, f"(?<=define-fun t.state.coordinator .. {STATES} )committing!{MARK}", "s.state.coordinator"
    ),
    "the step sets nothing": lambda w: w.edit(
        AGREE,
        r"\(define-fun t\.data\.coordinator\.agreed.*?(?=\n\(define-fun)",
        "(define-fun t.data.coordinator.agreed ((at.0 Int)) Bool (s.data.coordinator.agreed at.0))",
    ),
    "the step begins elsewhere": lambda w: w.edit(AGREE, f"asking!{MARK}(?=[)]+\n)", f"committed!{MARK}"),
    "two states are one": lambda w: w.edit(AGREE, rf" \(committed!{MARK}\) \(aborting!{MARK}\)", f" (aborting!{MARK})"),
    "a variable of the state before is defined": lambda w: w.edit(
        AGREE,
        rf"\(declare-fun (?=s.state.coordinator \(\) {STATES}\))",
        f"(define-fun s.state.coordinator () {STATES} idle!{MARK})\n(declare-fun ",
    ),
    "a variable of the state after is arbitrary": lambda w: w.edit(
        AGREE,
        rf"\(define-fun t.state.coordinator \(\) {STATES} committing!{MARK}\)",
        f"(declare-fun t.state.coordinator () {STATES})",
    ),
    "a constant is smaller": lambda w: w.edit(
        AGREE, VALUE.format("constants 2"), "(define-fun |constants 2| () Bool (= participants!0 1))"
    ),
    "an axiom that is none": lambda w: w.edit(
        AGREE,
        r"\(assert \|constants 1\|\)",
        "(define-fun |axiom 1| () Bool (= s.now 7))\n(assert |axiom 1|)\n(assert |constants 1|)",
    ),
    "another logic": lambda w: w.edit(AGREE, r"\(set-logic ALL\)", "(set-logic QF_UF)"),
    "a command that ends the script": lambda w: w.edit(AGREE, r"\(check-sat\)", "(exit)\n(check-sat)"),
    "assertions are taken back": lambda w: w.edit(AGREE, r"\(check-sat\)", "(check-sat)\n(check-sat)"),
    "a condition is shown in place of another": _copied,
    "a condition is there twice": _left_out,
    "another specification": _other_digest,
    "a header that says more": _header,
    "no faults": _no_faults,
    "a fixed number of machines": _three_machines,
    "comments that say more": lambda w: w.edit(AGREE, "(?<=establishes, of the state: )", "freedom from deadlock, "),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_reader_notices(attack: str, written: Written) -> None:
    ATTACKS[attack](written)
    assert written.lacks


def test_names_of_two_conditions_are_not_swapped(original: Written) -> None:
    """Any two of one kind: each script is about the states, messages and data of its own step."""
    terms, conditions = Terms(), original.index["conditions"]
    scripts = {c["name"]: read(terms, text) for c, text in zip(conditions, original.conditions, strict=True)}
    pairs = [(a, b) for a, b in combinations(conditions, 2) if a["kind"] == b["kind"]]
    unnoticed = [
        (a["name"], b["name"])
        for a, b in pairs
        if not wrong_step(FOLDER, a, scripts[b["name"]]) + wrong_step(FOLDER, b, scripts[a["name"]])
    ]
    assert len(pairs) > 100
    assert unnoticed == []


def test_no_guard_excludes_every_state(original: Written) -> None:
    """Without its claims, what a script asserts has a model, or at least the solver does not contradict it."""
    for text in original.conditions:
        solver = z3.Solver()
        solver.set("rlimit", 1_000_000)
        solver.from_string(re.sub(GOAL, "", text, flags=re.DOTALL))
        assert solver.check() != z3.unsat, text.splitlines()[0]


def test_names_of_a_specification_are_not_those_of_the_certificate(tmp_path: Path) -> None:
    """Each script has all that it needs, whatever constants and fields are called, and is unsatisfiable."""
    (tmp_path / "roles").mkdir()
    constants = ", ".join(f"{name}: {{type: int, value: 1, min: 1}}" for name in ("at", "value", "f", "t"))
    (tmp_path / "system.yaml").write_text(
        f"system: named\nconstants: {{{constants}, n: {{type: int, value: 2, min: 1, max: 4}}}}\n"
        "roles: {w: {instances: n}}\nactors: {all: [w]}\nchannels: {c: {from: w, to: w, kind: mailbox}}\n"
        "environment: {go: {to: w}}\n"
    )
    (tmp_path / "messages.yaml").write_text("messages: {m: {from: w, to: w, answer: true}}\n")
    (tmp_path / "roles" / "w.yaml").write_text(
        'role: w\ndata: {k: int}\nevents: {go: {fields: {f: "set[w]"}}}\nstates:\n'
        "  x: {initial: true, tasks: [say], on: {go: {to: x, set: {k: at + value + f + t}}}, ignore: {m: no}}\n"
        "tasks: {say: {send: m, to: w}}\n"
    )
    (tmp_path / "invariants.yaml").write_text(
        "properties:\n  c: {always: all(v.k == 0 or v.k == at + value + f + t for v in w)}\n"
    )
    system = load(tmp_path)
    found = induct(system, jobs=1)
    assert "c" in found.proved
    for condition in Certificate(system, Setting(), found).conditions():
        solver = z3.Solver()
        solver.from_string(re.sub(r"\((check-sat|reset|set-logic ALL)\)", "", condition.script))
        assert solver.check() == z3.unsat, condition.name
