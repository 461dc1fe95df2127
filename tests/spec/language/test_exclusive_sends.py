"""Two messages to one neighbour in one step are an error, but where their conditions plainly exclude each other."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from leasehold.spec import SpecError, load
from tests.systems import write

CONDITIONS = ("", "p", "not p", "q", "not q", "p and q", "not p and q", "p or q")


def switch(folder: Path, first: dict[str, str], second: dict[str, str]) -> Path:
    """Writes a switch that sends both to one light, each under its conditions."""

    def task(message: str, conditions: dict[str, str]) -> str:
        more = "".join(f", {word}: {e}" for word, e in conditions.items() if e)
        return f"{{send: {message}, to: light{more}}}"

    files = {
        "system.yaml": (
            "system: lit\nroles: {switch: {}, light: {}}\nenvironment: {press: {to: switch}}\n"
            "channels: {wire: {from: switch, to: light, kind: mailbox}}\n"
        ),
        "messages.yaml": "messages: {turn: {from: switch, to: light}, burn: {from: switch, to: light}}\n",
        "roles/light.yaml": "role: light\nstates: {off: {initial: true, on: {turn: {to: off}, burn: {to: off}}}}\n",
        "roles/switch.yaml": (
            "role: switch\ndata: {p: bool, q: bool}\nevents: {press: Somebody presses it.}\nstates:\n"
            '  down: {initial: true, on: {press: {to: up, set: {p: "not p", q: "not q"}}}}\n'
            "  up: {tasks: [one, two], on: {press: {to: down}}}\n"
            f"tasks:\n  one: {task('turn', first)}\n  two: {task('burn', second)}\n"
        ),
        "invariants.yaml": "properties: {some: {sometimes: switch.p}}\n",
    }
    return write(folder, files)


def negates_a_part(a: str, b: str) -> bool:
    """Returns whether a part of one condition is `not` and a part of the other; an `or` is a part as a whole."""
    return "" not in (a, b) and any(f"not {part}" in a.split(" and ") for part in b.split(" and "))


@pytest.mark.parametrize("words", [("when", "when"), ("only", "only"), ("when", "only"), ("only", "when")])
@pytest.mark.parametrize(("a", "b"), [*product(CONDITIONS, CONDITIONS)])
def test_sends_that_exclude_each_other(words: tuple[str, str], a: str, b: str, tmp_path: Path) -> None:
    folder = switch(tmp_path, {words[0]: a}, {words[1]: b})
    excluding = words[0] == words[1] and (negates_a_part(a, b) or negates_a_part(b, a))
    if excluding:
        load(folder)
    else:
        with pytest.raises(SpecError, match="LH409"):
            load(folder)
