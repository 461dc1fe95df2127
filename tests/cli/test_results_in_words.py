"""Results of the verbs as lines of text: what there is is said, in the right number, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path as File
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from rich.console import Console

from leasehold.checker.conform.coverage import Coverage
from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.logs import ConformanceResult
from leasehold.checker.explain.explanation import ExplainedLease
from leasehold.checker.explore.expectations import Difference
from leasehold.checker.explore.result import Path, PropertyResult, Snapshot, Step
from leasehold.checker.history.fault import CONTRADICTION, UNDECIDED, CutFault
from leasehold.checker.recovery.cases.log_case import PlayedLog
from leasehold.checker.recovery.cases.played import PlayedCounterexample
from leasehold.checker.recovery.cases.stored import wrong
from leasehold.checker.verify.result import HistoryResult
from leasehold.cli.common import print_diagnostics
from leasehold.cli.conform import SHOWN, _covered, _groups, _judged
from leasehold.cli.conform import _print as print_conformance
from leasehold.cli.events import _verified
from leasehold.cli.explain import _moment, _notes
from leasehold.cli.replay import _json, _short, _words
from leasehold.cli.verify import _address, _Progress
from leasehold.cli.verify import _print as print_verification
from leasehold.impl.events.chain import Verified
from leasehold.reports import terminal
from leasehold.spec.language.diagnostics import NOWHERE, Diagnostic, Place
from tests.systems import load


def lines(print_: Callable[..., object], *given: Any, **how: Any) -> list[str]:
    """Returns the output on a console that is no terminal."""
    out = StringIO()
    print_(Console(file=out, width=120, soft_wrap=True, force_terminal=False), *given, **how)
    return out.getvalue().splitlines()


# replay

LOG = PlayedLog(5, 3, "site:4", 17, {"to": ("up", None), "sends": (None, [{"n": 1}])}, "it does not run", {})
BROKEN = PlayedCounterexample("p", "always", 4, broken=frozenset("p"), reported=frozenset("pq"))


@pytest.mark.parametrize(
    ("played", "said"),
    [
        (PlayedLog(1, 1), ["1 step of the log, and the actors take each as it says"]),
        (
            LOG,
            [
                "after 3 steps the actors differ from the log at site:4, tick 17",
                "  it does not run",
                "  to: the log has up",
                "      the actors nothing",
                "  sends: the log has nothing",
                "         the actors {{n: 1}}",
            ],
        ),
        (PlayedLog(1_200, 1_200), ["1,200 steps of the log, and the actors take each as it says"]),
        (PlayedLog(9, 1, "site:4", 7), ["after 1 step the actors differ from the log at site:4, tick 7"]),
        (PlayedLog(9, 0, "site:1", 0), ["after 0 steps the actors differ from the log at site:1, tick 0"]),
        (replace(LOG, why="", difference={}), ["after 3 steps the actors differ from the log at site:4, tick 17"]),
        (
            BROKEN,
            [
                "p: reproduced: the actors have taken 4 steps, with the records of the model",
                "  verify reports it from their events",
            ],
        ),
        (
            replace(BROKEN, reported=frozenset("q")),
            [
                "p: reproduced: the actors have taken 4 steps, with the records of the model",
                "  verify does not see it from their events",
            ],
        ),
        (
            replace(BROKEN, broken=frozenset("q"), reported=frozenset(), not_asked="why"),
            [
                "p: reproduced: the actors have taken 4 steps, with the records of the model",
                "  verify cannot tell of it from events: why",
            ],
        ),
        (replace(BROKEN, unplayed="it lies"), ["p: not played: it lies"]),
        (replace(BROKEN, findings=["a", "b"]), ["p: not reproduced", "  a", "  b"]),
        (
            replace(BROKEN, broken=frozenset("q"), reported=frozenset()),
            ["p: not reproduced", "  the actors have taken each step, and do not break it"],
        ),
        (
            replace(BROKEN, broken=frozenset(), reported=frozenset("p"), steps=1),
            [
                "p: reproduced: the actors have taken 1 step, with the records of the model",
                "  verify reports it from their events",
            ],
        ),
    ],
)
def test_a_case_that_was_played_is_told(played: Any, said: list[str]) -> None:
    """The same in text, in JSON, and as what is wrong with the actors."""
    assert _words(played) == said
    told = _json(played)
    if isinstance(played, PlayedLog):
        differs = "differ" in said[0]
        assert bool(wrong(played)) is played.differs is told["differs"] is differs
        assert told == {
            "case": "log",
            "steps": played.steps,
            "same": played.same,
            "differs": differs,
            "at": played.at or None,
            "tick": played.tick if differs else None,
            "why": played.why,
            "difference": {name: {"log": log, "actors": do} for name, (log, do) in played.difference.items()},
        }
        return
    assert bool(wrong(played)) is played.reproduced is (": reproduced" in said[0])
    names = ("steps", "unplayed", "findings", "not_asked", "reproduced")
    assert told == {
        "case": "counterexample",
        "property": "p",
        "broken": sorted(played.broken),
        "reported": sorted(played.reported),
        **{name: getattr(played, name) for name in names},
    }


def test_what_is_wrong_with_a_log_is_one_sentence() -> None:
    assert wrong(LOG) == "after 3 of 5 steps the actors differ from the log at site:4: it does not run"
    assert wrong(replace(LOG, why="")) == (
        "after 3 of 5 steps the actors differ from the log at site:4: to: None, not 'up'; sends: [{'n': 1}], not None"
    )
    for size, words in ((100, "x" * 100), (101, "x" * 97 + "..."), (None, "nothing")):
        assert _short(None if size is None else "x" * size) == words


# conform


@pytest.mark.parametrize(
    ("fields_", "said"),
    [
        ({}, "a: events 2 to 9, 7 steps judged, 3 messages compared with what was sent"),
        (
            {"by_reference": 5},
            "a: events 2 to 9, 7 steps judged (2 by the compiled core alone), 3 messages compared with what was sent",
        ),
        (
            {"not_judged": 2, "by_reference": 5, "pruned": 1},
            "a: events 2 to 9, 5 steps judged, 3 messages compared with what was sent; events up to 1 are not in it, "
            "and 2 steps that begin there are not judged",
        ),
        (
            {"not_judged": 1, "by_reference": 6, "pruned": 1},
            "a: events 2 to 9, 6 steps judged, 3 messages compared with what was sent; events up to 1 are not in it, "
            "and 1 step that begins there is not judged",
        ),
        (
            {"not_judged": 2, "by_reference": 4, "pruned": 1},
            "a: events 2 to 9, 5 steps judged (1 by the compiled core alone), 3 messages compared with what was sent; "
            "events up to 1 are not in it, and 2 steps that begin there are not judged",
        ),
    ],
)
def test_a_log_is_told_by_how_much_of_it_was_judged(fields_: dict[str, Any], said: str) -> None:
    log = JudgedLog("a", 8, 2, 9, 7, 7, messages=3)
    assert _judged(replace(log, **fields_)) == said


def test_coverage_is_told_part_by_part() -> None:
    system = load("two_phase_commit")
    coverage = Coverage(system, partial=2)
    every = [t.name for role in system.roles.values() for t in role.transitions()]
    coverage.transitions.update(every[1:3])
    coverage.control.update([("x",)])
    coverage.crashed_in.update([("coordinator", "asking"), ("coordinator", "idle"), ("participant", "prepared")])
    inside = coverage.of_crashed_in().exercised
    of = len(every)
    said = [*_covered(coverage)]
    assert said[0] == f"{200 / of:5.1f} %  2 of {of} transitions"
    assert [line.split("%  ")[1].split(" of ")[0] for line in said[1:4]] == ["0", str(inside), "0"]
    assert inside > 1
    assert said[2].endswith(" states in which an actor ended")
    assert said[3].endswith(f"0 of {of} transitions after which it ended")
    assert said[4].strip().startswith("1 of ")
    assert said[4].endswith(" control states of the product (2 sources without all actors not counted)")
    missing = [every[0], *every[3:]]
    rest = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    assert said[5:] == [f"not taken: {', '.join(missing[:SHOWN])}{rest}"]
    coverage.transitions.update(every)
    coverage.partial = 0
    assert [*_covered(coverage)][4:] == [said[4].replace(" (2 sources without all actors not counted)", "")]


@pytest.mark.parametrize("count", [0, 1, SHOWN, SHOWN + 1])
@pytest.mark.parametrize("signatures", [False, True])
def test_findings_are_printed_up_to_a_number(count: int, signatures: bool, capsys: pytest.CaptureFixture[str]) -> None:
    found = [Nonconformity("step", "a", at, "", "", "it is wrong") for at in range(1, count + 1)]
    print_conformance(
        ConformanceResult([JudgedLog("a")] * bool(count != 1), found), Coverage(load("contention")), signatures
    )
    said = capsys.readouterr().out.splitlines()
    assert said[: min(count, SHOWN)] == [f"event {at} of a: it is wrong" for at in range(1, min(count, SHOWN) + 1)]
    more = [line for line in said if line.endswith(" more; --json has all")]
    assert more == (["and 1 finding more; --json has all"] if count > SHOWN else [])
    assert any("transitions after which" in line for line in said) is (count != 1)  # nothing was judged there
    verdict = "the logs do not conform" if count else "each step is one of the specification"
    assert f"{verdict}: {count} finding{'' if count == 1 else 's'}" in said
    assert ("no signature was checked; --trust names the keys" in said) is not signatures


def test_logs_of_one_folder_belong_together(tmp_path: File) -> None:
    """Each folder of files is a group, of every depth; what is named by itself is one, the last."""
    for name in ("x/b.jsonl", "x/a.jsonl", "x/y/c.jsonl", "x/other.txt", "z/d.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    given = ["e.jsonl", *(str(tmp_path / name) for name in ("x", "empty", "z")), "f.yaml"]
    at = str(tmp_path)
    assert [*_groups(tuple(given))] == [
        [f"{at}/x/a.jsonl", f"{at}/x/b.jsonl"],
        [f"{at}/x/y/c.jsonl"],
        [f"{at}/z/d.jsonl"],
        ["e.jsonl", f"{at}/empty", "f.yaml"],
    ]
    assert [*_groups((f"{at}/z",))] == [[f"{at}/z/d.jsonl"]]


# verify, events, explain


@pytest.mark.parametrize(
    ("changes", "signatures", "told", "said"),
    [
        ({}, True, False, []),
        ({}, False, False, ["!no signature was checked; --trust names the keys"]),
        ({"covered": {"a": 0, "b": 2, "c": 0}}, True, False, ["no run shows: a, c"]),
        (
            {"not_asked": {"p": "why", "q": "so", "r": "no"}},
            True,
            False,
            ["not asked: q: so", "not asked: 2 properties that no events can decide; --json says why"],
        ),
        ({"not_asked": {"q": "so"}}, True, False, ["not asked: q: so"]),
        ({"not_asked": {"r": "so"}}, True, True, ["not asked: 1 property that no events can decide; --json says why"]),
        (
            {"faults": [CutFault("a", 3, "", "it is away", UNDECIDED)]},
            True,
            False,
            ["event 3 of a: it is away", "!nothing is contradicted, but not all could be judged"],
        ),
        (
            {"faults": [CutFault("a", 3, "", "it is away", UNDECIDED)]},
            True,
            True,
            ["!nothing is contradicted, but not all could be judged"],
        ),
        ({"faults": [CutFault("a", 3, "r", "x", CONTRADICTION)] * 2}, True, False, ["event 3 of a (r): x"] * 2),
    ],
)
def test_a_verification_is_printed(
    changes: dict[str, Any], signatures: bool, told: bool, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    result = HistoryResult(1, 2, 3, 4, 5, **changes)
    print_verification(result, signatures, told, {"q"})
    faults = len(result.faults)
    counts = (
        f"1 event, 3 runs, 2 cuts, 5 queries: 0 violations, {faults} fault{'' if faults == 1 else 's'} of the events"
    )
    before, after = ([line.lstrip("!") for line in said if line.startswith("!") is late] for late in (False, True))
    assert capsys.readouterr().out.splitlines() == [*before, counts, *after]


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        ((1, 0, 0), "there are no events"),
        ((3, 2, 2), "there are no events"),
        ((1, 5, 5), "events 1 to 5 are as they were written; all of them are sealed"),
        ((2, 5, 3), "events 2 to 5 are as they were written; the last 2 are not sealed yet"),
        ((4, 4, 0), "events 4 to 4 are as they were written; the last 4 are not sealed yet"),
    ],
)
def test_a_chain_that_was_verified_is_told(whole: tuple[int, int, int], said: str) -> None:
    first, last, sealed = whole
    given = dict.fromkeys(Verified._fields, 0) | {"first": first, "last": last, "sealed": sealed}
    assert _verified(Verified(**given)) == said  # type: ignore[arg-type]


def test_notes_say_what_is_not_known() -> None:
    """Notes on the end of the events, their beginning, and whose are missing; each where it is so, and only there."""
    about = {"name": "a", "position": 3, "tick": 7, "time": 60.0, "first": 1}
    later = {**about, "name": "b", "position": 9, "tick": 5, "time": 90.0}
    told = ExplainedLease("l", 7, (), [{"peers": {"m": "b", "n": "", "o": "a"}}], [about, later], [], {})
    assert _notes(told, True) == []
    assert _notes(told, False) == ["No signature was checked; --trust names the keys."]
    assert _moment(told) == ("At tick 7; the last event before was at 1970-01-01 00:01:30 UTC (the cut is a:3, b:9):")
    other = replace(
        told,
        now=8,
        faults=[CutFault("a", 3, "", "it is late")],
        abouts=[{**about, "first": 2}],
        machines=[*told.machines, {"peers": {"x": "c"}}],
    )
    assert _notes(other, True) == [
        "The events end at tick 7; what has happened since is not known.",
        "The events of a before 2 are not here.",
        "The events of b are not here, so what it has done is not known.",
        "The events of c are not here, so what it has done is not known.",
        "event 3 of a: it is late.",
    ]


# Options


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (None, None),
        (":9464", ("127.0.0.1", 9464)),
        ("[::1]:80", ("::1", 80)),
        ("host:65535", ("host", 65535)),
        ("host:65536", ...),
        ("host", ...),
        ("host:", ...),
        ("host:x", ...),
        ("host:0", ("host", 0)),
    ],
)
def test_an_address_is_read(words: str | None, value: Any) -> None:
    if value is ...:
        with pytest.raises(click.BadParameter):
            _address(None, None, words)
    else:
        assert _address(None, None, words) == value


# Explorations


def finding(what: str, severity: str = "error", place: Place = NOWHERE) -> Diagnostic:
    return Diagnostic("LH001", place, what, severity=severity)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("severities", "count"),
    [
        ([], "no findings"),
        (["error"], "1 error"),
        (["error"] * 2, "2 errors"),
        (["warning"], "1 warning"),
        (["error", "warning", "warning"], "1 error, 2 warnings"),
    ],
)
def test_findings_are_counted_by_severity(severities: list[str], count: str) -> None:
    found = [finding(f"it is wrong {at}", severity) for at, severity in enumerate(severities)]
    said = lines(print_diagnostics, found)
    assert said[-1] == count
    assert [f"it is wrong {at}" in "\n".join(said) for at in range(len(found))] == [True] * len(found)
    assert not any(str(NOWHERE) in line for line in said)
    placed = lines(print_diagnostics, [finding("it is wrong", place=Place("x.yaml", 3, 1))])
    assert placed[0].startswith("x.yaml:3")


def test_differences_that_are_alike_are_one_and_each_kind_has_its_remedy() -> None:
    found = [
        Difference("p", "holds", "violated", "violated"),
        Difference("a", "taken", "never taken", "unvisited"),
        Difference("b*", "taken", "never taken", "unvisited"),
        Difference("distinct", "5", "6"),
        Difference("c", "taken", "never taken", "vacuous"),
        Difference("q", "violated", "holds"),
    ]
    said = lines(terminal.differences, found, "expected.yaml", renew="check x --update")
    assert said == [
        "  p: violated, and not explained in expected.yaml",
        "  remedy: change this, or explain it in expected.yaml: `violated: {p: why}`",
        "  2 never taken, and not explained in expected.yaml:",
        "    a",
        "    b*",
        "  remedy: change this, or explain it in expected.yaml: `unvisited: {a: why}`",
        "  distinct: expected 5, found 6",
        "  c: never taken, and not explained in expected.yaml",
        "  remedy: change this, or explain it in expected.yaml: `vacuous: {c: why}`",
        "  q: expected violated, found holds",
        "  remedy: `check x --update` renews the numbers, if the change is intended",
    ]
    elsewhere = lines(terminal.differences, found[2:3], "expected.yaml", "other.yaml", "check x --update")
    assert elsewhere == [
        "  b*: never taken, and not explained in expected.yaml",
        '  remedy: change this, or explain it in other.yaml: `unvisited: {"b*": why}`',
    ]
    assert lines(terminal.differences, found[3:4], "f") == ["  distinct: expected 5, found 6"]


@pytest.mark.parametrize("many", [0, 1, terminal.FEW, terminal.FEW + 1])
def test_what_is_left_over_is_named_where_it_is_little(many: int) -> None:
    names = [f"t{at}" for at in range(many)]
    found: Any = SimpleNamespace(complete=True, unvisited_transitions=[*names, "known"], vacuous=["known"])
    said = lines(terminal.left_over, found, ["known", "another"])
    alone = [f"never taken: {', '.join(names)}"] if 0 < many <= terminal.FEW else []
    counted_ = [f"{many} transitions never taken (`leasehold check` lists them)"] if many > terminal.FEW else []
    assert said == [
        *alone,
        *counted_,
        "1 never taken, as expected.yaml explains",
        "1 vacuous, as expected.yaml explains",
    ]
    assert lines(terminal.left_over, SimpleNamespace(**{**vars(found), "complete": False})) == []


def result(name: str, verdict: Any, **fields_: Any) -> PropertyResult:
    return PropertyResult(name, "always", verdict, **fields_)


NOTHING = Snapshot({}, {}, {})


def a_path(*kinds: str, loop: int | None = None) -> Path:
    return Path(
        NOTHING, tuple(Step(kind, None, kind, {}, None, None, None, None, (), (), NOTHING) for kind in kinds), loop
    )


def test_properties_are_listed_with_verdict_and_note() -> None:
    found = [
        result("holding", "exhausted"),
        result("broken", "violated", path=a_path("clock"), reason="for a=1"),
        result("meant", "violated", path=a_path("clock", "clock")),
        result("seen", "witnessed", path=a_path()),
        result("cut", "bounded", reason="time is over"),
        result("cut2", "bounded", reason="other"),
        result("left", "unasked"),
        result("never", "violated", reason="nothing reaches it"),
    ]
    said = [" ".join(line.split()) for line in lines(terminal.properties, found, ["meant", "holding"], "time is over")]
    assert said == [
        "holds holding",
        "VIOLATED broken counterexample of 1 step; for a=1",
        "violated, as expected meant counterexample of 2 steps",
        "witnessed seen witness of 0 steps",
        "bounded cut",
        "bounded cut2 other",
        "not checked left",
        "VIOLATED never nothing reaches it",
    ]
    many = [result(f"h{at}", "exhausted") for at in range(13)]
    assert lines(terminal.properties, [*many, found[6]]) == [
        f"holds (13)  {', '.join(p.name for p in many)}",
        "not checked  left",
    ]
    assert len(lines(terminal.properties, many[:12])) == 12


@pytest.mark.parametrize(
    ("steps", "loop", "limit", "last"),
    [
        (4, None, 4, None),
        (5, None, 4, "  --- 3 more steps ---"),
        (5, 1, 4, "  --- 3 more steps; from step 2 on they repeat ---"),
        (5, 5, 4, "  --- 3 more steps; then nothing more happens ---"),
        (4, 0, 3, "  --- 3 more steps; from step 1 on they repeat ---"),
        (3, None, 2, "  --- 2 more steps ---"),
        (9, None, None, None),
    ],
)
def test_a_long_path_is_cut_to_its_beginning(steps: int, loop: int | None, limit: int | None, last: str | None) -> None:
    path = a_path(*["clock"] * steps, loop=loop)
    said = lines(terminal.path, path, True, limit)
    if last is None:
        assert said == lines(terminal.path, path, True)
        assert not any("more step" in line for line in said)
    else:
        assert said == [*lines(terminal.path, a_path(*["clock"] * ((limit or 0) // 2)), True), last]


@pytest.mark.parametrize(
    ("kinds", "lost"),
    [
        (["crash", "lose"], True),
        (["lose", "crash"], False),
        (["crash"], False),
        (["lose"], False),
        (["lose", "crash", "clock", "lose"], True),
    ],
)
def test_what_lost_means_is_said_where_a_message_is_lost_behind_a_crash(kinds: list[str], lost: bool) -> None:
    assert (terminal.LOST in lines(terminal.path, a_path(*kinds), True)) is lost


def test_an_actor_that_cannot_be_read_is_told_of_each_time_that_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    cuts = SimpleNamespace(cuts=SimpleNamespace(faults=[]))
    following = SimpleNamespace(verification=cuts, violations=[], unreachable={})
    progress = _Progress(cast(Any, following), cast(Any, None), as_json=False)
    for unreachable, told in (
        ({}, []),
        ({"site": "no"}, ["site cannot be read: no"]),
        ({"site": "no"}, []),
        ({"site": "no", "broker": "gone"}, ["broker cannot be read: gone"]),
        ({"broker": "gone"}, []),
        ({"broker": "gone", "site": "again"}, ["site cannot be read: again"]),
        ({}, []),
        ({"broker": "again"}, ["broker cannot be read: again"]),
    ):
        following.unreachable = unreachable
        progress.violations()
        assert capsys.readouterr().err.splitlines() == told
