import re
from dataclasses import replace

import pytest

import leasehold.reports.product as module
from leasehold.reports.dot import HOW_TO_GET_SVG, NoSvg, has_dot, product_dot, render, role_dot
from leasehold.reports.product import product

needs_dot = pytest.mark.skipif(not has_dot(), reason="the dot program is not installed")


def test_a_role(votes):
    dot = role_dot(votes.system.roles["chair"])
    assert dot.startswith("digraph chair {\n")
    assert dot.endswith("}\n")
    assert len(re.findall(r"s\d -> s\d", dot)) == 3
    assert "initial -> s0" in dot
    assert "stays on vote" in dot
    assert dot.count("peripheries=2") == 2


def test_the_product_is_filled_by_marks(votes, fault_free):
    fewer = replace(fault_free, cells=fault_free.cells[:3])
    dot = product_dot(product(votes, fewer))
    assert "#e3ecf9" in dot
    assert "#fbe9cf" in dot


def test_a_large_product_becomes_its_projection(many, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 10)
    assert "chair: 3 reachable" in product_dot(product(many))


@needs_dot
@pytest.mark.parametrize("name", ["votes", "lease"])
def test_dot_draws_everything(name, request):
    exploration = request.getfixturevalue(name)
    for role in exploration.system.roles.values():
        svg = render(role_dot(role))
        assert all(f">{state}</text>" in svg for state in role.states)
    assert "<svg" in render(product_dot(product(exploration)))


@needs_dot
def test_hostile_words_stay_words(votes, words):
    chair = votes.system.roles["chair"]
    idle = replace(chair.states["idle"], name=words, doc=words, tasks=(words,))
    role = replace(chair, name=words, doc=words, states={words: idle})
    svg = render(role_dot(replace(role, states={words: replace(idle, on={})})))
    assert "<script" not in svg
    assert "&lt;/script&gt;" in svg


def test_without_dot_one_line_says_how_to_get_svg(votes, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert not has_dot()
    with pytest.raises(NoSvg) as caught:
        render(role_dot(votes.system.roles["chair"]))
    assert str(caught.value) == HOW_TO_GET_SVG
    assert "\n" not in HOW_TO_GET_SVG


def test_a_dot_that_fails_says_so_in_one_line(tmp_path, monkeypatch):
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\necho first >&2\necho 'no plugins' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(NoSvg, match=r"^no SVG of graphs: dot failed with 3: no plugins$"):
        render("digraph {}")
