"""The metrics of an actor in the last minutes."""

import pytest

from leasehold.cli.operations.numbers import POINTS, MetricHistory


def text(transitions: int, waiting: int) -> str:
    return (
        "# HELP leasehold_transitions_total Committed transitions.\n# TYPE leasehold_transitions_total counter\n"
        f'leasehold_transitions_total{{role="a",transition="x"}} {transitions}.0\n'
        f'leasehold_transitions_total{{role="b",transition="y"}} 1.0\n'
        'leasehold_transitions_created{role="a",transition="x"} 1700000000.0\n'
        "# HELP leasehold_outbox_messages Messages.\n# TYPE leasehold_outbox_messages gauge\n"
        f"leasehold_outbox_messages {waiting}.0\nother_thing 7.0\n"
    )


def test_a_counter_is_drawn_by_what_is_added_and_a_gauge_by_its_value() -> None:
    history = MetricHistory()
    for at, (transitions, waiting) in enumerate([(1, 5), (3, 0), (3, 2), (2, 2)]):  # it counts anew at last
        history.take(text(transitions, waiting), 10.0 + 2 * at)
    shown = {one["name"]: one for one in history.as_json()}
    assert [*shown] == ["transitions", "outbox_messages"]
    assert shown["transitions"]["value"] == 3.0
    assert shown["transitions"]["points"] == [1.0, 0.0, 1.5]
    assert shown["outbox_messages"]["points"] == [5.0, 0.0, 2.0, 2.0]
    assert shown["outbox_messages"]["help"] == "Messages."


def test_only_the_last_minutes_are_kept() -> None:
    history = MetricHistory()
    for at in range(POINTS + 20):
        history.take(text(at, at), float(at))
    assert {len(one["points"]) for one in history.as_json()} == {POINTS}


def test_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="could not convert string to float"):
        MetricHistory().take("leasehold_transitions_total many\n", 0.0)
