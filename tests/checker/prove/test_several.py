"""Several machines of one actor: what recovery drives is done, and what each of them has heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import prove
from leasehold.faults.model import Budget
from leasehold.spec import SpecError
from tests.systems import load

SYSTEM = """system: several
constants: {n: {type: int, value: 2, min: 1, max: 3}}
roles: {p: {instances: n}, c: {instances: n}, h: {instances: n}}
actors: {all: [p, c]}
channels:
  there: {from: p, to: h, kind: mailbox, pairs: same}
  back: {from: h, to: p, kind: mailbox, pairs: same}
environment: {go: {to: p}}
"""
MESSAGES = "messages: {m: {from: p, to: h}, ok: {from: h, to: p, answer: true}}\n"
P = """role: p
events: {go: next, done: it is up}
states:
  x: {initial: true, on: {go: {to: y}}, ignore: {ok: no}}
  y: {tasks: [up, say], ignore: {go: no}, on: {done: {stay: true}, ok: {to: z}}}
  z: {tasks: [up], ignore: {go: no, ok: no}, on: {done: {stay: true}}}
tasks:
  up: {drive: c, event: up, only: index(it) == index(self), answers: {done: "any(u.state == c1 for u in c)"}}
  say: {send: m, to: h}
"""
C = """role: c
subsidiary: p
events: {up: u}
states:
  c0: {initial: true, on: {up: {to: c1}}}
  c1: {ignore: {up: no}}
"""
H = """role: h
states:
  w: {initial: true, on: {m: {to: t}}}
  t: {tasks: [tell], ignore: {m: no}}
tasks: {tell: {send: ok, to: p}}
"""
# Where it holds, it is proved for any number of machines, with crashes and losses; where not, exploring shows it.
TRUE = {
    "what is driven is done": "all(not running(a) or a.state == x or c[index(a)].state == c1 for a in p)",
    "who has not spoken was heard": "all(a.state != x or heard(there, a) for a in p)",
    "who is done was heard": "all(a.state != z or heard(there, a) for a in p)",
    "the other end": "all(heard(there, a) == heard(there, h[index(a)]) for a in p)",
    "all have heard all": "heard(there) == all(heard(there, a) for a in p)",
}
FALSE = {
    "what is driven is done at once": "all(a.state == x or c[index(a)].state == c1 for a in p)",
    "who speaks was heard": "all(heard(there, a) for a in p)",
    "one is heard as another": "all(heard(there, a) == heard(there, b) for a in p for b in p)",
    "who was heard has heard": "all(not heard(there, a) or heard(back, a) for a in p)",
}


def written(folder: Path, claim: str) -> Path:
    (folder / "roles").mkdir(parents=True)
    files = {"system": SYSTEM, "messages": MESSAGES, "roles/p": P, "roles/c": C, "roles/h": H}
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "invariants.yaml").write_text(f'properties:\n  claim: {{always: "{claim}"}}\n')
    lemmas = {
        "it is one conversation": "all(a.state != x or h[index(a)].state == w for a in p)",
        "nobody answers unasked": "all(h[index(a)].state != w or heard(back, a) and a.state != z for a in p)",
        "who answers was asked": "all(h[index(a)].state != t or heard(there, a) for a in p)",
        "an answer is of who was asked": "all(a.state != z or h[index(a)].state == t for a in p)",
    }
    (folder / "lemmas.yaml").write_text(
        "lemmas:\n" + "".join(f'  {name.replace(" ", "_")}: {{always: "{e}"}}\n' for name, e in lemmas.items())
    )
    return folder


def explored(folder: Path) -> set[str]:
    found = explore(load(folder), budget=Budget.parse("crash=1"))
    assert found.complete
    return {p.verdict for p in found.properties if p.name == "claim"}


@pytest.mark.long
@pytest.mark.parametrize("about", TRUE)
def test_what_holds_of_each_is_proved(about: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "several", TRUE[about])
    assert explored(folder) == {"exhausted"}
    found = prove(load(folder), jobs=1)
    assert {v.name: v.verdict for v in found.verdicts}["claim"] == "proved"
    assert {*found.any_number} == {"p", "c", "h"}


@pytest.mark.long
@pytest.mark.parametrize("about", FALSE)
def test_what_is_false_of_one_is_not_proved(about: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "several", FALSE[about])
    assert explored(folder) == {"violated"}
    found = prove(load(folder), jobs=1)
    assert {v.name: v.verdict for v in found.verdicts}["claim"] == "undecided"


def test_a_machine_is_an_end_of_its_channel(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the channel `there` neither begins nor ends at `c\\[0\\]`"):
        load(written(tmp_path / "several", "heard(there, c[0])"))
