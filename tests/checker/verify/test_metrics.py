"""Metrics of a verification: they say what was found, and the example rules name no other."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import yaml

from leasehold.checker.verify.metrics import VerifyMetrics
from tests.checker.verify.test_follow import files, verification

RULES = Path(__file__).parents[3] / "docs" / "reference" / "verify_alerts.yaml"
METRIC = re.compile(r"\bleasehold_verify_\w+")
SERIES = re.compile(r"^(leasehold_verify_\w+)(?:\{(.*)\})? ", re.MULTILINE)


def _labels_of(expression: str, labels: dict[str, set[str]]) -> set[str]:
    """The labels by which Prometheus joins the series of an expression; those of every scrape are not said."""
    gone = {word.strip() for words in re.findall(r"without \(([^)]*)\)", expression) for word in words.split(",")}
    (found,) = {frozenset(labels[name]) for name in METRIC.findall(expression)}
    return set(found) - gone


def test_metrics_are_told_and_rules_name_them(tmp_path: Path) -> None:
    following = verification(files(tmp_path))
    metrics = VerifyMetrics(following)
    while following.step():
        pass
    metrics.update()
    metrics.update()  # counts what is new, and nothing twice
    server = metrics.serve("127.0.0.1", 0)
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics").read().decode()
    finally:
        server.shutdown()
        server.server_close()
    site = following.verification.kept.follower("site").judged
    assert site > 0
    assert f'leasehold_verify_events_total{{actor="site"}} {float(site)}' in text
    assert f"leasehold_verify_cuts_total {float(following.verification.result.cuts)}" in text
    assert 'leasehold_verify_violations_total{kind="step",property="a_ticket_is_held_to_its_end"} 0.0' in text
    assert 'leasehold_verify_faults_total{actor="site",kind="contradiction"} 0.0' in text
    assert "_created" not in text
    labels = {name: set(re.findall(r"(\w+)=", words)) for name, words in SERIES.findall(text)}
    assert labels["leasehold_verify_events_total"] == {"actor"}
    told = set(METRIC.findall(text))
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    named = {name for rule in rules for name in METRIC.findall(rule["expr"])}
    for rule in rules:
        for alternative in re.split(r"\s+or\s+", rule["expr"]):
            kept = [_labels_of(side, labels) for side in re.split(r"\s+(?:and|unless)\s+", alternative)]
            assert all(side == kept[0] for side in kept), f"{rule['alert']} never matches: {kept}"
        words = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert words <= kept[0] | {"instance", "job"}, rule["alert"]
    assert all({"alert", "expr", "labels", "annotations"} <= rule.keys() for rule in rules)
    page = (RULES.parent / "verify.md").read_text()
    assert named
    assert named <= told | {"leasehold_verify_faults_total", "leasehold_verify_violations_total"}
    assert named <= set(METRIC.findall(page))
    following.verification.close()
