"""keygen, key, trust, and the verbs that change a trust set."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey, PublicKey
from leasehold.impl.identity.trust import TrustFault, add, rotate
from tests.cli.conftest import Run, as_json

KEYS = [PublicKey(bytes([i]) * 32) for i in range(3)]  # the same in every process: they are in names of tests
OLD, NEW, OTHER = map(str, KEYS)
OLD_FINGERPRINT, NEW_FINGERPRINT, OTHER_FINGERPRINT = (key.fingerprint for key in KEYS)
URL = "http://10.0.0.9:8472"
BROKER = ("add-actor", "--role", "broker")


@pytest.fixture
def site(run: Run, tmp_path: Path) -> Path:
    """A trust set in which `site` is an authority."""
    assert run("add-actor", "--role", "authority", "site", OLD, "--address", URL).returncode == 0
    return tmp_path / "trust.yaml"


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Keys


def test_keygen_makes_a_file_for_its_owner_and_never_replaces_one(run: Run, tmp_path: Path) -> None:
    made = run("keygen", "site.key")
    public = PrivateKey.load(tmp_path / "site.key").public
    assert made.stdout == f"public key   {public}\nfingerprint  {public.fingerprint}\n"
    assert (made.returncode, (tmp_path / "site.key").stat().st_mode & 0o777) == (0, 0o600)
    before = _files(tmp_path)
    again = run("keygen", "site.key")
    assert (again.returncode, again.stdout, _files(tmp_path)) == (2, "", before)
    assert again.stderr == "leasehold: site.key exists, and a key is never overwritten; choose another name\n"


def test_key_shows_what_keygen_has_shown_and_nothing_private(run: Run, tmp_path: Path) -> None:
    made = as_json(run("keygen", "site.key", "--json"))
    assert as_json(run("key", "site.key", "--json")) == made
    assert as_json(run("key", made["public_key"], "--json")) == made
    secret = (tmp_path / "site.key").read_text().splitlines()[1]
    assert secret not in run("key", "site.key").stdout


@pytest.mark.parametrize("form", ["{key}", "@{file}", "{file}"])
@pytest.mark.parametrize("content", ["{key}", "{key}\n", "public key   {key}\nfingerprint  x\n", '{{"k": "{key}"}}'])
def test_a_key_is_given_as_text_or_in_a_file(form: str, content: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.pub").write_text(content.format(key=OLD))
    assert as_json(run("key", form.format(key=OLD, file="a.pub"), "--json"))["public_key"] == OLD


def test_of_a_private_key_file_the_public_part_alone_is_taken(run: Run, tmp_path: Path) -> None:
    public = as_json(run("keygen", "a.key", "--json"))["public_key"]
    assert run(*BROKER, "a", "a.key").returncode == 0
    text = (tmp_path / "trust.yaml").read_text()
    assert public in text
    assert "PRIVATE" not in text
    (tmp_path / "a.key").chmod(0o644)
    open_to_all = run(*BROKER, "b", "@a.key")
    assert (open_to_all.returncode, "chmod 600 a.key" in open_to_all.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("none.pub", "nor is there such a file"),
        ("@none.pub", "the key file none.pub cannot be read: No such file"),
        ("ed25519:short", "'ed25519:short' is no public key"),
        (".", "is not a file that could hold a key"),
        ("empty.pub", "empty.pub holds no key"),
        ("two.pub", "two.pub holds 2 public keys"),
        ("half.pub", "half.pub: 'ed25519:half' is no public key"),
        ("bad.key", "bad.key holds no private key in PEM form"),
    ],
)
def test_what_is_no_key_is_2_in_one_line(words: str, said: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.pub").write_text("")
    (tmp_path / "two.pub").write_text(f"{OLD}\n{NEW}\n")
    (tmp_path / "half.pub").write_text("ed25519:half\n")
    (tmp_path / "bad.key").write_text("-----BEGIN PRIVATE KEY-----\nx\n")
    (tmp_path / "bad.key").chmod(0o600)
    before = _files(tmp_path)
    done = run(*BROKER, "a", words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
    assert _files(tmp_path) == before


# Trust


@pytest.mark.parametrize("role", ["broker", "authority", "service_manager", "participant"])
def test_an_actor_is_added_once_and_again_changes_nothing(role: str, run: Run, tmp_path: Path) -> None:
    words = ("add-actor", "--role", role, "a", OLD, "--address", URL, "--not-after", "2999-01-31")
    end = "2999-01-31T00:00:00Z"
    done = f"trust.yaml: a is trusted as {role}, with the key {OLD_FINGERPRINT} until {end}\n"
    assert run(*words).stdout == done
    before = _files(tmp_path)
    again = run(*words)
    assert again.stdout == "trust.yaml: a is trusted as exactly this already; nothing was changed\n"
    assert (again.returncode, _files(tmp_path)) == (0, before)
    assert as_json(run("trust", "--json"))["actors"] == [
        {
            "name": "a",
            "role": role,
            "address": URL,
            "keys": [
                {
                    "public_key": OLD,
                    "fingerprint": OLD_FINGERPRINT,
                    "not_after": end,
                    "revoked": False,
                    "state": "counts",
                }
            ],
        }
    ]


@pytest.mark.long
def test_a_rotation_says_until_when_the_old_key_counts(run: Run, site: Path) -> None:
    done = run("rotate", "site", NEW, "--old-until", "30d").stdout
    said = re.fullmatch(
        f"trust.yaml: site has the new key {NEW_FINGERPRINT}; {OLD_FINGERPRINT} counts until (.*)\n", done
    )
    assert said
    until = datetime.fromisoformat(said[1])
    assert timedelta(days=29, hours=23) < until - datetime.now(UTC) <= timedelta(days=30)
    actor = trust_file.load(site).find("site")
    assert [k.not_after for k in actor.keys] == [int(until.timestamp()), None]
    assert run("rotate", "site", OTHER).stdout.endswith(
        f"until {said[1]}, {NEW_FINGERPRINT} counts until it is revoked\n"
    )


@pytest.mark.long
def test_a_key_is_revoked_once_and_for_ever(run: Run, site: Path) -> None:
    run("rotate", "site", NEW)
    done = f"trust.yaml: the key {OLD_FINGERPRINT} of site is revoked; one of its keys counts\n"
    assert run("revoke", "site", OLD_FINGERPRINT).stdout == done
    again = run("revoke", "site", OLD_FINGERPRINT).stdout
    assert again == f"trust.yaml: the key {OLD_FINGERPRINT} of site was revoked before; nothing was changed\n"
    assert run("revoke", "site", NEW_FINGERPRINT).stdout.endswith("no key of it counts any more\n")
    assert run("rotate", "site", OTHER).stdout.endswith("; no older key of it counts\n")
    table = run("trust").stdout.splitlines()
    assert [line.split() for line in table] == [
        ["name", "role", "address", "key", "until", "state"],
        ["site", "authority", URL, OLD_FINGERPRINT, "revoked"],
        [NEW_FINGERPRINT, "revoked"],
        [OTHER_FINGERPRINT, "counts"],
    ]


@pytest.mark.long
def test_an_actor_moves_and_leaves(run: Run, site: Path) -> None:
    assert run("readdress", "site", "http://h:1").stdout == "trust.yaml: site is at http://h:1\n"
    again = as_json(run("readdress", "site", "http://h:1", "--json"))
    assert (again["changed"], again["actor"]["address"]) == (False, "http://h:1")
    assert run("remove-actor", "site").stdout == "trust.yaml: site is trusted no more\n"
    assert run("trust").stdout == "trust.yaml: nobody is trusted yet\n"


def test_the_table_is_not_cut_and_shows_an_address_as_it_is(run: Run, tmp_path: Path) -> None:
    address = "http://[bold]/" + "x" * 300
    run(*BROKER, "b" * 64, OLD, "--address", address, "--trust", "other.yaml")
    assert run("trust", "--trust", "other.yaml").stdout.splitlines()[1].split()[:3] == ["b" * 64, "broker", address]


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*BROKER, "site", NEW), "is trusted already"),
        ((*BROKER, "b", OLD), "is a key of site"),
        ((*BROKER, "a b", NEW), "cannot be an actor's name"),
        (("add-actor", "--role", "Big", "b", NEW), "cannot be a role"),
        ((*BROKER, "b", NEW, "--address", "a b"), "cannot be an address"),
        ((*BROKER, "b", NEW, "--not-after", "soon"), "--not-after takes a date such as 2031-01-31"),
        ((*BROKER, "b", NEW, "--not-after", "2001-01-31"), "is not in the future"),
        ((*BROKER, "b", NEW, "--not-after", "999999999w"), "is too far away"),
        ((*BROKER, "b", NEW, "--not-after", "9999-12-31T23:59-14:00"), "is too far away"),
        (("rotate", "site", NEW, "--old-until", "0s"), "revoke it"),
        (("rotate", "site", OLD), "is a key of site"),
        (("rotate", "sight", NEW), "did you mean site?"),
        (("revoke", "site", NEW_FINGERPRINT), f"site has no key '{NEW_FINGERPRINT}'"),
        (("remove-actor", "sit"), "did you mean site?"),
        (("readdress", "sit", URL), "did you mean site?"),
        (("trust", "--trust", "none.yaml"), "there is no trust set none.yaml"),
        (("revoke", "site", OLD_FINGERPRINT, "--trust", "none.yaml"), "there is no trust set none.yaml"),
        ((*BROKER, "b", "x", "--trust", "none.yaml"), "is no public key"),
        ((*BROKER, "a b", NEW, "--trust", "none.yaml"), "cannot be an actor's name"),
        ((*BROKER, "b", NEW, "--trust", "none/trust.yaml"), "cannot be changed: No such file"),
        (("trust", "--trust", "."), "cannot be read: it is no plain file"),
    ],
)
def test_a_fault_is_2_in_one_line_and_changes_nothing(words: tuple[str, ...], said: str, run: Run, site: Path) -> None:
    before = _files(site.parent)
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("leasehold: ")
    assert said in done.stderr
    assert _files(site.parent) == before


@pytest.mark.long
def test_a_time_without_a_zone_is_utc(run: Run, site: Path) -> None:
    for name, words in {"a": "2999-01-31T12:00", "b": "2999-01-31T12:00Z", "c": "2999-01-31T14:00+02:00"}.items():
        key = str(PrivateKey.generate().public)
        found = as_json(run(*BROKER, name, key, "--not-after", words, "--json", TZ="Asia/Tokyo"))
        assert found["actor"]["keys"][0]["not_after"] == "2999-01-31T12:00:00Z"


def test_a_trust_set_with_a_mistake_is_left_as_it_is(run: Run, site: Path) -> None:
    text = site.read_text().replace("kind:", "knd:")
    site.write_text(text)
    done = run("rotate", "site", NEW)
    assert (done.returncode, done.stderr.count("\n"), site.read_text()) == (2, 1, text)
    assert "did you mean kind" in done.stderr


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
@pytest.mark.parametrize("words", [("trust",), ("rotate", "site", NEW)])
def test_an_end_that_no_calendar_has_is_said(end: str, words: tuple[str, ...], run: Run, site: Path) -> None:
    """The date would lie beyond the year 9999 in UTC, or before the first."""
    text = site.read_text() + f"      not_after: '{end}'\n"
    site.write_text(text)
    done = run(*words)
    assert (done.returncode, done.stdout, site.read_text()) == (2, "", text)
    assert f"in the years 1 to 9999, not '{end}'" in done.stderr


@pytest.mark.parametrize("end", [-(10**12), 253_402_300_800, 10**15])
def test_an_end_that_no_calendar_has_is_never_written(end: int, site: Path) -> None:
    before = _files(site.parent)
    for how in (lambda t: rotate(t, "site", KEYS[1], end), lambda t: add(t, "b", "broker", KEYS[1], "", end)):
        with pytest.raises(TrustFault, match="within the years 1 to 9999"):
            trust_file.change(site, how)
    assert _files(site.parent) == before


def test_a_change_that_is_refused_leaves_no_lock(tmp_path: Path) -> None:
    with pytest.raises(TrustFault, match="no actor 'site' is trusted"):
        trust_file.change(tmp_path / "trust.yaml", lambda trust: rotate(trust, "site", KEYS[1]))
    assert _files(tmp_path) == {}


@pytest.mark.long
def test_json_has_the_keys_that_the_page_names(run: Run, site: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reference/command_line.md").read_text()

    def named(heading: str) -> set[str]:
        return set(re.findall(r"^\| `(\w+)` \|", page.split(f"\n{heading}\n\n")[1].split("\n\n")[0], re.MULTILINE))

    change, shown = as_json(run("rotate", "site", NEW, "--json")), as_json(run("trust", "--json"))
    assert (change["trust"], change["changed"], change["actor"]) == ("trust.yaml", True, shown["actors"][0])
    assert change["actor"]["keys"][1]["public_key"] == NEW
    assert set(change) == named("The verbs that change a trust set, with `--json`:")
    assert set(shown) == named("`trust --json`:")
    assert set(change["actor"]) == named("An actor has:")
    assert set(change["actor"]["keys"][0]) == named("A key of an actor has:")
    assert set(as_json(run("key", OLD, "--json"))) == named("`keygen --json` and `key --json`:")
    assert as_json(run("remove-actor", "site", "--json")) == {"trust": "trust.yaml", "changed": True, "actor": None}
