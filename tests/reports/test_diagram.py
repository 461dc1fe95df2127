from leasehold.reports.diagram import diagram, staying_events, task_text, transition_label, update_text
from leasehold.spec.language.expression import as_written, text
from tests.systems import TESTS, load


def test_transitions_between_the_same_states_are_one_arc(votes):
    drawn = diagram(votes.system.roles["chair"])
    lines = {(a.source, a.target): [t.event for t in a.transitions] for a in drawn.arcs}
    assert lines == {
        ("idle", "asking"): ["start"],
        ("asking", "carried"): ["vote"],
        ("asking", "rejected"): ["vote", "tick"],
    }


def test_what_stays_draws_no_arc_but_is_not_lost(votes):
    drawn = diagram(votes.system.roles["chair"])
    assert staying_events(drawn.staying["asking"]) == ("vote",)
    assert drawn.staying["idle"] == ()


def test_a_state_that_no_transition_leaves_is_terminal(votes, lease):
    assert diagram(votes.system.roles["chair"]).terminal == {"carried", "rejected"}
    assert diagram(votes.system.roles["voter"]).terminal == {"voted"}
    assert "active" not in diagram(lease.system.roles["service_manager"]).terminal


def test_a_long_guard_is_cut(votes):
    tick = next(t for t in votes.system.roles["chair"].transitions() if t.event == "tick")
    assert transition_label(tick) == "tick [now >= 1]"
    assert transition_label(tick, 6) == "tick [now >…]"


def test_words_of_tasks_and_updates(votes, lease):
    chair, voter = votes.system.roles["chair"], votes.system.roles["voter"]
    assert task_text(chair.tasks["ask"]) == "send question to voter"
    assert task_text(voter.tasks["answer"]) == "send vote to chair with yes: mind"
    assert task_text(voter.tasks["think"]) == "call policy.think, answered by choose"
    assert task_text(lease.system.roles["authority"].tasks["setup"]).startswith("drive unit with setup, answered by ")
    vote = next(t for t in chair.transitions() if t.event == "vote")
    assert update_text(vote.updates[0]).startswith("heard: heard | ")


def test_expressions_are_shown_as_their_author_wrote_them() -> None:
    """With `msg.` and the names of definitions, not as they are lowered; what a search makes of them is the same."""
    system = load(TESTS / "spec/language/systems/as_written")
    role = system.roles["clerk"]
    (asked,) = (t for t in role.transitions() if t.guard is not None)
    assert transition_label(asked) == "ask [fits(msg.units)]"
    assert [update_text(u) for u in asked.updates] == ["units: most(msg.units)"]
    assert task_text(role.tasks["answer"]) == "send told to client with units: most(units), only where not small"
    assert text(asked.guard) == "event.units <= 2"
    claim = system.properties["few"].claim
    assert (as_written(claim), text(claim)) == ("all_small", "clerk.units < 2")
