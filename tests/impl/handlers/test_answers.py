"""Answers of handlers and what they are asked: every field that is carried, every bound, every default."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers import child, command, handler, process, processes
from leasehold.impl.handlers.child import run_program
from leasehold.impl.handlers.command import CommandHandler, _code, _read, _told, _variables, _words
from leasehold.impl.handlers.handler import (
    Done,
    HandlerAction,
    HandlerError,
    NullHandler,
    SaysWhatIsLeft,
    SaysWhatIsUp,
    Stale,
    answer_of,
    checked,
)
from leasehold.impl.handlers.place import folder_name
from leasehold.impl.handlers.process import ProcessHandler, _checked_command, _checked_limits, _folder_of
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.spec.language import types as t

EVENTS: dict[str, Any] = {
    "up": (("units", t.Int(0, 9)), ("properties", t.OPAQUE)),
    "bare": (),
    "why": (("reason", t.OPAQUE),),
    "broken": (("reason", t.OPAQUE), ("code", t.Int(0, 9))),
    "other": (("reason", t.Int(0, 9)),),
}
FULL = HandlerAction(
    "setup",
    "tenant:1",
    "u-1",
    7,
    {"end": 30, "s": frozenset({2, 1})},
    {"state": "idle"},
    {"name": "u-1", "gpu": 2},
    ("up", "broken"),
    "site/unit[1]/run_setup/3",
    5,
    4,
    "site",
    {"address": "there"},
    type="node",
)


def called(*answers: str) -> CallWork:
    return CallWork("run", "handler.setup", answers)


# What an action is on


@pytest.mark.parametrize("unit", ["", "u-1", "tenant:1/guest[0]"])
@pytest.mark.parametrize("site", [None, "north", 7])
@pytest.mark.parametrize("name", [None, "u-9", 7])
@pytest.mark.parametrize("fence", [None, 0, 12, True, "12", 1.5])
def test_what_runs_on_another_s_unit_is_known_by_what_its_site_has_told(
    unit: str, site: Any, name: Any, fence: Any
) -> None:
    told = {key: value for key, value in (("site", site), ("name", name), ("fence", fence)) if value is not None}
    action = HandlerAction("join", "tenant:1", unit, 1, {}, properties=told)
    guest = "/" in unit
    assert action.on == ("north/u-9" if guest and (site, name) == ("north", "u-9") else unit or "tenant:1")
    assert action.fence == (fence if guest and type(fence) is int else 0)


@pytest.mark.parametrize(
    ("data", "end"),
    [
        ({}, 0),
        ({"end": 7}, 7),
        ({"lease_end": 8}, 8),
        ({"end": 7, "lease_end": 8}, 7),
        ({"end": 0, "lease_end": 8}, 0),
    ],
)
def test_the_end_of_a_term_is_that_of_the_lease_s_record(data: dict[str, int], end: int) -> None:
    assert HandlerAction("join", "l", "u", 1, data).term_end == end


def test_what_is_not_said_of_an_action_or_a_result_is_empty() -> None:
    bare = HandlerAction("setup", "l", "u", 1, {})
    rest = {field.name: getattr(bare, field.name) for field in fields(bare)[5:]}
    assert rest == {
        "peers": {},
        "credentials": {},
        "unit_data": {},
        "properties": {},
        "answers": (),
        "task": "",
        "incarnation": 0,
        "index": 0,
        "actor": "",
        "told": {},
        "type": "",
    }
    assert Done(True) == Done(True, "", {}, "", {}, {})


# The event by which a result ends a call


@pytest.mark.parametrize("well", [True, False])
@pytest.mark.parametrize("answers", [("bare",), ("bare", "why"), ("bare", "why", "broken")])
def test_a_result_ends_by_the_first_answer_or_by_the_last(well: bool, answers: tuple[str, ...]) -> None:
    """Or by the one that it names, if the call has it."""
    given = {"code": 1} if not well and answers[-1] == "broken" else {}
    event, _ = answer_of(called(*answers), EVENTS, Done(well, "w", fields=given))
    assert event == (answers[0] if well else answers[-1])
    for name in EVENTS:
        done = Done(well, "w", answer=name, fields={"code": 1} if name == "broken" else {})
        if name in answers:
            assert answer_of(called(*answers), EVENTS, done)[0] == name
        else:
            words = f"it answered '{name}', and handler.setup ends by {', '.join(answers)}"
            with pytest.raises(HandlerError, match=words):
                answer_of(called(*answers), EVENTS, done)


@pytest.mark.parametrize(
    ("event", "given", "values"),
    [
        ("broken", {"code": 3}, ("no disk", 3)),
        ("broken", {"code": 3, "reason": "mine"}, ("mine", 3)),
        ("broken", {"code": 3, "reason": None}, (None, 3)),
        ("why", {}, ("no disk",)),
        ("bare", {}, ()),
        ("other", {"reason": 4}, (4,)),
        ("other", {}, None),
        ("broken", {}, None),
        ("broken", {"code": 10}, None),
        ("bare", {"more": 1}, None),
        ("broken", {"code": "3"}, None),
    ],
)
def test_a_reason_that_is_not_given_is_what_the_handler_says(
    event: str, given: dict[str, Any], values: tuple[Any, ...] | None
) -> None:
    """An opaque one alone; all other fields have to be given, and to be of their type."""
    done = Done(False, "no disk", answer=event, fields=given)
    if values is not None:
        assert answer_of(called(event), EVENTS, done) == (event, values)
        assert done.fields == given
        return
    with pytest.raises(HandlerError, match=f"its answer `{event}` does not fit the specification: "):
        answer_of(called(event), EVENTS, done)


@pytest.mark.parametrize("size", [0, 1, 499, 500, 501, 2000])
def test_a_reason_is_cut_at_its_bound(size: int) -> None:
    ((reason,)) = answer_of(called("why"), EVENTS, Done(False, "x" * size))[1]
    assert len(reason) == min(size, 500) == min(size, handler.MOST_WORDS)


@pytest.mark.parametrize("told", [{}, {"address": "there", "name": "old", "fence": 99}])
@pytest.mark.parametrize("given", [{}, {"address": "here"}, {"name": "x", "site": "y", "fence": 1, "a": [1]}])
def test_properties_that_are_told_are_those_that_are_given_or_those_of_before(
    told: dict[str, Any], given: dict[str, Any]
) -> None:
    """Name, site and fence are the actor's: a unit that chose its own fence could undo a newer lease's work.

    Without an action they are as given.
    """
    action = replace(FULL, told=told)
    own = {"name": "u-1", "site": "site", "fence": 7}
    for done in (
        Done(True, fields={"units": 1}, properties=given),
        Done(True, fields={"units": 1, "properties": given}),
    ):
        assert answer_of(called("up"), EVENTS, done, action) == ("up", (1, {**(given or told), **own}))
        assert answer_of(called("up"), EVENTS, done) == ("up", (1, given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1], r"its properties are \[1\]; they need names and values"),
        ("x", "they need names and values"),
        ({"a": object()}, "its properties cannot be told"),
        ({1: 2}, "its properties cannot be told"),
    ],
)
def test_properties_that_cannot_be_told_are_refused(given: Any, words: str) -> None:
    for done in (
        Done(True, fields={"units": 1, "properties": given}),
        Done(True, fields={"units": 1}, properties=given),
    ):
        with pytest.raises(HandlerError, match=words):
            answer_of(called("up"), EVENTS, done, FULL)


def test_properties_have_a_bound_of_bytes() -> None:
    assert handler.PROPERTIES == 2048
    size = 2048 - len(b"\x81\xa1a") - 3  # with the marks of a mapping, a name and a text
    assert answer_of(called("up"), EVENTS, Done(True, fields={"units": 1}, properties={"a": "x" * size}))
    with pytest.raises(HandlerError, match="its properties have 2049 bytes; 2048 are the most for one unit"):
        answer_of(called("up"), EVENTS, Done(True, fields={"units": 1}, properties={"a": "x" * (size + 1)}))


@pytest.mark.parametrize(
    "change",
    [
        {"answer": "up"},
        {"fields": {"units": 1}},
        {"properties": {"a": 1}},
        {"facts": MappingProxyType({"a": 1})},
        {"words": "w" * 2000},
        {"well": False},
    ],
)
def test_a_result_that_can_be_kept_keeps_each_part(change: dict[str, Any]) -> None:
    done = replace(Done(True, "w", {"b": 2}, "x", {"c": 3}, {"d": 4}), **change)
    assert checked(done) == replace(done, facts=dict(done.facts))


@pytest.mark.parametrize(("answer", "given"), [(1, {}), (None, {}), ("up", []), ("up", None), (b"up", {})])
def test_an_answer_without_a_name_or_a_mapping_is_a_failure_that_keeps_its_facts(answer: Any, given: Any) -> None:
    done = checked(Done(True, "w", {"b": 2}, answer, given))
    assert (done.well, done.facts, done.answer, done.fields) == (False, {"b": 2}, "", {})
    assert done.words.startswith(f"its answer is {answer!r} with {given!r}; it needs a name and a mapping")


def test_the_null_handler_does_every_action_well_and_knows_nothing() -> None:
    made = NullHandler()
    assert asyncio.run(made.act(FULL)) == Done(True, "nothing to do for setup")
    assert asyncio.run(made.probe("u")) is None
    for kind in (NullHandler, SimulatedHandler, ProcessHandler, CommandHandler):
        says = (issubclass(kind, SaysWhatIsUp), issubclass(kind, SaysWhatIsLeft))
        assert says == (kind is not NullHandler, kind in (ProcessHandler, CommandHandler))


# The simulated world


@pytest.mark.real_time
async def test_the_world_is_heard_from_each_beginning_to_its_end() -> None:
    """With the task and the incarnation that began it, and how it ended; a stale one never begins."""
    world = SimulatedUnits(
        fails=lambda action, chance: action.number == 2, delay=lambda action, chance: 5 if action.number == 3 else 0
    )
    heard = list[tuple[str, int, str]]()
    world.heard.append(lambda action, became: heard.append((action.unit, action.number, became)))
    await world.act(FULL)
    with pytest.raises(HandlerError, match=r"^setup of u-2 failed, as the simulation wanted$"):
        await world.act(replace(FULL, unit="u-2", number=2))
    waiting = asyncio.ensure_future(world.act(replace(FULL, unit="u-3", number=3)))
    await asyncio.sleep(0)
    assert world.units["u-3"].busy
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    with pytest.raises(Stale, match="action 6 on u-1 is older than action 7, which it has seen"):
        await world.act(replace(FULL, number=6))
    await world.act(replace(FULL, incarnation=6))
    assert heard == [
        ("u-1", 7, "begun"),
        ("u-1", 7, "done"),
        ("u-2", 2, "begun"),
        ("u-2", 2, "failed"),
        ("u-3", 3, "begun"),
        ("u-3", 3, "cancelled"),
        ("u-1", 7, "begun"),
        ("u-1", 7, "done"),
    ]
    assert world.units["u-1"].tasks == [(FULL.task, 5), (FULL.task, 6)]
    assert world.units["u-1"].history == [("setup", 7, "done"), ("setup", 6, "stale"), ("setup", 7, "done")]
    assert not any(unit.busy for unit in world.units.values())
    world.lose("nobody")
    assert world.on() == {"u-1"}


# Commands


def test_an_action_is_told_to_a_command_with_each_of_its_parts() -> None:
    """Fields come as JSON, and the main ones as variables."""
    told = _told(FULL)
    assert told == {
        "verb": "setup",
        "lease": "tenant:1",
        "unit": "u-1",
        "number": 7,
        "task": "site/unit[1]/run_setup/3",
        "incarnation": 5,
        "answers": ("up", "broken"),
        "lease_data": FULL.lease_data,
        "unit_data": {"state": "idle"},
        "properties": {"name": "u-1", "gpu": 2},
        "index": 4,
        "told": {"address": "there"},
        "type": "node",
    }
    assert _variables(FULL) == {
        "LEASEHOLD_LEASE": "tenant:1",
        "LEASEHOLD_UNIT": "u-1",
        "LEASEHOLD_NUMBER": "7",
        "LEASEHOLD_TASK": "site/unit[1]/run_setup/3",
        "LEASEHOLD_INCARNATION": "5",
        "LEASEHOLD_LOCK": "u-1",
        "LEASEHOLD_TERM_END": "30",
        "LEASEHOLD_INDEX": "4",
        "LEASEHOLD_TYPE": "node",
        "LEASEHOLD_PROPERTIES": '{"gpu":2,"name":"u-1"}',
    }
    assert _variables(replace(FULL, unit=""))["LEASEHOLD_LOCK"] == "tenant:1"


@pytest.mark.parametrize(
    ("output", "facts", "words"),
    [
        ("", {}, ""),
        ("said\n", {}, "said\n"),
        ('{"a": 1}', {"a": 1}, ""),
        ('one\n{"a": 1}\n\n', {"a": 1}, "one"),
        ('{"a": 1}\nsaid', {}, '{"a": 1}\nsaid'),
        ("[1]", {}, "[1]"),
        ('said\n"a"', {}, 'said\n"a"'),
        ("{", {}, "{"),
    ],
)
def test_facts_are_in_the_last_line(output: str, facts: dict[str, Any], words: str) -> None:
    assert _read(output) == (facts, words)


@pytest.mark.parametrize(("code", "words"), [(0, "exit code 0"), (7, "exit code 7"), (-9, "signal SIGKILL")])
def test_an_end_is_said_by_its_code_or_its_signal(code: int, words: str) -> None:
    assert _code(code) == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a b 'c d'", ("a", "b", "c d")),
        (["a b", "c"], ("a b", "c")),
        (("a",), ("a",)),
        ("", None),
        ([], None),
        (7, None),
        (None, None),
        (["a", 1], None),
        ("'a", None),
        ({"a": 1}, None),
    ],
)
def test_a_command_line_is_a_text_or_a_list_of_words(line: Any, words: tuple[str, ...] | None) -> None:
    if words is not None:
        assert _words("setup", line) == words
        return
    with pytest.raises(HandlerError, match=r"^setup: .* is no command line"):
        _words("setup", line)


def test_the_folder_of_a_name_is_the_name_where_it_can_be_one() -> None:
    names = ["u", "tenant:1", "a/b", "..", "x" * 64, "x" * 65, "north/u-9", "é"]
    folders = [folder_name(name) for name in names]
    assert folders[0] == "u"
    assert folders[4] == "x" * 64
    assert len({*folders}) == len(names)
    assert all(handler.UNIT_NAME.fullmatch(folder.removeprefix("_")) for folder in folders)
    assert all(
        folder == name or (folder[0], len(folder)) == ("_", 65) for name, folder in zip(names, folders, strict=True)
    )


def ran(script: str, **more: Any) -> tuple[int, bytes, bytes]:
    """Runs a script as a handler does."""

    async def run() -> tuple[int, bytes, bytes]:
        with ThreadPoolExecutor(1) as threads:
            given = {"payload": b"", "environment": {"PATH": os.environ["PATH"]}, "keep": (), **more}
            return await run_program(["/bin/sh", "-c", script], **given, threads=threads)

    return asyncio.run(run())


def test_a_program_has_its_input_its_variables_and_the_descriptors_that_it_is_to_keep() -> None:
    """Its output and its errors come apart, with its code; it leads a session of its own; nothing stays open."""
    read_end, write_end = os.pipe()
    before = os.listdir("/proc/self/fd")
    script = (
        f'cat; echo "$A" >&2; echo kept > /dev/fd/{write_end}; cut -d" " -f6 /proc/$$/stat >&2; echo $$ >&2; exit 3'
    )
    code, output, errors = ran(
        script, payload=b"told", environment={"PATH": os.environ["PATH"], "A": "b"}, keep=(write_end,)
    )
    assert (code, output) == (3, b"told")
    variable, session, pid = errors.split()
    assert (variable, session == pid, int(session) == os.getsid(0)) == (b"b", True, False)
    assert os.listdir("/proc/self/fd") == before
    os.close(write_end)
    assert os.read(read_end, 10) == b"kept\n"
    os.close(read_end)
    assert ran("kill -9 $$")[0] == -signal.SIGKILL
    with pytest.raises(FileNotFoundError):
        asyncio.run(run_program(["/none"], b"", {}, (), _Here()))
    assert len(os.listdir("/proc/self/fd")) == len(before) - 2


class _Here:
    """An executor that does it at once."""

    def submit(self, call: Any) -> Any:
        done: Future[Any] = Future()
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)
        return done


@pytest.mark.parametrize("most", [1, 10, 70_000])
def test_of_much_output_the_last_part_is_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MOST_OUTPUT", most)
    code, output, errors = ran("seq 1 20000; seq 1 3 >&2")
    whole = "".join(f"{n}\n" for n in range(1, 20001)).encode()
    assert (code, output, errors) == (0, whole[-most:], b"1\n2\n3\n"[-most:])


@pytest.mark.real_time
@pytest.mark.parametrize("spare", [True, False], ids=["watched", "asked again and again"])
async def test_a_program_s_end_is_waited_for_beside_all_else(spare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it has closed its output long before, and where there is no descriptor to watch it by."""
    if not spare:

        def none(pid: int) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(os, "pidfd_open", none)
    before, ticks = os.listdir("/proc/self/fd"), list[float]()

    async def tick() -> None:
        while True:
            ticks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.01)

    ticking = asyncio.ensure_future(tick())
    with ThreadPoolExecutor(1) as threads:
        command_ = ["/bin/sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 4"]
        code, output, errors = await run_program(command_, b"", dict(os.environ), (), threads)
    ticking.cancel()
    assert (output, errors) == (b"", b"")
    assert code == 4
    assert len([at for at in ticks if at > ticks[-1] - 0.25]) > 5  # all else has gone on until the end
    assert ticks[-1] - ticks[0] >= 0.29
    assert os.listdir("/proc/self/fd") == before


# Units as processes


@pytest.mark.parametrize(
    ("unit", "folder"),
    [
        ("u-1", "u-1"),
        ("tenant:1/guest[0]", "tenant_1.guest-0"),
        ("a.b-c:20/some_role[13]", "a.b-c_20.some_role-13"),
        ("tenant:1/guest", "tenant:1/guest"),
        ("tenant/guest[0]", "tenant/guest[0]"),
        (":1/guest[0]", ":1/guest[0]"),
        ("tenant:1/guest[0]x", "tenant:1/guest[0]x"),
    ],
)
def test_the_folder_of_a_machine_of_a_run_has_its_parts(unit: str, folder: str) -> None:
    assert _folder_of(unit) == folder


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["a"], ("a",)),
        (("a", "{unit} {index} {lease} {term_end} {directory} {{x}}"), None),
        ([], False),
        ("a", False),
        (["a", 1], False),
        (None, False),
        (["{unit"], False),
        (["{units}"], False),
        (["{}"], False),
        (["{0}"], False),
    ],
)
def test_a_command_of_a_unit_is_a_list_of_words_with_known_places(given: Any, found: Any) -> None:
    if found is False:
        with pytest.raises(HandlerError, match="`command` "):
            _checked_command(given)
    else:
        assert _checked_command(given) == tuple(given)


@pytest.mark.parametrize("name", ["cpu_seconds", "memory_bytes", "files", "processes", "file_bytes"])
def test_each_limit_is_a_number_of_one_or_more(name: str) -> None:
    for good in (1, 2, 10**12):
        assert _checked_limits({name: good}, "limits") == {name: good}
    for wrong in (0, -1, True, 1.5, "1", None):
        with pytest.raises(HandlerError, match=f"limits of u: {name} is {wrong!r}; it needs a number of 1 or more"):
            _checked_limits({name: wrong}, "limits of u")
    with pytest.raises(HandlerError, match="there is no limit 'cpus'"):
        _checked_limits({name: 1, "cpus": 2}, "limits")
    assert _checked_limits({}, "limits") == {}


def test_defaults_of_a_handler_of_processes_are_as_they_are_described(tmp_path: Path) -> None:
    made = ProcessHandler(tmp_path / "units")
    assert (made._grace, made.parallel, made._log_bytes, made._reserve) == (5.0, 16, 16 << 20, 32 << 20)
    assert (made._command, made._limits) == (("sleep", "infinity"), {"file_bytes": 1 << 30})
    assert (tmp_path / "units").stat().st_mode & 0o777 == 0o700
    other = ProcessHandler(tmp_path / "units", limits={"files": 9, "file_bytes": 5}, log_bytes=0, reserve_bytes=0)
    assert (other._limits, other._log_bytes, other._reserve) == ({"file_bytes": 5, "files": 9}, 0, 0)
    limits = (process.GUARD_LIMIT, process.START_LIMIT, process.KILL_LIMIT, process.BIRTH_LIMIT)
    assert limits == (30.0, 15.0, 10.0, 1.0)
    assert (command.THREADS, command.LONGEST_PAUSE, child.MOST_OUTPUT) == (8, 1.0, 1 << 20)
    for name in ("log_bytes", "reserve_bytes"):
        for wrong in (-1, 1.5, True, "1", None):
            with pytest.raises(HandlerError, match=f"`{name}` is {wrong!r}; it needs a number of bytes"):
                ProcessHandler(tmp_path / "units", **{name: wrong})


# Processes of the machine


STAT = b"%d (%b) %b 11 22 33 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 98765 0 0\n"


@pytest.mark.parametrize("name", [b"sleep", b"a) Z 0 (b", b")", b"(", b""])
@pytest.mark.parametrize(
    ("state", "flags", "gone"),
    [
        (b"S", 0, False),
        (b"R", 0x400000, False),
        (b"Z", 0, True),
        (b"X", 0, True),
        (b"S", 4, True),
        (b"T", 0x400004, True),
        (b"D", 2, False),
        (b"S", 1, False),
        (b"S", 8, False),
        (b"S", 16, False),
    ],
)
def test_a_process_is_read_from_its_line(
    name: bytes, state: bytes, flags: int, gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its name has; one that ends is gone."""
    monkeypatch.setattr(processes, "PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_bytes(STAT % (7, name, state, flags))
    (tmp_path / "sys").mkdir()
    expected = processes.ProcessSnapshot(pid=7, start=98765, parent=11, session=33, gone=gone)
    assert processes.look(7) == expected
    assert [*processes.everyone()] == [expected]
    assert processes.look(8) is None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESRCH, errno.EACCES])
def test_a_lack_of_the_system_says_nothing_about_a_process(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    me = processes.look(os.getpid())
    assert me is not None
    lack = number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

    def fails(*given: Any) -> Any:
        raise OSError(number, os.strerror(number))

    calls: list[tuple[Any, str, Any, Any]] = [
        (Path, "read_bytes", lambda: processes.look(me.pid), None),
        (Path, "read_bytes", lambda: processes.carries(me.pid, b"A=1"), False),
        (os, "listdir", lambda: processes.holds(me.pid, 1, 1), False),
        (os, "pidfd_open", lambda: processes.send(me, signal.SIGCONT), False),
    ]
    for owner, name, call, nothing in calls:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fails)
            if lack:
                with pytest.raises(OSError, match=os.strerror(number)):
                    call()
            else:
                assert call() == nothing
