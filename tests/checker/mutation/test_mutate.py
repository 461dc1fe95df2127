"""Mutants: which are made, what kills them, and that every survivor of the shipped systems is explained."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.expectations import Explanation
from leasehold.checker.mutation import judge, observer
from leasehold.checker.mutation import mutate as campaign
from leasehold.checker.mutation.battery import DEFAULT, Battery, SystemLoader, Trial, battery_of
from leasehold.checker.mutation.judge import CONVERGENCE, MutationError, ReachableGraph, baseline_of, judged
from leasehold.checker.mutation.mutate import MutationReport, RuleScore, mutate
from leasehold.checker.mutation.operators import EFFECTS, RULES, Mutation, mutations
from leasehold.faults.model import DEFAULT as MANY
from leasehold.faults.model import Budget
from leasehold.spec import SpecError, System
from leasehold.spec.language.expression import TRUE
from leasehold.spec.language.expression import text as words_of
from leasehold.spec.language.model import State, Transition
from tests import mutation_page
from tests.checker.explore.test_bounds import files
from tests.systems import TRUTH, edited, files_of, load, write, written

ROOT = Path(__file__).resolve().parents[3]

TAP = files_of("checker/mutation/systems/tap")


@pytest.fixture
def tap(tmp_path: Path) -> Path:
    return write(tmp_path, TAP)


def tried(name: str | Path, jobs: int = 1) -> MutationReport:
    loader = SystemLoader(name)
    return mutate(loader, mutations(loader()), battery_of(loader), jobs=jobs)


def named(system: System, name: str) -> Mutation:
    return next(m for m in mutations(system, every_target=True) if m.name == name)


# Which are made


def test_each_rule_changes_one_thing(tap: Path) -> None:
    system = load(tap)
    found = {m.name: m for m in mutations(system)}
    assert list(found) == [
        "drop_guard tap/open#drip",
        "shift_comparison tap/open#drip level < 2 -> level <= 2",
        "shift_comparison tap/open#drip level < 2 -> level < 1",
        "add_conjunct tap/shut#turn level < 2",
        "add_conjunct tap/shut#turn not level < 2",
        "add_conjunct tap/open#turn level < 2",
        "add_conjunct tap/open#turn not level < 2",
        "swap_target tap/shut#turn -> shut",
        "swap_target tap/open#turn -> open",
        "swap_target tap/open#drip -> shut",
        "add_transition tap/shut#drip -> shut",
        "add_transition tap/shut#drip -> open, as in open",
        "add_transition tap/open#drip -> open",
        "ignore_event tap/shut#turn",
        "ignore_event tap/open#turn",
        "ignore_event tap/open#drip",
        "drop_update tap/shut#turn red",
        "drop_update tap/open#drip level",
        "change_update tap/shut#turn red: false",
        "change_update tap/open#drip level: level + 1 + 1",
        "change_update tap/open#drip level: level + 1 - 1",
    ]
    dripping = system.roles["tap"].states["open"].on["drip"][0]

    def changed(name: str) -> State:
        return found[name].applied(system).roles["tap"].states["open"]

    def mutated(name: str) -> Transition:
        return changed(name).on["drip"][0]

    assert mutated("drop_guard tap/open#drip") == replace(dripping, guard=None)
    shifted = mutated("shift_comparison tap/open#drip level < 2 -> level < 1").guard
    assert shifted is not None
    assert words_of(shifted) == "level < 1"
    added = changed("add_transition tap/open#drip -> open").on["drip"]
    assert [(t.target, words_of(t.guard or TRUE)) for t in added] == [("open", "level < 2"), ("open", "not level < 2")]
    ignoring = changed("ignore_event tap/open#turn")
    assert ("turn" in ignoring.on, "turn" in ignoring.ignore) == (False, True)
    assert words_of(mutated("change_update tap/open#drip level: level + 1 - 1").updates[0].value) == "level + 1 - 1"
    assert mutated("swap_target tap/open#drip -> shut") == replace(dripping, target="shut", internal=False)
    assert mutated("drop_update tap/open#drip level") == replace(dripping, updates=())
    assert found["drop_guard tap/open#drip"].what == "without its guard `level < 2`"
    assert found["swap_target tap/open#drip -> shut"].what == "to shut, not staying in open"
    assert (found["drop_update tap/shut#turn red"].place.line, found["drop_guard tap/open#drip"].place.line) == (5, 9)


@pytest.mark.parametrize(
    "most", [pytest.param(150, marks=pytest.mark.long), pytest.param(None, marks=pytest.mark.slow)]
)
def test_a_mutant_differs_in_no_more_than_its_place(most: int | None) -> None:
    system = load("lease")
    every = mutations(system)
    for mutation in every if most is None else random.Random(5).sample(every, most):
        changed = mutation.applied(system)
        role = mutation.subject.partition("/")[0]
        state = mutation.subject.partition("/")[2].partition("#")[0]
        assert changed != system
        if "contract" in mutation.rule:
            contract = mutation.subject.partition("/")[2]
            others = {**changed.environment, contract: system.environment[contract]}
            assert replace(changed, environment=others) == system
            continue
        assert replace(changed, roles=system.roles, properties=system.properties) == system  # but for what they accept
        assert changed.properties.keys() == system.properties.keys()
        assert {r for r in system.roles if changed.roles[r] != system.roles[r]} == {role}
        before, after = system.roles[role].states, changed.roles[role].states
        changed_states = {s for s in before if after[s] != before[s]}
        if mutation.rule == "change_field" or "condition" in mutation.rule:
            assert changed_states == set()
        elif state in before:
            assert changed_states == {state}
        else:  # a definition: what it says is one text in all guards that use it
            assert changed_states


@pytest.mark.long
def test_names_are_unique_and_fit_every_setting() -> None:
    system, other = load("lease"), load("lease", {"max_units": 1, "expiry": False})
    found = mutations(system, every_target=True)
    assert len({m.name for m in found}) == len(found)
    assert mutations(other, every_target=True) == found
    assert {m.rule for m in found} == set(RULES)
    assert pickle.loads(pickle.dumps(found)) == found
    assert all(m.applied(other) != other for m in found[::29])


def test_every_target_is_every_other_state() -> None:
    role = load("lease").roles["broker"]
    all_ = [m for m in mutations(load("lease"), every_target=True) if m.rule == "swap_target"]
    some = [m for m in mutations(load("lease")) if m.rule == "swap_target"]
    assert set(some) < set(all_)
    denied = "broker/ticketing#denied"
    assert [m.item for m in all_ if m.subject == denied] == [f"-> {s}" for s in role.states if s != "closed"]
    assert [m.item for m in some if m.subject == denied] == ["-> ticketing", "-> nascent"]
    again = "broker/ticketed#extend_ticket.2"  # comes back to where it was
    assert [m.item for m in some if m.subject == again] == ["-> extending"]


def test_a_mutation_of_another_system_is_refused(tap: Path) -> None:
    (mutation,) = [m for m in mutations(load(tap)) if m.rule == "drop_guard"]
    with pytest.raises(KeyError):
        mutation.applied(load("lease"))
    with pytest.raises(KeyError):
        replace(mutation, subject="tap/open#fly").applied(load(tap))
    with pytest.raises(KeyError):
        replace(mutation, rule="drop_update", item="green").applied(load(tap))
    with pytest.raises(KeyError):
        replace(mutation, rule="drop_task", subject="tap/open", item="leak").applied(load(tap))


# What kills them


def test_what_becomes_of_each(tap: Path) -> None:
    found = tried(tap)
    assert {o.mutation.name: o.noticed for o in found.survivors} == {
        "shift_comparison tap/open#drip level < 2 -> level < 1": "full",
        "add_conjunct tap/shut#turn level < 2": "",
        "add_conjunct tap/shut#turn not level < 2": "full",
        "add_conjunct tap/open#turn not level < 2": "",
        "ignore_event tap/open#drip": "full",
        "drop_update tap/open#drip level": "full",
        "change_update tap/open#drip level: level + 1 + 1": "",
        "change_update tap/open#drip level: level + 1 - 1": "full",
    }
    assert {m.name: (k.by, k.steps) for m, k in found.kills} == {
        "shift_comparison tap/open#drip level < 2 -> level <= 2": ("types_hold", 3),
        "add_conjunct tap/open#turn level < 2": ("can_shut", 3),
        "swap_target tap/open#turn -> open": ("can_shut", 1),
        "swap_target tap/open#drip -> shut": ("drips_while_open", 2),
        "add_transition tap/shut#drip -> shut": ("drips_while_open", 1),
        "add_transition tap/shut#drip -> open, as in open": ("never_fills_when_shut", 1),
        "ignore_event tap/open#turn": ("can_shut", 1),
    }
    assert [m.name for m in found.equivalent] == ["add_transition tap/open#drip -> open"]
    assert [m.name for m in found.unseen] == ["drop_update tap/shut#turn red", "change_update tap/shut#turn red: false"]
    assert {o.mutation.name: o.refused[:5] for o in found.outcomes if o.refused} == {
        "drop_guard tap/open#drip": "LH412",
        "swap_target tap/shut#turn -> shut": "LH403",
        "ignore_event tap/shut#turn": "LH403",
    }
    assert (found.total, found.total.others, found.refusals()) == (
        RuleScore(21, 3, 1, 7, 2),
        15,
        {"LH403": 2, "LH412": 1},
    )
    assert found.by_rule()["drop_guard"] == RuleScore(1, 1, 0, 0)
    assert found.by_rule()["add_transition"] == RuleScore(3, 0, 1, 2)


HANDS = files_of("checker/mutation/systems/hands")
ALL = {"press": "event.hard < 2", "pull": "index(self) < 2", "step": "index(self) < 1", "go": "msg.far < 2"}


def hands(folder: Path, **guards: str) -> Path:
    """Writes the system of hands with some guards in the place of those that are always true."""
    texts = dict(HANDS)
    for event, guard in {**ALL, **guards}.items():
        texts = {name: text.replace(f"@{event}", f'"{guard}"') for name, text in texts.items()}
    return write(folder, texts)


@pytest.mark.parametrize(
    ("event", "guard", "same"),
    [
        ("press", "event.hard <= 1", True),
        ("press", "event.hard < 1", False),
        ("press", "event.hard > 0", False),
        ("press", "index(self) < 1", False),
        ("press", "event.hard > 1", False),
        ("pull", "index(self) > 0", False),
        ("pull", "index(self) > 1", False),
        ("step", "index(self) > 0", False),
        ("go", "msg.far < 1", False),
        ("go", "msg.sender == head[1]", False),
        ("go", "msg.far == index(msg.sender)", True),
    ],
)
def test_a_step_is_the_same_in_all_its_parts_or_another(event: str, guard: str, same: bool, tmp_path: Path) -> None:
    """The machine that takes an event, its values and its sender count, though the same state follows."""
    of, other = (load(hands(tmp_path / name, **guards)) for name, guards in (("a", {}), ("b", {event: guard})))
    assert ReachableGraph(of, Trial()).is_of(other) == same
    assert ReachableGraph(other, Trial()).is_of(of) == same


def test_only_what_the_system_itself_satisfies_counts(tap: Path) -> None:
    text = (
        TAP["invariants.yaml"]
        .replace("tap.level == 2}", "tap.level == 3}")
        .replace("unread", "red")
        .replace("tap.red or not tap.red", "not tap.red")
    )
    (tap / "invariants.yaml").write_text(text)
    found = tried(tap)
    assert {k.by for _, k in found.kills}.isdisjoint({"full", "red"})
    assert "drop_update tap/open#drip level" in [o.mutation.name for o in found.survivors]


def test_a_claim_that_has_lost_its_cases_is_noticed_but_kills_nothing(tap: Path) -> None:
    (tap / "invariants.yaml").write_text("properties: {kept: {when: tap.level > 0, always: tap.level <= 2}}\n")
    found = tried(tap)
    lost = {o.mutation.name for o in found.survivors if o.noticed == "vacuous: kept"}
    assert lost >= {"ignore_event tap/open#drip", "drop_update tap/open#drip level"}


def test_a_claim_that_had_no_cases_has_lost_none(tap: Path) -> None:
    (tap / "invariants.yaml").write_text("properties: {kept: {when: tap.level > 2, always: tap.level <= 2}}\n")
    assert {o.noticed for o in tried(tap).survivors} == {""}


def test_a_mutant_that_runs_away_is_cut_short(tap: Path) -> None:
    role = TAP["roles/tap.yaml"].replace("type: int, max: 2", "type: int").replace("level < 2", "level != 3")
    (tap / "roles/tap.yaml").write_text(role)
    mutation = named(load(tap), "change_update tap/open#drip level: level + 1 + 1")
    found = mutate(SystemLoader(tap), [mutation], Battery((Trial(),)))
    assert [(o.mutation, o.cut_short) for o in found.survivors] == [(mutation, True)]


def test_a_system_at_fault_has_no_mutants(tap: Path) -> None:
    (tap / "roles/tap.yaml").write_text(TAP["roles/tap.yaml"].replace("level < 2", "level < 9"))
    with pytest.raises(MutationError, match="tap with the declared constants: the specification is at fault"):
        tried(tap)


def test_which_trial_of_the_system_itself_comes_is_said_before_it(tap: Path) -> None:
    """The message says in which one there is a fault."""
    (tap / "roles/tap.yaml").write_text(TAP["roles/tap.yaml"].replace("level < 2", "level < 9"))
    said: list[tuple[str, int, int]] = []
    loader = SystemLoader(tap)
    battery = Battery((Trial(), Trial(budget=Budget.parse("crash=1"))))
    with pytest.raises(MutationError):
        mutate(loader, [], battery, progress=lambda p: said.append((p.stage, p.tried, p.left)))
    assert said == [("the system itself, trial", 0, 2)]


@pytest.mark.slow
def test_two_phase_commit() -> None:
    found = tried("two_phase_commit")
    assert (found.total, found.out_of_date) == (RuleScore(made=159, refused=36, equivalent=57, killed=44, unseen=9), ())
    assert found.by_rule() == {
        "drop_guard": RuleScore(6, 6, 0, 0),
        "swap_target": RuleScore(31, 16, 0, 15),
        "add_transition": RuleScore(72, 0, 53, 7),
        "ignore_event": RuleScore(17, 8, 0, 8),
        "drop_task": RuleScore(8, 6, 0, 2),
        "drop_update": RuleScore(6, 0, 0, 3, 3),
        "change_update": RuleScore(12, 0, 1, 5, 6),
        "exchange_guards": RuleScore(3, 0, 0, 3),
        "exchange_answers": RuleScore(1, 0, 0, 1),
        "drop_contract": RuleScore(1, 0, 1, 0),
        "drop_contract_operand": RuleScore(2, 0, 2, 0),
    }
    assert found.refusals() == {"LH402": 6, "LH403": 24, "LH408": 5, "LH412": 1}
    assert sum(found.by_property().values()) == 44


def test_some_mutants_of_two_phase_commit() -> None:
    loader = SystemLoader("two_phase_commit")
    every, small = mutations(loader()), battery_of(loader).within({"participants": "1"})
    found = mutate(loader, random.Random(1).sample(every, 12), small, whole=every)
    kinds = (found.total.refused, found.total.equivalent, found.total.killed, len(found.survivors))
    assert kinds == (3, 5, 4, 0)


@pytest.mark.long
def test_processes_find_the_same() -> None:
    loader = SystemLoader("two_phase_commit")
    some = random.Random(3).sample(mutations(loader()), 10)
    here, there = (mutate(loader, some, battery_of(loader), jobs=jobs) for jobs in (1, 2))
    assert [replace(o, seconds=0) for o in here.outcomes] == [replace(o, seconds=0) for o in there.outcomes]


@pytest.mark.long
def test_a_sample_of_the_lease() -> None:
    loader = SystemLoader("lease")
    chosen = random.Random(1).sample(mutations(loader()), 12)
    cheap = Battery(battery_of(loader).trials[:3])
    found = mutate(loader, chosen, cheap)
    assert 2 * found.total.killed >= found.total.others > 3, [o.mutation.name for o in found.survivors]


@pytest.mark.parametrize("count", [pytest.param(5, marks=pytest.mark.long), pytest.param(300, marks=pytest.mark.slow)])
def test_engines_judge_mutants_alike(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that stops at the first violation finds the same until then, whoever searches."""
    loader = SystemLoader("lease")
    every, cheap = mutations(loader()), Battery(battery_of(loader).trials[3:4])
    found = []
    for engine in ("packed", "reference"):
        monkeypatch.setattr(judge, "explore", partial(explore, engine=engine))
        found.append(mutate(loader, random.Random(2).sample(every, count), cheap))
    assert len(found[0].outcomes) == count
    assert [(o.mutation, o.kill) for o in found[0].outcomes] == [(o.mutation, o.kill) for o in found[1].outcomes]


@pytest.mark.slow
def test_the_lease() -> None:
    printed = "\n".join(mutation_page.printed()) + "\n"
    assert (ROOT / "docs/mutation.md").read_text() == printed, "run python tests/mutation_page.py > docs/mutation.md"


@pytest.mark.parametrize("number", [pytest.param(10, marks=pytest.mark.long), pytest.param(11, marks=pytest.mark.slow)])
def test_what_is_never_met_is_the_system_itself(number: int) -> None:
    loader = SystemLoader("lease")
    trial = battery_of(loader).trials[number]
    system = loader(trial.settings)
    baseline, graph = judge.baseline_of(system, trial), judge.ReachableGraph(system, trial)
    never = [m for m in mutations(loader()) if m.rule in EFFECTS and m.subject in baseline.unvisited]
    assert len(never) > 100
    for mutation in random.Random(4).sample(never, 8):
        assert graph.is_of(mutation.applied(system)), mutation.name


def test_ctrl_c_reports_what_is_known(tap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def judged(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    real = campaign.judged
    monkeypatch.setattr(campaign, "judged", judged)
    found = tried(tap)
    assert [(o.mutation.name, o.refused[:5]) for o in found.outcomes] == [
        ("drop_guard tap/open#drip", "LH412"),
        ("shift_comparison tap/open#drip level < 2 -> level <= 2", ""),
    ]
    assert (len(found.kills), found.survivors, found.undecided) == (1, [], 19)


def test_ctrl_c_ends_the_processes_of_a_campaign_and_no_others(tap: Path) -> None:
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    other.start()

    def interrupt(progress: campaign.MutationProgress) -> None:
        if progress.stage == "mutant":
            raise KeyboardInterrupt

    loader = SystemLoader(tap)
    found = mutate(loader, mutations(loader()), Battery((Trial(),)), jobs=2, progress=interrupt)
    assert found.undecided >= 20
    assert multiprocessing.active_children() == [other]
    other.kill()
    other.join()


def test_survivors_are_said_as_soon_as_they_are_known(tap: Path) -> None:
    said: list[campaign.MutationProgress] = []
    loader = SystemLoader(tap)
    found = mutate(loader, mutations(loader()), Battery((Trial(),)), progress=said.append)
    stages = {p.survivor.mutation.name: p.stage for p in said if p.survivor is not None and not p.survivor.unseen}
    left = [o for o in found.outcomes if o.survives or o.unseen]
    assert list(stages) == [o.mutation.name for o in sorted(left, key=lambda o: stages[o.mutation.name] != "mutant")]
    unseen = [p.survivor.mutation for p in said if p.survivor is not None and p.survivor.unseen]
    assert unseen == found.unseen != []
    assert {name for name, stage in stages.items() if stage != "mutant"} == {"add_conjunct tap/shut#turn level < 2"}
    first = next(p for p in said if p.survivor is not None)
    assert (first.stage, first.tried, first.left, first.killed) == ("mutant", 3, 21, 1)
    assert "equivalent in trial 1 of 1" in {p.stage for p in said}


def test_trials_in_which_nothing_is_changed_come_last(tap: Path) -> None:
    """Nothing drips in the first trial, so an error in what a drop does is looked for in the second one."""
    (tap / "system.yaml").write_text(
        "system: tap\nroles: {tap: {}}\nconstants: {wet: {type: bool, value: false}}\n"
        "environment: {turn: {to: tap}, drip: {to: tap, when: wet}}\n"
    )
    dry, wet = Trial((("wet", "false"),)), Trial((("wet", "true"),))
    some = [named(load(tap), n) for n in ("swap_target tap/open#drip -> shut", "swap_target tap/open#turn -> open")]
    found = mutate(SystemLoader(tap), some, Battery((dry, wet)))
    assert {m.subject: k.trial for m, k in found.kills} == {"tap/open#drip": wet, "tap/open#turn": dry}


# The explorer stops


def test_the_explorer_stops_at_a_violation(tap: Path) -> None:
    (tap / "invariants.yaml").write_text(
        "properties: {dry: {always: tap.level == 0}, can_shut: {always_possible: tap.state == shut}}\n"
    )
    whole, part = explore(load(tap)), explore(load(tap), Limits(stop_at_violation=True))
    assert (part.complete, part.why_incomplete) == (False, "stopped at a violation")
    assert part.distinct < whole.distinct
    assert {p.name: p.verdict for p in part.properties} == {"dry": "violated", "can_shut": "bounded"}
    assert len(part.properties[0].path or ()) == len(whole.properties[0].path or ()) == 2


# The battery


def test_without_a_file_the_battery_is_the_default(tap: Path) -> None:
    assert battery_of(SystemLoader(tap)) == DEFAULT
    assert [str(t) for t in DEFAULT.trials] == [
        "the declared constants",
        "the declared constants faults crash=1",
        f"the declared constants faults {MANY}",
    ]


def test_constants_of_the_call_go_into_every_trial() -> None:
    battery = Battery((Trial((("a", "1"), ("b", "2"))), Trial((("a", "3"), ("b", "2")))))
    assert battery.within({"a": "4"}).trials == (Trial((("a", "4"), ("b", "2"))),)
    assert battery.within({}) == battery


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batery: [{}]\n", "LH201: `batery` is not a key of a mutation campaign\n  did you mean `battery`?"),
        ("explained: {}\n", "LH202: the key `battery` of a mutation campaign is missing"),
        ("battery: []\n", "LH202: the battery is empty"),
        ("battery: [{sets: {}}]\n", "LH201: battery: `sets` is not a key of a trial\n  did you mean `set`?"),
        ("battery: [{faults: crush=1}]\n", "`crush=1` is no budget: there is no fault 'crush'; did you mean crash?"),
        ("battery: [{set: {size: 1}}]\n", "LH701: there is no constant `size` to set"),
        (
            "battery: [{}]\nexplained: {drop_guard tap/open#drop: why}\n",
            "LH602: there is no mutant `drop_guard tap/open#drop`\n  did you mean `drop_guard tap/open#drip`?",
        ),
        ("battery: [\n", "LH104"),
    ],
)
def test_a_bad_file_gets_a_clear_error(tap: Path, text: str, said: str) -> None:
    (tap / "mutation.yaml").write_text(text)
    with pytest.raises(SpecError) as error:
        battery_of(SystemLoader(tap))
    assert said in str(error.value)
    assert "mutation.yaml:" in str(error.value)


def test_explanations(tap: Path) -> None:
    (tap / "mutation.yaml").write_text(
        "battery: [{}]\nexplained:\n  drop_update * level: nobody needs a full one\n"
        "  drop_update * red: nobody sees it\n  drop_guard *: it is not so\n"
    )
    found = tried(tap)
    explained = {o.mutation.name: o.explanation for o in found.survivors if o.explanation}
    assert explained == {"drop_update tap/open#drip level": "nobody needs a full one"}
    assert len(found.unexplained) == len(found.survivors) - 1
    assert found.out_of_date == ("drop_update * red", "drop_guard *")


def test_an_explanation_is_out_of_date_only_if_all_that_it_speaks_of_was_tried(tap: Path) -> None:
    loader = SystemLoader(tap)
    every = mutations(loader())
    battery = Battery((Trial(),), (Explanation("swap_target *", "no"),))
    some = [m for m in every if m.rule == "swap_target"]
    assert mutate(loader, some[:1], battery, whole=every).out_of_date == ()
    assert mutate(loader, some, battery, whole=every).out_of_date == ("swap_target *",)


def test_updates_of_shared_variables_are_changed_too() -> None:
    system = load(TRUTH / "lock")
    found = {m.name: m for m in mutations(system) if "shared.free" in m.name}
    assert found.keys() >= {
        "drop_update process/waiting#go shared.free",
        "change_update process/waiting#go shared.free: true",
    }
    for mutation in found.values():
        wrong = explore(mutation.applied(system))
        assert [p.name for p in wrong.properties if p.verdict == "violated"], mutation.name


LAMP = files_of("checker/mutation/systems/lamp")


@pytest.mark.parametrize("first", ["true", "false"])
def test_what_was_cut_short_in_one_trial_stays_so(tmp_path: Path, first: str) -> None:
    """Whichever trial comes first: the other has as many states as the system."""
    wild = (
        "constants: {most: {type: int, value: 1}}",
        "constants: {wild: {type: bool, value: false}, most: {type: int, value: 5}}",
    )
    write(tmp_path, edited(LAMP, wild, ("when: times < most", "when: times < most and (wild or times < 2)")))
    other = "false" if first == "true" else "true"
    loader = SystemLoader(tmp_path)
    battery = Battery(tuple(Trial((("wild", value),)) for value in (first, other)))
    (mutant,) = (m for m in mutations(loader()) if m.name.endswith("times < most (and)"))
    (outcome,) = mutate(loader, [mutant], battery).outcomes
    assert (outcome.survives, outcome.cut_short) == (True, True)


@pytest.mark.parametrize("cut", [(), (0,), (1,), (2,), (0, 2)])
def test_who_has_not_looked_everywhere_has_not_seen_that_nothing_differs(
    tmp_path: Path, cut: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for differences that an observer sees may be cut short in any trial."""
    write(tmp_path, LAMP)
    loader = SystemLoader(tmp_path)
    battery = Battery(tuple(Trial((("most", str(most)),)) for most in (1, 2, 3)))
    (mutant,) = (m for m in mutations(loader()) if m.name == "drop_update lamp/dark#press red")
    limits = {trial: 0 if number in cut else observer.MOST_STATES for number, trial in enumerate(battery.trials)}
    monkeypatch.setattr(
        campaign, "compared", lambda own, other, trial: observer.compared(own, other, trial, limits[trial])
    )
    (outcome,) = mutate(loader, [mutant], battery).outcomes
    assert (outcome.unseen, outcome.survives) == (not cut, bool(cut))


@pytest.mark.parametrize(
    ("fair", "guard", "converges", "killed"),
    [("true", "k < 9", None, False), ("true", "k < 2", False, True), ("false", "k < 9", False, True)],
)
def test_a_mutant_of_which_it_is_open_whether_it_returns_is_not_killed(
    fair: str, guard: str, converges: bool | None, killed: bool, tmp_path: Path
) -> None:
    """Its runs leave the bounds of the search; the system's own return."""
    text = {n: t for n, t in files(fair, "constraint: a.k <= 2", guard).items() if n != "invariants.yaml"}
    system, trial = written(tmp_path, text), Trial(budget=Budget.parse("lose=1"))
    found = explore(system), explore(system, budget=trial.budget)
    assert convergence(*found).converges is converges
    own = replace(baseline_of(system, trial), converges=True)
    assert judged(system, trial, own).by == (CONVERGENCE if killed else "")
    assert judged(system, trial, replace(own, converges=False)).by == ""
