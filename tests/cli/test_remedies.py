"""Remedies in messages name what there is: verbs, and options of these verbs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from leasehold.cli.main import cli
from leasehold.impl.server.control import DEMANDS
from tests.test_repository import LAYERS, ROOT

PART = "\0"  # in place of what a message fills in
QUOTED = re.compile("`leasehold [a-z]")
NAMED = re.compile(r"leasehold ([a-z][a-z-]*)((?: (?:--[a-z-]+|[A-Z0-9.\0:/=-]+|[a-z]+\.yaml))*)")
ELSEWHERE = {"checker/verify/schema.py"}  # SQL text, `leasehold` is a schema there


def texts(path: Path, word: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The texts of a module that has a word, each with its line; what is filled in has a letter of its own."""
    if not word.search(body := path.read_text()):
        return
    tree = ast.parse(body)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else PART for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def wrong_in(text: str) -> list[str]:
    """The verbs, and options of verbs, that a text names in backticks and that there are not."""
    found = []
    for quoted in re.findall(r"`([^`\n]*)`", text):
        if (named := NAMED.match(quoted)) is None:
            continue
        verb, options = named[1], re.findall(r"--[a-z-]+", quoted)
        command = cli.get_command(click.Context(cli), verb)
        if command is None:
            found.append(quoted)
            continue
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        found += [f"{quoted}: {option}" for option in options if option not in {*known, "--help"}]
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_every_verb_that_a_message_names_is_there(layer: str) -> None:
    files = [path for path in (ROOT / layer).rglob("*.py") if str(path.relative_to(ROOT)) not in ELSEWHERE]
    found = [
        (str(path.relative_to(ROOT)), line, wrong_in(text)) for path in files for line, text in texts(path, QUOTED)
    ]
    found += [(str(path), 0, wrong_in(path.read_text())) for path in (ROOT / layer).rglob("*.yaml")]
    assert [one for one in found if one[2]] == []


def test_no_message_tells_a_client_to_do_what_is_no_verb() -> None:
    """What a policy calls a command is not always what the command line calls it: `prolong` is `extend --until`."""
    inner = [name for name in DEMANDS if name not in cli.places]
    assert sorted(inner) == ["flex", "prolong", "stop"]
    told = re.compile(rf"[;,:] (to [^,;\"]+, )?({'|'.join(inner)}) (it|the (demand|lease))\b")
    paths = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    found = [(str(path.relative_to(ROOT)), *one) for path in paths for one in texts(path, told)]
    assert [one for one in found if told.search(one[2]) and "\n" not in one[2]] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("say `leasehold close \0`", []),
        ("say `leasehold cloze \0`", ["leasehold cloze \0"]),
        ("`leasehold extend \0 --until ...`", []),
        ("`leasehold extend \0 --till 2h`", ["leasehold extend \0 --till 2h: --till"]),
        ("`leasehold.impl` and leasehold stops", []),
    ],
)
def test_what_the_test_above_would_find(text: str, wrong: list[str]) -> None:
    assert wrong_in(text) == wrong
