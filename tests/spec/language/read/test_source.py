"""Reading YAML: every character of every text is found again where it stands."""

import pytest

from leasehold.spec.language.diagnostics import Sink
from leasehold.spec.language.read.source import YamlNode, read_text

TEXT = """\
a: >
  one and
  two or three

  four
b: |
  x
    y
c: "quoted text
   goes on"
d: plain
   goes on  # and a comment
e: {k: in flow, 'q': 'sq', "z": "Ä"}
g: >-
  last line"""
LINES = TEXT.splitlines()


def read(text: str) -> YamlNode:
    sink = Sink()
    node = read_text(text, "here", sink)
    assert node is not None, sink.found
    return node


def texts(node: YamlNode) -> list[YamlNode]:
    return [node] if node.kind == "text" else [t for _, _, value in node.pairs() for t in texts(value)]


@pytest.mark.parametrize("node", texts(read(TEXT)), ids=lambda n: n.text.split()[0])
def test_characters_are_found_where_they_stand(node: YamlNode) -> None:
    for offset, character in enumerate(node.text):
        place = node.inside(offset)
        assert character.isspace() or LINES[place.line - 1][place.column - 1] == character


def test_where_escapes_are_in_the_way_the_text_has_one_place() -> None:
    node = texts(read('a: "x\\x41y"'))[0]
    assert node.text == "xAy"
    assert {node.inside(i) for i in range(3)} == {node.place}


def test_words_are_not_booleans_or_numbers() -> None:
    assert [n.text for n in texts(read("a: on\nb: no\nc: 1.10\nd: 010\ne: 2020-01-01\nf: ~"))] == [
        "on",
        "no",
        "1.10",
        "010",
        "2020-01-01",
        "~",
    ]
