"""Two channels from one role to another: what may be sent again is each channel's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.spec import SpecError, load
from tests.systems import edited, files_of, write

KINDS = ("mailbox", "fifo")


def served(folder: Path, done: str, noted: str, tasks: str) -> Path:
    """The folder of a system in which a server answers over two channels of some kinds."""
    kinds = ("answers: {from: server, to: client, kind: mailbox", f"answers: {{from: server, to: client, kind: {done}")
    notes = ("kind: fifo, messages: [noted]", f"kind: {noted}, messages: [noted]")
    return write(
        folder / "served", edited(files_of("spec/language/systems/channels"), kinds, notes, ("tell, note", tasks))
    )


@pytest.mark.parametrize("noted", KINDS)
@pytest.mark.parametrize("done", KINDS)
def test_a_state_sends_one_message_over_mailboxes(done: str, noted: str, tmp_path: Path) -> None:
    folder = served(tmp_path, done, noted, "tell, note")
    if (done, noted) == ("mailbox", "mailbox"):
        with pytest.raises(SpecError, match="LH409"):
            load(folder)
        return
    kept = {name for name, datum in load(folder).roles["server"].data.items() if datum.captured}
    assert kept == {f"{task}__sender" for task, kind in (("tell", done), ("note", noted)) if kind == "mailbox"}
