"""The cuts of runs as paths: what a step has is written as the language writes it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from leasehold.checker.conform.comparison import show_said
from leasehold.checker.verify.cuts import ConsistentCuts, Cut
from leasehold.checker.verify.result import drawn_path
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.spec.language import types as t
from tests.checker.conform.test_alterations import PYTHON
from tests.checker.conform.walks import SYSTEMS, known, walked

COLOUR = t.Enum("colour", ("red", "green"))
SLOT = t.Instance("slot", 3)


@pytest.mark.parametrize(
    ("kind", "plain", "words"),
    [
        (t.BOOL, True, "true"),
        (t.INT, -2, "-2"),
        (COLOUR, "red", "red"),
        (SLOT, 1, "slot[1]"),
        (t.Option(SLOT), None, "none"),
        (t.Option(SLOT), 0, "slot[0]"),
        (t.Option(t.BOOL), False, "false"),
        (t.Set(SLOT), [0, 2], "{slot[0], slot[2]}"),
        (t.Set(COLOUR), [], "{}"),
        (t.OPAQUE, None, "none"),
        (t.OPAQUE, {"a": [1, True]}, "{a: {1, true}}"),
        # values of another type
        (t.INT, None, "none"),
        (t.INT, True, "true"),
        (SLOT, 9, "9"),
        (t.Set(SLOT), [7], "{7}"),
        (t.BOOL, "x", "x"),
    ],
)
def test_a_value_is_written_as_the_language_writes_it(kind: t.Type, plain: Any, words: str) -> None:
    assert show_said(kind, plain) == words


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_path_has_each_cut_of_its_run(name: str) -> None:
    of, log = CutsOfSystem(known(name).system, known(name).program), walked(name, 0)
    cuts = ConsistentCuts(of, log)
    for actor, events in log.items():
        cuts.add(actor, events)
    cuts.close()
    runs: dict[str, list[Cut]] = {}
    for cut in cuts.ready():
        if isinstance(cut, Cut):
            runs.setdefault(cut.run, []).append(cut)
    assert runs
    for made in runs.values():
        path = drawn_path(of.layout, made)
        assert len(path.steps) == len(made) - 1
        for step, cut in zip(path.steps, made[1:], strict=True):
            words = [*step.fields.values(), *(word for sent in step.sent for word in sent.fields.values())]
            assert not [word for word in words if PYTHON.search(word)]
            assert cut.action is not None
            if cut.action.kind in ("crash", "recover"):
                assert (step.kind, step.event) == (cut.action.kind, f"{step.kind}:{cut.actor}")
                assert step.machine in of.program.machines
            else:
                assert step.machine == (None if cut.step is None else cut.step.machine)
            assert (step.kind == "clock") == (cut.action.kind == "clock")
            if step.kind == "clock":
                assert re.fullmatch(rf"now {step.state.now}", step.event)
            if cut.step is not None:
                assert step.fields.keys() == cut.step.fields.keys()
                assert [sent.fields.keys() for sent in step.sent] == [sent.fields.keys() for sent in cut.step.sends]
