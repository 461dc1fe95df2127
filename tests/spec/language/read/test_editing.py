"""Edits of YAML text: what is edited means what it should, and every other character stands where it stood."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import yaml

from leasehold.spec.language.read.editing import CannotEdit, YamlEditor


def added(text: str) -> str:
    editor = YamlEditor(text)
    editor.add(("runs",), "new", {"set": {"a": 1}, "depth": 3})
    return editor.text


def removed(text: str, key: str) -> str:
    editor = YamlEditor(text)
    editor.remove(("r",), key)
    return editor.text


NEW = "new: {set: {a: 1}, depth: 3}"
BLOCK = "  new:\n    set: {a: 1}\n    depth: 3\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("runs: {}  # none\nb: 1\n", f"runs:  # none\n{BLOCK}b: 1\n"),
        ("runs:\n# c\nb: 1\n", f"runs:\n{BLOCK}# c\nb: 1\n"),
        ("{runs: {one: {depth: 1}}}\n", f"{{runs: {{one: {{depth: 1}}, {NEW}}}}}\n"),
        ("{runs: {}}", f"{{runs: {{{NEW}}}}}"),
        ("{runs: }\n", f"{{runs: {{{NEW}}}}}\n"),
        ("{runs}\n", f"{{runs: {{{NEW}}}}}\n"),
        ("runs:\n  one: {depth: 1}", f"runs:\n  one: {{depth: 1}}\n{BLOCK}"),
        ("runs:\n  one: 1 # c\n  # of one\n\n# d\n", f"runs:\n  one: 1 # c\n  # of one\n{BLOCK}\n# d\n"),
        ("runs:\n  one: |\n    x\n\nb: 1\n", f"runs:\n  one: |\n    x\n{BLOCK}\nb: 1\n"),
        ("runs: {\n  one: {}, # c\n  two: 2  # d\n}\n", f"runs: {{\n  one: {{}}, # c\n  two: 2,  # d\n  {NEW}\n}}\n"),
        ("runs: {\n  one: 1,\n  two: 2,  # d\n}\n", f"runs: {{\n  one: 1,\n  two: 2,  # d\n  {NEW},\n}}\n"),
        ("runs: {one: 1,\n       two: 2}\n", f"runs: {{one: 1,\n       two: 2,\n       {NEW}}}\n"),
        ("runs:\r\n  one: 1\r\n", f"runs:\r\n  one: 1\r\n{BLOCK}".replace("\r", "").replace("\n", "\r\n")),
        ("\ufeffruns: {one: 1}\n", f"\ufeffruns: {{one: 1, {NEW}}}\n"),
        ("runs: {one: 'it''s, {odd}'}\n", f"runs: {{one: 'it''s, {{odd}}', {NEW}}}\n"),
    ],
)
def test_an_entry_comes_behind_the_others_in_their_style(before: str, after: str) -> None:
    assert added(before) == after


def test_an_entry_in_braces_begins_a_line_where_the_line_is_full() -> None:
    long = f"runs: {{one: {'x' * 100}}}\n"
    assert added(long) == f"{long[:-2]},\n       {NEW}}}\n"


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("r: {a: 1, b: 2}\n", "a", "r: {b: 2}\n"),
        ("r: {a: 1, b: 2}\n", "b", "r: {a: 1}\n"),
        ("r: {a: '1, 2', b: {c: 3, d: 4}, e: 5}\n", "b", "r: {a: '1, 2', e: 5}\n"),
        ("r: {\n  a: 1,  # A\n  # B\n  b: 2\n}\n", "a", "r: {\n  # B\n  b: 2\n}\n"),
        ("r: {\n  a: 1,  # A\n  # B\n  b: 2\n}\n", "b", "r: {\n  a: 1  # A\n  # B\n}\n"),
        ("r:\n  a: 1  # A\n  b:\n    - 2\n    - 3  # B\n# C\n", "b", "r:\n  a: 1  # A\n# C\n"),
        ("r:\n  'a' : >\n    1,\n    2\n  b: 3\n", "a", "r:\n  b: 3\n"),
    ],
)
def test_an_entry_goes_with_its_lines_and_its_comma(before: str, key: str, after: str) -> None:
    assert removed(before, key) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: 1  # one\n", "a: 23  # one\n"),
        ("{b: 2, a: '1'}\n", "{b: 2, a: 23}\n"),
        ("a: |\n  1\nb: 2\n", "a: 23\nb: 2\n"),
    ],
)
def test_a_text_gives_its_place_to_another(before: str, after: str) -> None:
    editor = YamlEditor(before)
    editor.replace(("a",), 23)
    assert editor.text == after


def test_a_word_is_written_where_the_other_stands_and_nowhere_else() -> None:
    editor = YamlEditor("a: 'lamb'\nb: lamb > lambda\n")
    editor.substitute(1, 4, "lamb", "lamp")
    editor.substitute(2, 4, "lamb", "lamp")
    assert editor.text == "a: 'lamp'\nb: lamp > lambda\n"
    for line, column in ((2, 11), (1, 1), (9, 1)):
        with pytest.raises(CannotEdit, match="write `lamp` for `lamb` by hand"):
            editor.substitute(line, column, "lamb", "lamp")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("r:\n  ? a\n  : 1\n  ? b\n  : 2\n", "line 2: take a out by hand"),
        ("r: {a: 1}\n", "line 1: take a out by hand, as nothing is left there"),
        ("r:\n- a: 1\n", "there is no r.a"),
        ("r: {a: 1, a: 2, b: 3}\n", "a key stands twice"),
        ("r: [\n", "it is not YAML"),
    ],
)
def test_what_is_not_edited_is_told(text: str, message: str) -> None:
    with pytest.raises(CannotEdit, match=message):
        removed(text, "a")
    with pytest.raises(CannotEdit, match=r"by hand|not YAML"):
        added(text)


# Layouts by chance


def laid_out(data: dict[str, object], chance: random.Random, indent: int) -> str:
    """A mapping in a layout by chance: blocks, braces, quotes, comments with a number each, empty lines.

    A comment may have a line of its own, above the entry that it is about.
    """
    if not data or chance.random() < 0.35:
        return " " + braces(data, chance, indent) + comment(chance) + "\n"
    lines = comment(chance) + "\n"
    for key, value in data.items():
        lines += " " * indent + f"# about {key} {chance.randrange(10**6)}\n" if chance.random() < 0.15 else ""
        lead = " " * indent + (f'"{key}"' if chance.random() < 0.2 else key)
        if isinstance(value, dict):
            lines += f"{lead}:{laid_out(value, chance, indent + chance.choice((1, 2, 4)))}"
        elif chance.random() < 0.2:
            lines += f"{lead}: |-\n{' ' * indent}  {value}\n"
        else:
            lines += f"{lead}: {value}{comment(chance)}\n"
        lines += "\n" * (chance.random() < 0.1)
    return lines


def braces(data: dict[str, object], chance: random.Random, indent: int) -> str:
    broken = bool(data) and chance.random() < 0.5
    parts = [
        f"{key}: {braces(value, chance, indent + 2) if isinstance(value, dict) else value}"
        for key, value in data.items()
    ]
    if not broken:
        return "{" + ", ".join(parts) + "}"
    ends = [*("," for _ in parts[:-1]), chance.choice((",", ""))]
    lead = "\n" + " " * (indent + 1)
    return "{" + "".join(f"{lead}{p}{end}{comment(chance)}" for p, end in zip(parts, ends, strict=True)) + f"{lead}}}"


def comment(chance: random.Random) -> str:
    return f"  # note {chance.randrange(10**6)}, and {{more}}" if chance.random() < 0.3 else ""


def in_place(text: str) -> set[str]:
    """The comments on lines of their own that are above what they are about: an entry, or the end of the file."""
    found, lines = set[str](), text.splitlines()
    for n, line in enumerate(lines):
        below = (other.strip() for other in lines[n + 1 :] if other.strip() and not other.lstrip().startswith("#"))
        key = next(below, "").partition(":")[0].strip('"')
        if line.lstrip().startswith(f"# about {key} " if key else "# end"):
            found.add(line)
    return found


def some_data(chance: random.Random, depth: int) -> dict[str, object]:
    return {
        f"k{n}": some_data(chance, depth - 1) if depth and chance.random() < 0.5 else str(chance.randrange(99))
        for n in range(chance.randrange(0 if depth < 2 else 1, 5))
    }


def mappings(
    data: dict[str, object], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    yield path, data
    for key, value in data.items():
        if isinstance(value, dict):
            yield from mappings(value, (*path, key))


@pytest.mark.parametrize("seed", range(300))
def test_any_layout_is_edited_and_keeps_its_comments(seed: int) -> None:
    """`pytest -k 'layout and [SEED]'` repeats one."""
    chance = random.Random(seed)
    data = some_data(chance, 3)
    text = laid_out(data, chance, 0).lstrip() + "# end of the file\n" * (chance.random() < 0.3)
    assert yaml.load(text, yaml.BaseLoader) == data
    for n in range(4):
        editor = YamlEditor(text)
        path, of = chance.choice([*mappings(data)])
        before, gone_with = in_place(text), ""
        words = [key for key, value in of.items() if not isinstance(value, dict)]
        match chance.choice(("add", "remove", "replace")):
            case "remove" if len(of) > 1 and words:
                gone_with = chance.choice(words)
                gone = editor.text
                editor.remove(path, gone_with)
                del of[gone_with]
                assert len(gone.split("# note")) - len(editor.text.split("# note")) in (0, 1)
            case "replace" if words:
                key = chance.choice(words)
                editor.replace((*path, key), 1234)
                of[key] = "1234"
                assert editor.text.count("# note") == text.count("# note")
            case _:
                editor.add(path, f"new{n}", {"a": 1, "b": {"c": 2}})
                of[f"new{n}"] = {"a": "1", "b": {"c": "2"}}
                assert editor.text.count("# note") == text.count("# note")
        text = editor.text
        assert not {line for line in before - in_place(text) if f"# about {gone_with} " not in line}
        assert yaml.load(text, yaml.BaseLoader) == data
