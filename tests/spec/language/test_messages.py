"""The fields of messages on their way: those that a message carries, and those that each has."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import prove
from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import SpecError
from leasehold.spec.language.load import load
from leasehold.spec.language.model import System
from leasehold.spec.language.types import BOOL, INT, Enum, Type
from tests.systems import files_of, write

SYSTEM = files_of("spec/language/systems/asked")


def asked(folder: Path, claim: str) -> System:
    return load(write(folder, {**SYSTEM, "invariants.yaml": f'properties: {{asked: {{always: "{claim}"}}}}\n'}))


@pytest.mark.parametrize(
    ("of", "name", "type_"),
    [
        ("letter", "pages", INT),
        ("letter", "red", BOOL),
        ("card", "red", BOOL),
        ("book", "pages", INT),
        ("letter", "number", INT),
        ("letter", "latest", BOOL),
        ("letter", "kind", Enum("message", ("letter",))),
        ("post", "number", INT),
        ("post", "latest", BOOL),
        ("post", "kind", Enum("message", ("letter", "card"))),
        ("book", "kind", Enum("message", ("book",))),
    ],
)
def test_a_field_has_the_type_that_is_declared(of: str, name: str, type_: Type, tmp_path: Path) -> None:
    system = asked(tmp_path, f"all(m.{name} == m.{name} for m in pending({of}))")
    found = {e.type for e in x.walk(system.properties["asked"].claim) if isinstance(e, x.MessageField)}
    assert found == {type_}


@pytest.mark.parametrize(
    ("of", "sender", "receiver"),
    [("letter", "clerk", "reader"), ("post", "clerk", "reader"), ("book", "reader", "clerk")],
)
def test_the_ends_of_a_message_are_machines_of_its_roles(of: str, sender: str, receiver: str, tmp_path: Path) -> None:
    system = asked(tmp_path, f"all(m.sender == m.sender and m.receiver == m.receiver for m in pending({of}))")
    fields = {e.name: e.type for e in x.walk(system.properties["asked"].claim) if isinstance(e, x.MessageField)}
    assert fields == {"sender": system.roles[sender].instance, "receiver": system.roles[receiver].instance}


@pytest.mark.parametrize(
    ("of", "name", "code", "words"),
    [
        ("letter", "page", "LH305", "did you mean `pages`?"),
        ("card", "pages", "LH305", "red, "),
        ("post", "red", "LH305", "`pending(letter)`"),  # it may be of either kind
        ("post", "pages", "LH305", "(letter)"),
        ("post", "lates", "LH305", "did you mean `latest`?"),
        ("book", "sendr", "LH305", "did you mean `sender`?"),
        ("book", "latest", "LH308", "of a mailbox alone"),  # a bag has no numbers
    ],
)
def test_a_message_has_no_field_of_another(of: str, name: str, code: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        asked(tmp_path, f"all(m.{name} == m.{name} for m in pending({of}))")
    assert {d.code for d in error.value.diagnostics} == {code}
    assert words in str(error.value)


@pytest.mark.parametrize("kind", ["mailbox", "fifo", "bag", "multiset", "set"])
@pytest.mark.parametrize("of", ["letter", "post"])
def test_what_the_remedy_names_can_be_asked(kind: str, of: str, tmp_path: Path) -> None:
    """Each field that it lists loads, is explored and is proved, on this kind of channel."""
    system = SYSTEM["system.yaml"].replace("kind: mailbox", f"kind: {kind}").replace("kind: bag", "kind: bag(1)")
    files = {**SYSTEM, "system.yaml": system}
    wrong = f"properties: {{asked: {{always: all(m.nothing for m in pending({of}))}}}}\n"
    with pytest.raises(SpecError) as error:
        load(write(tmp_path / "wrong", {**files, "invariants.yaml": wrong}))
    names = str(error.value).split("remedy: its fields: ")[1].splitlines()[0].split(", ")
    assert {"number", "kind", "sender", "receiver"} <= {*names}
    assert ("latest" in names) == (kind == "mailbox")
    claims = [f'  {name}: {{always: "all(m.{name} == m.{name} for m in pending({of}))"}}\n' for name in names]
    model = load(write(tmp_path / "right", {**files, "invariants.yaml": "properties:\n" + "".join(claims)}))
    found = {p.name: p.verdict for p in explore(model).properties if p.name in names}
    assert found == dict.fromkeys(names, "exhausted")
    assert {v.name: v.verdict for v in prove(model, jobs=1).properties} == dict.fromkeys(names, "proved")


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("all(m.number == 1 or m.number == 2 for m in pending(post))", "exhausted"),
        ("all(m.number == 1 for m in pending(post))", "violated"),
        ("all(m.latest for m in pending(letter))", "violated"),
        ("all(m.latest for m in pending(card))", "exhausted"),
        ("all(m.latest or m.number == 1 for m in pending(post) if m.kind == letter)", "exhausted"),
        ("all(m.latest and m.number == 1 and m.red and m.pages == 2 for m in pending(letter))", "violated"),
        ("all(m.number == 1 and m.red and m.pages == 2 for m in pending(letter))", "exhausted"),
    ],
)
def test_what_each_message_has_beside_its_fields_is_that_message_s(claim: str, verdict: str, tmp_path: Path) -> None:
    """A clerk writes a letter, and then, though nobody has read it, a card."""
    (found,) = [p for p in explore(asked(tmp_path, claim)).properties if p.name == "asked"]
    assert found.verdict == verdict
