"""Every verb that explores or proves names the channels that may grow without end."""

from pathlib import Path

from tests.cli.conftest import Run, as_json
from tests.spec.language.check.test_unbounded import FREE, files
from tests.systems import write


def test_each_verb_names_them(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "pipes", files("fifo", "", FREE))
    words = "nothing bounds channel line: a/idle#go sends hello each time"
    assert words in run("explore", "pipes", "--max-states", "50").stdout
    assert "LH419: nothing bounds the channel `line`" in run("check", "pipes", "--max-states", "50").stdout
    assert "nothing bounds channel line" in run("prove", "pipes", "--no-search").stdout
    assert as_json(run("prove", "pipes", "--no-search", "--json"))["unbounded"][0] == "channel line"
