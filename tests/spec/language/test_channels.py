"""Two channels from one role to another: what may be sent again is each channel's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.spec import SpecError, load
from tests.systems import files_of, write

KINDS = ("mailbox", "fifo")
ASKED = files_of("spec/language/systems/channels")
CLIENT = ASKED["roles/client.yaml"]
SERVER = ASKED["roles/server.yaml"]


def served(folder: Path, done: str, noted: str, tasks: str) -> Path:
    """The folder of a system in which a server answers over two channels of some kinds."""
    return write(folder / "served", {
        "system.yaml": f"""system: served
roles: {{client: {{instances: 2}}, server: {{}}}}
channels:
  asks: {{from: client, to: server, kind: fifo}}
  answers: {{from: server, to: client, kind: {done}}}
  notes: {{from: server, to: client, kind: {noted}, messages: [noted]}}
environment: {{go: {{to: client}}}}
""",
        "messages.yaml": """messages:
  ask: {from: client, to: server}
  done: {from: server, to: client, answer: true}
  noted: {from: server, to: client, answer: true}
""",
        "invariants.yaml": "properties: {ends: {sometimes: all(c.state == over for c in client)}}\n",
        "roles/client.yaml": CLIENT, "roles/server.yaml": SERVER.replace("TASKS", tasks),
    })  # fmt: skip


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
