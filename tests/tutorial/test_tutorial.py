"""The tutorial says what its commands say, and every mistake in it is found."""

import re
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.spec import SpecError, load
from leasehold.spec.language.load import shipped_folder
from tests.tutorial import render

ROOT = Path(__file__).resolve().parents[2]


MISTAKES = render.mistakes()


def test_the_page_has_every_mistake() -> None:
    assert re.findall(r"<!-- mistake (\S+) -->", render.PAGE.read_text()) == list(MISTAKES)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str, tmp_path: Path) -> None:
    mistake = MISTAKES[name]
    for path in shipped_folder("lease").rglob("*.yaml"):
        copy = tmp_path / path.relative_to(shipped_folder("lease"))
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    render.replace(tmp_path / mistake["file"], mistake["old"], mistake["new"])
    if mistake["finds"].startswith("LH"):
        with pytest.raises(SpecError) as error:
            load(tmp_path)
        assert {d.code for d in error.value.diagnostics} == {mistake["finds"]}
        return
    settings = dict(re.findall(r"--set (\w+)=(\w+)", _command(name)))
    found = explore(load(tmp_path, settings))
    judged = {p.name: p.verdict for p in found.properties}
    assert judged[mistake["finds"]] == "violated"
    sound = {p.name: p.verdict for p in explore(load("lease", settings)).properties}
    assert sound[mistake["finds"]] == "exhausted", "the property fails without the mistake"


def _command(name: str) -> str:
    page = render.PAGE.read_text()
    found = re.search(r"^\$ (.*)$", page[page.index(f"<!-- mistake {name} -->") :], re.MULTILINE)
    assert found
    return found[1]


def test_steps_that_the_text_names_are_those_of_the_path_above_it() -> None:
    named = 0
    for path, text in re.findall(r"```console\n(.*?)```\n\n(.*?)\n(?=\n|$)", render.PAGE.read_text(), re.DOTALL):
        steps = dict(re.findall(r"^ +(\d+)  (.*)$", path, re.MULTILINE))
        for clause, number in re.findall(r"([^.;:(]*)\((\d+)\)", text):
            assert number in steps, f"there is no step {number} above: {clause.strip()}"
            named += 1
    assert named > 5


def test_what_differs_between_runs_is_masked() -> None:
    words = "reference engine (no luck), 0.1 s, 23,184 states/s, 50 MB at most\nlocks  spec 0123456789ab"
    assert render.masked(words) == "ENGINE, TIME\nlocks  spec DIGEST"
