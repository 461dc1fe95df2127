import pytest

from leasehold.checker.explore import Snapshot
from leasehold.checker.explore.result import Driven, Path, Sent
from leasehold.faults.model.catalogue import catalogue
from leasehold.reports.sequence import DiagramRow, FieldChange, sequence, sequence_step

IDLE = Snapshot(control={"a": "idle", "b": "idle", "u": "off"}, data={"a.n": "0"}, channels={}, now=0)
BUSY = Snapshot(control={"a": "busy", "b": "idle", "u": "on"}, data={"a.n": "1"}, channels={"c": ("m()",)}, now=0)


def test_a_message_is_drawn_where_it_is_received_and_a_stub_where_it_is_sent(moved):
    step = moved(
        "deliver",
        "a",
        "go",
        BUSY,
        fields={"n": "1"},
        sender="b",
        transition="a/idle#go",
        before="idle",
        after="busy",
        sent=(Sent("m", "a", "b", {}),),
        driven=(Driven("u", "turn", "off", "on"),),
    )
    drawn = sequence_step(1, step, IDLE)
    assert drawn.rows == (
        DiagramRow("receive", "go(n=1)", "a", "b"),
        DiagramRow("state", "busy", "a"),
        DiagramRow("drive", "turn", "u", "a"),
        DiagramRow("state", "on", "u"),
        DiagramRow("send", "m", "a", "b"),
    )
    assert drawn.data == (FieldChange("a.n", "0", "1"),)
    assert drawn.control == {"a": "busy", "u": "on"}
    assert drawn.channels == {"c": ("m()",)}


def test_what_is_ignored_says_so(moved):
    assert sequence_step(1, moved("local", "a", "x", IDLE), IDLE).rows == (
        DiagramRow("event", "x", "a"),
        DiagramRow("ignore", "ignored", "a"),
    )
    assert sequence_step(1, moved("duplicate", "a", "x", IDLE, sender="b"), IDLE).rows == (
        DiagramRow("again", "x", "a", "b"),
    )


def test_time_is_a_rule_through_all_lifelines(moved):
    later = Snapshot(control=IDLE.control, data=IDLE.data, channels={}, now=3)
    assert sequence_step(1, moved("clock", None, "now 3", later), IDLE).rows == (DiagramRow("clock", "now = 3"),)


def test_crash_and_recovery_have_their_marks_and_the_unknown_is_a_note(moved):
    crash, unknown = (sequence_step(1, moved(kind, "a", "x", IDLE), IDLE).rows[0] for kind in ("crash", "eclipse"))
    assert crash == DiagramRow("crash", "x", "a")
    assert crash.label == "x – crash"
    assert unknown == DiagramRow("other", "a: x")


def test_lifelines_in_the_order_of_the_system_and_what_still_waits(votes):
    path = next(p.path for p in votes.properties if p.name == "all_are_heard")
    drawn = sequence(path)
    assert drawn.lifelines == ("chair", "voter[0]", "voter[1]")
    assert drawn.waiting == ("ask (chair to voter[0]): question()", "ask (chair to voter[1]): question()")
    assert drawn.loop is None


def test_of_many_machines_only_those_that_act_have_lifelines(many, moved):
    path = next(p.path for p in many.properties if p.name == "somebody_votes")
    assert len(path.initial.control) == 10
    drawn = sequence(path)
    assert set(drawn.lifelines) == {"chair", *(f"voter[{i}]" for i in range(9))}  # the chair sends to all
    alone = Path(path.initial, (moved("local", "voter[4]", "x", path.initial),))
    assert sequence(alone).lifelines == ("voter[4]",)
    assert sequence(Path(path.initial, ())).lifelines == ("chair",)


@pytest.mark.parametrize("fault", [fault for fault in catalogue() if fault.stops], ids=lambda f: f.name)
def test_a_fault_that_stops_an_actor_is_drawn_so(moved, fault):
    row = sequence_step(1, moved(fault.name, "a", f"{fault.name}:x", IDLE), IDLE).rows[0]
    assert (row.kind, row.name, row.label) == ("halt" if fault.lasts else "crash", fault.name, f"x – {fault.stops}")


def test_every_fault_has_its_mark(moved):
    """A crash in a step comes after what was consumed and committed; what no machine does spans all lifelines."""
    step = moved("crash", "a", "crash:r/busy#after-commit", BUSY, sender="b", transition="r/idle#go.2")
    rows = [row for row in sequence_step(1, step, IDLE).rows if row.kind != "state"]
    assert rows == [DiagramRow("receive", "go", "a", "b"), DiagramRow("crash", "r/busy#after-commit", "a")]
    for kind, words in (("halt", "stops for good"), ("recover", "recovery"), ("retry", "retry")):
        assert sequence_step(1, moved(kind, "a", f"{kind}:x", IDLE), IDLE).rows[0].label == f"x – {words}"
    for kind in ("partition", "heal", "skew"):
        assert sequence_step(1, moved(kind, None, "words", IDLE), IDLE).rows == (DiagramRow(kind, "words"),)
    assert sequence_step(1, moved("drift", None, "words", IDLE), IDLE).rows == (DiagramRow("skew", "words"),)
