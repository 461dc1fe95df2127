"""All readings in one report: of each verb the last, of this text before any older one."""

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.host.verdicts import ABOUT_ALL, KeptVerdicts, changed_constants, keep_verdicts, kept_verdicts
from leasehold.reports.page import page
from leasehold.reports.readings import COLUMNS, readings, readings_markdown
from leasehold.reports.write import write_report
from tests.cli.conftest import command
from tests.reports.browser import PROGRAM, Browser
from tests.systems import TESTS, load

SAGA = TESTS.parent / "examples" / "saga_mended"
NAME = "a_traveller_has_a_room"
OTHER = "0" * 64


def kept(verb: str, verdict: str, digest: str, setting: str = "", made: float = 1_900_000_000) -> KeptVerdicts:
    return KeptVerdicts(verb, digest, setting, made, {NAME: verdict, ABOUT_ALL: f"all of {verb}"})


def test_the_last_reading_of_this_text_counts() -> None:
    system = load(SAGA)
    runs = [
        kept("prove", "undecided", OTHER),
        kept("prove", "violated", system.digest, "n=3"),
        kept("prove", "proved", system.digest),
        kept("prove", "violated", system.digest),
        kept("crash", "exhausted", OTHER, "--faults crash=1"),
        kept("check", "exhausted", system.digest, "--fairness none"),
    ]
    found = {reading.verb: reading for reading in readings(system, "saga", runs)}
    assert list(found) == list(COLUMNS)
    assert (found["prove"].cell(NAME), found["prove"].current) == ("proved", True)
    assert (found["crash"].cell(NAME), found["crash"].current) == ("holds", False)
    assert found["check"].cell(NAME) == "holds"  # options are no constants
    assert found["verify"].run is None
    assert found["verify"].cell(NAME) == ""
    table = readings_markdown([*found.values()], [NAME])
    assert f"| `{NAME}` | holds | holds (older text) | proved |" in table
    assert "--faults crash=1; all of crash" in table
    assert "2030-03-17 17:46 UTC" in table


def test_other_constants_count_only_where_none_are_the_same() -> None:
    system = load("two_phase_commit", {"participants": 2})
    assert changed_constants(system) == ["participants=2"]
    of = [
        kept("prove", "violated", system.digest),
        kept("prove", "proved", system.digest, "participants=2 --no-faults"),
    ]
    assert readings(system, "commit", of)[2].cell(NAME) == "proved"
    assert readings(system, "commit", of[:1])[2].cell(NAME) == "violated"


def test_nothing_is_said_where_nothing_is_kept(tmp_path: Path) -> None:
    system = load(SAGA)
    none = readings(system, "saga", [])
    assert readings_markdown(none, [NAME]) == ""
    write_report(explore(system), tmp_path, ["markdown"], others=none)
    assert "## Readings" not in (tmp_path / "report.md").read_text()


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
def test_the_page_leads_to_the_evidence(tmp_path: Path) -> None:
    system = load(SAGA)
    keep_verdicts(SAGA, system, "prove", {NAME: "proved", ABOUT_ALL: "</script>"})
    file = tmp_path / "index.html"
    text = page(explore(system), others=readings(system, "saga", kept_verdicts(SAGA)))
    file.write_text(text, encoding="utf-8")
    with Browser(file, 390, 800) as browser:
        row = f"[...document.querySelectorAll('.readings tbody tr')].find((r) => r.innerText.includes('{NAME}'))"
        assert browser.run(f"{row}.innerText.split('\\t').map((w) => w.trim())")[1:] == ["✓ holds", "proved"]
        link = browser.run(f"{row}.querySelector('td:last-child a').getAttribute('href')")
        assert browser.run(f"document.querySelector('{link}').innerText") == "proved: </script>"
        assert "Not read yet: " in browser.run("document.getElementById('readings').innerText")
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.errors == []


@pytest.mark.long
def test_each_verb_keeps_what_it_has_found(tmp_path: Path) -> None:
    """One after the other on a small system; then the report has a column for each."""
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = tmp_path / "run"
    words = [
        ["check", str(SAGA)],
        ["crash", str(SAGA)],
        ["prove", str(SAGA)],
        ["mutate", str(SAGA), "--sample", "10"],
        ["crash", "real", str(SAGA)],
        ["up", str(SAGA), "--crash", "--seconds", "2", "--dir", str(run)],
        ["verify", str(run)],
        ["conform", str(run)],
    ]
    for verb in words:
        done = command(*verb, cwd=tmp_path, **home)
        assert done.returncode == 0, (verb, done.stdout, done.stderr)
    assert command("report", str(SAGA), "--out", "out", "--format", "markdown", cwd=tmp_path, **home).returncode == 0
    text = (tmp_path / "out/report.md").read_text()
    titles = [title for title, _ in COLUMNS.values()]
    assert f"| property | {' | '.join(titles)} |" in text
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `{NAME}`"))
    cells = [cell.strip() for cell in row.strip("|").split("|")][1:]
    assert cells[:3] == ["holds", "holds", "proved"]
    assert cells[4].endswith("cases")
    assert cells[5].split()[1].startswith("run")
