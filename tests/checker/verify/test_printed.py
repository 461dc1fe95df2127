"""Queries as they are printed, for a person to read: those of the lease that ask for most.

`python tests/checker/verify/test_printed.py` rewrites the file.
"""

from __future__ import annotations

from pathlib import Path

from leasehold.checker.verify.queries import Queries
from leasehold.checker.verify.schema import Tables
from leasehold.checker.verify.sql.dialects import DIALECTS
from tests.systems import load

FILE = Path(__file__).with_name("printed.sql")
SHOWN = {
    "sqlite": [
        "never_terminated_early",
        "assigned_equals_ticketed",
        "broker_decides_once",
        "victims_are_given_back",
        "the_site_is_heard",
        "handlers_are_waited_for_in_bounded_time",
    ],
    "postgresql": ["site_wants_what_the_ticket_says"],
    "mariadb": ["units_come_free"],
}


def printed() -> str:
    parts = []
    for name, shown in SHOWN.items():
        queries = Queries(Tables(load("lease"), DIALECTS[name])).queries
        parts += [f"-- {name}\n\n" + "\n".join(queries[q].explained() for q in shown)]
    return "\n".join(parts)


def test_queries_are_printed_so() -> None:
    assert printed() == FILE.read_text()


def test_no_line_is_long() -> None:
    for name, dialect in DIALECTS.items():
        for query in Queries(Tables(load("lease"), dialect)).queries.values():
            wide = [line for line in query.explained().splitlines() if len(line) > 130]
            assert wide == [], f"{name}: {query.name}"


if __name__ == "__main__":
    FILE.write_text(printed())
