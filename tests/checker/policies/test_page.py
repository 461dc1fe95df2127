"""The committed page of the four policies: what each is for is what it is best at, by the figures that stand there.

That the page is what its generator prints is held by tests/drift.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checker.policies.page import COMMAND, POLICIES, STREAMS

PAGE = (Path(__file__).parents[3] / "reports" / "policies.html").read_text()


def cells(name: str, after: int) -> list[str]:
    """The cells of a row of the first table: of a figure, or so many rows below it."""
    table = PAGE[PAGE.index("<table>") : PAGE.index("</table>")]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    return next(rows[n + after][1:] for n, row in enumerate(rows) if row[0] == name)


@pytest.mark.parametrize(
    ("figure", "policy"),
    [("fairness (Jain)", "proportional_share"), ("missed starts", "earliest_deadline"), ("revenue", "auction")],
)
def test_each_policy_is_best_at_what_it_is_for_in_every_stream(figure: str, policy: str) -> None:
    won = dict(zip(POLICIES, cells(figure, 2), strict=True))
    assert won == {**dict.fromkeys(POLICIES, f"0 of {STREAMS}"), policy: f"{STREAMS} of {STREAMS}"}
    means = [float(mean.replace(",", "")) for mean in cells(figure, 0)]
    best = min(means) if figure == "missed starts" else max(means)
    assert POLICIES[means.index(best)] == policy


def test_restarts_changed_nothing_and_nothing_was_found() -> None:
    assert COMMAND in PAGE
    assert re.search(r"<th scope=\"row\">restarts beside it</th>(<td>[1-9][0-9]*</td>){4}", PAGE)
    assert "<h2>Found</h2>" not in PAGE
