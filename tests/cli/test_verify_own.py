"""`leasehold verify`: properties, databases and sources of a user that are not as they should be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.cli.verify import verify
from tests.cli.test_verify import SETTINGS, _files

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "verify.md"
SELECT = "SELECT cut.run, cut.number AS cut FROM cut WHERE cut.entry > :checked"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(file) for file in _files(tmp_path_factory.mktemp("own"))]


def told(files: list[str], *words: object) -> tuple[int, str]:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    result = CliRunner().invoke(verify, [*files, *settings, "--property", "quarantine", *map(str, words)])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT 'x' AS run, 1 AS cut FROM cut WHERE cut.entry > :checked",
            "it yields run 'x' and cut 1, and there is",
        ),
        ("SELECT 9999 AS run, 1 AS cut FROM cut WHERE cut.entry > :checked", "it yields run 9999 and cut 1, and"),
        ("SELECT run FROM cut WHERE cut.entry > :checked", "it yields 1 column, and two are asked for"),
        (
            SELECT.replace("FROM cut", "FROM cuts"),
            "(tables: run, cut, service_manager, broker, authority, unit, guest, ",
        ),
        ("", "it is empty; a property is a query"),
    ],
)
def test_a_query_that_yields_no_cuts_is_2_and_says_what_is_wrong(
    files: list[str], tmp_path: Path, query: str, said: str
) -> None:
    (tmp_path / "own.sql").write_text(query)
    code, output = told(files, "--query", tmp_path / "own.sql")
    assert (code, said in output, "own.sql: " in output) == (2, True, True), output


def test_the_query_of_the_page_is_one(files: list[str], tmp_path: Path) -> None:
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "few_units.sql").write_text(query.replace("> 2", ">= 0"))
    code, output = told(files, "--query", tmp_path / "few_units.sql")
    assert (code, "few_units is violated in " in output) == (1, True), output
    assert "No broker has more than two units to give." in output


def test_why_a_property_of_ones_own_is_not_asked_is_said(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("properties: {may_end: {always_possible: broker.state == closed}}\n")
    code, output = told(files, "--property", "may_end", "--more", tmp_path / "own.yaml")
    assert code == 0
    assert "not asked: may_end: it says what can happen, and a run shows only what has happened" in output


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("watch.db", "'watch.db' is no kind of database; write sqlite:FILE, postgresql://... or mariadb://..."),
        ("sqlite:/nowhere/watch.db", "sqlite:/nowhere/watch.db: unable to open database file"),
    ],
)
def test_a_database_that_is_none_is_2(files: list[str], url: str, said: str) -> None:
    code, output = told(files, "--db", url)
    assert (code, said in output) == (2, True), output


def test_what_cannot_be_read_to_the_end_of_following_is_undecided(files: list[str], tmp_path: Path) -> None:
    """The actor does not run, and its store is gone."""
    site = tmp_path / "site.yaml"
    site.write_text(
        "name: site\nstore: sqlite:site.db\nlisten: http://127.0.0.1:1\nkey: site.key\ntrust: trust.yaml\n"
        "inventory: {units: [{name: u, count: 2}]}\n"
    )
    others = [file for file in files if not file.endswith("site.jsonl")]
    code, output = told([*others, str(site)], "--follow", "--for", "0")
    assert code == 3, output
    assert "what site may have done since cannot be read, so not all could be judged" in output
    result = CliRunner().invoke(verify, [str(site), "--property", "quarantine", "--follow", "--for", "0", "--json"])
    found = json.loads(result.stdout)
    assert (found["verdict"], found["holds"], [*found["unreachable"]]) == ("undecided", False, ["site"])
