"""Trust sets: changes, and their file."""

import contextlib
import json
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.signed import Unauthorised, UnknownSender
from leasehold.impl.identity.trust import Trust, TrustFault, add, readdress, remove, revoke, rotate
from leasehold.impl.identity.trust_file import TrustFile

UNHURRIED = settings(deadline=None)  # the machine may be busy


OLD, NEW, OTHER = (PrivateKey.generate().public for _ in range(3))
TRUST = add(add(Trust(), "tenant", "service_manager", OLD, "http://h:1"), "east", "broker", OTHER)


def test_an_old_and_a_new_key_count_together_for_a_while():
    actor = rotate(TRUST, "tenant", NEW, old_until=1000).find("tenant")
    assert actor.holds(OLD.fingerprint, 999)
    assert not actor.holds(OLD.fingerprint, 1000)
    assert actor.holds(NEW.fingerprint, 999)
    assert actor.holds(NEW.fingerprint, 10**12)


def test_a_second_rotation_never_prolongs_a_key():
    once = rotate(TRUST, "tenant", NEW, old_until=1000)
    twice = rotate(once, "tenant", PrivateKey.generate().public, old_until=5000)
    assert [k.not_after for k in twice.find("tenant").keys] == [1000, 5000, None]


def test_a_revoked_key_is_over_at_once_and_never_comes_back():
    trust = revoke(rotate(TRUST, "tenant", NEW), "tenant", OLD.fingerprint)
    assert not trust.find("tenant").holds(OLD.fingerprint, 0)
    assert trust.find("tenant").holds(NEW.fingerprint, 0)
    assert revoke(trust, "tenant", OLD.fingerprint) == trust, "twice is no mistake"
    with pytest.raises(TrustFault, match="was revoked as a key of tenant"):
        rotate(trust, "tenant", OLD)
    with pytest.raises(TrustFault, match="was revoked as a key of tenant"):
        add(trust, "tenant2", "service_manager", OLD)


def test_adding_the_same_again_changes_nothing_and_another_of_its_name_is_refused():
    assert add(TRUST, "tenant", "service_manager", OLD, "http://h:1") is TRUST
    with pytest.raises(TrustFault, match="rotating"):
        add(TRUST, "tenant", "service_manager", NEW)
    with pytest.raises(TrustFault, match="is a key of tenant"):
        add(TRUST, "tenant2", "service_manager", OLD)


def test_errors_name_the_near_miss():
    with pytest.raises(TrustFault, match="did you mean tenant"):
        TRUST.find("tennant")
    with pytest.raises(TrustFault, match="nobody yet"):
        Trust().find("tenant")
    with pytest.raises(TrustFault, match=f"did you mean {OLD.fingerprint}"):
        revoke(TRUST, "tenant", OLD.fingerprint[:-1])
    with pytest.raises(TrustFault, match="did you mean"):
        remove(TRUST, "tenan")


def test_a_stranger_learns_no_names():
    with pytest.raises(UnknownSender) as refused:
        TRUST.sender("tennant")
    assert "tenant" not in refused.value.reason.replace("tennant", "")


def test_an_actor_speaks_for_machines_of_its_role_only():
    assert TRUST.speaker("tenant", "service_manager").name == "tenant"
    node = add(TRUST, "n3", "participant", NEW)
    assert node.speaker("n3", "participant[2]").name == "n3"
    with pytest.raises(Unauthorised):
        TRUST.speaker("tenant", "broker")


@pytest.mark.parametrize(
    ("name", "kind", "address", "words"),
    [
        ("", "broker", "", "name"),
        ("a b", "broker", "", "name"),
        ("-a", "broker", "", "name"),
        ("a" * 65, "broker", "", "name"),
        ("a\n", "broker", "", "name"),
        ("a", "Broker", "", "role"),
        ("a", "", "", "role"),
        ("a", "broker", "http://h 1", "address"),
        ("a", "broker", "x" * 501, "address"),
    ],
)
def test_what_cannot_be_an_actor_is_refused(name, kind, address, words):
    with pytest.raises(TrustFault, match=words):
        add(TRUST, name, kind, NEW, address)


def test_a_trust_set_is_a_value():
    with pytest.raises(TypeError):
        TRUST.actors["x"] = None  # type: ignore[index]
    remove(TRUST, "tenant")
    assert "tenant" in TRUST.actors


@UNHURRIED
@given(
    st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 4 * 10**9)), min_size=1, max_size=4),
    st.sampled_from(["", "http://[::1]:80", "nats://h/x.y", "memory:ä"]),
)
def test_a_file_says_what_was_saved(keys, address):
    trust = add(Trust(), "no", "broker", PrivateKey.generate().public, address)  # `no` is YAML's false, unquoted
    for revoked, until in keys:
        if revoked:
            trust = revoke(trust, "no", trust.find("no").keys[-1].key.fingerprint)
        trust = rotate(trust, "no", PrivateKey.generate().public, until)
    assert trust_file.parse(trust_file.render(trust).encode()) == trust


def test_json_is_good_too():
    document = {"version": 1, "actors": {"tenant": {"kind": "service_manager", "keys": [{"key": str(OLD)}]}}}
    assert trust_file.parse(json.dumps(document).encode()).find("tenant").holds(OLD.fingerprint, 0)


KEY = f"[{{key: '{OLD}'}}]"
ONE = f"{{kind: broker, keys: {KEY}}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "fields by name"),
        ("{", "no YAML"),
        ("[1]", "fields by name"),
        ("actors: {}", "`version` is missing"),
        ("version: 2", "version '2' is not known"),
        ("version: true", "not known"),
        ("{version: 1, actor: {}}", "did you mean actors"),
        ("{version: 1, actors: [a]}", "fields by name"),
        ("{version: 1, actors: {1: {}}}", "in quotes"),
        (f"{{version: 1, actors: {{a: {ONE}, a: {ONE}}}}}", "'a' is given twice"),
        (f"{{version: 1, actors: {{a: {ONE}, b: {ONE}}}}}", "the same key"),
        (f"{{version: 1, actors: {{a: {{kind: broker, keys: [{KEY[1:-1]}, {KEY[1:-1]}]}}}}}}", "given twice"),
        (f"{{version: 1, actors: {{a: {{knd: broker, keys: {KEY}}}}}}}", "no field 'knd'; did you mean kind"),
        ("{version: 1, actors: {a: {kind: broker}}}", "`keys` is missing"),
        ("{version: 1, actors: {a: {kind: broker, keys: [{key: x}]}}}", "actor a, key 1: 'x' is no public key"),
        (f"{{version: 1, actors: {{a: {{kind: broker, keys: [{{key: '{OLD}', revoked: 'no'}}]}}}}}}", "true or false"),
        (f"{{version: 1, actors: {{a: {{kind: b, keys: [{{key: '{OLD}', not_after: 2031-01-31}}]}}}}}}", "its zone"),
        (f"{{version: 1, actors: {{a: {{kind: b, keys: [{{key: '{OLD}', not_after: soon}}]}}}}}}", "with its zone"),
        ("{version: 1, actors: {a: &x {kind: broker}, b: *x}}", "references are not used"),
        ("!!python/object/apply:os.getcwd []", "no YAML"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trust_set_is_refused_with_the_place(text, words):
    with pytest.raises(TrustFault, match=words):
        trust_file.parse(text.encode())


@UNHURRIED
@given(st.binary(max_size=80) | st.text(alphabet="{}[]:, ab1&*!'\"-\n?|>", max_size=40).map(str.encode))
def test_no_content_of_a_file_breaks_its_reader(content):
    with contextlib.suppress(TrustFault):
        trust_file.parse(content)


def test_a_change_is_written_whole_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "trust.yaml"
    trust_file.change(path, lambda t: add(t, "tenant", "service_manager", OLD))
    assert trust_file.load(path).find("tenant").kind == "service_manager"
    assert sorted(os.listdir(tmp_path)) == [".trust.yaml.lock", "trust.yaml"]


def test_a_refused_change_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "trust.yaml"
    trust_file.save(path, TRUST)
    path.chmod(0o600)
    before = (path.read_bytes(), path.stat().st_ino)
    with pytest.raises(TrustFault):
        trust_file.change(path, lambda t: remove(t, "nobody"))
    assert (path.read_bytes(), path.stat().st_ino) == before
    trust_file.change(path, lambda t: readdress(t, "tenant", "http://h:2"))
    assert path.stat().st_mode & 0o777 == 0o600, "and a change keeps its mode"


def test_changes_at_once_are_all_kept(tmp_path):
    path = tmp_path / "trust.yaml"
    keys = [PrivateKey.generate().public for _ in range(8)]

    def join(i):
        trust_file.change(path, lambda t: add(t, f"actor{i}", "broker", keys[i]))

    threads = [threading.Thread(target=join, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(trust_file.load(path).actors) == 8


def test_a_file_that_others_can_write_to_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "trust.yaml"
    trust_file.save(path, TRUST)
    path.chmod(0o664)
    with pytest.raises(TrustFault, match=f"chmod go-w {path}"):
        trust_file.load(path)


def test_a_running_actor_sees_a_revocation_at_once(tmp_path):
    path = tmp_path / "trust.yaml"
    trust_file.save(path, TRUST)
    running = TrustFile(path)
    assert running.current().find("tenant").holds(OLD.fingerprint, 0)
    trust_file.change(path, lambda t: revoke(t, "tenant", OLD.fingerprint))
    assert not running.current().find("tenant").holds(OLD.fingerprint, 0)


def test_a_running_actor_keeps_the_last_good_trust_set_and_says_so(tmp_path, caplog):
    path = tmp_path / "trust.yaml"
    trust_file.save(path, TRUST)
    running = TrustFile(path)
    path.write_text("{")
    assert running.current() == TRUST
    assert running.current() == TRUST
    assert [r.levelname for r in caplog.records] == ["ERROR"], "once for each change, not for each frame"
    path.unlink()
    assert running.current() == TRUST
    trust_file.save(path, remove(TRUST, "east"))
    assert "east" not in running.current().actors


def test_an_actor_without_a_trust_set_is_told_what_to_do(tmp_path):
    with pytest.raises(TrustFault, match="add an actor"):
        TrustFile(tmp_path / "absent")
