"""The page: its structure, and in a real browser, where one is installed, that it draws itself, fits and searches."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import leasehold.reports.page as module
import leasehold.reports.product as product_module
from leasehold.checker.explore import explore
from leasehold.reports.page import page, page_data
from leasehold.spec import load
from tests.reports.browser import PROGRAM, Browser

TRUTH = Path(__file__).parents[1] / "truth"
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Collects elements, text by element, and whether every element is closed in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.text = [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data)


def read(text):
    reader = Reader(text)
    assert reader.open == []
    return reader


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_it_is_one_whole_document(votes):
    reader = read(page(votes))
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert reader.text["title"] == ["votes: Leasehold report"]
    assert ("html", {"lang": "en"}) in reader.elements


def test_it_fetches_nothing(votes, lease):
    for exploration in (votes, lease):
        text = page(exploration)
        assert not [a for tag, a in read(text).elements if "src" in a or (tag in {"link", "img", "iframe"})]
        assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
        assert "default-src 'none'" in text
        assert not re.search(r"@import|url\((?!#)", text)


def test_hostile_words_stay_data(votes):
    text = page(votes)
    doc = data_of(text)["system"]["doc"]
    assert doc == votes.system.doc
    assert "</script><script>alert" in doc
    assert 'alert("no")</script>' not in text
    assert "{{data}}" in doc


def test_the_name_of_the_system_is_escaped(votes, words):
    text = page(replace(votes, system=replace(votes.system, name=words)))
    assert "".join(read(text).text["title"]).startswith(words)


def test_paths_share_their_steps_and_can_be_followed(votes, lease):
    for exploration in (votes, lease):
        data = page_data(exploration)
        results = {result.name: result for result in exploration.properties}
        for shown in data["properties"]:
            result, titles = results[shown["name"]], []
            at = shown["path"]
            while at is not None:
                titles.insert(0, data["steps"][at].get("title"))
                at = data["steps"][at].get("p")
            assert titles[1:] == ([] if result.path is None else [step.title for step in result.path.steps])
        nodes = data["product"]["nodes"]
        assert all(node["path"] is not None for node in nodes)
        assert len(data["steps"]) < sum(node["depth"] + 1 for node in nodes)


def test_every_role_state_and_reason_is_there(lease):
    data = page_data(lease)
    assert [role["name"] for role in data["roles"]] == list(lease.system.roles)
    for role in data["roles"]:
        real = lease.system.roles[role["name"]]
        assert len(role["transitions"]) == len(list(real.transitions()))
        assert [s["ignore"] for s in role["states"]] == [dict(s.ignore) for s in real.states.values()]


def test_shared_variables_have_a_table(votes):
    data = page_data(explore(load(TRUTH / "peterson")))
    assert [(d["name"], d["type"]) for d in data["shared"]] == [("wants", "map[process, bool]"), ("turn", "process")]
    assert all(d["doc"] for d in data["shared"])
    assert "shared" not in page_data(votes)


def test_a_large_product_shows_projections_and_fewer_paths(many, monkeypatch):
    monkeypatch.setattr(product_module, "LARGEST", 10)
    monkeypatch.setattr(module, "MOST_PATHS", 10)
    monkeypatch.setattr(module, "MOST_NODES", 12)
    product = page_data(many)["product"]
    assert product["first_graph"] == ["chair"]
    assert ["chair", "voter"] not in [graph["roles"] for graph in product["graphs"]]
    assert product["table"] is None
    assert len(product["nodes"]) == 12
    assert None in [node["path"] for node in product["nodes"]]
    assert None not in [node["path"] for node in product["graphs"][0]["nodes"]]


def test_what_is_measured_can_be_left_out(votes):
    assert "seconds" in page_data(votes)["run"]
    assert not {"seconds", "states_per_second", "peak_memory_bytes"} & page_data(votes, measured=False)["run"].keys()


def test_violations_come_first_and_names_are_whole(votes):
    text = page(votes)
    shown = data_of(text)["properties"]
    order = [("expected" if p["expected"] else p["verdict"]) for p in shown]
    assert order[:3] == ["violated", "violated", "expected"]
    assert not {"violated", "expected"} & set(order[3:])
    assert {p["name"] for p in shown} == {p.name for p in votes.properties}
    assert "ellipsis" not in text


def test_the_search_field_is_in_the_page(votes):
    text = page(votes)
    assert "function searchField()" in text
    assert 'type: "search"' in text


needs_chromium = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Browser]]:
    with ExitStack() as stack:

        def show(text: str, width: int, height: int = 900) -> Browser:
            file = tmp_path / "index.html"
            file.write_text(text, encoding="utf-8")
            return stack.enter_context(Browser(file, width, height))

        yield show


@needs_chromium
@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long)])
def test_typing_finds_a_property_and_nothing_is_wider_than_the_screen(lease, opened, width):
    browser = opened(page(lease), width)
    listed = [p["name"] for p in page_data(lease)["properties"]]
    visible = "[...document.querySelectorAll('.property:not([hidden]) h3')].map((e) => e.textContent)"
    assert browser.run(visible) == listed
    browser.run("document.getElementById('search').focus()")
    browser.type("Handlers bounded")
    assert browser.run(visible) == ["handlers_are_waited_for_in_bounded_time"]
    assert browser.run("document.querySelector('.status').textContent").startswith(f"1 of {len(listed)} properties")
    assert browser.run("document.getElementById('properties').getBoundingClientRect().top < innerHeight")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    browser.type(" no such word")
    assert browser.run(visible) == []
    browser.run("location.hash = '#property-valid_ticket'; new Promise((done) => setTimeout(done, 200))")
    assert browser.run(visible) == listed
    assert browser.run("document.querySelector('#property-valid_ticket details').open")
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert browser.run("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
    assert browser.errors == []


@needs_chromium
@pytest.mark.parametrize("width", [390, pytest.param(2400, marks=pytest.mark.long)])
def test_what_can_be_scrolled_or_dragged_says_so(lease, opened, width):
    """Each box that scrolls sideways, and no other; on a phone nothing else shows it."""
    browser = opened(page(lease), width)
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    browser.run("new Promise((done) => setTimeout(done, 300))")
    boxes = "[...document.querySelectorAll('.scroll, .sequence-scroll')].filter((b) => b.clientWidth > 0)"
    scrolls, says = "b.scrollWidth > b.clientWidth + 4", "b.classList.contains('more-beside')"
    told, wrong = browser.run(
        f"[{boxes}.filter((b) => {says}).length, {boxes}.filter((b) => ({scrolls}) !== {says}).length]"
    )
    assert (told > 0, wrong) == (True, 0)
    cue = "getComputedStyle(document.querySelector('.more-beside'), '::before')"
    shown = browser.run(f"{cue}.display !== 'none' && {cue}.content.includes('more at the side')")
    assert shown == (width == 390)
    assert (browser.run("document.querySelectorAll('.graph-box.partly').length") > 0) == (width == 390)
    assert browser.errors == []


@needs_chromium
def test_the_table_of_shared_variables_is_drawn(opened):
    browser = opened(page(explore(load(TRUTH / "peterson"))), 390)
    assert "wants\tmap[process, bool]" in browser.run("document.querySelector('#shared table').innerText")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.errors == []


@needs_chromium
def test_a_verdict_filters_the_properties(votes, opened):
    browser = opened(page(votes), 390)
    press = "[...document.querySelectorAll('.chips button')].find((b) => b.textContent.startsWith(%r)).click()"
    visible = "[...document.querySelectorAll('.property:not([hidden]) h3')].map((e) => e.textContent)"
    browser.run(press % "violated 2")
    assert browser.run(visible) == ["all_are_heard", "flies"]
    browser.run(press % "holds")
    assert browser.run(visible) == [p.name for p in votes.properties if p.verdict == "exhausted"]
    browser.run(press % "all")
    assert len(browser.run(visible)) == len(votes.properties)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.errors == []


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("name", ["votes", "lease", "many"])
def test_it_draws_itself(name, request, opened):
    exploration = request.getfixturevalue(name)
    browser = opened(page(exploration), 1280)
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    browser.run("document.querySelectorAll('button.cell').forEach((b) => b.click())")
    browser.run("document.querySelectorAll('.node').forEach((n) => n.dispatchEvent(new MouseEvent('click')))")
    assert browser.run("document.documentElement.scrollWidth") <= 1280
    shown = browser.run("document.documentElement.outerHTML")
    assert shown.count('class="property"') == len(exploration.properties)
    for role in exploration.system.roles.values():
        assert f'aria-label="State diagram of {role.name}"' in shown
    assert 'class="lifelines"' in shown
    assert browser.errors == []
