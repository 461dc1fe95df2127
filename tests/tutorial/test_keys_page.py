"""docs/howto/keys.md: its commands, run in the page's order on three "machines", say what the page says.

A block of commands stands below the name of its machine, which is a folder here. Keys, fingerprints and ends of keys
are others in each run: the first time that the page shows one, it is taken to stand for what the command has said, and
from then on it always does, in the commands too.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/howto/keys.md").read_text()
BLOCK = re.compile(r"<!-- at (\w+) -->\n```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
KEY = re.compile(r"ed25519:[\w-]{43}|\b[0-9a-f]{32}\b")
OTHER_EACH_TIME = re.compile(KEY.pattern + r"|\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def put(text: str, meant: dict[str, str]) -> str:
    return OTHER_EACH_TIME.sub(lambda found: meant.get(found[0], found[0]), text)


@pytest.mark.long
def test_every_command_says_what_the_page_says(tmp_path: Path) -> None:
    keys: dict[str, str] = {}  # the same on all machines
    moments: dict[str, dict[str, str]] = {}  # by machine: two may write the same moment on the page, and others here
    for machine, body in BLOCK.findall(PAGE):
        (tmp_path / machine).mkdir(exist_ok=True)
        here = moments.setdefault(machine, {})
        parts = re.split(r"^\$ leasehold (.*)\n", body, flags=re.MULTILINE)[1:]
        for command, told in zip(parts[::2], parts[1::2], strict=True):
            done = subprocess.run(
                [sys.executable, "-m", "leasehold", *shlex.split(put(command, {**keys, **here}))],
                cwd=tmp_path / machine,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=60,
                check=False,
            )
            said = re.sub(r" +$", "", done.stdout, flags=re.MULTILINE)
            for mine, theirs in zip(OTHER_EACH_TIME.findall(told), OTHER_EACH_TIME.findall(said), strict=True):
                (keys if KEY.fullmatch(mine) else here).setdefault(mine, theirs)
            assert said == put(told, {**keys, **here}), command
            assert done.returncode == (2 if told.startswith("leasehold: ") else 0), command
    assert len(set(keys.values())) == len(keys) == 8, (
        "four keys and their fingerprints: two that differ on the page differ here"
    )


def test_every_command_is_run() -> None:
    assert PAGE.count("\n$ ") == sum(body.count("$ leasehold ") for _, body in BLOCK.findall(PAGE))
    assert PAGE.count("```") == 2 * len(BLOCK.findall(PAGE))
