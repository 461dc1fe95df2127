"""The name at a place of a file: what it is, and where it is declared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leasehold.spec import SHIPPED, shipped_folder
from leasehold.spec.language.expression import OF_MESSAGES
from leasehold.spec.language.load import read
from leasehold.spec.language.read import shape
from leasehold.spec.language.symbols import WORDS, Symbol, SymbolTable
from leasehold.spec.language.typing.infer import traced
from tests.systems import edited, files_of, write

FILES = files_of("spec/language/systems/symbols")
NO_NAMES = {"int", "bool", "time", "opaque", "set", "map", "option", "default", "tick", "mailbox", "any", *OF_MESSAGES}


def table_of(folder: Path, earlier: SymbolTable | None = None) -> SymbolTable:
    with traced() as parts:
        reading = read(folder.resolve())
    return SymbolTable(reading, parts, earlier)


def cursor(marked: str, folder: Path) -> tuple[Path, int, int]:
    """The place in a file of a text in which `|` stands before a letter: `FILE: TEXT`."""
    file, _, text = marked.partition(": ")
    path = (folder / file).resolve()
    whole, before = path.read_text(encoding="utf-8"), text.index("|")
    assert whole.count(text.replace("|", "")) == 1, text
    offset = whole.index(text.replace("|", "")) + before
    return path, whole.count("\n", 0, offset) + 1, offset - whole.rfind("\n", 0, offset)


def symbol_at(marked: str, folder: Path, table: SymbolTable | None = None) -> Symbol | None:
    found = (table or table_of(folder)).at(*cursor(marked, folder))
    return None if found is None else found.symbol


@pytest.mark.parametrize(
    ("marked", "kind", "owner", "name", "line"),
    [
        ("roles/door.yaml: to: cl|osed", "state", "door", "closed", "roles/door.yaml:  closed:"),
        ("roles/door.yaml: [t|ell]", "task", "door", "tell", "roles/door.yaml:  tell: {send"),
        ("roles/door.yaml: ask|: {stay", "message", "", "ask", "messages.yaml:  ask:"),
        ("roles/door.yaml: pu|sh: {to", "event", "door", "push", "roles/door.yaml:  push:"),
        ("roles/door.yaml: |times: times + 1", "field", "door", "times", "roles/door.yaml:  times:"),
        ("roles/door.yaml: times: t|imes + 1", "field", "door", "times", "roles/door.yaml:  times:"),
        ("roles/door.yaml: event.f|orce", "field", "event door push", "force", "roles/door.yaml:      force:"),
        ("roles/door.yaml: msg.w|ho", "field", "message ask", "who", "messages.yaml:    fields: {who"),
        ("roles/door.yaml: when: h|ard(", "definition", "door", "hard", "roles/door.yaml:  hard(f)"),
        ("roles/door.yaml: f >= mo|st", "constant", "", "most", "system.yaml:  most:"),
        ("roles/door.yaml: == r|ed", "member", "colour", "red", "system.yaml:  colour:"),
        ("roles/door.yaml: type: c|olour", "type", "", "colour", "system.yaml:  colour:"),
        ("roles/door.yaml: to: v|isitor", "role", "", "visitor", "roles/visitor.yaml:role:"),
        ("roles/door.yaml: with: {o|pen", "field", "message say", "open", "messages.yaml:    fields: {open"),
        ("system.yaml: house: [d|oor", "role", "", "door", "roles/door.yaml:role:"),
        ("system.yaml: when: d|oor.state", "role", "", "door", "roles/door.yaml:role:"),
        ("system.yaml: == o|pen", "state", "door", "open", "roles/door.yaml:  open:"),
        ("system.yaml: event.fo|rce", "field", "event door push", "force", "roles/door.yaml:      force:"),
        ("invariants.yaml: door.t|imes", "field", "door", "times", "roles/door.yaml:  times:"),
        ("invariants.yaml: took(door.p|ush)", "event", "door", "push", "roles/door.yaml:  push:"),
        ("invariants.yaml: pending(s|ay)", "message", "", "say", "messages.yaml:  say:"),
        ("invariants.yaml: m.o|pen", "field", "message say", "open", "messages.yaml:    fields: {open"),
        ("invariants.yaml: heard(from_d|oor)", "channel", "", "from_door", "system.yaml:  from_door:"),
        ("invariants.yaml: bo|unded:", "property", "", "bounded", "invariants.yaml:  bounded:"),
        ("expected.yaml: b|ounded:", "property", "", "bounded", "invariants.yaml:  bounded:"),
        (
            "expected.yaml: door/op|en#push",
            "transition",
            "",
            "door/open#push",
            "roles/door.yaml:      push: {to: closed",
        ),
        ("expected.yaml: set: {m|ost", "constant", "", "most", "system.yaml:  most:"),
    ],
)
def test_a_name_leads_to_its_declaration(
    marked: str, kind: str, owner: str, name: str, line: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, FILES)
    symbol = symbol_at(marked, folder)
    assert symbol is not None
    assert (symbol.kind, symbol.owner, symbol.name) == (kind, owner, name)
    file, _, text = line.partition(":")
    assert Path(symbol.place.file) == (folder / file).resolve()
    assert (folder / file).read_text().splitlines()[symbol.place.line - 1].startswith(text)


@pytest.mark.parametrize("name", SHIPPED)
def test_each_name_of_a_shipped_system_leads_to_something(name: str) -> None:
    """Variables and parameters of expressions alone are declared where they stand."""
    table, lost, tried = table_of(shipped_folder(name)), set(), 0
    texts = (file.read_text() for file in shipped_folder(name).rglob("*.yaml"))
    heads = (head for text in texts for head in re.findall(r"^ +\w+\(([\w, ]+)\):", text, re.MULTILINE))
    parameters = {word for head in heads for word in head.split(", ")}
    for path in table.reading.files.trees:
        for slot in table.slots(path):
            text = slot.node.text
            if slot.kind in ("expression", "condition", "type", "target"):
                bound = {*re.findall(r"for (\w+) in", text), *"gsu", *parameters}
                text = text.partition("[")[0] if slot.kind == "target" else text  # which cell is not looked up yet
                words = [(w[0], w.start()) for w in re.finditer(r"[a-z_]\w*", text)]
                asked = [(w, at) for w, at in words if w not in bound and w not in WORDS and w not in NO_NAMES]
            elif slot.kind in shape.NAMES - {"name"} or slot.kind == "transition":
                asked = [(text, 0)] if text not in NO_NAMES else []
            else:
                continue
            for word, at in asked:
                place, tried = slot.node.inside(at), tried + 1
                if table.at(path, place.line, place.column) is None:
                    lost.add((word, text[:40]))
    assert tried > 50
    inside_definition = {word for word, text in lost if "guest[index(u)]" in text or text.startswith("all(not (old(u")}
    assert {word for word, _ in lost} <= inside_definition


def test_what_is_right_has_its_names_beside_what_is_wrong(tmp_path: Path) -> None:
    folder = write(tmp_path, edited(FILES, ("door.times <=", "door.tims <=")))
    table = table_of(folder)
    assert [d.code for d in table.reading.findings] == ["LH305"]
    symbol = symbol_at("invariants.yaml: took(door.p|ush)", folder, table)
    assert symbol is not None
    assert symbol.kind == "event"
    assert symbol_at("invariants.yaml: door.t|ims", folder, table) is None


def test_names_of_before_stand_where_a_file_cannot_be_read(tmp_path: Path) -> None:
    folder = write(tmp_path, FILES)
    before = table_of(folder)
    write(folder, edited(FILES, ("{open: bool}", "{open: [bool")))
    after = table_of(folder, before)
    assert after.reading.system is None
    symbol = symbol_at("roles/door.yaml: to: cl|osed", folder, after)
    assert symbol == before.find("state", "door", "closed")
    write(folder, edited(FILES, ("{open: bool}", "{open: [bool"), ("  closed:", "  shutup:")))
    assert symbol_at("roles/door.yaml:   shut|up:", folder, table_of(folder, before)) is None  # there it was another
    write(folder, FILES | {"roles/door.yaml": FILES["roles/door.yaml"] + "\n]"})
    path, line, column = cursor("roles/door.yaml: to: cl|osed", folder)
    assert table_of(folder, before).at(path, line, column) is None  # nobody knows where it stands


@pytest.mark.parametrize(
    ("marked", "names", "others"),
    [
        ("roles/door.yaml: to: |closed", {"open", "closed"}, {"inside", "tell", "most"}),
        ("roles/door.yaml: [|tell]", {"tell"}, {"knock", "open"}),
        ("roles/door.yaml: ask|: {stay", {"ask", "push"}, {"say", "enter"}),
        ("roles/door.yaml: event.f|orce", {"force"}, {"who", "times"}),
        ("roles/door.yaml: f >= |most", {"most", "times", "hard", "red", "not", "open"}, {"inside", "force"}),
        ("roles/door.yaml: with: {|open", {"open"}, {"who"}),
        ("roles/door.yaml: type: |colour", {"colour", "door"}, {"most"}),
        ("invariants.yaml: door.|times", {"times", "push", "ask"}, {"most", "who"}),
        ("invariants.yaml: bo|unded:", set(), {"bounded"}),
    ],
)
def test_the_names_that_may_stand_at_a_place(marked: str, names: set[str], others: set[str], tmp_path: Path) -> None:
    folder = write(tmp_path, FILES)
    offered = {s.name for s in table_of(folder).names(*cursor(marked, folder))}
    assert names <= offered
    assert not others & offered


def test_a_name_that_is_not_written_yet_is_offered(tmp_path: Path) -> None:
    folder = write(tmp_path, FILES)
    before = table_of(folder)
    write(folder, edited(FILES, ("push: {to: closed", "push: {to: ")))
    path, line, column = cursor("roles/door.yaml: push: {to:| ", folder)
    assert {s.name for s in table_of(folder, before).names(path, line, column + 1)} == {"open", "closed"}
