"""Parts that all simulated runs share: where a lease is, when it is over, and units in quarantine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery import progress, simulated_run
from leasehold.checker.recovery.events import CommittedEvents
from leasehold.checker.recovery.lease.run import LeaseRun
from leasehold.checker.recovery.properties import RunProperties
from leasehold.impl.actor.table import BELOW
from leasehold.impl.notices import SimulatedCrash
from leasehold.spec.language.model import Call
from tests.systems import load

LEASE = "service_manager:1"
PROPERTIES = RunProperties(load("lease"))


class Run(LeaseRun):
    """A run of which the machines are given: state and data by machine."""

    def __init__(self, lazy: bool | None = True) -> None:
        self.machines: dict[str, tuple[str, dict[str, Any]]] = {}
        self.told: list[Any] = []
        actor = SimpleNamespace(tell=lambda *what: self.told.append(what))
        units = [SimpleNamespace(name=f"u{n}") for n in range(3)]
        sim = SimpleNamespace(
            held=self._held,
            time=SimpleNamespace(now=5),
            actors={"site": actor},
            players={"authority": "site", "unit[2]": "site"},
            loop=SimpleNamespace(call=lambda what: what(), errors=[]),
            units=SimpleNamespace(overlaps=[]),
            program=SimpleNamespace(constants={} if lazy is None else {"lazy_close": lazy}),
            inventory=type("Units", (), {"__len__": lambda self: 3, "units": units})(),
            repair=lambda name: self.told.append(("repair", name)),
            turns=[],
            subscribers=[],
            ends=[],
        )
        super().__init__(CommittedEvents(sim), PROPERTIES, "run")  # type: ignore[arg-type]

    def _held(self, lease: str, machine: str) -> Any:
        assert lease == (BELOW if machine.startswith("unit") else LEASE)
        if machine not in self.machines:
            return None
        state, data = self.machines[machine]
        return SimpleNamespace(state=state, record=data, core=SimpleNamespace(view=lambda record: record))

    def found(self) -> list[tuple[str, str]]:
        return [(finding.check, finding.words) for finding in self.outcome.findings]


def test_a_machine_that_nobody_has_has_no_state_and_no_data() -> None:
    run = Run()
    run.machines["broker"] = "ticketed", {"units": 2}
    assert (run.state(LEASE, "broker"), run.data(LEASE, "broker")) == ("ticketed", {"units": 2})
    assert (run.state(LEASE), run.data(LEASE)) == ("", {})
    assert run.outcome.name == "run"


OVER = ("", "nascent", "closed", "failed")


@pytest.mark.parametrize("state", [*OVER, "active", "closing"])
def test_a_lease_is_over_when_service_manager_and_broker_are_done_with_it(state: str) -> None:
    for machine in ("service_manager", "broker"):
        run = Run()
        if state:
            run.machines[machine] = state, {}
        assert run.over(LEASE) == (state in OVER)


@pytest.mark.parametrize(
    ("lazy", "end", "over"),
    [
        (True, 5, True),
        (True, 4, True),
        (True, 6, False),
        (False, 4, False),
        (None, 4, True),
        (True, None, False),
    ],
)
def test_a_lazy_site_may_keep_a_lease_whose_term_is_over(lazy: bool | None, end: int | None, over: bool) -> None:
    run = Run(lazy)
    run.machines["authority"] = "active", {} if end is None else {"end": end}
    assert run.over(LEASE) == over
    run.machines["authority"] = "closed", {"end": 9}
    assert run.over(LEASE)
    run.machines["authority"] = "failed", {"end": 9}
    assert not run.over(LEASE)


def test_only_units_in_quarantine_are_repaired() -> None:
    run = Run()
    run.machines |= {"unit[0]": ("idle", {"quarantined": False}), "unit[2]": ("failed", {"quarantined": True})}
    assert run.quarantined() == [2]
    run.repair()
    assert run.told == [("repair", "u2"), (BELOW, "unit[2]", "repaired", {})]


def test_an_event_is_told_with_its_fields() -> None:
    run = Run()
    run.tell("authority", LEASE, "reclaim", {"units": 1})
    assert run.told == [(LEASE, "authority", "reclaim", {"units": 1})]


def test_errors_and_actions_at_once_are_findings_and_a_planned_crash_is_none() -> None:
    run = Run()
    run.check_overlaps()
    run.sim.loop.errors.append({"message": "planned", "exception": SimulatedCrash()})
    run.report_errors()
    assert run.found() == []
    run.sim.units.overlaps += ["setup of u1", "more"]
    run.check_overlaps()
    run.sim.loop.errors.append({"message": "odd"})
    run.report_errors()
    assert run.found() == [("world", "two actions on one unit at once: setup of u1"), ("error", "odd: None")]


def test_what_is_owed_is_said_with_its_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    asked: list[Any] = []
    monkeypatch.setattr(simulated_run, "owed", lambda *given: asked.append(given) or iter(["a timer", "a call"]))
    monitor = SimpleNamespace(properties="p", lease=LEASE, state=["s"])
    run.check_progress(monitor)  # type: ignore[arg-type]
    assert asked == [(run.sim, "p", LEASE, ["s"])]
    assert run.found() == [("progress", "tick 5: a timer"), ("progress", "tick 5: a call")]


# Handler tasks that nobody is at work on


def idle(
    *,
    target: str = "handler.setup",
    answers: tuple[str, ...] = ("up", "broken"),
    when: Any = None,
    ways: dict[str, str] | None = None,
    at_work: tuple[str, ...] = (),
    tasks: tuple[str, ...] = ("setup",),
) -> list[str]:
    """The idle tasks of a machine in `priming`, of which each answer leads to the state in `ways`."""
    given = {"up": "active", "broken": "failed"} if ways is None else ways
    on = {answer: [SimpleNamespace(target=state)] for answer, state in given.items()}
    call = Call.__new__(Call)
    for name, value in {"target": target, "answers": answers, "when": when}.items():
        object.__setattr__(call, name, value)
    role = SimpleNamespace(
        states={"priming": SimpleNamespace(tasks=tasks, on=on)}, tasks={"setup": call, "tell": SimpleNamespace()}
    )
    machine = SimpleNamespace(role=role, function=lambda condition: lambda state, fields, sender: condition)
    actor = SimpleNamespace(calls=SimpleNamespace(of=lambda key: at_work))
    held = SimpleNamespace(state="priming", key="k")
    return [*progress._idle_tasks(machine, actor, held, [])]  # type: ignore[arg-type]


def test_a_call_of_a_handler_that_every_answer_would_end_is_owed() -> None:
    assert idle() == ["setup"]
    assert idle(when=True) == ["setup"]
    assert idle(tasks=("tell", "setup")) == ["setup"]


@pytest.mark.parametrize(
    "given",
    [
        {"at_work": ("setup",)},
        {"at_work": ("action",)},
        {"target": "policy.place"},
        {"answers": ()},
        {"when": False},
        {"ways": {"up": "active", "broken": "priming"}},
        {"tasks": ("tell",)},
        {"tasks": ()},
    ],
)
def test_other_tasks_are_not_owed(given: dict[str, Any]) -> None:
    """One that is under way, is another's, has no answer, is not wanted, or may have been answered already."""
    assert idle(**given) == []
