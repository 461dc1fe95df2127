"""A bound of exploring is obeyed by no run, and asked of none: by who reads it, and what it says of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.impl.compiler.program import NotRunnable, check_runnable
from leasehold.spec.language.load import load
from tests.systems import files_of

FILES = files_of("impl/compiler/systems/bounds")
PLAIN = {
    "horizon": "3",
    "held": "true",
    "explored": "true",
    "guard": "3",
    "claim": "9",
    "when": "9",
    "possible": "9",
    "within": "3",
    "step": "9",
    "witness": "0",
    "end": "9",
}
SETTING, ANY, VALUE = "", ", running: any", ", running: 3"
# Where a constant is read; of a setting, a bound without a value in runs, and one with it: may the system run?
READERS: dict[str, tuple[dict[str, str], tuple[bool, bool, bool]]] = {
    "nowhere": ({}, (True, True, True)),
    "a guard": ({"guard": "k"}, (True, False, False)),
    "a claim": ({"claim": "k"}, (True, False, True)),
    "a condition of a claim": ({"when": "k"}, (True, False, True)),
    "a claim about a step": ({"step": "k"}, (True, False, True)),
    "a witness": ({"witness": "k"}, (True, False, True)),
    "what is always possible": ({"possible": "k"}, (True, True, True)),
    "an end": ({"end": "k"}, (True, False, True)),
    "a limit that is read while loading": ({"within": "k"}, (True, False, False)),
    "the horizon": ({"horizon": "k"}, (True, True, True)),
    "the horizon and a claim": ({"horizon": "k", "claim": "k"}, (False, False, True)),
    "the horizon and what is always possible": ({"horizon": "k", "possible": "k"}, (True, True, True)),
    "the horizon and a limit": ({"horizon": "k", "within": "k"}, (True, False, False)),
    "a held contract": ({"held": "it.n < k"}, (True, True, True)),
    "a held contract and a claim": ({"held": "it.n < k", "claim": "k"}, (True, False, True)),
    "a held contract about time": ({"held": "now < k"}, (True, True, True)),
    "a contract about time and the horizon": ({"held": "now < k", "horizon": "k"}, (False, True, True)),
    "a contract that nobody holds": ({"explored": "a.n < k"}, (True, True, True)),
    "a contract that nobody holds, and a claim": ({"explored": "a.n < k", "claim": "k"}, (False, False, True)),
    "a contract that nobody holds, and an end": ({"explored": "a.n < k", "end": "k"}, (False, False, True)),
    "contracts of both kinds, and a claim": (
        {"explored": "a.n < k", "held": "it.n < k", "claim": "k"},
        (True, False, True),
    ),
}


@pytest.mark.parametrize("running", [SETTING, ANY, VALUE], ids=["a setting", "no run has it", "a value in runs"])
@pytest.mark.parametrize("reader", READERS)
def test_a_bound_is_refused_by_who_reads_it(reader: str, running: str, tmp_path: Path) -> None:
    read, runs = READERS[reader]
    (tmp_path / "roles").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.format(running=running, **(PLAIN | read)))
    system = load(tmp_path)
    codes: set[str] = set()
    try:
        check_runnable(system)
    except NotRunnable as refused:
        codes = {d.code for d in refused.diagnostics}
    assert codes == (set() if runs[(SETTING, ANY, VALUE).index(running)] else {"LH810"})
