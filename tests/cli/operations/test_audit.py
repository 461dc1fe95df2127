"""The audit trail of actions."""

import json
import os
from io import StringIO
from pathlib import Path

import pytest

from leasehold.cli.operations.audit import AuditTrail


def test_a_line_says_who_did_what_to_which_and_the_outcome(tmp_path: Path) -> None:
    stream, file = StringIO(), tmp_path / "audit.jsonl"
    file.write_text("before\n")
    file.chmod(0o644)
    trail = AuditTrail(file, stream)
    trail.write(1, 2, "close", 'tenant:1\n{"action": "forged"}', "intended")
    trail.write(1, 2, "close", "tenant:1", "done", "active -> closing")
    before, *lines = file.read_text().splitlines()
    assert before == "before"
    assert lines == stream.getvalue().splitlines()
    first, second = map(json.loads, lines)
    assert first.keys() == {"time", "who", "number", "action", "target", "outcome", "words"}
    assert first["target"] == 'tenant:1\n{"action": "forged"}'
    assert (second["outcome"], second["words"]) == ("done", "active -> closing")
    assert first["who"] == second["who"] == {"user": trail.user, "session": 2}
    assert trail.user
    assert file.stat().st_mode & 0o777 == 0o600


def test_its_user_is_the_one_of_the_process_and_not_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    user = AuditTrail(None).user
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert AuditTrail(None).user == user


REFUSED = {
    "folder": "Is a directory",
    "link": "Too many levels of symbolic links",
    "pipe": "No such device or address",  # nobody reads it
    "nowhere": "No such file or directory",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_place_that_is_no_plain_file_is_refused_as_it_begins(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "audit"
    if kind == "folder":
        place.mkdir()
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place = place / "missing"
    with pytest.raises(OSError, match=REFUSED[kind]):
        AuditTrail(place)
    assert not (tmp_path / "elsewhere").exists()
