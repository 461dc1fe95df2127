"""A lemma that was found, as YAML: what is pasted into lemmas.yaml says what was proved."""

from __future__ import annotations

import pytest
import yaml

from leasehold.checker.prove.encode.lemma import WIDTH, CandidateLemma, lemmas_yaml

LONG = " and ".join(f"coordinator.state in {{deciding, committing}} or {n} < len(coordinator.votes)" for n in range(4))
TEXTS = [
    "true",
    "a.n > 0",
    "all(q.k == a.k for q in pending(m))",
    "s == {a, b}",
    "m[x] == 1",
    "a if b else c",
    LONG,
    LONG.replace("{deciding, committing}", "deciding"),
    f"{'x' * 200} == 1",
    "x" * (WIDTH - 11),
    "y" * (WIDTH - 12),
]


@pytest.mark.parametrize("when", ["", *TEXTS])
def test_what_is_pasted_is_what_was_found(when: str) -> None:
    lemmas = [CandidateLemma(f"lemma_{n}", when, text) for n, text in enumerate(TEXTS)]
    text = lemmas_yaml(lemmas)
    read = yaml.load(text, yaml.BaseLoader)["lemmas"]
    assert list(read) == [c.name for c in lemmas]
    for c in lemmas:
        assert read[c.name].get("when", "").strip() == c.when
        assert read[c.name]["always"].strip() == c.always
        assert list(read[c.name]) == (["when", "always"] if when else ["always"])
    assert max(len(line) for line in text.splitlines() if "xx" not in line) <= WIDTH
    assert text.endswith("\n")
