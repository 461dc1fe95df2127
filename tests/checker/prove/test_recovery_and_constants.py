"""What is false is not proved: work that recovery does in another order or at once, ranks in two states, constants.

Each system is one with which somebody who wanted to has once had a false claim proved.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import prove
from leasehold.checker.prove.decide import proof_store
from leasehold.checker.prove.decide.induction import ANY, Setting
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Unencodable
from leasehold.faults.model import Budget
from leasehold.spec import SpecError
from tests.systems import load

NONE = Setting(scope=FaultScope(crash=False, network=False))
SAYS = {
    "system": "roles: {a: {}, b: {}}\nconstants:\n  n: {type: int, value: 0, min: 0, max: 2}\n"
    "channels: {c: {from: a, to: b, kind: KIND, FAULT: n}}\nenvironment: {go: {to: a}}\n",
    "messages": "messages: {m: {from: a, to: b}}\n",
    "roles/a": "role: a\nevents: {go: next}\nstates:\n  s: {initial: true, on: {go: {to: t}}}\n"
    "  t: {tasks: say, ignore: {go: no}}\ntasks: {say: {send: m, to: b}}\n",
    "roles/b": "role: b\nstates:\n  w: {initial: true, on: {m: {to: d}}}\n  d: {ignore: {m: no}}\n",
}


def says(kind: str, fault: str) -> dict[str, str]:
    return {**SAYS, "system": SAYS["system"].replace("KIND", kind).replace("FAULT", fault)}


COUNTED = {
    "system": "constants: {n: {type: int, value: 2, min: 1, max: 4}}\ntypes: {slot: {count: n}}\nroles: {b: ROLE}\n"
    "environment: {go: {to: b}}\n",
    "roles/b": """role: b
data:
  s: {type: "set[slot]", initial: slot}
  k: {type: int, initial: len(slot)}
  z: {type: int, min: 0, max: len(slot)}
events: {go: {fields: {x: {type: int, min: 0, max: len(slot)}}}}
states: {x: {initial: true, on: {go: {to: x, set: {z: event.x}}}}}
""",
}
ROUND = {
    "system": COUNTED["system"].replace("{n:", "{k: {type: int, value: 1}, n:").replace("ROLE", "{}"),
    "roles/b": """role: b
data: {at: {type: slot, initial: "slot[k + 1]"}, z: {type: int, min: 0, max: "index(slot[k + 2])"}}
events: {go: {fields: {x: {type: int, min: 0, max: "index(slot[k + 2])"}}}}
states: {x: {initial: true, on: {go: {to: x, set: {z: event.x}}}}}
""",
}
MEMBERS = {
    "system": COUNTED["system"].replace("ROLE", "{instances: len(slot)}"),
    "roles/b": "role: b\nevents: {go: next}\nstates: {x: {initial: true, on: {go: {to: x}}}}\n",
}
RANKED = {
    "system": "roles: {a: {}, b: {}}\nchannels: {c: {from: a, to: b, kind: mailbox, lose: any}}\n"
    "environment: {go: {to: a}}\n",
    "messages": "messages: {m: {from: a, to: b, fields: {k: {type: int, min: 0, max: 3}}}}\n",
    "roles/a": "role: a\ndata: {k: {type: int, min: 0, max: 3}}\nevents: {go: next}\nstates:\n"
    "  s: {initial: true, on: {go: {to: s, when: k < 3, set: {k: k + 1}, also: say}}, ignore: {go: no}}\n"
    "tasks: {say: {send: m, to: b, with: {k: k}}}\n",
    "roles/b": "role: b\ndata: {got: bool}\nstates: {w: {initial: true, ignore: {m: no}}}\n",
}
ORDERED = {
    "system": "roles: {p: {}, c: {}}\nactors: {all: [p, c]}\nenvironment: {go: {to: p}, fix: {to: c}}\n",
    "roles/p": """role: p
events: {go: next, one: done, two: done}
states:
  w: {ignore: {go: no}, initial: true, tasks: [up, down],
      on: {go: {to: y, when: c.state == c0}, one: {stay: true}, two: {stay: true}}}
  y: {tasks: [down, up], on: {one: {stay: true}, two: {stay: true}}, ignore: {go: no}}
tasks:
  up: {drive: c, event: up, when: c.state == c2, answers: {one: "c.state == c0"}}
  down: {drive: c, event: down, when: c.state == c2, answers: {two: "c.state == c0"}}
""",
    "roles/c": """role: c
subsidiary: p
events: {up: u, down: d, fix: f}
states:
  c0: {initial: true, on: {fix: {to: c2}}, ignore: {up: no, down: no}}
  c2: {on: {down: {to: c3}}, ignore: {up: no, fix: no}}
  c3: {on: {up: {to: c4}}, ignore: {down: no, fix: no}}
  c4: {ignore: {down: no, up: no, fix: no}}
""",
}
SEVERAL = {
    "system": "constants: {n: {type: int, value: 2, min: 1, max: 3}}\nroles: {p: {instances: n}, c: {}}\n"
    "actors: {all: [p, c]}\nenvironment: {go: {to: p}, reset: {to: c}}\n",
    "roles/p": """role: p
events: {go: next, one: done}
states:
  x: {initial: true, on: {go: {to: y}}}
  y: {tasks: [up], ignore: {go: no}, on: {one: {stay: true}}}
tasks: {up: {drive: c, event: up, LIMIT, answers: {one: "c.state == c0"}}}
""",
    "roles/c": """role: c
subsidiary: p
events: {up: u, reset: r}
states:
  c0: {initial: true, on: {up: {to: c1}}, ignore: {reset: no}}
  c1: {on: {up: {to: c2}, reset: {to: c0}}}
  c2: {ignore: {up: no, reset: no}}
""",
}
ENOUGH = {
    "system": "constants: {n: {type: int, value: 1, min: 1, max: 2}}\nroles: {a: {}}\n"
    "environment: {one: {to: a}, go: {to: a}}\n",
    "roles/a": """role: a
data: {off: bool}
events: {one: n, go: next}
states:
  s: {initial: true, on: {one: {to: u, set: {off: true}}, go: {to: t, when: n > 1 and not off}}, ignore: {go: no}}
  t: {ignore: {go: no, one: no}}
  u: {ignore: {go: no, one: no}}
""",
}
NAMED = {
    "system": "constants: {probe: {type: int, value: 1, min: 1, max: 3}, n: {type: int, value: 2, min: 1, max: 4}}\n"
    "roles: {w: {instances: n}}\nenvironment: {go: {to: w}}\n",
    "roles/w": "role: w\nevents: {go: next}\nstates: {x: {initial: true, on: {go: {to: x}}}}\n",
}
DRIVEN_TO_SAY = {
    "system": "constants: {n: {type: int, value: 1, min: 1, max: 3}}\nroles: {p: {}, c: {instances: n}, b: {}}\n"
    "actors: {all: [p, c]}\nchannels: {there: {from: c, to: b, kind: mailbox}}\n"
    "environment: {go: {to: p}, reset: {to: c}}\n",
    "messages": "messages: {m: {from: c, to: b, fields: {k: int}}}\n",
    "roles/p": """role: p
events: {go: next, one: done}
states:
  x: {initial: true, on: {go: {to: y}}}
  y: {tasks: [up], ignore: {go: no}, on: {one: {stay: true}}}
tasks: {up: {drive: c, event: up, answers: {one: "all(u.state == c0 for u in c)"}}}
""",
    "roles/c": """role: c
subsidiary: p
data: {k: int}
events: {up: u, reset: r}
states:
  c0: {initial: true, on: {reset: {to: c1}}, ignore: {up: no}}
  c1: {tasks: [tell], on: {up: {to: c2, set: {k: 1}}}, ignore: {reset: no}}
  c2: {ignore: {up: no, reset: no}}
tasks: {tell: {send: m, to: b, with: {k: k}}}
""",
    "roles/b": "role: b\ndata: {got: int}\nstates: {w: {initial: true, on: {m: {to: w, set: {got: msg.k}}}}}\n",
}

# What it is about: the claim, the system, the constants and faults with which exploring contradicts it, the setting.
FALSE = {
    "a duplicate": ("b.state == w or len(pending(m)) == 0", says("fifo", "duplicate"), {"n": 1}, "", ANY),
    "a duplicate, in a step": ("not took(b.m) or old(b.state) == w", says("fifo", "duplicate"), {"n": 1}, "", ANY),
    "a loss": ("a.state == s or b.state == d or len(pending(m)) > 0", says("fifo", "lose"), {"n": 1}, "", ANY),
    "a loss of a mailbox": (
        "a.state == s or b.state == d or len(pending(m)) > 0", says("mailbox", "lose"), {"n": 1}, "", NONE,
    ),
    "a first set": ("all(index(x) <= 1 for x in b.s)", {**COUNTED, "system": COUNTED["system"].replace("ROLE", "{}")},
                    {"n": 3}, "", ANY),
    "a first number": ("b.k == 2", {**COUNTED, "system": COUNTED["system"].replace("ROLE", "{}")}, {"n": 3}, "", ANY),
    "a bound": ("b.z <= 2", {**COUNTED, "system": COUNTED["system"].replace("ROLE", "{}")}, {"n": 3}, "", ANY),
    "a first instance, counted around": ("index(b.at) == 0", ROUND, {"n": 3}, "", ANY),
    "a bound that is counted around": ("b.z <= 1", ROUND, {"n": 4}, "", ANY),
    "a number of machines": ("all(index(x) <= 1 for x in b)", MEMBERS, {"n": 3}, "", ANY),
    "ranks": (
        "took(b) or all(old(all(k.number != n.number or k.k == n.k for k in pending(m))) for n in pending(m))", RANKED,
        {}, "", ANY,
    ),
    "equal messages": ("took(a) or took(b) or all(old(any(k == n for k in pending(m))) for n in pending(m))", RANKED,
                       {}, "", ANY),
    "a rank beside 1": (
        "not (took(a.go) and not old(heard(c)) and old(len(pending(m)) == 0)) or all(1 < q.number for q in pending(m))",
        RANKED, {}, "", ANY,
    ),
    "a rank beside 1, negated": (
        "not (took(a.go) and not old(heard(c)) and old(len(pending(m)) == 0) and any(1 >= q.number for q in pending(m))"
        ")", RANKED, {}, "", ANY,
    ),
    "no other than the latest message": ("all(q.latest for q in pending(m))", RANKED, {}, "", ANY),
    "the latest message, lost": ("heard(c) or any(q.latest for q in pending(m))", RANKED, {}, "", ANY),
    "the latest message, received": ("not any(q.latest and q.number == 0 for q in pending(m))", RANKED, {}, "crash=1",
                                     ANY),
    "what was the latest message": ("all(old(any(k.latest for k in pending(m))) or n.latest for n in pending(m))",
                                    RANKED, {}, "", ANY),
    "the event of a step, under old": ("not old(took(a.go))", ENOUGH, {"n": 2}, "", NONE),
    "a name that stands for something": (
        "all(index(u) != 0 or count(v != u and index(v) < probe for v in w) + 0 == 0 for u in w)", NAMED,
        {"n": 3, "probe": 2}, "", replace(ANY, limit_seconds=2.0),
    ),
    "an order of its own": ("c.state != c4", ORDERED, {}, "crash=1", ANY),
    "an order of its own, in a step": (
        "not (old(p.state) == y and p.state == y and old(c.state) == c2 and c.state == c4)", ORDERED, {}, "crash=1",
        ANY,
    ),
    "two that drive one": (
        "c.state != c2", {**SEVERAL, "roles/p": SEVERAL["roles/p"].replace("LIMIT", "only: it.state == c0")}, {},
        "crash=1", ANY,
    ),
    "two that drive one, if": (
        "c.state != c2", {**SEVERAL, "roles/p": SEVERAL["roles/p"].replace("LIMIT", "when: c.state == c0")}, {},
        "crash=1", ANY,
    ),
    "one that is driven and says": ("b.got == 0", DRIVEN_TO_SAY, {}, "crash=1", ANY),
    "what it says": ("all(m.k == 0 for m in pending(m))", DRIVEN_TO_SAY, {}, "crash=1", ANY),
}  # fmt: skip


def written(folder: Path, files: dict[str, str], claim: str) -> Path:
    (folder / "roles").mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(("system: found\n" if name == "system" else "") + text)
    kind = "step" if "old(" in claim or "took(" in claim else "always"
    (folder / "invariants.yaml").write_text(f'properties:\n  claim: {{{kind}: "{claim}"}}\n')
    return folder


LONG = ("one that is driven and says",)


@pytest.mark.parametrize("about", [pytest.param(a, marks=pytest.mark.long) if a in LONG else a for a in FALSE])
def test_what_is_false_is_not_proved(about: str, tmp_path: Path) -> None:
    """Or it is proved for the constants as they are, with which it holds."""
    claim, files, constants, faults, setting = FALSE[about]
    folder = written(tmp_path / "found", files, claim)
    found = explore(load(folder, constants), budget=Budget.parse(faults) if faults else None)
    assert {p.verdict for p in found.properties if p.name == "claim"} == {"violated"}
    for system in (load(folder), load(folder, constants)):
        try:
            proof = prove(system, setting, jobs=1, small=system)
        except Unencodable:
            continue
        proved = [v.name for v in proof.verdicts if v.verdict == "proved"]
        # What does not hold for each value of a constant may be proved for the one that it has.
        assert "claim" not in proved or (
            constants and system is not None and system.constants["n"].value != constants["n"]
        )
        if "claim" in proved:
            assert proof.assumptions is not None
            assert proof.assumptions.constants["n"].startswith("= ")


def test_what_the_latest_message_says_is_proved(tmp_path: Path) -> None:
    """Whatever was sent before it and is not received, and whichever is lost."""
    claim = "all(q.k == a.k for q in pending(m) if q.latest) and all(q.latest or q.k < 3 for q in pending(m))"
    proof = prove(load(written(tmp_path / "found", RANKED, claim)), ANY, jobs=1)
    assert [v.verdict for v in proof.verdicts] == ["proved"]


def test_a_proof_that_was_kept_is_one_for_the_same_nodes(tmp_path: Path) -> None:
    one = written(tmp_path / "one", ORDERED, "c.state != c4")
    other = {**ORDERED, "system": ORDERED["system"] + "faults: {nodes: {box: [all]}, check: crash=1}\n"}
    two = written(tmp_path / "two", other, "c.state != c4")
    files = [proof_store._file(load(folder)) for folder in (one, two)]
    assert None not in files
    assert files[0] != files[1]


def test_a_message_that_leaves_its_type_is_the_specification_s_fault(tmp_path: Path) -> None:
    files = {
        **RANKED,
        "system": RANKED["system"].replace("mailbox, lose: any", "KIND"),
        "roles/a": RANKED["roles/a"].replace("with: {k: k}", "with: {k: k + 2}"),
    }
    for engine in ("reference", "packed"):
        for kind in ("mailbox", "fifo", "set", "bag", "multiset"):
            parts = {**files, "system": files["system"].replace("KIND", kind)}
            found = explore(load(written(tmp_path / engine / kind, parts, "b.got or not b.got")), engine=engine)  # type: ignore[arg-type]
            words = {p.name: (p.verdict, p.reason) for p in found.properties}
            assert words["types_hold"][0] == "violated"
            assert "task `say` gives `k` of `m` the value 4, outside its type's range" in words["types_hold"][1]


def test_a_message_with_a_time_before_the_first_is_the_specification_s_fault(tmp_path: Path) -> None:
    files = {
        **RANKED, "system": RANKED["system"] + "clock: {horizon: 2}\n",
        "messages": "messages: {m: {from: a, to: b, fields: {k: time}}}\n",
        "roles/a": RANKED["roles/a"].replace("{k: {type: int, min: 0, max: 3}}", "{k: {type: int, max: 3}, at: time}")
        .replace("with: {k: k}", "with: {k: at - 1}"),
    }  # fmt: skip
    found = explore(load(written(tmp_path / "time", files, "b.got or not b.got")))
    reason = next(p.reason for p in found.properties if p.name == "types_hold")
    assert "task `say` gives `k` of `m` the value -1, outside its type's range" in reason


BOUNDED = {
    "system": "constants: {cap: {type: int, value: 3, min: 1, max: 4}, n: {type: int, value: 2, min: 1, max: 4}}\n"
    "roles: {a: {instances: n}}\nenvironment: {go: {to: a}}\n",
    "roles/a": "role: a\ndata: {z: {type: int, min: 0, max: cap}}\nevents: {go: next}\nstates:\n"
    "  s: {initial: true, on: {go: {to: s, when: z < cap, set: {z: z + 1}}}, ignore: {go: no}}\n",
}


def test_what_small_settings_show_counts_where_the_proof_is_for_them(tmp_path: Path) -> None:
    """Another value of a constant that bounds, or another number of machines, is another question."""
    folder = written(tmp_path / "found", BOUNDED, "n > 2 or all(x.z * x.z <= 9 for x in a)")
    (folder / "invariants.yaml").write_text(
        "properties:\n  of_one: {when: cap == 1, always: all(x.z <= cap for x in a)}\n"
        "  of_two: {when: len(a) == 2, always: all(x.z <= cap for x in a)}\n"
        "  many: {always: all(x.z * x.z * x.z - 4 * x.z * x.z + 3 * x.z >= 0 or x.z == 2 for x in a) and n == 3}\n"
    )
    system, small = load(folder), load(folder, {"cap": 1, "n": 1})
    found = prove(system, jobs=1, small=small)
    assert {v.name: v.vacuous for v in found.properties}["of_one"] == "no state has its antecedent"
    fixed = prove(system, Setting(sizes={"a": 3}, limit_seconds=2.0), jobs=1, small=system)
    vacuous = {v.name: v.vacuous for v in fixed.properties if v.vacuous}
    assert vacuous == {"of_one": "no state has its antecedent", "of_two": "no state has its antecedent"}
    assert "counterexample" not in {v.verdict for v in fixed.properties}


def test_nothing_is_proved_of_a_system_without_a_first_state(tmp_path: Path) -> None:
    """The loader tries the constants that are given; a proof is for others too."""
    system = {**BOUNDED, "system": BOUNDED["system"] + "initially: any(x.z > 0 for x in a) or len(a) > 1\n"}
    folder = written(tmp_path / "found", system, "all(x.z <= cap for x in a)")
    (warning,) = load(folder, {"n": 1}).warnings
    assert (warning.code, warning.severity, warning.what[:12]) == ("LH511", "warning", "with n = 1: ")
    with pytest.raises(SpecError, match=r"LH511: no combination of first values is as `initially` says with .*n = 1"):
        explore(load(folder, {"n": 1}))
    several = load(folder, {"n": 2})
    assert prove(several, jobs=1, small=several).of("proved")
    with pytest.raises(SpecError, match=r"LH511: .* says with a=1, cap=3"):
        prove(several, Setting(sizes={"a": 1}), jobs=1)


@pytest.mark.parametrize(
    ("actors", "words"),
    [
        ("actors: {a: [b]}", "the actor `a` has the name of a role that it does not play"),
        ("actors: {x: [a], y: [a, b]}", "`a` is played by `x` already"),
        ("actors: {x: [a, a]}", "`a` is played by `x` already"),
        ("actors: {x: [], y: [a]}", "the actor `x` plays no role"),
        ("actors: {x: [a], y: [b]}\nfaults: {nodes: {x: [x, y]}}", "the node `x` has the name of an actor"),
    ],
)
def test_an_actor_is_not_taken_for_another(actors: str, words: str, tmp_path: Path) -> None:
    """Where two had one name, exploring and the prover took both for one: `running(a) == running(b)` was proved."""
    files = {**says("mailbox", "lose"), "system": says("mailbox", "lose")["system"] + f"{actors}\n"}
    with pytest.raises(SpecError, match=words):
        load(written(tmp_path / "found", files, "running(a) == running(b)"))
