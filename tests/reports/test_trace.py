import pytest

from leasehold.checker.explore.result import Path
from leasehold.reports.trace import trace_text


def path_of(exploration, name):
    return next(p.path for p in exploration.properties if p.name == name)


def test_a_counterexample(votes):
    assert trace_text(path_of(votes, "all_are_heard")) == (
        "initially\n"
        "      chair: idle  heard={}\n"
        "      voter[0]: waiting  mind=false\n"
        "      voter[1]: waiting  mind=false\n"
        "      now = 0\n"
        "   1  chair: start  (chair/idle#start)\n"
        "        chair is asking\n"
        "        chair sends question to voter[0]\n"
        "        chair sends question to voter[1]\n"
        "   2  now 1\n"
        "   3  chair: tick  (chair/asking#tick)\n"
        "        chair is rejected\n"
        "finally on their way\n"
        "      ask (chair to voter[0]): question()\n"
        "      ask (chair to voter[1]): question()\n"
    )


@pytest.mark.parametrize("brief", [True, False])
def test_a_path_without_a_step_has_its_first_state(votes, brief):
    first = path_of(votes, "all_are_heard").initial
    assert trace_text(Path(first, ()), brief).startswith("initially\n      chair: idle  heard={}\n")


def test_a_run_that_ends_for_ever(votes):
    assert trace_text(path_of(votes, "is_carried")).endswith("  --- nothing more happens ---\n")


def test_a_loop_is_marked_at_both_ends(hostile):
    text = trace_text(hostile)
    assert text.index("from here on") < text.index("   4  ") < text.index("back to before step 4")
