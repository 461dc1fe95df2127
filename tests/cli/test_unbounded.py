"""Every verb that explores or proves names the channels that may grow without end."""

from pathlib import Path

from tests.cli.conftest import Run, as_json
from tests.spec.language.check.test_unbounded import FREE, WAITS, files
from tests.systems import write


def test_each_verb_names_them(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "pipes", files("fifo", "", FREE))
    words = "nothing bounds channel line: a/idle#go sends hello each time"
    assert words in run("explore", "pipes", "--max-states", "50").stdout
    assert "LH419: nothing bounds the channel `line`" in run("check", "pipes", "--max-states", "50").stdout
    assert "nothing bounds channel line" in run("prove", "pipes", "--no-search").stdout
    assert as_json(run("prove", "pipes", "--no-search", "--json"))["unbounded"][0] == "channel line"


def test_each_verb_says_what_a_fifo_and_a_bag_cannot_have(run: Run, tmp_path: Path) -> None:
    """A proof over a fifo has no crash in it, and a system with a bag does not run."""
    write(tmp_path / "pipes", files("fifo", "", WAITS))
    proved = [line for line in run("prove", "pipes").stdout.splitlines() if " proved " in line]
    assert proved
    assert all(line.rstrip().endswith("without crashes") for line in proved)
    assert "cannot run" not in run("check", "pipes", "--max-states", "50").stdout
    write(tmp_path / "bags", files("bag", "", WAITS))
    reasons = as_json(run("check", "bags", "--max-states", "50", "--json"))["why_not_run"]
    assert {one["code"] for one in reasons} == {"LH801"}
    words = f"cannot run: {len(reasons)} reason"
    assert words in run("check", "bags", "--max-states", "50").stdout
