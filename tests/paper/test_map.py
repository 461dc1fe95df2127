"""docs/paper.md has every section, figure and table of the paper, and names only files and tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs" / "paper.md"
TEXT = MAP.read_text()
ROWS = [[c.strip() for c in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| ")]

SECTIONS = re.findall(r"\S+", "1 2 2.1 2.2 2.3 3 3.1 3.2 3.3 3.4 3.5 4 4.1 4.2 4.2.1 4.3 4.3.1 4.3.2 4.3.3 4.4 6 7")
OTHER = [
    "### 5.1 ",
    "### 5.2 ",
    "### 5.3 ",
    "### 5.4 ",
    "### Table 1",
    "### Table 2",
    "Figure 1",
    "Figure 2",
    "Figure 3",
]


def test_every_section_has_a_row():
    named = {re.split(r"[:, ]", row[0])[0] for row in ROWS}
    assert [s for s in SECTIONS if s not in named] == []
    assert [o for o in OTHER if o not in TEXT] == []


def test_the_tables_have_all_their_rows():
    one, two = TEXT.split("### Table 1")[1].split("### 5.4")[0], TEXT.split("### Table 2")[1]
    assert re.findall(r"^\| (\d) ", one, re.MULTILINE) == list("123456789")
    assert re.findall(r"^\| (\d) ", two.split("\n## ")[0], re.MULTILINE) == list("12345")


def test_every_row_has_a_status():
    bad = [row for row in ROWS if row[-1] != "status" and not re.match(r"held|in the spec|open: |the same$", row[-1])]
    assert bad == []


def test_what_is_held_names_a_test():
    """A row that claims to be held names its test, but for Table 1, whose tests stand above it."""
    table_1 = TEXT.split("### Table 1")[1].split("### 5.4")[0]
    for row in ROWS:
        if row[-1].startswith("held") and not re.match(r"[1-9] \D", row[0]):
            assert "`test_" in " ".join(row), row
    assert "`test_what_breaks_the_rule_is_found`" in table_1


def test_files_exist():
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert links
    assert [link for link in links if not (MAP.parent / link).exists()] == []


def test_tests_exist():
    known = set()
    folders = [ROOT / "tests" / name for name in ("paper", "checker", "faults", "impl", "cli", "mutants", "traces")]
    for file in (file for folder in folders for file in folder.rglob("test_*.py")):
        known |= set(re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE))
    assert set(re.findall(r"`(test_\w+)`", TEXT)) - known == set()


def test_every_test_of_the_paper_is_in_the_map():
    mapped = set(re.findall(r"`(test_\w+)`", TEXT))
    missing = []
    for file in (ROOT / "tests" / "paper").glob("test_section_*.py"):
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE):
            if name not in mapped:
                missing.append(f"{file.name}::{name}")
    assert missing == []


def test_properties_exist(systems):
    properties = {name for s in systems.values() for name in s.properties}
    table_1 = TEXT.split("### Table 1")[1].split("### 5.4")[0]
    named = {name for line in table_1.splitlines() if re.match(r"\| \d", line) for name in re.findall(r"`(\w+)`", line)}
    assert named <= properties
