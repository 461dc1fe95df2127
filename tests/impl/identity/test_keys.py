"""Keys and their files."""

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.identity.keys import KeyFault, PrivateKey, PublicKey, Purpose, base64_of, unbase64

PEM = b"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n"
UNKNOWN_KIND = base64.b64encode(bytes.fromhex("300d020100300506032a0304040100"))  # PKCS8 of an algorithm 1.2.3.4


def test_a_key_that_was_saved_and_loaded_signs_alike(tmp_path):
    key = PrivateKey.generate()
    key.save(tmp_path / "tenant.pem")
    loaded = PrivateKey.load(tmp_path / "tenant.pem")
    assert loaded.public == key.public
    assert loaded.sign(Purpose.ENVELOPE, b"body") == key.sign(Purpose.ENVELOPE, b"body")
    assert os.listdir(tmp_path) == ["tenant.pem"], "nothing is left beside it"


def test_a_key_file_is_its_owners_alone_whatever_the_umask(tmp_path):
    path = tmp_path / "tenant.pem"
    before = os.umask(0)
    try:
        PrivateKey.generate().save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_other_could_open_the_key_file_at_any_moment(tmp_path):
    """Every file that is made on the way is made with mode 0600: seen in the calls themselves."""
    program = (
        "import sys; from pathlib import Path; from leasehold.impl.identity.keys import PrivateKey\n"
        "import os; real = os.open; modes = []\n"
        "os.open = lambda path, flags, mode=0o777, **kw: (modes.append(mode) if flags & os.O_CREAT else None,"
        " real(path, flags, mode, **kw))[1]\n"
        "os.umask(0); PrivateKey.generate().save(Path(sys.argv[1]))\n"
        "print([oct(m) for m in modes])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "k.pem")], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "['0o600']", "one file was created, and with 0600"


def test_a_key_is_never_overwritten(tmp_path):
    path = tmp_path / "tenant.pem"
    PrivateKey.generate().save(path)
    before = path.read_bytes()
    with pytest.raises(KeyFault, match="never overwritten"):
        PrivateKey.generate().save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["tenant.pem"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_key_file_that_others_can_open_is_refused_with_the_remedy(tmp_path, mode):
    path = tmp_path / "tenant.pem"
    PrivateKey.generate().save(path)
    path.chmod(mode)
    with pytest.raises(KeyFault, match=f"chmod 600 {path}"):
        PrivateKey.load(path)
    for mode_of_owner in (0o600, 0o400, 0o700):
        path.chmod(mode_of_owner)
        PrivateKey.load(path)


@pytest.mark.parametrize("content", [b"", b"hello", PEM % b"AAAA", PEM % UNKNOWN_KIND])
def test_a_file_without_a_key_is_refused(tmp_path, content):
    path = tmp_path / "tenant.pem"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(KeyFault, match="holds no private key"):
        PrivateKey.load(path)


def test_a_key_of_another_kind_or_with_a_password_is_refused(tmp_path):
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    other = generate_private_key(SECP256R1())
    for encryption, words in (
        (serialization.NoEncryption(), "another kind"),
        (serialization.BestAvailableEncryption(b"secret"), "password"),
    ):
        path = tmp_path / words
        path.touch(0o600)
        path.write_bytes(other.private_bytes(pem, pkcs8, encryption))
        with pytest.raises(KeyFault, match=words):
            PrivateKey.load(path)


def test_what_is_no_file_is_refused_and_nothing_hangs(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, words in (("pipe", "not a file"), (".", "not a file|cannot be read"), ("absent", "no key file")):
        with pytest.raises(KeyFault, match=words):
            PrivateKey.load(tmp_path / name)
    with pytest.raises(KeyFault, match="cannot be written"):
        PrivateKey.generate().save(tmp_path / "no folder" / "k.pem")


def test_a_file_that_cannot_be_a_key_is_not_read_without_end(tmp_path):
    path = tmp_path / "tenant.pem"
    path.touch(0o600)
    for size, words in ((65_536, "holds no private key"), (65_537, "too large to be a key file")):
        os.truncate(path, size)
        with pytest.raises(KeyFault, match=words):
            PrivateKey.load(path)


def test_a_file_that_cannot_be_opened_or_read_is_told(tmp_path):
    (tmp_path / "file").touch(0o600)
    for path in (tmp_path / "file" / "k.pem", Path("/proc/self/mem")):  # the second can be opened, and nothing read
        with pytest.raises(KeyFault, match=f"the key file {path} cannot be read"):
            PrivateKey.load(path)


def test_a_key_file_that_was_read_is_closed_also_after_a_refusal(tmp_path):
    good, bad = tmp_path / "good.pem", tmp_path / "bad.pem"
    PrivateKey.generate().save(good)
    bad.touch(0o644)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        PrivateKey.load(good)
        with pytest.raises(KeyFault):
            PrivateKey.load(bad)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_public_key_and_its_text_are_one():
    key = PrivateKey.generate().public
    assert PublicKey.parse(str(key)) == key
    assert PublicKey.parse(f"  {key}\n") == key
    assert len(key.fingerprint) == 32


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ed25519:",
        "ed25519:AAAA",
        "ed25519:" + "A" * 44,
        "ed25519:" + "!" * 43,
        "ssh-ed25519 AAAA",
        "ed25519:" + "é" * 43,
        "ed25519:" + "A" * 42 + "B",
    ],
)
def test_what_is_no_public_key_is_refused(text):
    with pytest.raises(KeyFault, match="no public key"):
        PublicKey.parse(text)


def test_a_private_key_is_not_taken_for_a_public_one_nor_shown(tmp_path):
    key = PrivateKey.generate()
    key.save(tmp_path / "k")
    pem = (tmp_path / "k").read_text()
    with pytest.raises(KeyFault, match="private key") as refused:
        PublicKey.parse(pem)
    assert pem.split("\n")[1] not in str(refused.value)
    assert key.public.fingerprint in repr(key)


def test_a_signature_is_good_for_its_purpose_only():
    key = PrivateKey.generate()
    signature = key.sign(Purpose.ENVELOPE, b"body")
    assert key.public.verifies(Purpose.ENVELOPE, b"body", signature)
    assert not key.public.verifies(Purpose.TICKET, b"body", signature)
    assert not key.public.verifies(Purpose.ENVELOPE, b"Body", signature)
    assert not key.public.verifies(Purpose.ENVELOPE, b"body", b"")
    for one in Purpose:
        assert not any(other is not one and other.value.startswith(one.value) for other in Purpose)


@given(st.binary(max_size=100))
def test_bytes_have_one_text(raw):
    assert unbase64(base64_of(raw)) == raw


@given(st.text(alphabet="AB-_/+= \nQ", max_size=8))
def test_a_text_is_read_only_if_it_would_be_written_so(text):
    raw = unbase64(text)
    assert raw is None or base64_of(raw) == text
