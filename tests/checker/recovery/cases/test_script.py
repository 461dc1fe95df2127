"""Scripts of cases, as text: the way to the crash, the crash, what is under way then, and the way to the restart.

`python -m tests.checker.recovery.cases.test_script` rewrites scripts.txt; read the difference before you keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leasehold.checker.recovery.cases.steps import Script, ScriptStep
from tests.systems import lease_cases

FILE = Path(__file__).with_name("scripts.txt")
EVERY = 6  # one of so many scripts, and of each kind of point the first


def chosen() -> list[Script]:
    few = lease_cases(max_units=1, last_end=1, expiry=False)
    kinds = {script.point.partition("@")[0].partition("#")[2]: script for script in reversed(few)}
    return [script for n, script in enumerate(few) if n % EVERY == 0 or script in kinds.values()]


def value(one: Any) -> str:
    return f"{{{', '.join(map(str, sorted(one)))}}}" if isinstance(one, frozenset) else str(one)


def machine(one: tuple[str, int] | None) -> str:
    return "-" if one is None else one[0] if one[1] == 0 else f"{one[0]}[{one[1]}]"


def said(name: str, fields: Sequence[Any]) -> str:
    return f"{name}({', '.join(map(value, fields))})"


def words(step: ScriptStep) -> str:
    what = f"{step.kind} {machine(step.machine)}"
    if step.event:
        what += f" {said(step.event, step.fields)}"
    return what + (f" of {machine(step.sender)}" if step.sender else "")


def shown(script: Script) -> list[str]:
    stop, after = script.steps[script.at], script.steps[script.at + 1 :]
    under_way = ", ".join(f"{said(name, fields)} to {machine(to)}" for to, name, fields in stop.in_transit)
    return [
        script.name,
        f"  way: {'; '.join(words(step) for step in script.steps[: script.at]) or 'none'}",
        f"  stop: {words(stop)} at {stop.point}, done: {' '.join(stop.done) or 'nothing'}",
        f"  then: {'/'.join(stop.control)}, under way: {under_way or 'nothing'}",
        f"  back: {'; '.join(words(step) for step in after)}, {'/'.join(after[-1].control)}",
    ]


def text() -> str:
    return "".join("\n".join(shown(script)) + "\n" for script in chosen())


def test_scripts_are_those_of_the_file() -> None:
    found, kept = text().splitlines(), FILE.read_text(encoding="utf-8").splitlines()
    assert found == kept, f"{__doc__}"


def test_each_kind_of_point_is_in_the_file() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert len(lines) == 5 * len(heads)
    wheres = {head.partition("@")[0].partition("#")[2] for head in heads}
    assert wheres >= {"before-commit", "after-commit", "before-acknowledge", "recovering", "after-setup", "after-place"}
    assert {line.split()[1] for line in lines if line.startswith("  stop:")} == {"crash", "stillborn"}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
