"""A definition stands for what it says: a system that uses some is the system in which they are written out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.mutation.operators import mutations
from leasehold.checker.prove.encode.lemma import lemma_scope, parsed
from leasehold.spec import System
from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import SpecError
from tests.systems import files_of, written

LIGHTS = files_of("spec/language/typing/systems/lights")

DEFINITIONS = """
definitions:
  half: lights // 2
  majority(s): len(s) > half
  is_in(w, s): w.state == s
  others(l): "{v for v in light if v != l}"
  every(l): all(is_in(v, lit) or v == l for v in others(l))
  grew(e): old(e) <= e
  of_colour(c): count(m.to == c for m in pending(turn))
  told(m, c): m.to == c
  waits(c): len(c) == 0 and heard(c)
  turned(l): took(l.turn)
"""
OWN_DEFINITIONS = """
definitions:
  room(l): len(lit) < 3 and l not in lit
  next: min(n + 1, 9)
"""
USED = {
    "WHEN": "not is_in(it, on) or of_colour(red) < 3",
    "GUARD": "room(event.of) and not majority(lit)",
    "UPDATE": "next",
    "FIELD": "shade",
    "ONLY": "it in lit and not room(it)",
    "ALWAYS": "all(every(v) or not is_in(v, lit) or majority(others(v)) for v in light)"
    " and all(told(m, red) or told(m, green) for m in pending(turn)) and (waits(wires) or not waits(wires))"
    " and (is_in(light[0], dark) or not is_in(light[0], dark))",
    "STEP": "grew(switch.n) and all(not turned(v) or is_in(v, lit) for v in light)",
    "LEMMA": "of_colour(green) <= 9",
}
WRITTEN = {
    "WHEN": "not it.state == on or count(m.to == red for m in pending(turn)) < 3",
    "GUARD": "(len(lit) < 3 and event.of not in lit) and not len(lit) > lights // 2",
    "UPDATE": "min(n + 1, 9)",
    "FIELD": "shade",
    "ONLY": "it in lit and not (len(lit) < 3 and it not in lit)",
    "ALWAYS": "all(all(v__2.state == lit or v__2 == v for v__2 in {v__2 for v__2 in light if v__2 != v})"
    " or not v.state == lit or len({v__2 for v__2 in light if v__2 != v}) > lights // 2 for v in light)"
    " and all(m.to == red or m.to == green for m in pending(turn))"
    " and (len(wires) == 0 and heard(wires) or not (len(wires) == 0 and heard(wires)))"
    " and (light[0].state == dark or not light[0].state == dark)",
    "STEP": "old(switch.n) <= switch.n and all(not took(v.turn) or v.state == lit for v in light)",
    "LEMMA": "count(m.to == green for m in pending(turn)) <= 9",
}


def system_of(folder: Path, texts: dict[str, str], definitions: str = "", own: str = "") -> System:
    files = dict(LIGHTS)
    files["system.yaml"] += definitions
    files["roles/switch.yaml"] += own
    for word, words in {**texts, "OTHERWISE": f"not ({texts['GUARD']})"}.items():
        files = {name: text.replace(word, json.dumps(words)) for name, text in files.items()}
    return written(folder, files)


def bare(system: System) -> System:
    """The system without its definitions and the name of its text."""
    roles = {name: replace(role, definitions={}) for name, role in system.roles.items()}
    return replace(system, roles=roles, definitions={}, digest="", warnings=())


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> System:
    return system_of(tmp_path_factory.mktemp("used") / "lights", USED, DEFINITIONS, OWN_DEFINITIONS)


def test_a_definition_stands_for_what_it_says(used: System, tmp_path: Path) -> None:
    assert not [d for d in used.warnings if d.code == "LH509"]
    assert bare(used) == bare(system_of(tmp_path / "lights", WRITTEN))


def test_a_lemma_of_the_command_line_may_use_them(used: System) -> None:
    scope = lemma_scope(used)
    assert x.text(parsed("majority(switch.lit)", scope)) == "len(switch.lit) > lights // 2"


def test_a_mutant_changes_a_definition_wherever_it_is_used(used: System) -> None:
    """An author's mistake in a definition is one mistake."""
    shifted = [m for m in mutations(used) if m.rule == "shift_comparison" and "len(lit) < 3" in m.what]
    assert shifted
    for mutant in shifted:
        first, second = mutant.applied(used).roles["switch"].states["on"].on["press"]
        assert first.guard is not None
        assert second.guard is not None
        assert x.text(second.guard) == f"not ({x.text(first.guard)})"


@pytest.mark.parametrize("text", ["loop(1)", "a(1) + b(1)"])
def test_deep_definitions_end(text: str, tmp_path: Path) -> None:
    chain = "\n".join(f"  d{i}(x): d{i - 1}(x) + d{i - 1}(x)" for i in range(1, 40))
    definitions = f"definitions:\n  loop(x): d39(x)\n  a(x): d38(x)\n  b(x): d38(x)\n  d0(x): x + 1\n{chain}\n"
    with pytest.raises(SpecError) as raised:
        system_of(tmp_path / "lights", {**WRITTEN, "UPDATE": text}, definitions)
    assert "LH306" in {d.code for d in raised.value.diagnostics}
