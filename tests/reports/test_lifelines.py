import xml.etree.ElementTree as ET

import pytest

from leasehold.checker.explore.result import Path, Snapshot
from leasehold.reports.lifelines import path_svg
from tests.reports.conftest import step

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", ["votes", "lease"])
def test_every_path_is_well_formed_and_inside_its_frame(name, request):
    exploration = request.getfixturevalue(name)
    for result in exploration.properties:
        if result.path is None:
            continue
        root = ET.fromstring(path_svg(result.path, result.name))
        width = float(root.attrib["width"])
        places = [float(e.attrib["x"]) for e in root.iter(f"{SVG}text")]
        assert all(0 <= x <= width for x in places)
        assert root.find(f"{SVG}title").text == result.name


def test_what_is_drawn(votes):
    path = next(p.path for p in votes.properties if p.name == "is_carried")
    shown = texts(path_svg(path, "is_carried"))
    assert shown[:3] == ["chair", "voter[0]", "voter[1]"]
    assert "question → voter[0]" in shown
    assert "choose(yes=false)" in shown
    assert "nothing more happens" in shown


def test_lost_and_repeated_messages_and_the_loop(hostile, words):
    svg = path_svg(hostile, words)
    assert 'class="arrow lost"' in svg
    assert 'class="arrow again"' in svg
    assert 'class="loop"' in svg
    assert "repeats for ever" in texts(svg)
    assert "<script" not in svg


def test_the_bytes_are_always_the_same(votes):
    path = next(p.path for p in votes.properties if p.path is not None)
    assert path_svg(path, "t") == path_svg(path, "t")


@pytest.mark.parametrize(("letters", "shown"), [(1, 1), (45, 45), (47, 47), (48, 46), (60, 46), (500, 46)])
def test_a_label_is_cut_where_it_has_no_room_between_two_lifelines(letters: int, shown: int) -> None:
    """They stand at most 340 apart, of which 24 are left free; what is cut shows its whole text as a hint."""
    begin = Snapshot({"a": "on", "b": "on"}, {}, {}, None)
    told = step("deliver", "b", "x" * letters, begin, sender="a", transition="b/on#x", before="on", after="on")
    root = ET.fromstring(path_svg(Path(begin, (told,), None), "label"))
    (label,) = (e for e in root.iter(f"{SVG}text") if e.get("class") == "label")
    assert label.text == ("x" * shown + "…" if shown < letters else "x" * letters)
    assert (label.findtext(f"{SVG}title") or label.text) == "x" * letters
