"""The plugin, used as a user uses it: it is found by its entry point alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from leasehold.checker.explore.walker import Walker
from leasehold.cli.conform import conform
from leasehold.cli.pytest_plugin import AnySystem
from leasehold.cli.serve import begin_at
from leasehold.faults.simulation.lease import EmbeddedCluster
from leasehold.impl.actor.environment import ActorError, ActorOptions, RetryPolicy
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.lease.process_cluster import ProcessCluster
from leasehold.impl.processes.cluster import ProcessSystem
from leasehold.spec import load
from leasehold.spec.language.model import PropertyKind

pytest_plugins = ["pytester"]


def test_a_test_leases_in_three_lines(leasehold_cluster: EmbeddedCluster) -> None:
    lease = leasehold_cluster.lease(units=2, until=30)
    assert len(leasehold_cluster.units()) == 2
    assert set(leasehold_cluster.state(lease).values()) == {"active", "ticketed"}


def test_actors_are_crashed_and_leases_live_on(leasehold_cluster: EmbeddedCluster) -> None:
    lease = leasehold_cluster.lease(units=1, until=40)
    for actor in ("tenant", "broker", "site"):
        leasehold_cluster.crash(actor)
        leasehold_cluster.advance(5)
        assert leasehold_cluster.state(lease)["service_manager"] == "active"
    leasehold_cluster.flex(lease, 3)
    leasehold_cluster.advance(6)
    assert len(leasehold_cluster.units()) == 3
    leasehold_cluster.close(lease)
    assert leasehold_cluster.units() == set()


def test_an_actor_may_stay_away_for_a_while(leasehold_cluster_of: Callable[..., EmbeddedCluster]) -> None:
    """Paper, section 4.2.1: a lazy site keeps what an unreachable service manager holds, past its end."""
    cluster = leasehold_cluster_of(units=2)
    lease = cluster.lease(units=2, until=100, term=10)
    cluster.crash("tenant", restart=False)
    cluster.advance(20)
    assert cluster.state(lease)["authority"] == "active"
    assert len(cluster.units()) == 2
    cluster.restart("tenant")
    cluster.advance(1)
    assert cluster.state(lease)["authority"] == "closed"
    assert cluster.now == 21


@pytest.mark.long
@pytest.mark.leasehold("processes")
@pytest.mark.leasehold_cluster(units=2)
def test_the_same_in_processes(leasehold_cluster: ProcessCluster) -> None:
    """Three processes, files, HTTP, and units that are processes; a crash is a SIGKILL."""
    lease = leasehold_cluster.lease(units=2, until=400, term=100)
    assert leasehold_cluster.state(lease) == {
        "service_manager": "active",
        "broker": "ticketed",
        "authority": "active",
    }
    assert len(leasehold_cluster.units()) == 2
    leasehold_cluster.crash("site")
    assert leasehold_cluster.state(lease)["authority"] == "active"
    leasehold_cluster.flex(lease, 1)
    assert len(leasehold_cluster.units()) == 1
    leasehold_cluster.close(lease)
    assert leasehold_cluster.units() == set()
    before = leasehold_cluster.now
    leasehold_cluster.advance(2)
    assert leasehold_cluster.now == before + 2


@pytest.mark.long
def test_the_command_line_says_which(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_what_it_is(leasehold_cluster):
            assert type(leasehold_cluster).__name__ == "ProcessCluster"
            assert leasehold_cluster.state("tenant:1")["broker"] is None
        """
    )
    pytester.runpytest_subprocess("--leasehold=processes", "-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_an_actor_that_is_not_there_has_a_near_miss(leasehold_cluster: EmbeddedCluster) -> None:
    with pytest.raises(
        ValueError, match=r"there is no actor 'sit'; did you mean site\? \(there are: tenant, broker, site\)"
    ):
        leasehold_cluster.crash("sit")


# Any system

ROOT = Path(__file__).parents[2]
RING = str(ROOT / "examples/ring")


def elect(ring: AnySystem) -> None:
    """The same for actors in one process and for processes."""
    for number in (1, 2):
        ring.tell(f"node[{number}]", "enter", after="node[0]")
    ring.crash("node-1", restart=False)
    assert ring.state("node[1]") is None
    ring.tell("node[0]", "start")
    ring.restart("node-1")
    ring.advance(2)
    assert [ring.state(f"node[{number}]") for number in range(3)] == ["following", "following", "leading"]
    assert ring.data("node[0]")["best"] == 2
    with pytest.raises(Exception, match="'strat'"):
        ring.tell("node[0]", "strat")


def commit(system: AnySystem) -> None:
    run = system.begin("coordinator", "begin")
    for n in range(2):
        system.crash("coordinator")
        system.tell(f"participant[{n}]", "able")
    assert system.state("coordinator") == system.state("participant[1]", run) == "committed"
    other = system.begin("coordinator", "begin")
    assert other != run
    assert system.state("participant[0]") == "voting"
    assert system.state("participant[0]", run) == "committed"


@pytest.mark.parametrize(("name", "work"), [(RING, elect), ("two_phase_commit", commit)])
def test_any_system_runs_in_a_test(
    leasehold_system: Callable[..., AnySystem], name: str, work: Callable[[AnySystem], None]
) -> None:
    work(leasehold_system(name, None if name == RING else {"participants": 2}))


def test_names_that_are_none_are_said_with_the_nearest(
    leasehold_system: Callable[..., AnySystem], leasehold_replay: Callable[..., None]
) -> None:
    system = leasehold_system("two_phase_commit", {"participants": 2})
    for call in (lambda: system.begin("cordinator", "begin"), lambda: system.tell("cordinator", "begin")):
        with pytest.raises(
            LookupError, match=r"two_phase_commit has no machine 'cordinator'; did you mean coordinator\?"
        ):
            call()
    with pytest.raises(AssertionError, match=r"there is no file nowhere\.yaml; `leasehold replay"):
        leasehold_replay("nowhere.yaml")


@pytest.mark.long
@pytest.mark.leasehold("processes")
@pytest.mark.parametrize(("name", "work"), [(RING, elect), ("two_phase_commit", commit)])
def test_any_system_runs_as_processes_in_a_test(
    leasehold_system: Callable[..., AnySystem], name: str, work: Callable[[AnySystem], None]
) -> None:
    system = leasehold_system(name, None if name == RING else {"participants": 2})
    assert isinstance(system, ProcessSystem)
    work(system)
    folder = system.fleet.folder
    system.stop()
    assert not folder.exists()


@pytest.mark.long
def test_processes_are_at_rest_when_who_is_up_has_its_messages() -> None:
    """However long the pause is before a message to a process that was away is sent again."""
    pauses = {"first_pause_seconds": 6.0, "longest_pause_seconds": 6.0}
    ring = ProcessSystem(RING, more={"messages": pauses})
    try:
        elect(ring)
    finally:
        ring.stop()


def test_a_test_repairs_a_unit_as_an_operator_does(leasehold_cluster_of: Callable[..., EmbeddedCluster]) -> None:
    world = SimulatedUnits(fails=lambda action, chance: action.verb == "teardown")
    options = ActorOptions(seed=0, retry=RetryPolicy(tries=1))
    leasehold_cluster = leasehold_cluster_of(units=3, handler=SimulatedHandler(world), options=options)
    with pytest.raises(ActorError, match="does not take repaired in idle: it has not failed"):
        leasehold_cluster.tell_unit("unit-2", "repaired")
    with pytest.raises(LookupError, match=r"no unit 'unit-7'; did you mean unit-"):
        leasehold_cluster.tell_unit("unit-7", "repaired")
    lease = leasehold_cluster.lease(units=1, until=30)
    leasehold_cluster.close(lease)
    leasehold_cluster.advance(2)
    assert leasehold_cluster.unit_state("unit-0") == "failed"
    leasehold_cluster.tell_unit("unit-0", "repaired")
    assert [leasehold_cluster.unit_state(f"unit-{n}") for n in range(2)] == ["closed", "idle"]


TESTED = """
def test_a_lease_is_closed(leasehold_cluster):
    lease = leasehold_cluster.lease(units=2, until=30)
    leasehold_cluster.crash("site")
    leasehold_cluster.close(lease)


def test_nodes_elect_one(leasehold_system):
    ring = leasehold_system(%r, {"nodes": 4})
    for number in (1, 2, 3):
        ring.tell(f"node[{number}]", "enter", after="node[0]")
    ring.crash("node-1")
    ring.tell("node[0]", "start")
    ring.advance(2)
"""


@pytest.mark.long
@pytest.mark.leasehold("processes")
def test_the_events_of_processes_are_kept_too(leasehold_system: Callable[..., ProcessSystem], tmp_path: Path) -> None:
    system = leasehold_system("two_phase_commit", {"participants": 2})
    commit(system)
    for name, lines in system.logs().items():
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    words = ["--system", "two_phase_commit", "--set", "participants=2", "--json"]
    found = json.loads(CliRunner().invoke(conform, [str(tmp_path), *words]).output)
    assert found["findings"] == []
    assert found["coverage"]["crashed_in"]["covered"] > 0
    assert len(found["logs"]) == 3


def test_what_tests_have_exercised_is_kept_and_conforms(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTED % RING)
    pytester.runpytest_inprocess("-q", "--leasehold-coverage", "logs").assert_outcomes(passed=2)
    folders = {folder.name.rpartition("-")[2]: folder for folder in (pytester.path / "logs").iterdir()}
    assert sorted(file.stem for file in folders["test_a_lease_is_closed"].iterdir()) == ["broker", "site", "tenant"]
    for folder, system in (("test_a_lease_is_closed", "lease"), ("test_nodes_elect_one", RING)):
        settings = ["--set", "max_units=4"] if system == "lease" else []
        result = CliRunner().invoke(conform, [str(folders[folder]), "--system", system, *settings, "--json"])
        found = json.loads(result.output)
        assert found["findings"] == []
        assert sum(log["steps"] for log in found["logs"]) > 8
        assert all(log["steps"] == log["by_reference"] for log in found["logs"])
        assert sum(log["messages"] for log in found["logs"]) > 3
        assert found["coverage"]["crashed_in"]["covered"] > 0


# A test that passes is judged

LATE = """
system: late
roles: {lamp: {}, house: {}}
actors: {all: [lamp, house]}
clock: {horizon: 9}
environment: {go: {to: lamp}, dusk: {to: house}}
"""
LAMP = """
role: lamp
events: {go: It is lit.}
data: {since: time}
states:
  dark: {initial: true, on: {go: {to: bright, set: {since: now}}}}
  bright: {on: {tick: {to: burnt, when: now >= since + 9}}, ignore: {go: it is lit}}
  burnt: {ignore: {go: it is burnt}}
"""
HOUSE = """
role: house
events: {dusk: It gets dark.}
states: {day: {initial: true, on: {dusk: {to: night}}}, night: {ignore: {dusk: it is dark}}}
"""
CLAIMS = """
properties: {lit_at_night: {always: house.state == night or lamp.state == dark, doc: No light is lit by day.}}
"""
CLAIMS_OF_EACH_KIND = {  # a run is over in an end
    "lit_at_night": "always: house.state == night or lamp.state == dark",
    "lit_once_it_is_night": "step: house.state == night or lamp.state == old(lamp.state)",
    "dark_again_soon": "when: lamp.state == bright, leads_to: lamp.state != bright, within: 1",
    "dark_again": "when: lamp.state == bright, leads_to: lamp.state != bright",
    "dark_at_times": "always_eventually: lamp.state == dark",
    "dark_in_the_end": "eventually_always: lamp.state == dark",
    "lit_of_each_number": "for: {n: [0, 1]}, always: lamp.state == dark or n == 0",
}
REFINES = """
refines: {{system: ../slow, map: {{lamp.state: {mapped}}}}}
"""
SLOW = """
system: slow
roles: {lamp: {}}
environment: {warm: {to: lamp}, go: {to: lamp}}
"""
SLOW_LAMP = """
role: lamp
events: {warm: It gets warm., go: It is lit.}
states:
  dark: {initial: true, on: {warm: {to: warming}}, ignore: {go: it is cold}}
  warming: {on: {go: {to: bright}}, ignore: {warm: it gets warm}}
  bright: {ignore: {warm: it is, go: it is lit}}
"""
TEST = """
import pytest

{marker}
def test_it_is_lit(leasehold_system):
    house = leasehold_system("late")
    house.begin("lamp", "go")
    house.advance(3)
    assert house.state("lamp") == "bright"
"""


def write_late(pytester: pytest.Pytester, claims: str, marker: str = "", more: str = "") -> None:
    for name, text in {
        "late/system.yaml": LATE + more,
        "late/invariants.yaml": claims,
        "late/roles/lamp.yaml": LAMP,
        "late/roles/house.yaml": HOUSE,
        "slow/system.yaml": SLOW,
        "slow/invariants.yaml": "properties: {}",
        "slow/roles/lamp.yaml": SLOW_LAMP,
    }.items():
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    pytester.makepyfile(TEST.format(marker=marker))


def test_a_test_that_fails_can_be_stepped_through(pytester: pytest.Pytester) -> None:
    """It leaves its events, and the command that it prints begins at their end, in the model."""
    write_late(pytester, CLAIMS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    (line,) = (line for line in result.outlines if line.startswith("step through them: "))
    *_, system, option, folder = shlex.split(line)
    assert option == "--from"
    beginning = begin_at(str(pytester.path / system), {}, [folder])
    walker = Walker(load(pytester.path / system))
    followed = beginning.follow(walker)
    assert followed.lost is None
    assert walker.snapshot(followed.position).control["lamp"] == "bright"


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("", "lit_at_night is violated in all:1, cut 1"),
        ("@pytest.mark.leasehold_violates('lit_at_night')", ""),
        ("@pytest.mark.leasehold_violates()", ""),
        ("@pytest.mark.leasehold_violates('lit_at_night', 'other')", "other was to be violated, and is not"),
    ],
)
def test_a_test_whose_actors_violate_a_property_fails_with_the_steps(
    pytester: pytest.Pytester, marker: str, words: str
) -> None:
    write_late(pytester, CLAIMS, marker)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--strict-markers")
    result.assert_outcomes(failed=bool(words), passed=not words)
    if words:
        result.stdout.fnmatch_lines([f"*{words}*"])
    if words and not marker:
        result.stdout.fnmatch_lines(["*1  lamp: go  [[]dark -> bright]"])


@pytest.mark.parametrize("expected", ["lit_for_each", "other"])
def test_a_violation_is_expected_by_the_name_of_a_property_for_each_value(
    pytester: pytest.Pytester, expected: str
) -> None:
    claim = 'lit_for_each: {for: {n: [0, 1]}, always: "house.state == night or lamp.state == dark or n > 1", doc: So.}'
    write_late(pytester, f"properties: {{{claim}}}", f"@pytest.mark.leasehold_violates('{expected}')")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=expected != "other", failed=expected == "other")


PLACES = pytest.mark.parametrize("where", ["embedded", pytest.param("processes", marks=pytest.mark.long)])


@PLACES
@pytest.mark.parametrize("name", CLAIMS_OF_EACH_KIND)
def test_each_kind_of_property_is_judged_of_actors_in_one_process_and_in_several(
    name: str, where: str, pytester: pytest.Pytester
) -> None:
    claims = f"properties: {{{name}: {{{CLAIMS_OF_EACH_KIND[name]}, doc: It is so.}}}}"
    write_late(pytester, f"{claims}\nends: {{lit: lamp.state == bright}}")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--leasehold={where}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{name}*is violated*", "*1  lamp: go  [[]dark -> bright]"])


@PLACES
def test_a_refinement_is_judged_of_actors_in_one_process_and_in_several(where: str, pytester: pytest.Pytester) -> None:
    write_late(pytester, "properties: {}", more=REFINES.format(mapped="dark if lamp.state == dark else bright"))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--leasehold={where}")
    result.assert_outcomes(failed=1)
    lines = [
        "refines is violated in all:1, cut 1 at tick 0",
        "*a step that `slow` does not have: from lamp=dark to lamp=bright",
    ]
    result.stdout.fnmatch_lines([*lines, "*1  lamp: go  [[]dark -> bright]"])


def test_a_run_that_refines_passes(pytester: pytest.Pytester) -> None:
    write_late(pytester, "properties: {}", more=REFINES.format(mapped="dark"))
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_every_kind_of_property_of_the_language_is_planted_or_no_run_can_violate_it() -> None:
    planted = {kind for claim in CLAIMS_OF_EACH_KIND.values() for kind in get_args(PropertyKind) if f"{kind}:" in claim}
    assert {*get_args(PropertyKind)} - planted == {"sometimes", "always_possible"}


# One test, embedded and as processes

CUT_OFF = """
import pytest

def test_who_is_cut_off_is_heard_later(leasehold_system, leasehold_where):
    ring = leasehold_system({ring!r}, {{"nodes": 3}})
    for number in (1, 2):
        ring.tell(f"node[{{number}}]", "enter", after="node[0]")
    with ring.partition("node-0", "node-1"):
        ring.tell("node[0]", "start")
        ring.advance(2)
        assert [ring.state(f"node[{{number}}]") for number in range(3)] == ["electing"] * 3
    assert [ring.state(f"node[{{number}}]") for number in range(3)] == ["following", "following", "leading"]
    assert ring.now == 2
    assert type(ring).__name__ == {{"embedded": "EmbeddedSystem", "processes": "ProcessSystem"}}[leasehold_where]

def test_a_term_of_an_hour_needs_none(leasehold_cluster):
    lease = leasehold_cluster.lease(units=2, until=60, term=60)
    leasehold_cluster.advance(50)
    assert leasehold_cluster.state(lease)["service_manager"] == "active"
    leasehold_cluster.wait_until(lambda: leasehold_cluster.state(lease)["service_manager"] == "closed")
    assert 50 < leasehold_cluster.now <= 60
    with pytest.raises(TimeoutError, match="it does not hold after 3 ticks, at tick"):
        leasehold_cluster.wait_until(lambda: False, ticks=3)
"""


@pytest.mark.long
def test_one_test_is_played_embedded_and_as_processes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CUT_OFF.format(ring=RING))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-v", "--leasehold=both")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*::test_who_is_cut_off_is_heard_later[[]embedded] PASSED*", "*[[]processes] PASSED*"])


def test_a_partition_is_of_two_actors_one_way_or_both(leasehold_system: Callable[..., AnySystem]) -> None:
    ring = leasehold_system(RING, {"nodes": 3})
    for number in (1, 2):
        ring.tell(f"node[{number}]", "enter", after="node[0]")
    cut = ring.partition("node-2", "node-1", both=False)
    ring.tell("node[1]", "start")
    assert ring.state("node[0]") == "electing"
    assert ring.state("node[1]") == "electing", "its own candidate comes back from no neighbour yet"
    cut.heal()
    cut.heal()
    assert ring.state("node[2]") == "leading"
    with pytest.raises(ValueError, match="there is no actor 'node-7'"):
        ring.partition("node-7", "node-1")
    with pytest.raises(ValueError, match="node-1 and node-1 are one actor"):
        ring.partition("node-1", "node-1")


def test_a_test_says_where_it_runs_or_learns_that_there_is_no_such_place(pytester: pytest.Pytester) -> None:
    marked = "import pytest\n@pytest.mark.leasehold({})\ndef test_one(leasehold_cluster): pass\n"
    for given, words in {
        "'procesess'": "there is no place 'procesess'; did you mean processes?",
        "faults='crahs=1'": "there is no fault 'crahs'; did you mean crash?",
        "faults='halt=1'": "a schedule has no halt (there are: crash, lose, duplicate, reorder)",
        "schedules=-1": "there cannot be -1 schedules",
        "runs=3": "unexpected keyword argument 'runs'",
    }.items():
        pytester.makepyfile(marked.format(given))
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
        assert words in result.stdout.str() + result.stderr.str()
        assert result.ret != 0


# One test, under many schedules

SCHEDULED = """
import pytest

{marker}
def test_the_highest_leads(leasehold_system, tmp_path):
    assert not list(tmp_path.iterdir()), "each play has fixtures of its own"
    (tmp_path / "mark").write_text("")
    ring = leasehold_system({ring!r}, {{"nodes": 3}})
    for number in (1, 2):
        ring.tell(f"node[{{number}}]", "enter", after="node[0]")
    ring.tell("node[0]", "start")
    {last}
"""
LEADS = 'assert ring.state("node[2]") == "leading"'
NO_CRASH = 'print("played"); assert ring.cluster.schedule.faults["crash"] < 2'


def scheduled(pytester: pytest.Pytester, *words: str, marker: str = "", last: str = LEADS) -> pytest.RunResult:
    pytester.makepyfile(test_ring=SCHEDULED.format(ring=RING, marker=marker, last=last))
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *words)


def test_a_test_is_played_under_schedules_and_says_how_many_were_different(pytester: pytest.Pytester) -> None:
    marker = "@pytest.mark.leasehold(schedules=12, faults='crash=2,lose=2,duplicate=1,reorder=1')"
    result = scheduled(pytester, marker=marker)
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if "12 schedules, " in line]
    _, different, *struck = line.partition(": ")[2].split(", ")
    faults = dict(word.split() for word in struck)
    assert 6 < int(different.split()[0]) <= 12
    assert faults.keys() == {"crash", "lose", "duplicate", "reorder"}
    assert int(faults["crash"]) > 3
    assert int(faults["lose"]) > 3
    assert int(faults["duplicate"]) > 2


def test_a_schedule_that_fails_says_its_seed_which_plays_it_alone(pytester: pytest.Pytester) -> None:
    faults = "--leasehold-faults=crash=2"
    result = scheduled(pytester, "--leasehold-schedules=30", faults, last=NO_CRASH)
    result.assert_outcomes(failed=1)
    told = result.stdout.str()
    again = next(line for line in result.outlines if line.startswith("it alone: pytest "))
    seed = again.split()[4]
    assert again == f"it alone: pytest test_ring.py::test_the_highest_leads {seed} {faults}"
    assert told.count("\ncrash: node-") == 2
    assert told.count("\nplayed\n") == 1, "what this play has printed, and no other"
    assert "node[1]: enter after=node[0]  [outside -> joining]" in told, "the steps are drawn"
    once = scheduled(pytester, seed, faults, last=NO_CRASH)
    once.assert_outcomes(failed=1)
    crashes = [[line for line in of if line.startswith("crash: node-")] for of in (once.outlines, result.outlines)]
    assert crashes[0] == crashes[1]
    scheduled(pytester, "--leasehold-seed=0", faults, last=NO_CRASH).assert_outcomes(passed=1)


def test_schedules_in_which_nothing_happens_show_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(leasehold_system):\n    leasehold_system('two_phase_commit')\n")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--leasehold-schedules=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["3 schedules, 0 different: nothing happened in any of them, so they show nothing"])


@pytest.mark.parametrize(("faults", "passes"), [("none", False), ("crash=1", True)])
def test_a_property_that_is_to_be_violated_is_so_under_some_schedule(
    faults: str, passes: bool, pytester: pytest.Pytester
) -> None:
    """The lamp's own actor crashes in some schedules alone."""
    name = "stays_up"
    write_late(pytester, f"properties: {{{name}: {{always: running(lamp), doc: So.}}}}")
    marker = f"@pytest.mark.leasehold(schedules=15, faults='{faults}')\n@pytest.mark.leasehold_violates('{name}')"
    pytester.makepyfile(TEST.format(marker=marker))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=passes, failed=not passes)
    if not passes:
        result.stdout.fnmatch_lines([f"{name} was to be violated, and is not"])


def test_a_violation_under_a_schedule_is_drawn(pytester: pytest.Pytester) -> None:
    write_late(pytester, "properties: {stays_up: {always: running(lamp), doc: So.}}")
    result = pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "--leasehold-schedules=15", "--leasehold-faults=crash=1"
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["stays_up is violated in all:1*", "*crash:all", "*it alone: pytest *--leasehold-seed=*"]
    )


def test_processes_are_played_once_where_others_have_schedules(pytester: pytest.Pytester) -> None:
    result = scheduled(pytester, "--leasehold-schedules=3", "--leasehold=both", "--collect-only", "-q")
    assert result.outlines[:2] == [
        f"test_ring.py::test_the_highest_leads[{place}]" for place in ("embedded", "processes")
    ]
