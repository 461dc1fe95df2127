"""Results with something in every field, made by hand: as few, and as small, as every branch of a report needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from leasehold.checker.conform.coverage import Coverage, cells_of, lasting_states
from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.logs import ConformanceResult
from leasehold.checker.explain.story import StoryEntry
from leasehold.checker.explore import Exploration, PropertyResult
from leasehold.checker.explore.result import Orbits
from leasehold.checker.history.fault import UNDECIDED, CutFault
from leasehold.checker.prove import StoredProof
from leasehold.checker.prove.decide.assumptions import assumptions
from leasehold.checker.prove.decide.induction import Setting
from leasehold.checker.recovery.campaign import CaseOutcome, Finding
from leasehold.checker.recovery.cases.campaign import CaseCampaign
from leasehold.checker.recovery.lease.processes.campaign import ProcessCampaign
from leasehold.checker.recovery.lease.random_runs.campaign import FailedRun, RandomCampaign
from leasehold.checker.recovery.lease.random_runs.plan import RunPlan
from leasehold.checker.verify.blame import Blame
from leasehold.checker.verify.result import HistoryResult, Violation
from leasehold.spec import System

# Explorations


def every_verdict(votes: Exploration) -> tuple[Exploration, StoredProof]:
    """An exploration that was cut short, under symmetry, with a property for each verdict; and a proof of some."""
    path = next(p.path for p in votes.properties if p.path is not None)
    found = (
        PropertyResult("holds", "always", "exhausted", "It <holds>.", "section 1"),
        PropertyResult("shown", "sometimes", "witnessed", path=path),
        PropertyResult("open", "leads_to", "bounded", "It is not known.", reason="the bounds are narrow"),
        PropertyResult("cut", "always", "bounded"),
        PropertyResult("unasked", "always_possible", "unasked", reason="there is | no graph"),
        PropertyResult(
            "all_are_heard",
            "always",
            "violated",
            "",
            "s",
            path,
            "for v=voter[0]: broken",
            ("len(heard) == 2", "a | b"),
            {"v": "voter[0]"},
        ),
        PropertyResult("is_carried", "leads_to", "violated", reason="no vote"),
        PropertyResult("empty", "step", "exhausted"),
    )
    exploration = replace(
        votes,
        properties=found,
        vacuous=("empty", "holds"),
        complete=False,
        why_incomplete="stopped | by hand",
        orbits=Orbits((("voter",), ("chair", "voter")), 777),
        why_asymmetric=("chair is alone",),
        checkpoint="search.ckpt",
        engine_reason="it is small",
        seconds=2.0,
        peak_memory_bytes=5_000_000,
    )
    proof = StoredProof(
        proved={"holds": "induction", "open": "never", "cut": "k-induction", "all_are_heard": "wrongly"},
        any_number=["voter"],
        faults="crashes",
        what="any voters",
        made="2026-01-31",
        vacuous={"holds": "nothing is"},
        assumptions=assumptions(votes.system, Setting(), searches=True),
    )
    return exploration, proof


# Stories


def story() -> list[StoryEntry]:
    """A story with an entry of every kind, cause and end."""
    entries: list[StoryEntry] = []

    def told(machine: str, kind: str = "step", **more: Any) -> None:
        at: dict[str, Any] = {
            "actor": "site",
            "position": len(entries) + 40,
            "now": len(entries) // 4,
            "time": 60.0 * len(entries),
        }
        entries.append(StoryEntry(**{**at, "kind": kind, "machine": machine, **more}))

    told("", "recovered", number=3)
    told("", "migrated", words="from specification a to b")
    told("unit[1]", "found", state="active")
    told("unit[1]", "forgotten", state="closed")
    told("broker", "refused", event="demand", cause="client", fields={"units": 2}, reason="it has <ended>")
    told("broker", "refused", event="demand", reason="it has ended")
    step: dict[str, Any] = {"source": "idle", "state": "busy", "event": "go", "transition": "broker/idle#go"}
    told(
        "broker",
        **step,
        sender="service_manager",
        number=7,
        fields={"units": 2, "end": 0, "who": [], "yes": True, "no": False},
    )
    for cause in ("timer", "policy", "handler", "probe", "client", "subsidiary", "parent", "another"):
        told(
            "broker",
            **step,
            cause=cause,
            fields={"list": [1, 2], "deep": [{"a": 1}], "map": {"a": 1}, "long": "x" * 70},
        )
    told("broker", **(step | {"transition": "", "reason": "it is late"}), cause="policy")
    told("broker", **step, cause="handler", well=False, words="no room")
    told(
        "broker",
        **(step | {"state": "idle"}),
        sends=("ticket to broker", "a to b"),
        starts=("policy.allocate", "handler.join"),
    )
    told("broker", **(step | {"transition": ""}), cause="timer", reason="not due")
    same: dict[str, Any] = {**step, "now": 9, "time": 100_000.0}
    for n in (0, 1, 2):
        told(f"unit[{n}]", **same)
    told("unit[3]", **same, actor="other", position=4)
    told("unit[4]", **same, actor="other", position=5)
    return entries


# Histories


def history(votes: Exploration) -> HistoryResult:
    """Two violations of one property, one of another, faults of the events, and a property that is not asked."""
    path = next(p.path for p in votes.properties if p.name == "is_carried")
    assert path is not None
    blame = Blame("policy", "it has decided <badly>", (("chair", 3),))
    first = Violation(
        "all_are_heard, v=voter[0]",
        "all_are_heard",
        "A doc.",
        "section 2",
        "run <1>",
        4,
        7,
        ("chair", "voter"),
        (("chair", 1), ("voter", 2), ("chair", 3)),
        None,
        (),
        blame,
        "len(heard)\n  == 2",  # type: ignore[arg-type]
    )
    second = replace(
        first, property="all_are_heard", run="run 2", cut=0, now=None, blame=None, doc="", source="", claim=""
    )
    third = replace(second, property="flies", of="flies", now=0, doc="Only a doc.", events=(("voter", 9),))
    for violation in (first, second, third):
        violation.__dict__["path"] = path
    return HistoryResult(
        events=12,
        cuts=1,
        runs=2,
        violations=[first, second, third],
        faults=[CutFault("chair", 5, "run 2", "it is <lost>", UNDECIDED), CutFault("voter", 0, "", "it lies")],
        not_asked={"is_decided": "it is | of fair runs"},
    )


# Campaigns


def recovery(system: System, cells: dict[tuple[str, ...], list[int]], ends: dict[str, int]) -> CaseCampaign:
    """A campaign with cells of which some have failed, and two cases that fail."""
    failed = CaseOutcome("crash:a@any@b!lost", [Finding("check", "it is <wrong>"), Finding("other", "too")])
    found = CaseCampaign(system=system, explored=500, scripts=40, exploring=1.25, by_cell=cells)
    found.by_point = {"crash:b": [3, 0], "crash:a": [4, 2]}
    found.cases.update({"single": 30, "pairs": 9, "counterexamples": 3})
    found.ends.update(ends)
    found.played, found.asked, found.seconds, found.interrupted = 1042, 2_000, 9.8765, True
    found.failures += [failed, CaseOutcome("seed 5", [Finding("check", "again")])]
    found.skipped.append(CaseOutcome("c", skipped="no"))
    return found


def random_runs(votes: Exploration) -> RandomCampaign:
    path = next(p.path for p in votes.properties if p.path is not None)
    plan = RunPlan(11, 2, True, 5, ())
    found = RandomCampaign(first=7, lost=4, played=20, crashes=6, asked=900, seconds=3.14159, interrupted=False)
    found.acts.update({"demand": 3, "crash": 2})
    found.failures.append(
        FailedRun(
            "seed 11",
            [Finding("one", "a")],
            plan=plan,
            smallest=[Finding("two", "b")],
            lease="service_manager:1",
            path=path,
        )
    )
    return found


def processes() -> ProcessCampaign:
    found = ProcessCampaign(played=9, seconds=4.4444, interrupted=True)
    found.ends.update({"same": 5, "ended": 2})
    found.failures.append(CaseOutcome("kill broker at 1", [Finding("judge", "two hold it"), Finding("end", "none")]))
    found.skipped.append(CaseOutcome("call site 2", skipped="no time was left for it"))
    return found


# Coverage


def coverage(system: System, cells: list[tuple[str, ...]]) -> tuple[Coverage, ConformanceResult]:
    """Returns every second transition and cell, some control states that were explored, and one that was not."""
    found = Coverage(system, runs=3, partial=1)
    names = [t.name for role in system.roles.values() for t in role.transitions()]
    found.transitions.update({name: n + 1 for n, name in enumerate(names) if n % 2})
    found.crash_points.update({name: n + 10 for n, name in enumerate(names) if n % 3 == 0})
    found.cells.update({cell: n + 1 for n, cell in enumerate(cells_of(system)) if n % 2 == 0})
    found.crashed_in.update({at: n + 5 for n, at in enumerate(lasting_states(system)) if n % 2})
    found.control.update({cells[0]: 4, cells[1]: 2, cells[-1]: 1})
    beyond = tuple([*system.roles[name].states][-1] for name in system.product for _ in range(system.roles[name].count))
    found.control[beyond] += 6
    found.links.update(
        {(cells[0], cells[1], "a#go"): 3, (cells[1], beyond, "b#go"): 2, (cells[0], cells[0], "a#stay"): 9}
    )
    logs = [JudgedLog("chair\x07", 9, 1, 9, 8, 7, 1, 2, 3, 4, 5, None)]
    return found, ConformanceResult(logs=logs, findings=[_finding(n) for n in range(60)], coverage=found)


def _finding(n: int) -> Nonconformity:
    return Nonconformity("step", "chair", n + 1, "run", "chair", f"it is wrong\x07 {n}")
