"""What is false is not proved: small systems, each with a property that some setting or some run contradicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import Proof, prove
from leasehold.checker.prove.decide.induction import ANY, Setting, induct
from leasehold.checker.prove.encode.transitions import FaultScope
from leasehold.faults import Budget
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

# Each with its files, the settings and faults with which a run contradicts it, and the numbers and scope of the proof.
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
    "b.state != late": (CALLS, {}, "", Setting(scope=FaultScope(crash=False, network=False))),
    "all(m.v == m.number for m in pending(ping))": (CALLS, {}, "crash=1", ANY),
}  # fmt: skip


def written(folder: Path, files: Mapping[str, str], claim: str) -> Path:
    (folder / "roles").mkdir()
    for name, text in files.items():
        head = "system: wrong\n" if name == "system" else ""
        (folder / f"{name}.yaml").write_text(head + text)
    (folder / "invariants.yaml").write_text(f'properties:\n  claim: {{always: "{claim}"}}\n')
    return folder


@pytest.mark.parametrize("claim", FALSE)
def test_what_is_false_is_not_proved(claim: str, tmp_path: Path) -> None:
    """Sizes within sizes, counted types, partitions seen by some, mailboxes that forget, gaps in numbers, two cells."""
    files, settings, faults, setting = FALSE[claim]
    folder = written(tmp_path, files, claim)
    found = explore(load(folder, settings), budget=Budget.parse(faults) if faults else None)
    assert {p.verdict for p in found.properties if p.name == "claim"} == {"violated"}
    proof: Proof = prove(load(folder), setting, jobs=1, small=load(folder))
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


def test_what_nobody_knows_of_the_first_states_is_not_proved(tmp_path: Path) -> None:
    """Deeper induction asks of the first states as well."""
    role = (
        "role: a\ndata:\n" + "".join(f"  {v}: {{type: int, initial: any, explore: [-2, 2]}}\n" for v in "xyz")
        + "events: {turn: They change places.}\nstates:\n"
        "  idle: {initial: true, on: {turn: {to: idle, set: {x: y, y: z, z: x}}}}\n"
    )  # fmt: skip
    claim = "a.x * a.x * a.x + a.y * a.y * a.y + a.z * a.z * a.z != 165"
    folder = written(tmp_path, {"system": "roles: {a: {}}\nenvironment: {turn: {to: a}}\n", "roles/a": role}, claim)
    system = load(folder)
    setting = Setting(limit_seconds=1)
    assert "claim" not in induct(system, setting).proved
    assert {v.verdict for v in prove(system, setting, small=system).verdicts} == {"undecided"}
