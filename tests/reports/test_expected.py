"""Every file of a report, whole, as it stands in expected/: of votes, and of a path in which every kind of step occurs.

`python tests/reports/test_expected.py` rewrites them; read the difference before you keep it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from leasehold.checker.crash.analysis import crash
from leasehold.checker.explore import Exploration, Snapshot, explore
from leasehold.checker.explore.result import Driven, Path, Sent
from leasehold.faults.model import Budget
from leasehold.reports.coverage import coverage_data
from leasehold.reports.crash import crash_json, crash_markdown
from leasehold.reports.dot import product_dot, role_dot
from leasehold.reports.json_report import dumps, json_report, path_json
from leasehold.reports.junit import junit
from leasehold.reports.lifelines import path_svg
from leasehold.reports.markdown import markdown
from leasehold.reports.mermaid import path_mermaid, role_mermaid
from leasehold.reports.page import page_data
from leasehold.reports.product import product
from leasehold.reports.recovery import processes_json, random_json, recovery_html, recovery_json
from leasehold.reports.sarif import sarif
from leasehold.reports.story import story_lines
from leasehold.reports.trace import trace_text
from leasehold.reports.verification import verification_junit, violation_text, violations_html
from leasehold.spec.language.load import load
from tests.reports import samples
from tests.reports.conftest import VOTES, step
from tests.systems import load as shipped

EXPECTED = FilePath(__file__).parent / "expected"
FEWER = 6  # control states that are told to be reached without faults, so that the others need one


def made() -> Iterator[tuple[str, str]]:
    """Yields name and content of each file."""
    votes = explore(load(VOTES))
    found = replace(votes, seconds=1.5, peak_memory_bytes=7_000_000)
    legal = explore(load(VOTES, {"losses": 0}))
    legal = replace(legal, cells=legal.cells[:FEWER])
    files = {
        "report.json": dumps(json_report(found, legal)),
        "page.json": dumps({**page_data(found, legal, measured=False), "steps": "...", "graph": "..."}),
        "report.md": markdown(found, legal, crashes="crash.md"),
        "product.dot": product_dot(product(found, legal)),
        "junit.xml": junit(found),
        "report.sarif": dumps(sarif(found)),
        **{f"{role.name}.dot": role_dot(role) for role in found.system.roles.values()},
        **{f"{role.name}.mmd": role_mermaid(role) for role in found.system.roles.values()},
    }
    for path, name in ((faulty(), "faulty"), (replace(faulty(), loop=3), "loop"), (_path(votes), "votes")):
        files[f"{name}_path.txt"] = trace_text(path)
        files[f"{name}_brief.txt"] = trace_text(path, brief=True)
        files[f"{name}_path.mmd"] = path_mermaid(path)
        files[f"{name}_path.svg"] = path_svg(path, name)
    files["faulty_path.json"] = dumps(path_json(faulty()))
    report = crash(shipped("two_phase_commit", {"participants": 1}), Budget(crash=1))
    files["crash.md"] = crash_markdown(report, drawing="worst.svg")
    files["crash.json"] = dumps({**crash_json(report, measured=False), "worst_path": "..."})
    files |= _by_hand(votes)
    for name, content in files.items():
        yield name, content.replace(VOTES.as_uri(), "VOTES").replace(str(VOTES), "VOTES")


def _by_hand(votes: Exploration) -> dict[str, str]:
    """Returns the reports of what samples.py has."""
    every, proof = samples.every_verdict(votes)
    told = samples.history(votes)
    texts = [violation_text(violation) for violation in told.violations]
    commit = shipped("two_phase_commit", {"participants": 2})
    explored = explore(commit)
    product_cells = [cell.control for cell in explored.cells]
    coverage, conformance = samples.coverage(commit, product_cells)
    states = [list(role.states) for role in (commit.roles[name] for name in commit.product)]
    generic = samples.recovery(
        commit,
        {(states[0][n], *[states[1][m]] * 2): [n + m + 1, m % 2] for n, m in ((2, 1), (0, 0), (1, 1), (0, 2))},
        {"as in the model": 3, "over": 1000},
    )
    lease = shipped("lease", {"max_units": 1, "last_end": 1})
    places = {("nascent", "nascent", "nascent"): [5, 0], ("closed", "nascent", "closed"): [6, 2]}
    return {
        "every_verdict.json": dumps(json_report(every, measured=False, proof=proof)),
        "every_verdict_bare.json": dumps(json_report(replace(every, orbits=None), paths=False, cells=False)),
        "every_verdict.md": markdown(every),
        "every_verdict.xml": junit(every),
        "every_verdict.sarif": dumps(sarif(every)),
        "story.txt": "\n".join(story_lines(samples.story())),
        "verification.xml": verification_junit(
            "votes", "abc", ["all_are_heard", "flies", "fine"], told, 1.5, [f"{n}: {t}" for n, t in enumerate(texts)]
        ),
        "verification.txt": "\n\n".join([*texts, violation_text(told.violations[0], 2, "  ")]),
        "verification.html": violations_html("vo<tes>", told, ["<svg/>"] * 3, texts),
        "coverage.json": dumps(coverage_data(explored, coverage, conformance)),
        "recovery.html": recovery_html(generic),
        "recovery.json": dumps([recovery_json(generic), recovery_json(generic, measured=False)]),
        "recovery_of_the_lease.html": recovery_html(samples.recovery(lease, places, {"same": 7, "ended": 2})),
        "recovery_of_the_lease.json": dumps(recovery_json(samples.recovery(lease, places, {"same": 7, "ended": 2}))),
        "random.json": dumps(random_json(commit, samples.random_runs(votes))),
        "processes.json": dumps(processes_json(commit, samples.processes())),
    }


def _path(found: Exploration) -> Path:
    (path,) = (p.path for p in found.properties if p.name == "is_carried")
    assert path is not None
    return path


def faulty() -> Path:
    """Returns a path with every kind of step: machines of two roles and a subsidiary one, and each fault."""
    control, number = {"a": "idle", "b[0]": "idle", "b[1]": "idle", "u": "off"}, 0
    titles: Mapping[str, str] = {}
    states = [Snapshot(dict(control), {"a.n": "0", "shared.turn": "b[0]"}, {}, 0)]

    def after(now: int = 0, on_way: Mapping[str, tuple[str, ...]] | None = None, **moved: str) -> Snapshot:
        nonlocal number
        number += 1
        control.update({{"b0": "b[0]", "b1": "b[1]"}.get(name, name): state for name, state in moved.items()})
        data = {"a.n": str(number // 3), "shared.turn": f"b[{number % 2}]"}
        channels = states[-1].channels if on_way is None else on_way
        states.append(Snapshot(dict(control), data, channels, now, titles))
        return states[-1]

    def taken(kind: str, machine: str | None, event: str, state: Snapshot, **more: object) -> None:
        steps.append(step(kind, machine, event, state, **more))

    steps: list[object] = []
    go = {"transition": "a/idle#go", "before": "idle", "after": "busy"}
    ask, tell = Sent("ask", "a", "b[1]", {"n": "1", "all": "{b[0], b[1]}"}), Sent("tell", "a", "u", {})
    taken(
        "local",
        "a",
        "go",
        after(a="busy", u="on", on_way={"c": ("ask(n=1)",), "d": ("tell", "tell")}),
        fields={"n": "1", "set": "{}"},
        **go,
        sent=(ask, tell),
        driven=(Driven("u", "turn", "off", "on"),),
    )
    taken("duplicate", "b[1]", "ask", after(on_way={"d": ("tell",)}), fields={"n": "1"}, sender="a")
    taken("deliver", "b[1]", "ask", after(on_way={}, b1="told"), fields={"n": "1"}, sender="a", copied=True)
    taken(
        "deliver", "b[0]", "ask", after(b0="told"), sender="a", transition="b/idle#ask.2", before="idle", after="told"
    )
    taken("lose", "a", "answer", after(), sender="b[1]", fields={"ok": "true"})
    taken("tick", "a", "tick", after(now=1))
    taken("clock", None, "now 3", after(now=3))
    taken("crash", "a", "crash:a/busy#after-commit", after(now=3, a="down"), transition="a/busy#go", fields={"n": "2"})
    taken("crash", "b[0]", "crash:b/told#before-receive", after(now=3))
    titles = {"a": "busy + backup"}
    taken("recover", "a", "recover:a/busy", after(now=3, a="backup"), sent=(tell,))
    taken("retry", "a", "retry:ask", after(now=3, on_way={"c": ("ask",)}))
    taken("halt", "u", "halt:u/on", after(now=3))
    taken("partition", None, "a, u | b[0], b[1]", after(now=3))
    taken("heal", None, "whole again", after(now=3))
    taken("skew", None, "the clock of a is 1 ahead", after(now=3))
    taken("eclipse", "a", "sun", after(now=3))
    return Path(states[0], tuple(steps))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return dict(made())


@pytest.mark.parametrize("name", sorted(path.name for path in EXPECTED.iterdir()) if EXPECTED.exists() else [])
def test_a_file_is_as_it_stands_here(name: str, files: dict[str, str]) -> None:
    assert files[name] == (EXPECTED / name).read_text(encoding="utf-8")


def test_each_file_stands_here(files: dict[str, str]) -> None:
    assert files.keys() == {path.name for path in EXPECTED.iterdir()}


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    for old in EXPECTED.iterdir():
        old.unlink()
    for name, content in made():
        (EXPECTED / name).write_text(content, encoding="utf-8")
