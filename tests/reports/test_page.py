"""The page: that it holds together. How it looks is looked at; test_it_draws_itself only asks whether it does."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import leasehold.reports.page as module
import leasehold.reports.product as product_module
from leasehold.reports.page import page, page_data

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
        for result, shown in zip(exploration.properties, data["properties"], strict=True):
            titles = []
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
@pytest.mark.parametrize("name", ["votes", "lease", "many"])
def test_it_draws_itself(name, request, tmp_path):
    exploration = request.getfixturevalue(name)
    check = (
        "<script>addEventListener('error', (e) => document.body.setAttribute('data-error', e.message));"
        "addEventListener('load', () => setTimeout(() => {"
        "document.querySelectorAll('details').forEach((d) => (d.open = true));"
        "document.querySelectorAll('button.cell').forEach((b) => b.click());"
        "document.querySelectorAll('.node').forEach((n) => n.dispatchEvent(new MouseEvent('click')));"
        "document.body.setAttribute('data-width', document.documentElement.scrollWidth);}, 200))</script>"
    )
    file = tmp_path / "index.html"
    file.write_text(page(exploration).replace("</head>", f"{check}</head>", 1), encoding="utf-8")
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --virtual-time-budget=5000 --window-size=1280,2400 --dump-dom"
    )
    command = ["chromium", *flags.split(), f"--user-data-dir={tmp_path / 'user'}", file.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    body = re.search(r"<body[^>]*>", shown)[0]
    assert "data-error" not in body
    assert int(re.search(r'data-width="(\d+)"', body)[1]) <= 1280
    assert shown.count('class="property"') == len(exploration.properties)
    for role in exploration.system.roles.values():
        assert f'aria-label="State diagram of {role.name}"' in shown
    assert 'class="lifelines"' in shown
