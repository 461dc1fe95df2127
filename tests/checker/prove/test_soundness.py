"""What is false is not proved: small systems, each with a property that some setting or some run contradicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import Engine, explore
from leasehold.checker.export import export_system
from leasehold.checker.prove import NoSuchNumbers, Proof, prove
from leasehold.checker.prove.decide.induction import ANY, Setting, induct
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Unencodable
from leasehold.faults.model import Budget
from tests.systems import load

SETS = """
role: w
data: {s: {type: "set[w]"}}
events: {go: {fields: {of: w}}}
states:
  on: {initial: true, on: {go: {to: on, set: {s: "s | {event.of}"}}}}
"""
SEVERAL = "constants: {n: {type: int, value: 2, min: 1, max: 4}}\nroles: {w: {instances: n}}\n"
FILLING = """
role: a
data: {full: {type: "set[slot]"}, times: {type: int}}
events: {fill: {fields: {s: slot}}}
states:
  on:
    initial: true
    on: {fill: {to: on, when: event.s not in full, set: {full: "full | {event.s}", times: times + 1}}}
    ignore: {fill: full already}
"""
CALLING = """
role: a
data: {k: int}
events: {go: Next.}
states:
  s0: {initial: true, on: {go: {to: s1, set: {k: 1}}}}
  s1: {tasks: [say], on: {go: {to: s2, set: {k: 2}}}}
  s2: {tasks: [say], on: {go: {to: s3, set: {k: 3}}}}
  s3: {tasks: [say], ignore: {go: it is over}}
tasks: {say: {send: ping, to: b, with: {v: k}}}
"""
HEARING = """
role: b
data: {count: int}
states:
  first:
    initial: true
    on:
      ping:
        - {to: second, when: msg.v == 1, set: {count: count + 1}}
        - {to: late, when: msg.v != 1, set: {count: count + 1}}
  second: {ignore: {ping: it is known}}
  late: {ignore: {ping: it is known}}
"""
CALLS = {
    "system": "roles: {a: {}, b: {}}\nchannels: {pings: {from: a, to: b, kind: mailbox}}\nenvironment: {go: {to: a}}\n",
    "messages": "messages: {ping: {from: a, to: b, fields: {v: int}}}\n",
    "roles/a": CALLING,
    "roles/b": HEARING,
}
CELLS = """
role: a
data: {m: {type: "map[key, int]"}}
events: {go: Next.}
states:
  s0: {initial: true, on: {go: {to: s1, set: {"m[left]": 1, "m[right]": 2}}}}
  s1: {ignore: {go: it is over}}
"""
CUT_OFF = "role: a\nevents: {one: One is cut off.}\nstates:\n  on: {initial: true, on: {one: {to: off}}}\n" \
    "  off: {ignore: {one: known}}\n"  # fmt: skip
PAIR = "actors: {left: [a], right: [b]}\n"
EVERY = """
role: w
events: {go: Next.}
states:
  off: {initial: true, on: {go: {to: on}}}
  on: {tasks: [say], ignore: {go: it is over}}
tasks: {say: {send: ping, to: b, with: {v: "index(self)"}}}
"""
DRIVING = """
role: p
events: {go: Next., ready: All are up.}
states:
  off: {initial: true, on: {go: {to: on}}}
  on: {tasks: [lift], ignore: {go: it is over, ready: it is over}}
tasks: {lift: {drive: c, event: up, ONLYanswers: {ready: "all(x.state == c1 for x in c)"}}}
"""
DRIVEN = """
role: c
subsidiary: p
events: {up: Come., back: Fall.}
states:
  c0: {initial: true, on: {up: {to: c1}}, ignore: {back: it is down}}
  c1: {on: {back: {to: c0}}, ignore: {up: it is up}}
"""
PARTS = "roles: {p: {ONE}, c: {instances: 2}}\nactors: {left: [p, c]}\nenvironment: {go: {to: p}, back: {to: c}}\n"
BOTH_UP = "not (old(c[0].state) == c0 and old(c[1].state) == c0 and c[0].state == c1 and c[1].state == c1)"
ASKING = """
role: a
data: {count: {type: int, explore: [0, 3]}}
events: {go: Next.}
states:
  s0: {initial: true, on: {go: {to: s1}}, ignore: {tell: nothing was asked}}
  s1: {tasks: [say], on: {tell: {stay: true, set: {count: count + 1}}}, ignore: {go: it is over}}
tasks: {say: {send: ask, to: b}}
"""
TELLING = """
role: b
states:
  idle: {initial: true, on: {ask: {to: told}}}
  told: {tasks: [answer], ignore: {ask: it is known}}
tasks: {answer: {send: tell, to: a}}
"""
ASKED = {
    "system": "roles: {a: {}, b: {}}\nchannels:\n  there: {from: a, to: b, kind: mailbox, duplicate: 1}\n"
    "  back: {from: b, to: a, kind: mailbox}\nenvironment: {go: {to: a}}\n",
    "messages": "messages: {ask: {from: a, to: b}, tell: {from: b, to: a, answer: true}}\n",
    "roles/a": ASKING,
    "roles/b": TELLING,
}
LIFTING = """
role: a
events: {go: Next., ready: It is up.}
states:
  s0: {initial: true, on: {go: {to: s1}}}
  s1: {tasks: [lift, say], ignore: {go: it is over, ready: it is over}}
tasks:
  lift: {drive: c, event: up, answers: {ready: c.state == c1}}
  say: {send: ping, to: b, when: c.state == c0}
"""
LOOKING = """
role: b
data: {more: bool}
states:
  first: {initial: true, on: {ping: {to: second, set: {more: "len(pending(ping)) > 0"}}}}
  second: {ignore: {ping: it is known}}
"""
TAKING = "role: b\nstates:\n  idle: {initial: true, ignore: {ping: it may be}}\n"
NONE = Setting(scope=FaultScope(crash=False, network=False))

# Each with its files, the settings and faults with which a run contradicts it, and the numbers and scope of the proof.
COUNTING = """
role: c
subsidiary: p
data: {n: int}
events: {up: Come.}
states: {c0: {initial: true, on: {up: {stay: true, set: {n: n + 1}}}}}
"""
COUNTED = {
    "system": "roles: {p: {}, c: {instances: 2}}\nactors: {left: [p, c]}\nenvironment: {go: {to: p}}\n",
    "roles/p": DRIVING.replace("ONLY", "").replace("all(x.state == c1 for x in c)", "true"),
    "roles/c": COUNTING,
}
WAITING = """
role: a
data: {due: time}
events: {go: Next.}
states:
  s: {initial: true, on: {go: {to: t, set: {due: now + 1}}}}
  t: {on: {tick: {to: u, when: now >= due}}, ignore: {go: it waits}}
  u: {ignore: {go: it is over}}
"""
ABSENT = """
role: a
data: {o: {type: "option[int]", initial: 3}, p: {type: "option[int]", initial: 4}}
events: {go: Next.}
states:
  s: {initial: true, on: {go: {to: t, set: {o: none, p: none}}}}
  t: {ignore: {go: it is over}}
"""
ALONE = "roles: {a: {}}\nenvironment: {go: {to: a}}\n"
ALONE_FOR_3 = {"system": f"{ALONE}clock: {{horizon: 3}}\n"}
FALLING = "role: a\ndata: {x: {type: int, explore: [-4, 0]}}\nevents: {go: Next.}\n" \
    "states: {s: {initial: true, on: {go: {to: s, set: {x: x - 1}}}}}\n"  # fmt: skip
FALSE: dict[str, tuple[Mapping[str, str], Mapping[str, str], str, Setting]] = {
    "n <= 2 or count(len(u.s & w) >= 2 for u in w) != 2": (
        {"system": f"{SEVERAL}environment: {{go: {{to: w}}}}\n", "roles/w": SETS}, {"n": "3"}, "", ANY,
    ),
    "n <= 2 or count(count(v.s == u.s for v in w) >= 2 for u in w) != 2": (
        {"system": f"{SEVERAL}environment: {{go: {{to: w}}}}\n", "roles/w": SETS}, {"n": "3"}, "", ANY,
    ),
    "n <= 2 or len({u for u in w if len(u.s) >= 2}) != 2": (
        {"system": f"{SEVERAL}environment: {{go: {{to: w}}}}\n", "roles/w": SETS}, {"n": "3"}, "", ANY,
    ),
    "a.times <= 2": (
        {
            "system": "constants: {slots: {type: int, value: 2, min: 1, max: 5}}\ntypes: {slot: {count: slots}}\n"
            "roles: {a: {}}\nenvironment: {fill: {to: a}}\n",
            "roles/a": FILLING,
        }, {"slots": "3"}, "", ANY,
    ),
    "a.state != off": (
        {
            "system": f"{SEVERAL.replace('roles: {', 'roles: {a: {}, ')}environment:\n"
            '  one: {to: a, when: "all(reachable(a, v) == (index(v) == 0) for v in w) and len(w) >= 2"}\n'
            "faults: {budget: partition=1}\n",
            "roles/a": CUT_OFF, "roles/w": "role: w\nstates:\n  idle: {initial: true}\n",
        }, {}, "partition=1", ANY,
    ),
    "a.m[left] == 0": (
        {
            "system": "types: {key: {members: [left, right]}}\nroles: {a: {}}\nenvironment: {go: {to: a}}\n",
            "roles/a": CELLS,
        }, {}, "", ANY,
    ),
    "b.state != late": (CALLS, {}, "", NONE),
    "all(m.v == m.number for m in pending(ping))": (CALLS, {}, "crash=1", ANY),
    "not (old(running(a)) and old(running(b)) and not running(a) and not running(b))": (
        {**CALLS, "system": f"{CALLS['system']}{PAIR}faults: {{nodes: {{box: [left, right]}}}}\n"}, {}, "crash=1", ANY,
    ),
    "not (old(running(b)) and old(running(a)) and not running(a) and not running(b))": (CALLS, {}, "power_cut=1", ANY),
    "not old(running(a)) or running(a) or took(a) or took(b)": (
        {**CALLS, "system": f"{CALLS['system']}actors: {{all: [a, b]}}\n"}, {}, "halt=1", ANY,
    ),
    "not (took(a.go) and old(running(b)) and not running(b))": (CALLS, {}, "power_cut=1", ANY),
    "not (old(len(pending(ping)) == 0) and any(m.v == 0 for m in pending(ping))"
    " and any(m.v == 1 for m in pending(ping)))": (
        {
            "roles/b": HEARING, "roles/w": EVERY, "messages": CALLS["messages"].replace("from: a", "from: w"),
            "system": "roles: {w: {instances: 2}, b: {}}\nactors: {left: [w]}\n"
            "channels: {pings: {from: w, to: b, kind: mailbox}}\nenvironment: {go: {to: w}}\n",
        }, {}, "crash=1", ANY,
    ),
    BOTH_UP: (
        {"system": PARTS.replace("ONE", "instances: 2"), "roles/c": DRIVEN,
         "roles/p": DRIVING.replace("ONLY", "only: index(it) == index(self), ")}, {}, "crash=1", ANY,
    ),
    "not (old(c[0].state == c0 and c[1].state == c0) and c[0].state == c1 and c[1].state == c0)": (
        {"system": PARTS.replace("ONE", "").replace(", back: {to: c}", "").replace("back: Fall.", ""),
         "roles/p": DRIVING.replace("ONLY", 'only: "all(x.state == c0 for x in c)", '),
         "roles/c": DRIVEN.replace(", back: Fall.", "").replace(", ignore: {back: it is down}", "")
         .replace("on: {back: {to: c0}}, ", "")}, {}, "", NONE,
    ),
    "not (old(len(pending(tell)) == 0) and len(pending(tell)) > 0 and not took(b.ask))": (
        {**ASKED, "system": ASKED["system"].replace("to: a, kind: mailbox", "to: a, kind: bag(2)")}, {}, "", ANY,
    ),
    "all(m.number > 0 for m in pending(tell))": (ASKED, {}, "", NONE),
    "not (old(any(m.v == 1 for m in pending(ping))) and all(m.v != 1 for m in pending(ping)) and took(a.go))": (
        CALLS, {}, "", NONE,
    ),
    "not (old(len(pending(ask)) > 0 and len(pending(tell)) == 0) and len(pending(ask)) == 0 and len(pending(tell)) > 0"
    " and not took(b.ask))": (ASKED, {}, "", ANY),
    "not (old(c.state == c0 and len(pending(ping)) == 0) and c.state == c1 and len(pending(ping)) > 0)": (
        {**CALLS, "messages": "messages: {ping: {from: a, to: b}}\n", "roles/b": TAKING, "roles/a": LIFTING,
         "roles/c": DRIVEN.replace("subsidiary: p", "subsidiary: a"),
         "system": CALLS["system"].replace("b: {}}", "b: {}, c: {}}\nactors: {left: [a, c]}")
         .replace("{to: a}}", "{to: a}, back: {to: c}}")}, {}, "crash=1", ANY,
    ),
    "b.state == first or not b.state == late": (
        {**CALLS, "system": CALLS["system"].replace("mailbox", "fifo(3), reorder: 1")}, {}, "", ANY,
    ),
    "all(x.n <= 1 for x in c)": (COUNTED, {}, "crash=1", ANY),
    "not (old(c[0].n == c[1].n) and c[0].n != c[1].n)": (COUNTED, {}, "crash=1", ANY),
    "a.state != t or now <= a.due": ({**ALONE_FOR_3, "roles/a": WAITING}, {}, "crash=1", ANY),
    "not took(a) or took(a.go)": ({**ALONE_FOR_3, "roles/a": WAITING}, {}, "", NONE),
    "a.o != a.p": ({"system": ALONE, "roles/a": ABSENT}, {}, "", ANY),
    "get(a.o, 9) != 9": ({"system": ALONE, "roles/a": ABSENT}, {}, "", ANY),
    "a.x % 3 != 2": ({"system": ALONE, "roles/a": FALLING}, {}, "", ANY),
    "a.x // -2 <= 1": ({"system": ALONE, "roles/a": FALLING}, {}, "", ANY),
    "not (took(a.go) and a.k == 1 and len(pending(ping)) == 0)": (CALLS, {}, "crash=1", ANY),
    "not (took(b.ping) and old(len(pending(ping)) == 1) and len(pending(ping)) == 1)": (CALLS, {}, "crash=1", ANY),
    "heard(pings) or len(pending(ping)) > 0": (
        {**CALLS, "system": CALLS["system"].replace("mailbox", "mailbox, lose: 1")}, {}, "", ANY,
    ),
    "len(pending(ping)) <= 1": (CALLS, {}, "", NONE),
    "1 >= len(pending(ping))": ({**CALLS, "system": CALLS["system"].replace("mailbox", "bag")}, {}, "", ANY),
    "count(m.v > 1 for m in pending(pings)) < 2": (
        {**CALLS, "system": CALLS["system"].replace("mailbox", "fifo(3)")}, {}, "", ANY,
    ),
    "len(pending(pings)) == 0 or len(pending(pings)) == 1": (
        {**CALLS, "system": CALLS["system"].replace("mailbox", "set")}, {}, "", ANY,
    ),
    "not (old(len(pending(ping)) == 1) and len(pending(ping)) == 0)": (CALLS, {}, "crash=1", ANY),
    "b.more or b.state == first": ({**CALLS, "roles/b": LOOKING}, {}, "", NONE),
}  # fmt: skip


def kind_of(claim: str) -> str:
    return "step" if "old(" in claim or "took(" in claim else "always"


def written(folder: Path, files: Mapping[str, str], claim: str) -> Path:
    (folder / "roles").mkdir()
    for name, text in files.items():
        head = "system: wrong\n" if name == "system" else ""
        (folder / f"{name}.yaml").write_text(head + text)
    (folder / "invariants.yaml").write_text(f'properties:\n  claim: {{{kind_of(claim)}: "{claim}"}}\n')
    return folder


@pytest.mark.parametrize("claim", FALSE)
def test_what_is_false_is_not_proved(claim: str, tmp_path: Path) -> None:
    """Sizes, counted types, partitions, mailboxes that forget, gaps in numbers, and steps that are several at once."""
    files, settings, faults, setting = FALSE[claim]
    folder = written(tmp_path, files, claim)
    found = explore(load(folder, settings), budget=Budget.parse(faults) if faults else None)
    assert {p.verdict for p in found.properties if p.name == "claim"} == {"violated"}
    try:
        limited = replace(setting, limit_seconds=3.0) if kind_of(claim) == "step" else setting
        proof: Proof = prove(load(folder), limited, jobs=1, small=load(folder))
    except Unencodable:
        return
    assert [v.verdict for v in proof.verdicts if v.name == "claim"] != ["proved"]


def test_constants_in_types_are_as_set(tmp_path: Path) -> None:
    """Types and numbers of machines that are worked out have the values of constants in them, and the proof says so."""
    role = (
        "role: w\ndata: {x: {type: int, min: 0, max: cap}}\nevents: {up: It grows.}\n"
        "states:\n  on: {initial: true, on: {up: {to: on, when: x < cap, set: {x: x + 1}}}, ignore: {up: it is full}}\n"
    )
    constants = "constants: {cap: {type: int, value: 2, min: 1, max: 4}, n: {type: int, value: 1, min: 1, max: 3}}\n"
    text = f"{constants}roles: {{w: {{instances: n + 1}}}}\nenvironment: {{up: {{to: w}}}}\n"
    folder = written(tmp_path, {"system": text, "roles/w": role}, "all(v.x <= 2 for v in w) and len(w) == 2")
    found = prove(load(folder), jobs=1)
    assert found.holds
    assert found.any_number == []
    assert found.held == ["cap=2", "n=1"]
    assert found.for_what.startswith("cap=2, n=1, all values")


def test_no_time_from_outside_is_before_0(tmp_path: Path) -> None:
    """The explorer, the prover and the exported model try the same times, wherever a range begins."""
    role = (
        "role: a\ndata: {t: time, u: {type: time, initial: any, explore: [-1, 1]}}\n"
        'events: {go: {fields: {at: {type: time, explore: ["now - 1", now]}}}}\n'
        "states: {s: {initial: true, on: {go: {to: s, set: {t: event.at}}}}}\n"
    )
    text = "roles: {a: {}}\nenvironment: {go: {to: a}}\nclock: {horizon: 2}\n"
    system = load(written(tmp_path, {"system": text, "roles/a": role}, "a.t >= 0 and a.u >= 0"))
    engines: tuple[Engine, ...] = ("reference", "auto")
    for found in (explore(system, engine=engine) for engine in engines):
        assert {p.name: p.verdict for p in found.properties} == {"claim": "exhausted"}
        assert found.distinct == 2 * (1 + 2 + 3)
    assert prove(system, jobs=1).holds
    assert export_system(system, "tla").text.count(": 0 <= N}") == 2


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"w": 1}, "w has at least 2, the least value of n"),
        ({"w": 3, "v": 2}, "v has 3, as n is the number of several"),
        ({"u": 3}, "u has 2, the value of m, of which a type"),
        ({"one": 2}, "one has 1, as no constant alone is their number"),
    ],
)
def test_numbers_that_cannot_be_are_refused(sizes: dict[str, int], words: str, tmp_path: Path) -> None:
    """Of a system that there cannot be, anything would be proved; and what follows from a number is said."""
    text = (
        "constants: {n: {type: int, value: 3, min: 2}, m: {type: int, value: 2}}\n"
        "roles: {w: {instances: n}, v: {instances: n}, u: {instances: m}, one: {instances: 1}}\n"
        "types: {slot: {count: m + 1}}\nenvironment: {go: {to: w}}\n"
    )
    role = (
        "role: w\nevents: {go: On.}\nstates: {a: {initial: true, on: {go: {to: b}}}, b: {ignore: {go: it is over}}}\n"
    )
    others = {f"roles/{name}": f"role: {name}\nstates: {{a: {{initial: true}}}}\n" for name in ("v", "u", "one")}
    system = load(written(tmp_path, {"system": text, "roles/w": role, **others}, "all(x.state == a for x in w)"))
    with pytest.raises(NoSuchNumbers, match=words):
        prove(system, Setting(sizes=sizes), jobs=1)
    found = prove(system, Setting(sizes={"v": 4}), jobs=1)
    assert not found.holds
    assert found.any_number == []
    assert found.held == ["v=4", "w=4", "m=2"]
    assert prove(system, jobs=1).assumptions.machines["w"] == "any number from 2 on"


def test_what_nobody_knows_of_the_first_states_is_not_proved(tmp_path: Path) -> None:
    """Deeper induction asks of the first states as well."""
    role = (
        "role: a\ndata:\n"
        + "".join(f"  {v}: {{type: int, initial: any, explore: [-2, 2]}}\n" for v in "xyz")
        + "events: {turn: They change places.}\nstates:\n"
        "  idle: {initial: true, on: {turn: {to: idle, set: {x: y, y: z, z: x}}}}\n"
    )
    claim = "a.x * a.x * a.x + a.y * a.y * a.y + a.z * a.z * a.z != 165"
    folder = written(tmp_path, {"system": "roles: {a: {}}\nenvironment: {turn: {to: a}}\n", "roles/a": role}, claim)
    system = load(folder)
    setting = Setting(limit_seconds=1)
    assert "claim" not in induct(system, setting).proved
    assert {v.verdict for v in prove(system, setting, small=system).verdicts} == {"undecided"}
