"""Section 3: interacting recoverable state machines, in all systems that come with Leasehold."""

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.layout import Layout
from leasehold.spec.language import expression as x
from leasehold.spec.language.lower import lower
from leasehold.spec.language.model import Call, Drive, Send
from tests.systems import load

NAMES = ["lease", "contention", "two_phase_commit", "three_phase_commit"]


def own_or_subsidiary(system, role):
    return {role.name, *(r.name for r in system.roles.values() if r.parent == role.name)}


def reads(e):
    """Roles whose records an expression reads."""
    found = set()

    def note(node):
        if isinstance(node, x.Data | x.ControlState):
            found.add(node.role)
        return False

    x.mentions(e, note)
    return found


def mentions(e, *kinds):
    return x.mentions(e, lambda node: isinstance(node, kinds))


# 3, 3.1: the model


@pytest.mark.parametrize("name", ["two_phase_commit", "three_phase_commit"])
def test_the_model_covers_two_and_three_phase_commit(name):
    """Section 3: the model generalizes two- and three-phase commit, which are systems of their own here."""
    found = explore(load(name))
    assert found.complete
    assert found.holds
    assert found.vacuous == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_transition_reads_its_own_record_the_event_and_the_clock(systems, name):
    """Section 3.1: the next state is a function of the state and the event; subsidiary machines are polled (4.3)."""
    system = systems[name]
    for role in system.roles.values():
        for transition in role.transitions():
            for e in (transition.guard, *(u.value for u in transition.updates)):
                if e is not None:
                    assert reads(e) <= own_or_subsidiary(system, role), transition.name


@pytest.mark.parametrize("name", NAMES)
def test_every_state_knows_every_message_and_every_event_from_outside(systems, name):
    """Section 3.1: the transition function is total; what is ignored or refused says why."""
    system = systems[name]
    for role in system.roles.values():
        answers = {a for t in role.tasks.values() if isinstance(t, Call | Drive) for a in t.answers}
        outside = {m.name for m in system.received_by(role.name)} | (set(role.events) - answers)
        for state in role.states.values():
            covered = state.on.keys() | state.ignore.keys() | state.refuse.keys()
            awaited = {a for n in state.tasks if isinstance(t := role.tasks[n], Call | Drive) for a in t.answers}
            assert outside | awaited <= covered, f"{role.name}/{state.name}"
            assert all(state.ignore.values())
            assert all(state.refuse.values())


def test_no_two_guards_hold_at_once(lease, timeless):
    """Section 3.1: the transition function has one value."""
    assert [p.name for p in (*lease.properties, *timeless.properties) if p.kind in ("guards", "range")] == []


def test_entering_a_state_starts_its_tasks(walk, ways):
    """Section 3.1, Figure 1: W(x) is started on entry, also when x is entered from itself."""
    w = walk()
    w.take(*ways["placed"])
    assert [(d.machine, d.event) for d in w.steps[-1].driven] == [("unit[0]", "setup")]
    w.take("unit[0]: up")
    told = w.take("authority: primed")
    assert [(m.message, m.receiver) for m in told.sent] == [("update_lease", "service_manager")]
    w.take("service_manager: close", "authority: close")
    closed = w.take("unit[0]: down"), w.take("authority: torn_down")
    assert [m.message for m in closed[1].sent] == ["update_lease"]


def test_each_way_into_a_state_sends_what_the_state_sends(lease):
    """Section 3.1, Figure 1: the work belongs to the state, not to the transition, on every shortest path."""
    roles = lease.system.roles
    stays = {t.name: t.internal for role in roles.values() for t in role.transitions()}
    seen = set()
    for cell in lease.cells:
        for step in lease.path_to(cell).steps:
            if step.transition is None or step.machine is None or stays[step.transition]:
                continue
            role = roles[step.transition.partition("/")[0]]
            tasks = [role.tasks[n] for n in role.states[step.after].tasks]
            sent, sends = {m.message for m in step.sent}, [t for t in tasks if isinstance(t, Send)]
            assert {t.message for t in sends if t.when is None} <= sent <= {t.message for t in sends}, step.title
            seen.add(step.transition)
    assert len(seen) > 30


def test_events_are_consumed_in_order(walk):
    """Section 3.1: two messages of one neighbour arrive in the order in which they were sent."""
    w = walk()
    w.take("service_manager: demand(units=1, end=3)", "service_manager: close")
    assert [t for t in w.possible() if t.startswith("broker")] == [
        "broker: ticket(units=1, start=0, end=3, type=0, properties=0) from service_manager"
    ]


# 3.2: failures


def test_messages_are_delivered_at_last(timeless, verdict):
    """Section 3.2: what was sent is delivered, so that every request is answered without any help of time."""
    assert verdict(timeless, "requests_are_answered").verdict == "exhausted"
    assert verdict(timeless, "closing_ends").verdict == "exhausted"


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, marks=pytest.mark.long),
        pytest.param({"lazy_close": False}, marks=pytest.mark.slow),
        pytest.param({"reorders": 1}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_correct_peers_never_send_what_is_refused(more, steps_of):
    """Section 3.2: a refusal is for a faulty peer; no machine of the spec can make another one refuse."""
    system = load("lease", {"last_end": 2, **more})
    layout = Layout(lower(system))
    refused, delivered = set(), 0
    for before, action, _ in steps_of(system):
        if action.kind == "deliver":
            delivered += 1
            state = system.roles[action.role].states[before[layout.at(action.role, action.instance, None)]]
            if action.transition is None and action.event in state.refuse and action.event not in state.ignore:
                refused.add((action.role, state.name, action.event))
    assert delivered > 1000
    assert refused == set()


# 3.3: commitment


@pytest.mark.parametrize("name", NAMES)
def test_a_message_is_a_function_of_the_committed_record(systems, name):
    """Section 3.3: tasks work on what was committed, so that recovery can send the same message again."""
    for role in systems[name].roles.values():
        for task in role.tasks.values():
            if isinstance(task, Send):
                for e in (*task.fields.values(), task.when, task.only):
                    assert e is None or not mentions(e, x.Argument, x.Sender, x.Now), task.name
                    assert e is None or reads(e) <= {role.name}, task.name


def test_the_record_is_committed_before_its_messages_go_out(walk, ways):
    """Section 3.3: the message carries what the transition has written, not what was there before."""
    w = walk()
    w.take(*ways["ticketed"])
    granted = w.steps[-2]
    assert granted.event == "granted"
    said = {"units": "1", "start": "0", "end": "3", "type": "0", "properties": "0", "reason": "0"}
    assert dict(granted.sent[0].fields) == said


@pytest.mark.parametrize("name", NAMES)
def test_a_state_sends_at_most_one_message_to_a_neighbour(systems, name):
    """Sections 3.3 and 4.2: at most one message to a neighbour in a transition, so its number is known again."""
    for role in systems[name].roles.values():
        for state in role.states.values():
            receivers = [t.receiver for n in state.tasks if isinstance(t := role.tasks[n], Send)]
            assert len(receivers) == len(set(receivers)), f"{role.name}/{state.name}"
        for t in role.transitions():  # nothing that recovery would not restart
            assert set(t.also) <= set(role.states[t.target].tasks), t.name


def test_a_unit_is_subsidiary_to_its_authority(systems):
    """Section 3.3: a subsidiary machine talks to its parent only, so that it can be rebuilt from it."""
    unit = systems["lease"].roles["unit"]
    assert unit.parent == "authority"
    assert not any(isinstance(t, Send) for t in unit.tasks.values())
    assert not any("unit" in (m.sender, m.receiver) for m in systems["lease"].messages.values())


# 3.4: tasks


def test_a_task_that_is_overtaken_by_an_event_is_not_waited_for(walk, ways):
    """Section 3.4: a request that was cancelled need not be finished; its late answer changes nothing."""
    w = walk()
    w.take(*ways["ticketed"], "service_manager: redeem_now", "service_manager: close")
    assert w.control["service_manager"] == "closing"
    w.take("authority: redeem", "authority: placed(units={unit[0]})", "authority: close")
    assert not [t for t in w.possible() if t in ("unit[0]: up", "authority: primed")]
    w.take("unit[0]: down", "authority: torn_down", "service_manager: update_lease")
    assert w.control["service_manager"] == "closed"


# 3.5: summary


def test_no_machine_is_seen_to_regress(lease, verdict):
    """Section 3.5: neighbours are never seen to regress to an earlier state."""
    assert verdict(lease, "no_regress").verdict == "exhausted"


def test_a_term_that_is_shortened_is_found(changed, verdict):
    """Section 3.5: `no_regress` can fail."""
    found = changed(("roles/broker.yaml", "states.extending.on.denied.set.term_end", "term_end - 1"), max_units=1)
    path = verdict(found, "no_regress").path
    assert path is not None
    assert path.steps[-1].transition == "broker/extending#denied"
