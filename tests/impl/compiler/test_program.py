"""Compiled systems beside their specifications: messages, roles, timers, contracts, names and members."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from leasehold.impl.compiler.contract_source import not_enforced
from leasehold.impl.compiler.lines import WIDTH, bare, tuple_lines
from leasehold.impl.compiler.program import compile_system, source_of
from leasehold.impl.compiler.work_source import TAKEN
from leasehold.impl.core.core import Core, Program
from leasehold.impl.core.stepping import Numbers
from leasehold.impl.core.work import TICK, CallWork, Machines, Record, SendWork, local, message
from leasehold.spec.language.bounds import as_running
from leasehold.spec.language.model import Call, Drive, System
from tests.systems import files_of, load, written

ROOT = Path(__file__).parents[3]
SYSTEMS: dict[str, Any] = {
    "lease": "lease",
    "two_phase_commit": "two_phase_commit",
    "three_phase_commit_termination": "three_phase_commit_termination",
    "ring": str(ROOT / "examples/ring"),
}
_programs: dict[str, tuple[System, Program]] = {}


def compiled(name: str) -> tuple[System, Program]:
    """A system as it runs, and its program."""
    if name not in _programs:
        system = load(SYSTEMS[name])
        _programs[name] = as_running(system), compile_system(system)
    return _programs[name]


EACH = pytest.mark.parametrize("name", SYSTEMS)


@EACH
def test_a_program_says_of_its_system_what_the_specification_does(name: str) -> None:
    system, program = compiled(name)
    assert (program.system, program.digest) == (system.name, system.digest)
    assert program.constants == system.settings()
    assert (program.actors, program.standing) == (system.actors, system.standing)
    assert (program.begun_by, program.relayed_by) == (system.runs.begun_by, system.runs.relayed_by)
    assert program.own_constants == ({"nodes"} if name == "ring" else set())
    assert list(program.roles) == list(system.roles)
    assert name != "two_phase_commit" or program.source == source_of(system)


@EACH
def test_messages_are_those_of_the_specification(name: str) -> None:
    system, program = compiled(name)
    assert list(program.messages) == list(system.messages)
    for text, shape in ((m, program.messages[n]) for n, m in system.messages.items()):
        channel = system.channel_of(text.name)
        assert (shape.sender, shape.receiver, shape.answer) == (text.sender, text.receiver, text.answer)
        assert shape.fields == tuple((f.name, f.type) for f in text.fields)
        assert shape.carries == (text.carries or "")
        assert (shape.ordered, shape.capacity) == (channel.kind == "fifo", channel.capacity or 0)


@EACH
def test_roles_are_those_of_the_specification(name: str) -> None:
    system, program = compiled(name)
    for role, core in ((r, program.roles[n]) for n, r in system.roles.items()):
        calls = [task for task in role.tasks.values() if isinstance(task, Call)]
        assert (core.role, core.indexed, core.count) == (role.name, role.indexed, role.count)
        assert {*core.states} == {*role.states}
        assert all(core.first_state(n) == role.first(n).name for n in range(role.count))
        assert [(f.name, f.type, f.initial, f.begin) for f in core.fields] == [
            (d.name, d.type, d.initial, d.begin) for d in role.data.values()
        ]
        assert core.events == {e.name: tuple((f.name, f.type) for f in e.fields) for e in role.events.values()}
        assert core.since == {task.name: task.answers for task in calls if task.outlives}
        assert [sub.role for sub in core.below] == [r.name for r in system.roles.values() if r.parent == role.name]
        assert (core.subsidiary, core.of_run) == (role.parent is not None, role.of_run)
        assert core.heard_answers == {m.name for m in system.received_by(role.name) if m.answer}
        assert core.ends == {s.name for s in role.states.values() if s.over}
        assert core.dynamic == role.instance.dynamic
        for state in role.states.values():
            assert {*core.table[state.name]} == {*state.on, *state.ignore, *state.refuse}
            assert set(core.work) == set(role.states)


@EACH
def test_who_gives_an_event_is_as_the_specification_says(name: str) -> None:
    system, program = compiled(name)
    for role in system.roles.values():
        outside = [entry.event for entry in system.environment.values() if entry.role == role.name]
        assert list(program.from_outside[role.name]) == list(dict.fromkeys(outside))
        drives = [task for task in role.tasks.values() if isinstance(task, Drive)]
        assert program.from_below[role.name] == {event for task in drives for event in task.answers}
        asks = [t for t in role.tasks.values() if isinstance(t, Call) and t.target.partition(".")[0] == "policy"]
        assert program.asked_of_policies[role.name] == {event for task in asks for event in task.answers}


@EACH
def test_neighbours_are_those_that_share_a_channel_and_both_ends_say_so(name: str) -> None:
    system, program = compiled(name)
    for role in system.roles.values():
        core = program.roles[role.name]
        near = {
            c.receiver if c.sender == role.name else c.sender
            for c in system.channels.values()
            if role.name in (c.sender, c.receiver)
        }
        assert {of for of, _ in core.neighbours} | {*core.dynamic_neighbours} == near
        for other, number in core.neighbours:
            back = [of for of, _ in program.roles[other].neighbours]
            assert role.name in back
            between = [c for c in system.channels.values() if {c.sender, c.receiver} == {role.name, other}]
            assert (number == -1) == any(c.same_index for c in between)


@EACH
def test_an_ignored_or_refused_event_changes_nothing_and_has_its_reason(name: str) -> None:
    system, program = compiled(name)
    seen = 0
    for role in system.roles.values():
        core = program.roles[role.name]
        for state in role.states.values():
            record = (state.name, *core.first(0, core.unseen)[1:])
            for kind, reasons in (("ignored", state.ignore), ("refused", state.refuse)):
                for event, reason in reasons.items():
                    if event not in state.on and event in role.events:
                        after, outcome = core.step(record, local(event, (0,) * len(core.events[event])), 0)
                        assert (after, outcome.kind, outcome.event, outcome.reason) == (record, kind, event, reason)
                        seen += 1
    assert seen > 3


# Timers


CLOCKED = files_of("impl/compiler/systems/clocked")["roles/a.yaml"]
DUE, N = 5, 2
TIMERS: dict[tuple[str, ...], int] = {
    ("now >= due",): DUE,
    ("due <= now",): DUE,
    ("now > due",): DUE + 1,
    ("due < now",): DUE + 1,
    ("now == due",): DUE,
    ("due == now",): DUE,
    ("now >= due + n",): DUE + N,
    ("now > due + n",): DUE + N + 1,
    ("now >= due and n == 2",): DUE,
    ("n == 2 and now > due",): DUE + 1,
    ("now >= due and now >= 7",): 7,
    ("now >= due and now >= 3",): DUE,
    ("now > 6 and due < now",): 7,
    ("now >= due", "now < due and now >= 3"): 3,
    ("now >= 7 and n == 2", "now >= due and n != 2"): DUE,
    ("now >= due or n == 2",): 0,
    ("now < due",): 0,
    ("now != due",): 0,
    ("now >= due", "now < due and n == 2"): 0,
    ("now >= now and n == 2",): 0,
}


def _clocked(folder: Path, guards: tuple[str, ...]) -> Core:
    role = CLOCKED.replace("TICKS", ", ".join(f'{{to: over, when: "{guard}"}}' for guard in guards))
    system = "system: s\nroles: {a: {}}\nclock: {horizon: 9}\nenvironment: {go: {to: a}}\n"
    return compile_system(written(folder, {"system.yaml": system, "roles/a.yaml": role})).roles["a"]


@pytest.mark.parametrize("guards", TIMERS, ids=" | ".join)
def test_a_timer_wakes_when_its_guard_may_hold_and_not_later(guards: tuple[str, ...], tmp_path: Path) -> None:
    """Before that time no tick moves the machine; nothing is due where a state has no timer."""
    core = _clocked(tmp_path, guards)
    record: Record = ("idle", DUE, N, *core.first()[3:])
    wake = core.wake(record)
    assert wake == TIMERS[guards]
    moves = [now for now in range(12) if core.step(record, TICK, now)[1].taken]
    assert core.wake(("over", *record[1:])) is None
    assert all(now >= TIMERS[guards] for now in moves)
    assert not wake or len(guards) > 1 or moves[0] == wake


# Contracts

MARKET = files_of("impl/compiler/systems/market")
FAR = "it reads machines of `far`, which other actors play"
CLOCK = "it reads `now`, which is true time, and no actor's clock"
LEFT = "enforced but for `{}`, as {}"
# The condition; what is said of it; and the units that may be bought of 0 to 5 at time 4 (n is 1, cap.most is 5).
CONTRACTS: dict[str, tuple[str, list[int]]] = {
    "event.units <= 3": ("", [0, 1, 2, 3]),
    "event.units < most": ("", [0, 1, 2]),
    "event.units > it.n": ("", [2, 3, 4, 5]),
    "event.units + it.n <= cap.most": ("", [0, 1, 2, 3, 4]),
    "cap.state == many and event.units == 2": ("", [2]),
    "cap.state == few": ("", []),
    "it.state == idle and event.units != it.n": ("", [0, 2, 3, 4, 5]),
    "count(p.state == runs for p in part) == event.units": ("", [1]),
    "part[1].state == runs and event.units == 4": ("", [4]),
    "event.end >= now and event.units > 4": ("", [5]),
    "event.end > now": ("", []),
    "now <= event.end": ("", [0, 1, 2, 3, 4, 5]),
    "now < event.end or event.units == 1": (f"not enforced, as {CLOCK}", []),
    "now >= event.end": (f"not enforced, as {CLOCK}", []),
    "event.end < now and event.units == 3": (LEFT.format("event.end < now", CLOCK), [3]),
    "far.state == here": (f"not enforced, as {FAR}", []),
    "far.state == here and event.units == 3": (LEFT.format("far.state == here", FAR), [3]),
    "event.units == 2 and far.state == here and now >= 1": (
        LEFT.format("far.state == here and now >= 1", f"{FAR}, and {CLOCK}"),
        [2],
    ),
    "far.state == here or event.units == 3": (f"not enforced, as {FAR}", []),
}


class _Machines(dict[str, Any]):
    own = 0

    def of_run(self, role: str) -> Record:
        return cast(Record, self[role][0])


def _market(folder: Path, more: str) -> tuple[System, Program]:
    files = {**MARKET, "system.yaml": MARKET["system.yaml"].replace("WHEN", more)}
    system = written(folder, files)
    return system, compile_system(system)


@pytest.mark.parametrize("when", CONTRACTS)
def test_a_contract_is_enforced_as_far_as_its_actor_knows(when: str, tmp_path: Path) -> None:
    said, bought = CONTRACTS[when]
    system, program = _market(tmp_path, f'when: "{when}",')
    assert [str(entry) for entry in not_enforced(system)] == ([f"contract `buy` (desk, buy) is {said}"] if said else [])
    assert all(str(entry) in program.source for entry in not_enforced(system))
    core = program.roles["desk"]
    assert ("buy" in core.contracts) == (not said.startswith("not "))
    if "buy" not in core.contracts:
        return
    parts = Machines(program.roles["part"].first)
    parts[1] = ("runs", 1, *program.roles["part"].first(1)[2:])
    machines = cast(Any, _Machines(cap=[("many", 5, 0)], desk=[], far=[]))
    record: Record = core.first(0, (parts,))
    found = [n for n in range(6) if core.step_outside(record, local("buy", (n, 4)), 4, machines)[1].taken]
    assert found == bought
    contract = core.contracts["buy"]
    assert (contract.names, contract.doc) == (("buy",), "It buys what there is.")
    assert ("; most is 3" in contract.text) == (" most" in when)


@pytest.mark.parametrize(
    ("more", "enforced"),
    [("", False), ('when: "event.units <= 3",', True), ('when: "event.units <= 3", enforced: false,', False)],
)
def test_a_contract_is_there_where_the_specification_has_a_condition_to_enforce(
    more: str, enforced: bool, tmp_path: Path
) -> None:
    system, program = _market(tmp_path, more)
    assert ("buy" in program.roles["desk"].contracts) == enforced
    assert [entry.reason for entry in not_enforced(system)] == (
        ["it says `enforced: false`"] if "enforced" in more else []
    )


# Names


def test_fields_may_have_any_name_that_the_language_lets_them(tmp_path: Path) -> None:
    """Names that mean something else in Python, or in generated source, are kept apart from that."""
    words = ["lambda_x", "len", "min", "sum", "class_", "msg_x", "event_x", "passed_x", "range", "type"]
    names = sorted({*words, *TAKEN} - {"it", "now", "state", "number", "sender"})
    data = ", ".join(f"{name}: int" for name in names)
    system = written(
        tmp_path,
        {
            "system.yaml": "system: s\nroles: {a: {}, b: {}}\nchannels: {there: {from: a, to: b, kind: mailbox}}\n"
            "environment: {go: {to: a}}\n",
            "messages.yaml": f"messages: {{tell: {{from: a, to: b, fields: {{{data}}}}}}}\n",
            "roles/a.yaml": "role: a\ndata: {" + data + "}\n"
            "events: {go: {fields: {" + ", ".join(f"{n}: {{type: int, explore: [0, 1]}}" for n in names) + "}}}\n"
            "states: {idle: {initial: true, tasks: [tell], on: {go: {to: idle, set: {"
            + ", ".join(f'{n}: "{n} + 2 * event.{n}"' for n in names)
            + "}}}}}\n"
            "tasks: {tell: {send: tell, to: b, with: {" + ", ".join(f'{n}: "{n}"' for n in names) + "}}}\n",
            "roles/b.yaml": "role: b\ndata: {" + data + "}\n"
            "states: {idle: {initial: true, on: {tell: {to: idle, set: {"
            + ", ".join(f"{n}: msg.{n}" for n in names)
            + "}}}}}\n",
        },
    )
    program = compile_system(system)
    a, b = program.roles["a"], program.roles["b"]
    record, outcome = a.step(("idle", *range(len(names)), (0,), (0,), 0), local("go", tuple(range(len(names)))), 0)
    tripled = [3 * n for n in range(len(names))]
    assert list(a.view(record).values()) == tripled
    assert list(a.view(record)) == names
    (tell,) = outcome.work
    assert isinstance(tell, SendWork)
    assert list(tell.fields(record)) == tripled
    heard, _ = b.step(b.first(), message("tell", tell.fields(record), 0, 1), 0)
    assert b.view(heard) == a.view(record)


# Members of a dynamic role


def test_a_member_speaks_to_those_that_it_has_heard_of_by_any_number() -> None:
    """Its numbers for each go up by one with each message, and those for others stay."""
    _, program = compiled("ring")
    node = program.roles["node"]
    assert (node.neighbours, node.dynamic_neighbours) == ((), ("node",))
    record: Record = ("idle", 5, 9, 5, None, None, Numbers({9: 3}), Numbers(), 0)
    after, outcome = node.step(record, local("start"), 0)
    assert outcome.taken
    (elect,) = outcome.work
    assert isinstance(elect, SendWork)
    assert (elect.message, elect.neighbour, elect.fields(after)) == ("elect", 9, (5,))
    assert (after[6], after[7], type(after[6])) == ({9: 4}, {}, Numbers)
    joined, outcome = node.step(after, message("join", (), 40, 6), 0)
    (welcome,) = outcome.work
    assert isinstance(welcome, SendWork)
    assert (welcome.message, welcome.neighbour, welcome.fields(joined)) == ("welcome", 40, (9, None))
    assert (joined[6], joined[7]) == ({9: 4, 40: 1}, {40: 6})
    assert node.view(joined)["next"] == 40


# Lines of generated source


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("(a)", "a"),
        ("a", "a"),
        ("(a) + (b)", "(a) + (b)"),
        ("(a + (b))", "a + (b)"),
        ("(a, b)", "(a, b)"),
        ("(f(a, b))", "f(a, b)"),
        ("((a, b))", "(a, b)"),
        ("()", "()"),
        ("(a", "(a"),
        ("a)", "a)"),
        ("([a, b])", "[a, b]"),
        ("({a: b, c: d})", "{a: b, c: d}"),
        ("(a)[0]", "(a)[0]"),
        ("(a,)", "(a,)"),
        ("(a) if (b) else (c)", "(a) if (b) else (c)"),
        ("((a))", "(a)"),
    ],
)
def test_parentheses_round_the_whole_are_left_out_unless_they_make_a_tuple(words: str, found: str) -> None:
    assert bare(words) == found


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 18, 40, 90])
@pytest.mark.parametrize("name", ["x", "a_longer_name"])
def test_a_tuple_stands_on_one_line_as_long_as_it_fits(count: int, name: str) -> None:
    items = [f"{name}{n}" for n in range(count)]
    lines = list(tuple_lines("    return (", items, "), DONE"))
    whole = f"    return ({', '.join(items)}), DONE"
    assert (lines == [whole]) == (len(whole) <= WIDTH)
    assert max(map(len, lines)) <= WIDTH
    if len(lines) > 1:
        inside = lines[1:-1]
        assert (lines[0], lines[-1]) == ("    return (", "), DONE")
        assert " ".join(line.strip() for line in inside) == " ".join(f"{item}," for item in items)
        assert all(line.startswith("    ") and not line.startswith("     ") for line in inside)
        for row, following in pairwise(inside):
            assert len(row) + len(following.split()[0]) + 1 > WIDTH, "another item would have had room"


def test_calls_name_their_targets_and_answers() -> None:
    system, program = compiled("lease")
    found: dict[tuple[str, str], CallWork] = {}
    for name, core in program.roles.items():
        for state in core.states:
            record = (state, *core.first(0, core.unseen)[1:])
            for piece in core.work[state](record):
                if isinstance(piece, CallWork):
                    found[name, piece.task] = piece
    assert len(found) > 5
    for (name, key), piece in found.items():
        task = system.roles[name].tasks[key]
        assert isinstance(task, Call)
        assert (piece.target, piece.answers, piece.outlives) == (task.target, task.answers, task.outlives)
