"""`leasehold simulate`: several policies side by side, as text, as JSON and as a page; and what is refused."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.conftest import Run

FCFS = "first_come_first_served"
REQUESTS = "at,units,ticks,until_start,user,weight,bid\n1,2,5,4,ann,1,3\n2,2,4,9,bob,2,1\n3,1,2,4,ann,1,1\n"
OWN = '''
from leasehold.impl.lease.arbiter import Arbiter
from leasehold.impl.lease.inventory import Inventory


class Last(Arbiter):
    """Serves first who has come last."""

    def order(self, now):
        return [*reversed(self._waiting.values())]


class Twice(Last):
    """Promises each unit twice."""

    def __init__(self, inventory):
        super().__init__(Inventory.parse({"units": [{"name": "u", "count": 2 * len(inventory)}]}))
'''


@pytest.fixture
def trace(tmp_path: Path) -> str:
    (tmp_path / "requests.csv").write_text(REQUESTS)
    (tmp_path / "own.py").write_text(OWN)
    return "requests.csv"


def test_policies_stand_side_by_side(run: Run, trace: str, tmp_path: Path) -> None:
    done = run("simulate", FCFS, "./own.py:Last,wait=true", "--trace", trace, "--units", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "3 requests (requests.csv) for 2 units"
    rows = {line.split("  ")[0]: line.split()[-2:] for line in lines[2:]}
    assert rows["done"] == ["2", "2"]
    assert rows["missed starts"] == ["1", "1"]
    assert rows["longest wait"] == ["4", "4"]
    assert rows["restarts that differ"] == ["0", "0"]
    shares = {line.split()[0]: line.split()[4:] for line in lines if line.startswith(("ann", "bob"))}
    assert shares["ann"] == ["55.6%", "(3.00)"] * 2, "two of two units, and two thirds of one are its share by weight"
    assert shares["bob"] == ["44.4%", "(0.00)"] * 2


def test_what_is_found_is_told_and_fails(run: Run, trace: str, tmp_path: Path) -> None:
    done = run("simulate", "own:Twice", "--trace", trace, "--units", "2", "--json", cwd=tmp_path)
    assert done.returncode == 1
    (policy,) = json.loads(done.stdout)["policies"]
    assert any("the broker has promised 4 of 2 units" in one for one in policy["violations"])


def test_json_and_page_say_the_same_twice(run: Run, tmp_path: Path) -> None:
    words = (
        "simulate",
        FCFS,
        f"{FCFS},backfill=true",
        "--generate",
        "rate=1,requests=12,ticks=4,users=2",
        "--seed",
        "5",
    )
    first, second = (run(*words, "--json", "--report", f"{n}.html", cwd=tmp_path) for n in "12")
    assert first.stdout == second.stdout
    page = (tmp_path / "1.html").read_text()
    assert page == (tmp_path / "2.html").read_text()
    told = json.loads(first.stdout)
    assert [policy["policy"] for policy in told["policies"]] == [FCFS, f"{FCFS},backfill=true"]
    assert told["policies"][0]["requests"] == 12
    assert "seed=5" in told["stream"]
    assert told["units"] == 8
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    svgs = [
        ET.fromstring(part.partition("</svg>")[0] + "</svg>") for part in page.replace("<svg", "\0<svg").split("\0")[1:]
    ]
    assert len(svgs) == 4
    assert all(len(svg.findall("polyline")) == 2 for svg in svgs[:3])
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(page)
    assert tags.count("table") == 2
    assert FCFS in page


def test_figures_over_several_streams(run: Run, tmp_path: Path) -> None:
    words = ("simulate", FCFS, "earliest_deadline", "--generate", "rate=1,requests=12,ticks=4,seed=4", "--units", "4")
    told = json.loads(run(*words, "--repeat", "3", "--json", cwd=tmp_path).stdout)
    assert told["stream"] == told["streams"][0]["stream"]
    assert [f"seed={seed}," in one["stream"] for seed, one in zip((4, 5, 6), told["streams"], strict=True)] == [
        True
    ] * 3
    missed = [[policy["missed"] for policy in one["policies"]] for one in told["streams"]]
    best = [sum(of[at] == min(of) for of in missed) for at in (0, 1)]
    shown = run(*words, "--repeat", "3", "--report", "page.html", cwd=tmp_path).stdout.splitlines()
    at = next(
        n for n, line in enumerate(shown) if line.startswith("missed starts") and shown[n + 2].startswith("  best")
    )
    means = [sum(of[at] for of in missed) / 3 for at in (0, 1)]
    assert [float(value) for value in shown[at].split()[2:]] == [pytest.approx(mean, abs=0.05) for mean in means]
    ranges = [f"{min(of[at] for of in missed)} to {max(of[at] for of in missed)}" for at in (0, 1)]
    assert re.split(r"  +", shown[at + 1].strip())[1:] == ranges
    assert re.split(r"  +", shown[at + 2].strip())[1:] == [f"{won} of 3" for won in best]
    assert "Over 3 streams" in (tmp_path / "page.html").read_text()
    (alone,) = json.loads(run(*words, "--json", cwd=tmp_path).stdout).keys() - told.keys() or [None]
    assert alone is None, "one stream is told as the first of several"


def test_a_constant_and_a_trace_of_the_archive(run: Run, tmp_path: Path) -> None:
    jobs = "; MaxProcs: 8\n" + "\n".join(
        f"{n} {n * 60} 1 120 4 -1 -1 4 120 -1 1 {n % 2} 1 -1 1 -1 -1 -1" for n in range(1, 9)
    )
    (tmp_path / "jobs.swf").write_text(jobs)
    words = ("simulate", FCFS, "--trace", "jobs.swf", "--processors", "2", "--most", "5", "--set", "lazy_close=false")
    done = run(*words, "--restart-every", "0", "--term", "1", "--patience", "30", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5 requests (jobs.swf) for 4 units")
    assert "restarts beside it  " in done.stdout
    assert "user-0" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((FCFS,), "give the requests: --trace FILE, or --generate SETTINGS"),
        ((FCFS, "--trace", "requests.csv", "--generate", "rate=1"), "give the requests: --trace FILE, or --generate"),
        (
            (FCFS, "--trace", "requests.csv", "--repeat", "2"),
            "a trace is one stream; --repeat is for streams by chance",
        ),
        ((), "Missing argument 'POLICY...'"),
        (("first_come", "--trace", "requests.csv"), "there is no policy 'first_come'"),
        ((f"{FCFS},wait", "--trace", "requests.csv"), "'wait' is no setting; write it as NAME=VALUE behind a comma"),
        ((f"{FCFS},wiat=true", "--trace", "requests.csv"), "has no setting 'wiat'; did you mean wait?"),
        ((f"{FCFS},wait=[", "--trace", "requests.csv"), "'[' is no value of YAML"),
        (("best_fit", "--trace", "requests.csv"), "decides place, and is to be asked allocate, extend"),
        (("own:None_", "--trace", "requests.csv"), "cannot be imported"),
        (("nowhere:Policy", "--trace", "requests.csv"), "No module named 'nowhere'"),
        ((FCFS, "--trace", "none.csv"), "none.csv: cannot be read: No such file"),
        ((FCFS, "--generate", "rate=x"), "--generate: rate is 'x'"),
        ((FCFS, "--trace", "requests.csv", "--units", "1"), "a request asks for 2 units, and the site has 1"),
        ((FCFS, "--trace", "requests.csv", "--set", "lazy=1"), "lazy"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    run: Run, trace: str, words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = run("simulate", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " "), done.stderr
    assert not done.stdout
