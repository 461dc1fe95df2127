"""Results of a verification: each field in its place, together over stretches, and as metrics."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore import channels
from leasehold.checker.history.fault import CONTRADICTION, UNDECIDED, CutFault
from leasehold.checker.verify.blame import Blame
from leasehold.checker.verify.database import VerifyDatabase
from leasehold.checker.verify.follow import Lag
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.lanes import ReplayedLane
from leasehold.checker.verify.metrics import KINDS, VerifyMetrics
from leasehold.checker.verify.own import OwnQueryError, check_found, own_queries, try_queries
from leasehold.checker.verify.queries import PropertyQuery
from leasehold.checker.verify.result import HistoryResult, Violation, together
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.chain import Tampering
from leasehold.spec import load
from tests.checker.verify.test_follow import files, verification

FAULTS = [
    CutFault("a", 3, "r:1", "it is wrong"),
    CutFault("b", 0, "", "it is missing", UNDECIDED),
    CutFault("c", 5, "", "it is gone", "gap"),
]


def violation(property_: str, of: str = "", **fields: Any) -> Violation:
    given_ = {
        "property": property_,
        "of": of or property_,
        "doc": "Its doc.",
        "source": "x.yaml:3",
        "run": "r:1",
        "cut": 4,
        "now": 7,
        "actors": ("b", "a"),
        "events": (("a", 1), ("b", 2)),
        "layout": None,
        "cuts": (),
    }
    return Violation(**{**given_, **fields})


@pytest.mark.parametrize("faults", [[], FAULTS[1:2], FAULTS[:1], FAULTS[2:], FAULTS[:2], FAULTS[1:], FAULTS[1:2] * 2])
@pytest.mark.parametrize("violated", [False, True])
def test_nothing_is_decided_only_where_nothing_is_contradicted(violated: bool, faults: list[CutFault]) -> None:
    result = HistoryResult(violations=[violation("p")] if violated else [], faults=faults)
    missing = {fault.kind for fault in faults} == {UNDECIDED} and not violated
    assert result.holds is (not violated and not faults)
    assert result.undecided is missing
    verdict = "holds" if result.holds else "undecided" if missing else "violated"
    assert (result.as_json()["verdict"], result.as_json()["holds"]) == (verdict, result.holds)


def test_a_result_tells_all_that_it_has() -> None:
    """Each field under its name; no two have the same value here."""
    blame = Blame("policy", "it has decided so", (("b", 2), ("a", 1)))
    found = violation("p n=1", "p", blame=blame, claim="always: true")
    told = {
        "property": "p n=1",
        "doc": "Its doc.",
        "claim": "always: true",
        "source": "x.yaml:3",
        "run": "r:1",
        "cut": 4,
        "now": 7,
        "actors": ["b", "a"],
        "events": [{"actor": "a", "position": 1}, {"actor": "b", "position": 2}],
    }
    blamed = {
        "culprit": "policy",
        "reason": "it has decided so",
        "events": [{"actor": "b", "position": 2}, {"actor": "a", "position": 1}],
    }
    assert found.as_json() == {**told, "blame": blamed}
    assert replace(found, blame=None).as_json() == told
    assert str(blame) == "policy: it has decided so"
    result = HistoryResult(1, 2, 3, 4, 5, [found], FAULTS, {"w": 6}, {"q": "no"})
    assert result.as_json() == {
        "verdict": "violated",
        "holds": False,
        "events": 1,
        "cuts": 2,
        "runs": 3,
        "runs_over": 4,
        "properties": 5,
        "violations": [found.as_json()],
        "faults": [fault.as_json() for fault in FAULTS],
        "covered": {"w": 6},
        "not_asked": {"q": "no"},
    }
    assert [fault.as_json() for fault in FAULTS[::2]] == [
        {"actor": "a", "position": 3, "run": "r:1", "kind": CONTRADICTION, "reason": "it is wrong"},
        {"actor": "c", "position": 5, "run": "", "kind": "gap", "reason": "it is gone"},
    ]
    assert [*map(str, FAULTS)] == ["event 3 of a (r:1): it is wrong", "b: it is missing", "event 5 of c: it is gone"]


def test_stretches_of_a_history_add_up() -> None:
    """Counts are sums, what was found is kept in order; the last stretch says what is asked."""
    one, other = violation("p"), violation("q", run="r:2")
    parts = [
        HistoryResult(1, 20, 300, 4000, 7, [one], FAULTS[:1], {"w": 1, "v": 0}, {"x": "once"}),
        HistoryResult(2, 30, 400, 5000, 8, [], [], {"w": 0}, {"y": "why"}),
        HistoryResult(3, 40, 500, 6000, 9, [other], FAULTS[1:], {"w": 2, "u": 5}, {"z": "because"}),
    ]
    assert together(parts) == HistoryResult(
        6, 90, 1200, 15000, 9, [one, other], FAULTS, {"w": 3, "v": 0, "u": 5}, {"z": "because"}
    )
    assert together(parts[1:2]) is parts[1]


# Metrics


def test_metrics_count_each_fault_and_violation_once_by_its_labels(tmp_path: Path) -> None:
    """At each look what is new since the last one, by actor, kind and property; and what can be read at the moment."""
    following = verification(files(tmp_path, 13, bug="assigned_units_not_saved"), seed=13)
    metrics = VerifyMetrics(following)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"leasehold_verify_{name}", labels)

    def check() -> Counter[tuple[str, str]]:
        metrics.update()
        verified = following.verification
        violations, faults = Counter(v.property for v in verified.result.violations), Counter[tuple[str, str]]()
        faults.update((fault.actor, fault.kind) for fault in verified.cuts.faults)
        for name, of in verified.known.system.properties.items():
            if name in verified.asked:
                assert (value("violations_total", property=name, kind=of.kind) or 0) == violations[name]
        for actor in following.readers:
            assert value("events_total", actor=actor) == verified.kept.follower(actor).judged
            assert value("source_up", actor=actor) == (actor not in following.unreachable)
            assert value("source_broken", actor=actor) == (actor in following.broken)
            for kind in KINDS:
                assert value("faults_total", actor=actor, kind=kind) == faults[actor, kind]
        assert value("cuts_total") == verified.result.cuts
        assert value("runs_open") == len({*verified.cuts.runs, *verified.cuts.asleep})
        lag = following.lag()
        assert value("lag_events") == lag.events
        assert value("lag_seconds") == pytest.approx(lag.seconds, rel=0.01)
        return faults

    check()
    while following.step():
        check()
    violated = len(following.verification.result.violations)
    assert violated > 1
    known = check()
    following.unreachable["site"] = "it is away"
    following.broken.add("broker")
    for kind in Tampering:
        for many in range(1 + (kind is Tampering.GAP)):
            following.verification.fault(CutFault("broker", many, "", "it is wrong", kind.name.lower()))
    assert check()["broker", "gap"] == known["broker", "gap"] + 2
    following.unreachable.clear()
    following.verification.cuts.asleep.add("a run that goes on, and is not in memory")
    check()
    metrics = VerifyMetrics(following)  # as after a restart: of all that was found, though the last round has nothing
    check()
    following.verification.close()


def test_the_lag_is_what_is_known_and_not_judged(tmp_path: Path) -> None:
    """The lag in events over all sources; in seconds since the oldest that waits, else since all are complete."""
    following = verification(files(tmp_path))
    readers, verified = following.readers, following.verification
    following.step(judge=False)
    assert following.lag().events == sum(reader.last for reader in readers.values()) == verified.result.events
    assert following.lag().seconds == 0  # the oldest is of the time 0, which stands for none
    for actor in ("broker", "site"):
        verified.cuts.merge.drop(actor)
    waiting = verified.cuts.merge._streams["service_manager"].events
    while waiting[0].time == 0:
        waiting.popleft()
    assert verified.cuts.merge.oldest() == waiting[0].time < waiting[-1].time - 9
    assert following.lag().seconds == pytest.approx(time.time() - waiting[0].time, abs=4)
    verified.close()
    following = verification(files(tmp_path))
    readers, verified = following.readers, following.verification
    while following.step():
        pass
    judged = {actor: verified.kept.follower(actor).judged for actor in readers}
    assert following.lag().events == sum(readers[actor].last - at for actor, at in judged.items())
    known = {actor: readers[actor].last - at for actor, at in judged.items()}
    for actor in readers:
        for more, counts in ((3, known[actor] + 3), (-1 - known[actor], 0)):  # what is judged, and not known, is none
            last, readers[actor].last = readers[actor].last, readers[actor].last + more
            assert following.lag().events == sum(known.values()) - known[actor] + counts
            readers[actor].last = last
    following.to_the_end()
    assert following.lag() == Lag(0, 0.0)
    verified.close()


def test_unsealed_events_are_counted_where_signatures_are_checked(tmp_path: Path) -> None:
    following = verification(files(tmp_path))
    following.to_the_end()
    assert following.unsealed() == {}  # nobody's signatures are checked
    for at, reader in enumerate(following.readers.values()):
        reader.trust = SimpleNamespace() if at else None  # type: ignore[assignment]
        reader.kept.position, reader.kept.sealed = 10 * at, 10 * at - 3 * (at - 1)
    _, second, third = following.readers
    assert following.unsealed() == {third: 3}
    following.readers[second].kept.sealed -= 1
    assert following.unsealed() == {second: 1, third: 3}
    following.verification.close()


# Channels


@pytest.mark.parametrize("kind", ["set", "fifo", "bag"])
@given(acts=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12))
def test_a_replayed_channel_is_that_of_the_explorer(kind: Any, acts: list[tuple[bool, int]]) -> None:
    """Each kind is tried but a mailbox, whose numbers become ranks (test_lanes.py)."""
    lane, content = ReplayedLane(SimpleNamespace(kind=kind)), channels.empty(kind)  # type: ignore[arg-type]
    number, waiting = 0, list[tuple[int, str, tuple[int]]]()
    for send, which in acts:
        if send:
            number += 1
            waiting.append((number, "ab"[which % 2], (which // 2,)))
            lane.send(*waiting[-1])
            content = channels.put(kind, None, content, *waiting[-1][1:])
        elif waiting and kind != "set":
            taken = waiting.pop(0 if kind == "fifo" else which % len(waiting))
            lane.receive(taken[0])
            at = next(n for n, (_, *one) in enumerate(channels.entries(kind, content)) if (*one,) == taken[1:])
            content = channels.take(kind, content, at)
        assert lane.newest == number
        found, wanted = ([one[1:] for one in channels.entries(kind, of)] for of in (lane.content(), content))
        assert found == wanted if kind == "fifo" else Counter(found) == Counter(wanted)


@pytest.mark.parametrize("kind", ["mailbox", "fifo", "bag", "set"])
def test_a_record_that_is_found_never_takes_a_number_back(kind: Any) -> None:
    """Whichever of its numbers it tells; what a greater one was received up to is not on its way any more."""
    for newest, received in product((None, 1, 3, 5), (None, 0, 1, 3)):
        lane = ReplayedLane(SimpleNamespace(kind=kind))  # type: ignore[arg-type]
        for n in (1, 2, 3):
            lane.send(n, f"m{n}", ())
        lane.receive(1)
        left = [entry[0] for entry in lane.waiting]
        had = lane.received
        lane.found(newest, received)
        assert lane.newest == max(3, newest or 0)
        if kind == "mailbox":
            assert lane.received == max(1, received or 0)
            assert [entry[0] for entry in lane.waiting] == [n for n in left if n > lane.received]
        else:
            gone = {received} if kind != "set" and (received or 0) > had else set()
            assert [entry[0] for entry in lane.waiting] == [n for n in left if n not in gone]
        lane.send(1, "m1", ())  # once more
        assert lane.newest == max(3, newest or 0)


# Queries of a user


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT cut.run, cut.number FROM cut WHERE cut.entry > :checked", ""),
        (
            "SELECT cut.run FROM cut WHERE cut.entry > :checked",
            "it yields 1 column, and two are asked for: run and cut",
        ),
        ("SELECT cut.run, 1, 2 FROM cut WHERE cut.entry > :checked", "it yields 3 columns, and two are asked for"),
        (
            "SELECT run, number FROM no_such WHERE entry > :checked",
            "the database does not take it: no such table: no_such",
        ),
        ("SELECT FROM cut WHERE entry > :checked", "the database does not take it: "),
    ],
)
def test_a_query_is_tried_before_there_are_events(text: str, words: str) -> None:
    database = VerifyDatabase(load("two_phase_commit"))
    query = PropertyQuery("mine", "violations", text, "mine")
    good = PropertyQuery("good", "violations", "SELECT run, number FROM cut WHERE entry > :checked", "good")
    if not words:
        try_queries([good, query], database, {"another": 1})
        with pytest.raises(OwnQueryError, match=r"^mine.sql: the system has a property of this name; rename the file"):
            try_queries([good, query], database, {"mine": 1})
    else:
        with pytest.raises(OwnQueryError) as raised:
            try_queries([good, query], database, ())
        assert str(raised.value).startswith(f"mine.sql: {words}")
        tables = "(tables: run, cut, coordinator, participant, "
        assert ("database does not take" in words) == (tables in str(raised.value))
    database.close()


def test_a_query_has_to_yield_cuts_that_are_there() -> None:
    known = CutsOfSystem(load("two_phase_commit"))
    verified = HistoryVerification(known, ["coordinator"])
    number = verified.recorder.begin("r:1", tuple(known.first))
    verified.recorder.step(number, tuple(known.first), None)
    verified.recorder.write(verified.cursor)
    query = PropertyQuery("mine", "violations", "", "mine")
    for run, cut in product((number, number + 1, None, "r:1", 1.0), (0, 1, 2, -1, "0", None)):
        if run == number and isinstance(run, int) and cut in (0, 1):
            check_found(verified.cursor, query, run, cut)
            continue
        with pytest.raises(OwnQueryError, match=rf"^mine.sql: it yields run {run!r} and cut {cut!r}, and there is no"):
            check_found(verified.cursor, query, run, cut)
    verified.close()


@pytest.mark.parametrize(
    ("text", "doc", "query"),
    [
        ("-- One.\n--Two.\nSELECT :checked -- no\n;\n", "One. Two.", "-- One.\n--Two.\nSELECT :checked -- no"),
        ("  -- One.\n\nSELECT :checked\n-- last", "One.", "-- One.\n\nSELECT :checked\n-- last"),
        ("with x as (select :checked) select 1, 2;;", "", "with x as (select :checked) select 1, 2"),
        ("SELECT ';', 'it''s -- ;' , :checked", "", "SELECT ';', 'it''s -- ;' , :checked"),
        ("/* ; */ SELECT /* :checked */ :checked", "", "/* ; */ SELECT /* :checked */ :checked"),
        ("SELECT 1 -- :checked", None, "does not read :checked"),
        ("SELECT ':checked'", None, "does not read :checked"),
        ("SELECT /* :checked */ 1", None, "does not read :checked"),
        ("", None, "it is empty; a property is a query"),
        ("-- nothing", None, "it is empty; a property is a query"),
        ("UPDATE cut SET entry = :checked", None, "it begins with 'UPDATE cut SET entry'"),
        ("SELECTED :checked", None, "it begins with 'SELECTED :checked'"),
        ("SELECT :checked; -- a\nSELECT 2", None, "it has several statements"),
    ],
)
def test_a_file_is_one_query_and_its_comment_the_doc(text: str, doc: str | None, query: str, tmp_path: Path) -> None:
    """Strings and comments hide semicolons, and a parameter that is in them alone is not read."""
    file = tmp_path / "my_name.sql"
    file.write_text(text)
    if doc is None:
        with pytest.raises(OwnQueryError) as raised:
            own_queries([file])
        assert str(raised.value).startswith(f"{file}: ")
        assert query in str(raised.value)
        return
    (found,) = own_queries([file])
    assert found == PropertyQuery("my_name", "violations", query, "my_name", doc)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.sql").write_bytes(b"SELECT \xff")
    for name, why in (("none.sql", "No such file or directory"), ("bytes.sql", "it is no text in UTF-8")):
        with pytest.raises(OwnQueryError, match=rf"{name}: it cannot be read: {why}$"):
            own_queries([tmp_path / name])
