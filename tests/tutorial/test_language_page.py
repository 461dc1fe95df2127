"""docs/reference/language.md: its system loads and holds, its excerpts are real, its expressions have their values.

The excerpts in docs/howto/ are held to their files too.
"""

import re
from pathlib import Path
from typing import get_args

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.spec import SpecError, load
from leasehold.spec.language.model import PropertyKind
from leasehold.spec.language.read import shape
from leasehold.spec.language.typing.infer import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/language.md").read_text()
FILES = re.findall(r"<!-- file (\S+) -->\n```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
HOWTO = "".join(path.read_text() for path in sorted((ROOT / "docs/howto").glob("*.md")))
EXCERPT = re.compile(r"<!-- from (\S+) -->\n```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXCERPTS = EXCERPT.findall(PAGE)
EXPRESSIONS = re.findall(r"^(.*?) +-> (.*)$", PAGE[PAGE.index("<!-- expressions -->") :].split("```")[1], re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_block_is_one_that_is_tested() -> None:
    assert PAGE.count("```yaml") == len(FILES) + len(EXCERPTS)
    assert {name for name, _ in FILES} >= {"system.yaml", "messages.yaml", "invariants.yaml"}


def test_the_system_holds(folder: Path) -> None:
    system = load(folder)
    assert system.warnings == ()
    found = explore(system)
    assert found.complete
    assert {p.name: p.verdict for p in found.properties if p.verdict not in ("exhausted", "witnessed")} == {}
    assert (found.unvisited_transitions, found.vacuous) == ((), ())


@pytest.mark.parametrize(("file", "text"), [*EXCERPTS, *EXCERPT.findall(HOWTO)])
def test_an_excerpt_is_real(file: str, text: str) -> None:
    assert text in (ROOT / file).read_text()


def test_an_excerpt_is_of_a_system_that_loads() -> None:
    for file, _ in EXCERPTS:
        load(ROOT / "/".join(file.split("/")[:3]))


@pytest.mark.parametrize(("expression", "value"), EXPRESSIONS)
def test_an_expression_has_its_value(expression: str, value: str, folder: Path) -> None:
    (folder / "invariants.yaml").write_text(f'properties: {{it_is: {{always: "({expression}) == {value}"}}}}\n')
    (found,) = explore(load(folder), Limits(depth=0)).properties
    assert found.verdict == "bounded"


def test_every_function_is_described(folder: Path) -> None:
    (folder / "invariants.yaml").write_text("properties: {it_is: {always: no_such(1)}}\n")
    with pytest.raises(SpecError) as error:
        load(folder)
    assert f"functions: {', '.join(FUNCTIONS)}" in str(error.value)
    assert [name for name in FUNCTIONS if f"`{name}`" not in PAGE and f"{name}(" not in PAGE] == []


def test_every_claim_and_every_fault_is_described() -> None:
    claims = (*get_args(PropertyKind), "within", "when", "for")
    assert [c for c in claims if c not in shape.record("a property").keys or f"`{c}" not in PAGE] == []
    assert [
        f
        for f in ("lose", "duplicate", "reorder")
        if f not in shape.record("a channel").keys or f"`{f}: 1`" not in PAGE
    ] == []


def test_every_link_leads_somewhere() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    }
    assert [a for a in re.findall(r"\]\(#(\S+?)\)", PAGE) if a not in anchors] == []
