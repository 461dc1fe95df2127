"""docs/howto/clients.md: its commands, run in the page's order against a holder with the page's file of clients.

Keys and fingerprints are others in each run, as in test_keys_page.py; so are ticks, and what a demand is charged for
that came some ticks later: numbers of three digits and more are not compared.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.impl.lease.fleet import TENANT, Fleet
from tests.tutorial.test_keys_page import KEY

PAGE = (Path(__file__).resolve().parents[2] / "docs/howto/clients.md").read_text()
BLOCK = re.compile(r"<!-- at client -->\n```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
(FILE,) = re.findall(r"<!-- the file -->\n```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
OTHER_EACH_TIME = re.compile(r"\b\d{3,}\b")


def put(text: str, meant: dict[str, str]) -> str:
    return KEY.sub(lambda found: meant.get(found[0], found[0]), text)


def said(folder: Path, words: str) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "leasehold", *shlex.split(words)],
        cwd=folder,
        env={**os.environ, "LEASEHOLD_AT": str(folder / "tenant.sock")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return re.sub(r" +$", "", done.stdout, flags=re.MULTILINE), done.returncode


@pytest.mark.long
def test_every_command_says_what_the_page_says(tmp_path: Path) -> None:
    keys: dict[str, str] = {}
    fleet = Fleet(tmp_path, units=4, tick_seconds=0.25)
    with fleet:
        for body in BLOCK.findall(PAGE):
            parts = re.split(r"^\$ leasehold (.*)\n", body, flags=re.MULTILINE)[1:]
            for command, told in zip(parts[::2], parts[1::2], strict=True):
                answer, code = said(tmp_path, command)
                for mine, theirs in zip(KEY.findall(told), KEY.findall(answer), strict=True):
                    keys.setdefault(mine, theirs)
                wanted = re.escape(OTHER_EACH_TIME.sub("N", put(told, keys))).replace(r"\.\.\.", ".*")
                assert re.fullmatch(wanted, OTHER_EACH_TIME.sub("N", answer)), (command, answer)
                assert code == (1 if told.startswith("leasehold: ") else 0), command
            if not (tmp_path / "clients.yaml").exists():
                (tmp_path / "clients.yaml").write_text(put(FILE, keys))
                (tmp_path / "clients.yaml").chmod(0o644)
                with (tmp_path / "tenant.yaml").open("a") as file:
                    file.write("clients: clients.yaml\n")
            fleet.kill(TENANT)  # a client's words survive that, between any two
            fleet.start(TENANT)
            fleet.await_ready(TENANT)
    fleet.end_units()


def test_every_block_is_run() -> None:
    assert PAGE.count("```") == 2 * (len(BLOCK.findall(PAGE)) + 1)
