"""The system `agent`: what goes wrong where a part of it is left out, by the property that sees it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.spec import System, load, shipped_folder

ALONE = {"expected.yaml", "crash.yaml", "mutation.yaml", "lemmas.yaml"}


def changed(tmp_path: Path, role: str, before: str, after: str, kinds: int) -> System:
    """The system with another text in the file of a role."""
    folder = tmp_path / "agent"
    shutil.copytree(shipped_folder("agent"), folder, ignore=lambda _, names: [n for n in names if n in ALONE])
    file = folder / "roles" / f"{role}.yaml"
    text = file.read_text()
    assert text.count(before) == 1, before
    file.write_text(text.replace(before, after))
    return load(folder, {"kinds": str(kinds)})


@pytest.mark.parametrize(
    ("role", "before", "after", "claim"),
    [
        pytest.param(
            "agent",
            "        when: msg.action > number\n",
            "        when: msg.action > 0 and fallback == 0\n",
            "every_word_is_answered",
            id="a word that comes while another version is tried is not taken",
        ),
        pytest.param(
            "agent",
            "ready: is_ready(version), refused",
            "ready: not is_refused(version), refused",
            "only_verified_versions_act",
            id="a version acts before it was verified",
        ),
        pytest.param(
            "agent",
            "- {to: preparing, when: fallback > 0, set: {version: fallback, fallback: 0}",
            "- {to: resting, when: fallback > 0, set: {fallback: 0}",
            "the_other_version_acts",
            id="no version is fallen back to",
        ),
        pytest.param(
            "agent",
            'set: {well: false, reason: "package[version - 1].reason"}',
            'set: {well: false, up: false, reason: "package[version - 1].reason"}',
            "a_refused_version_changes_nothing",
            id="a refused upgrade takes down what is up",
        ),
        pytest.param(
            "agent",
            'version: "used if msg.verb == teardown and used > 0 else msg.version"',
            "version: msg.version",
            "a_unit_is_torn_down_by_what_has_set_it_up",
            id="a unit is torn down by another version",
        ),
        pytest.param(
            "agent",
            "worked: {to: resting, set: {well: true, up: verb != teardown, used: 0 if verb == teardown else version,",
            "worked: {to: resting, set: {well: true, up: true, used: 0 if verb == teardown else version,",
            "only_an_action_brings_up",
            id="what is torn down counts as up",
        ),
        pytest.param(
            "agent",
            "used: 0 if verb == teardown else version, facts",
            "used: version, facts",
            "what_was_torn_down_is_gone",
            id="what is torn down is not forgotten",
        ),
        pytest.param(
            "agent",
            "      broken: {to: resting, set: {well: false, up: false, reason: event.reason}}",
            "      broken: {to: resting, set: {well: true, up: false, reason: event.reason}}",
            "what_was_torn_down_is_gone",
            id="a teardown that failed counts as done",
        ),
        pytest.param(
            "controller",
            "        - {to: up, when: is_mine(msg.action) and msg.up,",
            "        - {to: up, when: msg.up,",
            "the_last_word_counts",
            id="an answer to an older word counts",
        ),
        pytest.param(
            "controller",
            "      done: {to: down, when: is_mine(msg.action) and not msg.up,",
            "      done: {to: down, when: false and not msg.up,",
            "a_lost_unit_is_told",
            id="the site does not hear of losses",
        ),
        pytest.param(
            "agent",
            "          what: msg.what\n        doc: A unit is torn",
            "        doc: A unit is torn",
            "what_is_done_is_what_was_asked_for",
            id="the agent acts on what it was asked for first",
        ),
        pytest.param(
            "agent",
            "with: {action: number, up: up, well: well, version: used, facts: facts, reason: reason}",
            "with: {action: number, up: up, well: well, version: version, facts: facts, reason: reason}",
            "what_the_site_is_told_is_so",
            id="the version that was asked for is told",
        ),
    ],
)
def test_each_part_is_needed(tmp_path: Path, role: str, before: str, after: str, claim: str) -> None:
    found = explore(changed(tmp_path, role, before, after, 2 if claim == "what_is_done_is_what_was_asked_for" else 1))
    violated = {one.name: one for one in found.properties if one.verdict == "violated"}
    assert claim in violated, sorted(violated)
    assert violated[claim].path is not None
