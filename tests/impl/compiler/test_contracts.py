"""An event with several contracts in `environment` comes where one of them lets it: explored and compiled alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from leasehold.checker.explore import explore
from leasehold.impl.compiler.contract_source import not_enforced
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.core.work import Machines, Record, local
from leasehold.spec import System, load
from tests.systems import files_of, write, written

CLERK = files_of("impl/compiler/systems/clerk")["roles/clerk.yaml"]
ASKED = {
    "TASKS": "tasks: {ask: {call: handler.ask, answers: [said]}}",
    "BEGINS": "tasks: [ask],",
    "REST": "refuse: {}",
}
UNASKED = {"TASKS": "", "BEGINS": "", "REST": "refuse: {said: it is over}"}
TRUE, FALSE = "clerk.n == 0", "clerk.n == 1"
CONTRACTS = {  # the conditions under which each lets the event come; None: it has none
    (FALSE,): False,
    (TRUE,): True,
    (None,): True,
    (FALSE, FALSE): False,
    (FALSE, TRUE): True,
    (TRUE, FALSE): True,
    (FALSE, None): True,
    (None, FALSE): True,
    (FALSE, None, FALSE): True,
}


@pytest.mark.parametrize("conditions", CONTRACTS, ids=str)
@pytest.mark.parametrize("words", [ASKED, UNASKED], ids=["an answer", "from outside"])
def test_one_contract_is_enough(words: dict[str, str], conditions: tuple[str | None, ...], tmp_path: Path) -> None:
    role = CLERK
    for old, new in words.items():
        role = role.replace(old, new)
    lines = "".join(
        f"  one_{n}: {{to: clerk, event: said{'' if when is None else f', when: {when}'}}}\n"
        for n, when in enumerate(conditions)
    )
    system = load(
        write(
            tmp_path / "asked",
            {
                "system.yaml": f"system: asked\nroles: {{clerk: {{}}}}\nenvironment:\n{lines}  more: {{to: clerk}}\n",
                "roles/clerk.yaml": role,
                "invariants.yaml": "properties: {ends: {sometimes: clerk.state == over}}\n",
            },
        )
    )
    (found,) = (p.verdict == "witnessed" for p in explore(system).properties if p.name == "ends")
    core = compile_system(system).roles["clerk"]
    _, outcome = core.step_outside(core.first(0), local("said"), 0, cast(Any, None))
    assert (found, outcome.taken) == (CONTRACTS[conditions],) * 2


# Contracts over the machines of several roles and runs

STOCK = files_of("impl/compiler/systems/stock")
VALUES = "it uses machines as values, whose numbers are those of one run"
NUMBER = "it reads a machine of `broker` by its number"
# The condition, and of an enforced one the machines of three, the second one's own, with 1, 2 and 4 units, that may
# have 0 to 5 units; of others why they are not.
OVER_ALL: dict[str, str | list[int]] = {
    "sum(b.units for b in broker if b != it) + event.units <= 8": [0, 1, 2, 3],
    "sum(b.units for b in broker) + event.units <= 9": [0, 1, 2],
    "all(b == it or b.units != event.units for b in broker)": [0, 2, 3, 5],
    "any(it != b and b.units == event.units for b in broker)": [1, 4],
    "count(b.units > 1 for b in broker) == event.units": [2],
    "all(c.most > event.units for c in cap)": [0, 1, 2, 3, 4],
    "cap.most > event.units": [0, 1, 2, 3, 4],
    "it.units == event.units": [2],
    "all(p.state == down for p in part) and event.units == 3": [3],
    "part[1].state == down and event.units == 4": [4],
    "len(it.friends) == 0 and event.units == 1": [1],
    "broker[1] in it.friends or event.units == 3": [3],
    "event.who in it.friends or event.units == 2": [2],
    "it.best == none and event.units == 5": [5],
    "broker[0].units == 1": NUMBER,
    "index(it) == 0": VALUES,
    "it == broker[0]": VALUES,
    "any(b.units > 0 for b in it.friends)": VALUES,
    "any(b.best == event.who for b in broker)": VALUES,
    "all(b.units == 0 for b in broker - it.friends)": VALUES,
    "event.who in it.friends or any(b.units == 9 for b in broker)": VALUES,
    "any(f.state == there for f in far)": "it reads machines of `far`, which other actors play",
}


class _Several(dict[str, Any]):
    own = 1

    def of_run(self, role: str) -> Record:
        return cast(Record, self[role][0])


def _stock(folder: Path, when: str, others: str = "") -> tuple[System, Program]:
    text = STOCK["system.yaml"].replace("WHEN", when).replace("OTHERS", others)
    system = written(folder, {**STOCK, "system.yaml": text})
    return system, compile_system(system)


@pytest.mark.parametrize("when", OVER_ALL)
def test_a_contract_over_several_machines_is_asked_of_all_that_an_actor_has(when: str, tmp_path: Path) -> None:
    found = OVER_ALL[when]
    system, program = _stock(tmp_path, when)
    core = program.roles["broker"]
    if isinstance(found, str):
        assert ([entry.reason for entry in not_enforced(system)], dict(core.contracts)) == ([found], {})
        return
    assert not_enforced(system) == ()
    parts = Machines(program.roles["part"].first)
    brokers: list[Record] = [
        ("idle", n, units, frozenset(), None, (), (), 0, parts) for n, units in enumerate((1, 2, 4))
    ]
    assert len(brokers[0]) == len(core.names)
    machines = cast(Any, _Several(broker=brokers, cap=[("many", 5, (), (), 0)]))
    holds = core.contracts["granted"].holds
    assert [n for n in range(6) if holds(brokers[1], (n, 0), machines, 0)] == found


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("", ""),
        ("  more: {to: broker, event: granted}", "`more` lets the event come at any time"),
        (
            '  more: {to: broker, event: granted, when: "index(it) == 0"}',
            f"`more`, which may offer the event too, {VALUES.removeprefix('it ')}",
        ),
        (
            '  more: {to: broker, event: granted, when: "it.units == 1", enforced: false}',
            "`more`, which may offer the event too, says `enforced: false`",
        ),
        ('  more: {to: broker, event: granted, when: "event.units == 5"}', ""),
    ],
    ids=["alone", "at any time", "unknown", "not enforced", "another"],
)
def test_a_contract_is_asked_where_every_other_that_offers_the_event_can_be(
    other: str, reason: str, tmp_path: Path
) -> None:
    system, program = _stock(tmp_path, "event.units == it.units", other)
    said = {entry.name: entry.reason for entry in not_enforced(system)}
    assert said.get("granted", "") == reason
    core = program.roles["broker"]
    assert ("granted" in core.contracts) == (not reason)
    if not reason:
        record: Record = ("idle", 0, 2, frozenset(), None, (), (), 0, Machines(program.roles["part"].first))
        holds = core.contracts["granted"].holds
        found = [n for n in range(6) if holds(record, (n, 0), cast(Any, _Several(broker=[record])), 0)]
        assert found == ([2, 5] if other else [2])
