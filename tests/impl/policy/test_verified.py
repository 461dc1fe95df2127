"""Verdicts on handlers: on a digest of all that was tried, and asked for before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.policy.verified import HandlerVerdict, NotVerified, digest_of, require_verdict, write_verdict

SCRIPT = "#!/bin/sh\nexit 0\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "node.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (tmp_path / "own.py").write_text("class Own:\n    act = probe = close = None\n")
    return tmp_path


def command(**settings: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    return {"*": ("command", {"setup": "./node.sh up", "teardown": ["./node.sh", "down"], **settings})}


def passed(parts: Any, folder: Path, **more: Any) -> Path:
    given: dict[str, Any] = {"handler": "node", "passed": True, **more}
    return write_verdict(folder, HandlerVerdict(digest=digest_of(parts), **given))


def test_a_digest_is_that_of_the_settings_and_of_the_files_that_they_name(folder: Path) -> None:
    first = digest_of(command())
    assert len(first) == 64
    assert digest_of(command()) == first
    assert digest_of(command(), folder) == first
    others = [command(directory="units"), command(probe="./node.sh ask"), {"setup": command()["*"]}]
    assert len({first, *(digest_of(one) for one in others)}) == 4
    (folder / "node.sh").write_text(SCRIPT + "# another\n")
    assert digest_of(command()) != first


def test_a_digest_of_a_class_is_that_of_its_file(folder: Path) -> None:
    own = {"*": ("./own.py:Own", {})}
    first = digest_of(own)
    (folder / "own.py").write_text((folder / "own.py").read_text() + "\n")
    assert digest_of(own) != first
    built_in = {name: digest_of({"*": (name, {})}) for name in ("null", "process", "command")}
    assert len({*built_in.values()}) == 3


def test_a_program_that_is_found_by_its_name_and_a_file_among_its_words_count(folder: Path) -> None:
    parts = {"*": ("command", {"setup": "sh node.sh"})}
    first = digest_of(parts)
    (folder / "node.sh").write_text("exit 1\n")
    assert digest_of(parts) != first


def test_a_handler_that_has_passed_as_it_is_now_is_let_in(folder: Path) -> None:
    verdicts = folder / "verdicts"
    file = passed(command(), verdicts)
    assert file.name == f"{digest_of(command())}.json"
    assert require_verdict(verdicts, command(), "site").handler == "node"
    passed(command(), verdicts, sequences=5)  # in place of the first
    assert require_verdict(verdicts, command(), "site").sequences == 5
    assert len([*verdicts.iterdir()]) == 1


def test_a_handler_without_such_a_verdict_is_refused_with_the_remedy(folder: Path) -> None:
    verdicts = folder / "verdicts"
    with pytest.raises(
        NotVerified, match=r"was not verified as it is now: .*verdicts has no verdict on .*leasehold harn"
    ):
        require_verdict(verdicts, command(), "site")
    file = passed(command(), verdicts, passed=False, found=("leak", "stuck"))
    with pytest.raises(NotVerified, match=r"the handler of site failed when it was verified \(leak, stuck\); mend it"):
        require_verdict(verdicts, command(), "site")
    passed(command(), verdicts)
    (folder / "node.sh").write_text(SCRIPT + "\n")
    with pytest.raises(NotVerified, match="was not verified as it is now"):
        require_verdict(verdicts, command(), "site")
    other = verdicts / f"{digest_of(command())}.json"
    file.rename(other)
    with pytest.raises(NotVerified, match=r"is a verdict on another handler"):
        require_verdict(verdicts, command(), "site")
    for content in ("", "{", json.dumps({"passed": True}), json.dumps([1]), '{"passed": 1}'):
        other.write_text(content)
        with pytest.raises(NotVerified, match="is no verdict that can be read"):
            require_verdict(verdicts, command(), "site")
