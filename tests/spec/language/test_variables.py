"""Names that the loader makes hide none that the author wrote, and none is taken for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import prove
from leasehold.spec import System
from tests.checker.explore.by_chance import written
from tests.checker.explore.test_engines import assert_alike
from tests.sampled import one_in

NAMED = {
    "system.yaml": "system: named\nroles: {hub: {}, w: {instances: 2}}\n"
    "channels: {c: {from: hub, to: w, kind: fifo(1)}}\ndefinitions:\n"
    "  apart(x): all(any(v != v__2 for v in w) for v__2 in w if x == x)\n"
    "  again(x): any(any(v__2 != v and v != x for v__2 in w) for v in w)\n"
    "environment: {go: {to: w}, say: {to: hub}}\n",
    "messages.yaml": "messages: {m: {from: hub, to: w, fields: {x: w, b: bool, n: {type: int, min: 0, max: 9}}}}\n",
    "roles/hub.yaml": """role: hub
data: {cells: {type: "map[w, int]", min: 0, max: 9}, tell__x: {type: w, doc: Its own.}, odd: bool, old_odd: bool}
events: {say: {fields: {x: w, old_odd: bool}}}
states:
  s: {initial: true, on: {say: {to: t, set: {odd: not odd, cells: "cells | {event.x: 1}", old_odd: event.old_odd}}}}
  t: {tasks: [tell], on: {say: {to: s}}}
tasks: {tell: {send: m, to: w, with: {x: event.x, b: old(odd), n: "4 if event.old_odd else 5"}}}
""",
    "roles/w.yaml": """role: w
data: {f: "set[w]", x: w, b: bool, n: {type: int, min: 0, max: 9}, k: {type: int, min: 0, max: 2}}
events: {go: {fields: {who: w}}}
states:
  s:
    initial: true
    on:
      go:
        to: s
        when: event.who not in f and all(v in f or v != self or k < 2 for v in w)
        set: {f: "f | {event.who}", k: "min(2, k + 1)"}
      m: {to: s, set: {x: msg.x, b: msg.b, n: msg.n}}
    ignore: {go: it is enough}
""",
}


def claims(kind: str, *texts: str) -> str:
    return "".join(f'  p{n}: {{{kind}: "{text}"}}\n' for n, text in enumerate(texts))


def system(folder: Path, properties: str) -> System:
    return written(folder, {**NAMED, "invariants.yaml": f"properties:\n{properties}"})


NAMES = ("v", "u", "v__2", "key__1", "key__2", "key__3", "v__guard", "event__who", "event__who__guard", "some__w")


@pytest.mark.parametrize("name", one_in(3, NAMES))
def test_a_claim_does_not_depend_on_the_name_of_its_variable(name: str, tmp_path: Path) -> None:
    texts = (
        "apart(NAME)",
        "again(NAME)",
        "(hub.cells | {NAME: 7})[NAME] == 7",
        "(hub.cells | {w[0]: hub.cells[NAME]})[w[0]] == hub.cells[NAME]",
        "({z: hub.cells[NAME] for z in w} | {NAME: 7 for NAME in w if index(NAME) > 5})[w[0]] == hub.cells[NAME]",
        "({z: 0 for z in w} | {NAME: 1 for NAME in NAME.f})[NAME] == (1 if NAME in NAME.f else 0)",
        "(hub.cells | {v: 3 for v in NAME.f})[NAME] == (3 if NAME in NAME.f else hub.cells[NAME])",
        "max((index(NAME) for NAME in NAME.f), default=index(NAME)) >= 0",
        "accepts(NAME.go) == any(z not in NAME.f and (NAME in NAME.f or NAME.k < 2) for z in w)",
    )
    always = claims("always", *(f"all({t} for {name} in w)".replace("NAME", name) for t in texts))
    runs = "".join(f'  r{n}: {{for: {{{name}: w}}, always_eventually: "{t.replace("NAME", name)}"}}\n'
                   for n, t in enumerate(texts))  # fmt: skip
    found = system(tmp_path, always + runs)
    assert_alike(found)
    assert {p.name for p in explore(found).properties if p.verdict != "exhausted"} == set()
    assert {v.name for v in prove(found, jobs=1).verdicts if v.verdict == "proved"} == {
        f"p{n}" for n in range(len(texts))
    }


def test_what_a_task_reads_has_a_field_of_its_own(tmp_path: Path) -> None:
    """A field of the record is not overwritten, nor one that another part of the task reads."""
    kept = {**NAMED, "system.yaml": NAMED["system.yaml"].replace("fifo(1)", "bag(1)")}  # which may repeat it
    properties = claims(
        "always", "hub.tell__x == w[0]", "all(m.b != hub.odd or hub.state == s for m in pending(m))",
        "all(m.n == (4 if hub.old_odd else 5) or hub.state == s for m in pending(m))",
    )  # fmt: skip
    found = written(tmp_path, {**kept, "invariants.yaml": f"properties:\n{properties}"})
    assert_alike(found)
    assert {p.name for p in explore(found).properties if p.verdict != "exhausted"} == set()
    assert [*found.roles["hub"].data] == [
        "cells", "tell__x", "odd", "old_odd", "tell__x_", "tell__old_odd", "tell__old_odd_",
    ]  # fmt: skip


def test_a_field_is_nearer_than_a_channel_of_its_name(tmp_path: Path) -> None:
    files = {
        "system.yaml": "system: near\nroles: {hub: {}, w: {instances: 2}}\n"
        "channels: {votes: {from: w, to: hub, kind: bag}}\nenvironment: {go: {to: w}, end: {to: hub}}\n",
        "messages.yaml": "messages: {vote: {from: w, to: hub}}\n",
        "roles/w.yaml": "role: w\nevents: {go: Vote.}\nstates:\n  s: {initial: true, on: {go: {to: t, also: vote}}}\n"
        "  t: {ignore: {go: once}}\ntasks: {vote: {send: vote, to: hub}}\n",
        "roles/hub.yaml": "role: hub\ndata: {votes: 'set[w]'}\nevents: {end: Enough.}\n"
        "states:\n  s:\n    initial: true\n"
        "    on:\n      vote: {stay: true, set: {votes: 'votes | {msg.sender}'}}\n"
        "      end: {to: over, when: len(votes) == 2}\n    ignore: {end: too few}\n"
        "  over: {ignore: {vote: over, end: over}}\n",
        "invariants.yaml": "properties:\n  all_have: {always: hub.state == s or len(hub.votes) == 2}\n"
        "  both_at_once: {sometimes: len(votes) == 2}\n",
    }
    found = {p.name: p.verdict for p in explore(written(tmp_path, files)).properties}
    assert found == {"all_have": "exhausted", "both_at_once": "witnessed"}
