"""An actor's Ed25519 key: made, kept in a file, and used to sign.

Every signature has a *purpose*, which is signed with the body: what was signed as an envelope is never valid as a
ticket, although one key signs both. Bodies that are signed at the same time share one Ed25519 signature, of the root of
their hash tree (merkle.py). Each has a signature of its own all the same, which holds that and its proof, and is
verified by itself. A key remembers the roots that it has verified, so that the others of a tree cost a few hashes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from leasehold.impl import files
from leasehold.impl.identity import merkle

_PREFIX = "ed25519:"
PUBLIC_KEY = re.compile(rf"({_PREFIX})?[A-Za-z0-9_-]{{43}}")
_LARGEST_FILE = 65536
_ED25519_BYTES = 64
_ROOT = b"leasehold root 1\x00"  # before the purpose, where the root of a tree is signed
_ROOTS = 4096  # that a key remembers
SIGNATURE = rf"[A-Za-z0-9_-]{{86,{(_ED25519_BYTES + merkle.LARGEST_PROOF) * 4 // 3 + 1}}}"  # in base64


class KeyFault(Exception):
    """A key, or the file of one, cannot be used: the operator's to set right. The message says how."""


class Purpose(Enum):
    """The purpose of a signature. The words are signed, so they never change, and none is the beginning of another."""

    ENVELOPE = b"leasehold envelope 1\x00"
    TICKET = b"leasehold ticket 1\x00"
    MEMBERSHIP = b"leasehold membership 1\x00"
    EVENTS = b"leasehold events 1\x00"
    REQUEST = b"leasehold request 1\x00"
    DELEGATION = b"leasehold delegation 1\x00"
    RELEASE = b"leasehold release 1\x00"
    TICKET_RELEASE = b"leasehold ticket release 1\x00"
    PACKAGE = b"leasehold package 1\x00"
    QUERY = b"leasehold query 1\x00"
    ANSWER = b"leasehold answer 1\x00"
    ALIVE = b"leasehold alive 1\x00"


@dataclass(frozen=True)
class PublicKey:
    """The public part of a key, which others know.

    Attributes:
        raw: its 32 bytes.
    """

    raw: bytes

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Reads `ed25519:` and 43 characters, as `str` writes them.

        Raises:
            KeyFault: it is no public key.
        """
        stripped = text.strip()
        if "PRIVATE KEY" in stripped:
            raise KeyFault("this is a private key, which nobody but its actor may have; give the public one")
        raw = unbase64(stripped.removeprefix(_PREFIX))
        if raw is None or len(raw) != 32:
            raise KeyFault(
                f"{stripped[:60]!r} is no public key; one is written {_PREFIX} and 43 letters, digits, - or _"
            )
        return cls(raw)

    def __str__(self) -> str:
        return _PREFIX + base64_of(self.raw)

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that stand for the key where it is only to be told from others."""
        return hashlib.sha256(self.raw).hexdigest()[:32]

    def verifies(self, purpose: Purpose, body: bytes, signature: bytes) -> bool:
        """Returns whether a signature over a body was made for this purpose, with this key."""
        if len(signature) == _ED25519_BYTES:
            return self._signed(signature, purpose.value + body)
        signature, proof = signature[:_ED25519_BYTES], signature[_ED25519_BYTES:]
        root = merkle.root(body, proof)
        if root is None:
            return False
        verified, signed = self._verified, (purpose, root, signature)
        if signed not in verified:
            if not self._signed(signature, _ROOT + purpose.value + root):
                return False
            if len(verified) >= _ROOTS:
                del verified[next(iter(verified))]
            verified[signed] = None
        return True

    def _signed(self, signature: bytes, body: bytes) -> bool:
        try:
            self._key.verify(signature, body)
        except InvalidSignature:
            return False
        return True

    @cached_property
    def _verified(self) -> dict[tuple[Purpose, bytes, bytes], None]:
        return {}

    @cached_property
    def _key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.raw)


class PrivateKey:
    """The key that an actor signs with. Its text form says only which key it is."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return f"<private key {self.public.fingerprint}>"

    @classmethod
    def generate(cls) -> PrivateKey:
        return cls(Ed25519PrivateKey.generate())

    def sign(self, purpose: Purpose, body: bytes) -> bytes:
        """64 bytes; the same each time."""
        return self._key.sign(purpose.value + body)

    def sign_all(self, purpose: Purpose, bodies: Sequence[bytes]) -> list[bytes]:
        """A signature for each body, `merkle.MOST` of them for the price of one; the same each time."""
        signatures: list[bytes] = []
        for first in range(0, len(bodies), merkle.MOST):
            some = bodies[first : first + merkle.MOST]
            if len(some) == 1:
                signatures.append(self.sign(purpose, some[0]))
                continue
            root, proofs = merkle.tree(some, [self._salt(body) for body in some])
            signature = self._key.sign(_ROOT + purpose.value + root)
            signatures += (signature + proof for proof in proofs)
        return signatures

    def _salt(self, body: bytes) -> bytes:
        """Returns what nobody can guess who has not the key."""
        return hashlib.blake2b(body, key=self._secret, digest_size=merkle.SALT_BYTES).digest()

    @cached_property
    def _secret(self) -> bytes:
        return hashlib.sha256(b"leasehold salt 1\x00" + self._key.private_bytes_raw()).digest()

    def save(self, path: Path) -> None:
        """Writes the key to a new file (PEM, PKCS8) that only its owner can read.

        Raises:
            KeyFault: there is a file already, or it cannot be written.
        """
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            files.create(path, pem, 0o600)
        except FileExistsError:
            raise KeyFault(f"{path} exists, and a key is never overwritten; choose another name") from None
        except OSError as error:
            raise KeyFault(f"the key cannot be written to {path}: {error.strerror or error}") from error

    @classmethod
    def load(cls, path: Path) -> PrivateKey:
        """Reads the key that `save` wrote.

        Raises:
            KeyFault: the file is not there, can be read by others, or holds no such key.
        """
        pem = _private_bytes(path)
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except TypeError:
            raise KeyFault(
                f"{path} is locked with a password, which an actor could not give; save it without"
            ) from None
        except (ValueError, UnsupportedAlgorithm):
            raise KeyFault(f"{path} holds no private key in PEM form; restore it, or make a new key") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyFault(f"{path} holds a key of another kind; an actor needs an Ed25519 key")
        return cls(key)


def _private_bytes(path: Path) -> bytes:
    """The content of a file that nobody else can read; looked at through the open file, so it cannot be exchanged."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise KeyFault(f"there is no key file {path}") from None
    except OSError as error:
        raise KeyFault(f"the key file {path} cannot be read: {error.strerror or error}") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFault(f"{path} is not a file that could hold a key")
        if status.st_mode & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise KeyFault(f"{path} is open to others than its owner (mode {mode}); run: chmod 600 {path}")
        if status.st_size > _LARGEST_FILE:
            raise KeyFault(f"{path} is too large to be a key file")
        return os.read(handle, _LARGEST_FILE)
    except OSError as error:
        raise KeyFault(f"the key file {path} cannot be read: {error.strerror or error}") from error
    finally:
        os.close(handle)


def base64_of(raw: bytes) -> str:
    """Base64 for names and addresses, without padding."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def unbase64(text: str) -> bytes | None:
    """The bytes of a text that `base64_of` wrote; None for any other, so bytes have one text and no second."""
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    return raw if base64_of(raw) == text else None
