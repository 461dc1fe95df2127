"""The cases with real processes: their names, and the scripts of their faults."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest

from leasehold.checker.recovery.campaign import UnknownCase
from leasehold.checker.recovery.lease.processes.campaign import _mixed, _without_reference
from leasehold.checker.recovery.lease.processes.cases import (
    DATABASES,
    NATS,
    QUICK,
    TERM,
    ProcessCase,
    ReferenceRun,
    _table,
    fixed_names,
)
from leasehold.checker.recovery.lease.processes.workload import STEPS
from leasehold.checker.recovery.processes.faults import DURABLE, KINDS, ProcessFault
from leasehold.checker.recovery.processes.proxy import CUT, DEAF, MUTE
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT

FORMS = {form.partition("/")[0] for form in _table()["cases"]}


def of(kind: str, *through: str) -> set[str]:
    """The words behind a kind of fault in the fixed names."""
    names = (name.partition("@") for name in fixed_names())
    return {
        plain.removeprefix(f"{kind}/")
        for plain, _, server in names
        if plain.startswith(f"{kind}/") and server in (through or ("",))
    }


def test_every_fault_has_cases_of_every_actor() -> None:
    kinds = {name.partition("/")[0] for name in (*fixed_names(), "kill/", "call/")}
    assert kinds == FORMS
    for kind in kinds - {"kill", "call", "all", "server", "store"}:
        assert {words.partition("/")[0] for words in of(kind)} == {*ROLES}, kind


def every(*words: tuple[str, ...]) -> set[str]:
    found = {""}
    for some in words:
        found = {f"{one}/{word}" if one else word for one in found for word in some}
    return found


@pytest.mark.parametrize(
    ("kind", "through", "words"),
    [
        ("twice", ("",), every(tuple(ROLES), ("before-commit/9", "after-commit/9", "after-recovery/1"))),
        ("all", ("",), {*STEPS} - {"start"}),
        *(
            (kind, (server,), words)
            for server in DATABASES
            for kind, words in (
                ("server", every(("kill", "terminate"), ("demand", "grow", "close", "next"))),
                ("store", every(tuple(ROLES), (CUT, DEAF, MUTE))),
            )
        ),
        ("server", (NATS,), every(("kill",), ("demand", "grow", "close", "next"))),
        ("wire", ("",), every(tuple(ROLES), (CUT, DEAF, MUTE), ("grow", "close", "next"))),
        ("full", ("",), every(tuple(ROLES), ("demand", "grow", "close"))),
        ("read-only", ("",), every(tuple(ROLES), ("grow", "close"))),
        ("power", ("",), every(tuple(ROLES), ("demand", "extension", "grow", "shrink", "close", "next"))),
        ("pause", ("",), every(tuple(ROLES), ("grow",))),
        ("clock", ("",), every(tuple(ROLES), ("ahead", "behind", "fast", "slow", "ahead/grow", "behind/grow"))),
        ("packets", ("",), every(tuple(ROLES), ("random",)) | every(tuple(ROLES), (DEAF, MUTE), ("grow", "close"))),
        ("over", ("",), every(tuple(ROLES), ("demand", "extension"))),
        (
            "eio",
            ("",),
            {
                *every(tuple(ROLES), ("fdatasync",), ("5", "14", "22", "8..11")),
                *every((SITE,), ("fsync",), ("3", "7")),
            },
        ),
    ],
)
def test_which_cases_of_a_fault_there_are(kind: str, through: tuple[str, ...], words: set[str]) -> None:
    """At every actor, in each way, at each of the steps during which it matters."""
    assert of(kind, *through) == words


@pytest.mark.parametrize(
    ("name", "script"),
    [
        (
            "pause/site/grow",
            [ProcessFault("pause", SITE, "", "grow", 0.02, 1.05), ProcessFault("kill", SITE, "", "grow", 1.02)],
        ),
        ("all/close", [ProcessFault("kill", "all", "", "close", 0.02)]),
        ("over/broker/demand", [ProcessFault("kill", BROKER, "", "demand", 0.02, 14.0)]),
        ("server/kill/next@nats", [ProcessFault("server", "", "kill", "next", 0.03, 1.0)]),
        ("store/tenant/cut@mariadb", [ProcessFault("store", TENANT, CUT, "grow", 0.02, 1.0)]),
        ("wire/site/cut/close", [ProcessFault("wire", SITE, CUT, "close", 0.0, 1.0)]),
        ("packets/site/random", [ProcessFault("packets", SITE, "random", lasts=inf)]),
        ("kill/site/before-send/redeem/2", [ProcessFault("point", SITE, "before-send/redeem/2")]),
        (
            "twice/site/before-commit/9",
            [
                ProcessFault("point", SITE, "before-commit/9"),
                ProcessFault("point", SITE, "after-recovery/1", "start"),
            ],
        ),
        ("call/site/fsync/5", [ProcessFault("kill_in_call", SITE, "fsync/5")]),
        ("clock/site/behind", [ProcessFault("clock", SITE, "behind")]),
        (
            "clock/site/ahead/grow",
            [
                ProcessFault("clock", SITE, "ahead", "grow", 0.02),
                ProcessFault("kill", SITE, "ahead", "grow", 0.02),
            ],
        ),
        ("read-only/site/grow", [ProcessFault("disk_read_only", SITE, "", "grow", 0.02, 1.5)]),
        ("power/site/shrink", [ProcessFault("disk_power", SITE, "", "shrink", 0.06, 0.3)]),
    ],
)
def test_the_words_of_a_name_fill_in_its_script(name: str, script: list[ProcessFault]) -> None:
    case = ProcessCase.named(name)
    assert case is not None
    assert [*case.faults] == script
    assert (case.term == TERM) == (not name.startswith("over"))


def test_every_script_is_of_kinds_and_steps_that_there_are() -> None:
    for name in (*QUICK, *fixed_names()):
        case = ProcessCase.named(name)
        assert case is not None, name
        assert {fault.kind for fault in case.faults} <= KINDS.keys()
        assert {fault.step for fault in case.faults} <= {"", *STEPS}
        assert {fault.target for fault in case.faults} <= {"", "all", *ROLES}


def test_the_quick_selection_has_every_kind_and_every_server() -> None:
    assert {name.partition("/")[0] for name in QUICK} >= FORMS - {"pause"}
    assert {name.partition("@")[2] for name in QUICK} == {"", NATS, *DATABASES}
    for actor in ROLES:
        assert sum(f"/{actor}/" in name for name in QUICK) >= 5
    assert len({*QUICK}) == len(QUICK)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((f"kill/{actor}/before-commit/12", True) for actor in ROLES),
        *((f"call/{SITE}/{call}/3", True) for call in DURABLE),
        *((f"kill/{SITE}/before-send/redeem/2@{server}", True) for server in (NATS, *DATABASES)),
        ("twice/site/before-commit/3", True),
        ("kill/site/before-commit/999999", True),
        ("kill/site/before-commit/1000000", False),
        ("kill/site/before-commit/0", False),
        ("kill/site/before-commit/", False),
        ("kill/site/before-commit", False),
        ("kill//before-commit/1", False),
        ("call/site/read/1", False),
        ("call/site/fsync/x/1", False),
        ("kill/site/before-commit/1@mysql", False),
        ("kill/site/before-commit/1@", False),
        ("xkill/site/before-commit/1", False),
        ("full/site", False),
        ("", False),
    ],
)
def test_what_is_the_name_of_a_case(name: str, is_one: bool) -> None:
    found = ProcessCase.named(name)
    assert (found is not None) == is_one
    if found is not None:
        assert (found.name, found.server) == (name, name.partition("@")[2])


def test_a_reference_run_tells_the_cases() -> None:
    """Every point that was passed, as often as it was; elsewhere some of them; writes at intervals."""
    known = ReferenceRun()
    known.points[SITE] = Counter({"before-commit": 24, "after-commit": 15, "before-send/tell": 2, "before-call/x": 1})
    known.calls[SITE] = Counter({"fsync": 3, "pwrite64": 25})
    names = [name for name in known.names() if name not in fixed_names()]
    plain = [name for name in names if "@" not in name]
    assert plain == [
        *(f"kill/site/after-commit/{n}" for n in range(1, 16)),
        "kill/site/before-call/x/1",
        *(f"kill/site/before-commit/{n}" for n in range(1, 25)),
        "kill/site/before-send/tell/1",
        "kill/site/before-send/tell/2",
        *(f"call/site/fsync/{n}" for n in (1, 2, 3)),
        *(f"call/site/pwrite64/{n}" for n in (1, 13, 25)),
    ]
    for server in DATABASES:
        assert [name for name in names if name.endswith(server)] == [
            *(f"kill/site/before-commit/{n}@{server}" for n in (3, 13, 23)),
            *(f"kill/site/after-commit/{n}@{server}" for n in (3, 13)),
        ]
    assert [name for name in names if name.endswith(NATS)] == [
        f"kill/site/before-send/tell/1@{NATS}",
        *(f"kill/site/after-commit/{n}@{NATS}" for n in (4, 14)),
    ]
    assert {*fixed_names()} < {*known.names()}
    assert [case.name for case in known.cases()] == ["reference/points", "reference/calls"]


@pytest.mark.parametrize(
    ("only", "quick", "names"),
    [
        (None, False, None),
        (None, True, [*QUICK]),
        ("full", True, ["full/site/grow"]),
        ("kill/site/before-commit/1", False, ["kill/site/before-commit/1"]),
        ("kill", False, None),
        ("kill/site", False, None),
        ("k", False, None),
        ("call/broker", False, None),
        ("full/site/grow", False, ["full/site/grow"]),
        ("full/site", False, ["full/site/demand", "full/site/grow", "full/site/close"]),
    ],
)
def test_which_names_are_known_before_the_workload_was_played(
    only: str | None, quick: bool, names: list[str] | None
) -> None:
    found = _without_reference(only, quick)
    assert found == names if names is None else [*(found or ())] == names


@pytest.mark.parametrize(
    ("only", "words"), [("ful/site", "did you mean full/site/"), ("xyz", "the kinds are all, call, clock")]
)
def test_a_name_that_none_begins_with(only: str, words: str) -> None:
    with pytest.raises(UnknownCase, match=f"there is no case '{only}'; {words}"):
        _without_reference(only, quick=False)


def test_neighbours_differ_and_calls_come_after_so_many_others() -> None:
    names = [f"{kind}/{n}" for kind in ("full", "wire") for n in range(30)] + [f"call/{n}" for n in range(8)]
    mixed = _mixed(names)
    assert sorted(mixed) == sorted(names)
    assert mixed == _mixed(names)
    calls = [n for n, name in enumerate(mixed) if name.startswith("call")]
    assert calls == [3, 7, 11, 15, 19, 23, 27, 31]
    others = [name.partition("/")[0] for name in mixed[:20] if not name.startswith("call")]
    assert 5 < others.count("full") < 11, "some of every kind come early"
    assert _mixed([f"call/{n}" for n in range(3)]) == sorted(_mixed(["call/0", "call/1", "call/2"]), key=mixed.index)
