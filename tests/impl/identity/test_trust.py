"""Trust sets: changes, and their file."""

import contextlib
import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.signed import Unauthorised, UnknownSender
from leasehold.impl.identity.trust import Trust, TrustFault, add, readdress, remove, revoke, rotate
from leasehold.impl.identity.trust_file import TrustFile

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
    thrice = rotate(twice, "tenant", PrivateKey.generate().public, old_until=3000)
    assert [k.not_after for k in thrice.find("tenant").keys] == [1000, 3000, 3000, None]
    without = rotate(thrice, "tenant", PrivateKey.generate().public)
    assert [k.not_after for k in without.find("tenant").keys] == [1000, 3000, 3000, None, None]
    assert (without.find("tenant").kind, without.find("tenant").address) == ("service_manager", "http://h:1")


FIRST, LAST = -62_135_596_800, 253_402_300_799  # seconds since 1970 of the first and last moment of a calendar


@pytest.mark.parametrize("end", [FIRST, -30_610_224_001, -1, 0, LAST])
def test_the_end_of_a_key_is_any_moment_of_the_years_1_to_9999(end: int) -> None:
    for trust in (add(Trust(), "a", "broker", OLD, "", end), rotate(TRUST, "tenant", NEW, end)):
        assert end in [k.not_after for actor in trust.actors.values() for k in actor.keys]
        assert trust_file.parse(trust_file.render(trust).encode()) == trust, "and its file can be read again"


@pytest.mark.parametrize("end", [FIRST - 1, LAST + 1, 10**20])
def test_no_other_end_of_a_key_is_taken(end: int) -> None:
    with pytest.raises(TrustFault, match="years 1 to 9999"):
        add(Trust(), "a", "broker", OLD, "", end)
    with pytest.raises(TrustFault, match="years 1 to 9999"):
        rotate(TRUST, "tenant", NEW, end)


def test_a_key_counts_until_its_end_and_not_at_it() -> None:
    actor = add(Trust(), "a", "broker", OLD, "", 1000).find("a")
    assert (actor.holds(OLD.fingerprint, 999.9), actor.holds(OLD.fingerprint, 1000)) == (True, False)
    assert not actor.holds(NEW.fingerprint, 0), "a key that is none of its own"


def test_a_revoked_key_is_over_at_once_and_never_comes_back():
    trust = revoke(rotate(TRUST, "tenant", NEW), "tenant", OLD.fingerprint)
    assert [k.revoked for k in trust.find("tenant").keys] == [True, False]
    assert trust.find("east") == TRUST.find("east")
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


def test_of_many_that_are_trusted_ten_are_named():
    trust = Trust()
    for n in range(12):
        trust = add(trust, f"a{n:02}", "broker", PrivateKey.generate().public)
    with pytest.raises(TrustFault) as refused:
        trust.find("zz")
    assert [f"a{n:02}" in str(refused.value) for n in range(12)] == [True] * 10 + [False] * 2


def test_what_a_file_leaves_out_is_what_its_schema_says() -> None:
    """The model of the file is what editors show; the loader has to agree with it."""
    entry = {"kind": "broker", "keys": [{"key": str(OLD)}]}
    (actor,) = trust_file.parse(json.dumps({"version": 1, "actors": {"a": entry}}).encode()).actors.values()
    model = trust_file.ActorEntry("broker", [trust_file.KeyEntry(str(OLD))])
    assert actor.address == model.address == ""
    assert (actor.keys[0].revoked, actor.keys[0].not_after) == (model.keys[0].revoked, model.keys[0].not_after)
    assert (model.keys[0].revoked, model.keys[0].not_after) == (False, None)


def test_a_stranger_learns_no_names():
    with pytest.raises(UnknownSender) as refused:
        TRUST.sender("tennant")
    assert "tenant" not in refused.value.reason.replace("tennant", "")


def test_an_actor_speaks_for_machines_of_its_role_only():
    assert TRUST.speaker("tenant", "service_manager").name == "tenant"
    node = add(TRUST, "n3", "participant", NEW)
    assert node.speaker("n3", "participant[2]").name == "n3"
    for machine in ("broker", "service_manager2", "service", ""):
        with pytest.raises(Unauthorised):
            TRUST.speaker("tenant", machine)
    with pytest.raises(UnknownSender):
        TRUST.speaker("nobody", "broker")


def test_an_actor_of_several_roles_speaks_for_machines_of_each_and_of_no_other():
    trust = add(Trust(), "both", "coordinator, participant", NEW)
    for machine in ("coordinator", "participant[2]"):
        assert trust.speaker("both", machine).name == "both"
    for machine in ("broker", "coordinator, participant", "coord", ""):
        with pytest.raises(Unauthorised, match="both is trusted as coordinator, participant, and cannot speak for"):
            trust.speaker("both", machine)
    assert trust_file.parse(trust_file.render(trust).encode()) == trust
    with pytest.raises(TrustFault, match="'broker,broker' names a role twice"):
        add(Trust(), "twice", "broker,broker", NEW)


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
        ("a", "broker", "http://h\x07", "address"),
        ("a", "x" * 65, "", "role"),
        ("a", "9x", "", "role"),
    ],
)
def test_what_cannot_be_an_actor_is_refused(name, kind, address, words):
    words = f"cannot be an? .*{words}"
    with pytest.raises(TrustFault, match=words):
        add(TRUST, name, kind, NEW, address)
    document = {"version": 1, "actors": {name: {"kind": kind, "address": address, "keys": [{"key": str(NEW)}]}}}
    with pytest.raises(TrustFault, match=f"(?s)actor .*{words}"):
        trust_file.parse(json.dumps(document).encode())
    if address:
        with pytest.raises(TrustFault, match=words):
            readdress(TRUST, "tenant", address)


def test_the_longest_names_are_good() -> None:
    trust = add(Trust(), "a" * 64, "x" * 64, NEW, "x" * 500)
    assert trust_file.parse(trust_file.render(trust).encode()) == trust
    assert readdress(TRUST, "tenant", "x" * 500).find("tenant").address == "x" * 500


def test_an_actor_that_is_removed_is_trusted_no_more_and_the_others_are() -> None:
    assert remove(TRUST, "tenant").actors == {"east": TRUST.find("east")}
    with pytest.raises(TrustFault, match="is a key of east"):
        add(TRUST, "west", "broker", OTHER)


def test_a_trust_set_is_a_value():
    with pytest.raises(TypeError):
        TRUST.actors["x"] = None  # type: ignore[index]
    remove(TRUST, "tenant")
    assert "tenant" in TRUST.actors


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


def test_a_file_is_written_for_people() -> None:
    """Version first, actors by their names, an actor's keys last; what an actor or key has not is left out."""
    late = revoke(rotate(TRUST, "tenant", NEW, 0), "tenant", OLD.fingerprint)
    lines = trust_file.render(late).splitlines()
    assert lines[0].startswith("# ")
    assert lines[1:] == [
        "version: 1",
        "actors:",
        "  east:",
        "    kind: broker",
        "    keys:",
        f"    - key: {OTHER}",
        "  tenant:",
        "    kind: service_manager",
        "    address: http://h:1",
        "    keys:",
        f"    - key: {OLD}",
        "      not_after: '1970-01-01T00:00:00Z'",
        "      revoked: true",
        f"    - key: {NEW}",
    ]


def test_a_moment_with_any_zone_is_read_as_the_same_moment() -> None:
    for text in ("1970-01-01T00:16:40Z", "1970-01-01T02:16:40+02:00", "1969-12-31T19:16:40-05:00"):
        entry = {"kind": "broker", "keys": [{"key": str(OLD), "not_after": text}]}
        trust = trust_file.parse(json.dumps({"version": 1, "actors": {"a": entry}}).encode())
        assert [k.not_after for k in trust.find("a").keys] == [1000]


@pytest.mark.parametrize("text", ["version: 1", "{version: 1, actors: }", "{version: 1, actors: {}}"])
def test_nobody_may_be_trusted_yet(text: str) -> None:
    assert trust_file.parse(text.encode()) == Trust()


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
        (f"{{version: 1, actors: {{a: {{kind: b, keys: [{{key: '{OLD}', not_after: 5}}]}}}}}}", "with its zone"),
        (
            f"{{version: 1, actors: {{a: {{kind: b, keys: [{{key: '{OLD}', not_after: '2031-01-31T00:00:00'}}]}}}}}}",
            "with its zone",
        ),
        (
            f"{{version: 1, actors: {{a: {{kind: b, "
            f"keys: [{{key: '{OLD}', not_after: '0001-01-01T00:00+14:00'}}]}}}}}}",
            "with its zone",
        ),
        (f"{{version: 1, actors: {{a: {{kind: 3, keys: {KEY}}}}}}}", "`kind` and `address` are texts"),
        (f"{{version: 1, actors: {{a: {{kind: b, address: 3, keys: {KEY}}}}}}}", "`kind` and `address` are texts"),
        ("{version: 1, actors: {a: {kind: b, keys: {}}}}", "`keys` is a list"),
        ("{version: 1, actors: {a: {kind: b, keys: [7]}}}", "actor a, key 1: fields by name"),
        (f"{{version: 1, actors: {{a: {{kind: b, keys: [{KEY[1:-1]}, {{}}]}}}}}}", "a, key 2: .*`key` is missing"),
        ("version: " + "1" * 5000, "no YAML"),
        ("[" * 5000, "no YAML"),
        ("{version: 1, actors: {a: &x {kind: broker}, b: *x}}", "references are not used"),
        ("!!python/object/apply:os.getcwd []", "no YAML"),
    ],
)
def test_a_file_that_is_no_trust_set_is_refused_with_the_place(text, words):
    with pytest.raises(TrustFault, match=words):
        trust_file.parse(text.encode())


@given(st.binary(max_size=80) | st.text(alphabet="{}[]:, ab1&*!'\"-\n?|>", max_size=40).map(str.encode))
def test_no_content_of_a_file_breaks_its_reader(content):
    with contextlib.suppress(TrustFault):
        trust_file.parse(content)


def test_a_change_is_written_whole_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "trust.yaml"
    changed = trust_file.change(path, lambda t: add(t, "tenant", "service_manager", OLD))
    assert trust_file.load(path) == changed == add(Trust(), "tenant", "service_manager", OLD)
    assert sorted(os.listdir(tmp_path)) == [".trust.yaml.lock", "trust.yaml"]
    assert path.stat().st_mode & 0o777 == 0o644
    before, files = path.stat(), len(os.listdir("/proc/self/fd"))
    assert trust_file.change(path, lambda t: t) == changed
    assert path.stat() == before, "what changes nothing does not write the file anew"
    assert len(os.listdir("/proc/self/fd")) == files, "and the lock is given up"


def test_a_refused_first_change_leaves_nothing_at_all(tmp_path):
    with pytest.raises(TrustFault):
        trust_file.change(tmp_path / "trust.yaml", lambda t: remove(t, "nobody"))
    assert os.listdir(tmp_path) == []


def test_where_no_file_can_be_read_or_written_the_fault_says_so(tmp_path):
    nowhere = tmp_path / "absent" / "trust.yaml"
    with pytest.raises(TrustFault, match=f"{nowhere} cannot be changed"):
        trust_file.change(nowhere, lambda t: t)
    with pytest.raises(TrustFault, match=f"{nowhere} cannot be written"):
        trust_file.save(nowhere, TRUST)
    with pytest.raises(TrustFault, match=f"{tmp_path} cannot be read"):
        trust_file.load(tmp_path)


def test_a_file_is_not_read_without_end(tmp_path, monkeypatch):
    path = tmp_path / "trust.yaml"
    path.touch(0o644)
    os.truncate(path, (16 << 20) + 1)
    with pytest.raises(TrustFault, match="too large"):
        trust_file.load(path)
    path.write_text("version: 1\nactors: {}\n# a word")
    monkeypatch.setattr(trust_file, "_LARGEST_FILE", path.stat().st_size)
    assert trust_file.load(path) == Trust()
    monkeypatch.setattr(trust_file, "_LARGEST_FILE", path.stat().st_size - 1)
    with pytest.raises(TrustFault, match="too large"):
        trust_file.load(path)


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
    for mode in (0o664, 0o646, 0o620, 0o602, 0o666):
        path.chmod(mode)
        with pytest.raises(TrustFault, match=f"chmod go-w {path}"):
            trust_file.load(path)
    for mode in (0o644, 0o600, 0o755, 0o444):  # others may read it
        path.chmod(mode)
        assert trust_file.load(path) == TRUST


def test_a_running_actor_sees_a_revocation_at_once(tmp_path):
    path = tmp_path / "trust.yaml"
    trust_file.save(path, TRUST)
    running = TrustFile(path)
    assert running.current().find("tenant").holds(OLD.fingerprint, 0)
    trust_file.change(path, lambda t: revoke(t, "tenant", OLD.fingerprint))
    assert not running.current().find("tenant").holds(OLD.fingerprint, 0)


@pytest.mark.parametrize("first", [True, False], ids=["at its start", "later"])
def test_a_change_while_the_file_is_being_read_is_seen_the_next_time(tmp_path, monkeypatch, first):
    path, real, changes = tmp_path / "trust.yaml", trust_file.load, []

    def load(where):
        """Reads the file, which is changed before anything else is done."""
        found = real(where)
        if changes:
            trust_file.change(path, changes.pop())
        return found

    trust_file.save(path, TRUST)
    if first:
        monkeypatch.setattr(trust_file, "load", load)
        changes.append(lambda t: revoke(t, "tenant", OLD.fingerprint))
    running = TrustFile(path)
    if not first:
        monkeypatch.setattr(trust_file, "load", load)
        trust_file.save(path, readdress(TRUST, "tenant", "http://h:2"))
        changes.append(lambda t: revoke(t, "tenant", OLD.fingerprint))
        assert running.current().find("tenant").address == "http://h:2"
    assert not running.current().find("tenant").holds(OLD.fingerprint, 0)


def test_a_change_in_place_that_hides_its_time_is_seen(tmp_path):
    path = tmp_path / "trust.yaml"
    trust_file.save(path, TRUST)
    running, before = TrustFile(path), path.stat()
    changed = path.read_bytes().replace(b"http://h:1", b"http://h:2")
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the kernel's clock has coarse ticks
        path.write_bytes(changed)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
    assert running.current().find("tenant").address == "http://h:2"


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
