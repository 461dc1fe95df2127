"""`leasehold keygen` and `leasehold key`: the key of an actor, and how the verbs of trust are given one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from leasehold.cli.common import Exit, json_option, print_json, verb
from leasehold.impl.identity.keys import KeyFault, PrivateKey, PublicKey
from leasehold.impl.identity.trust import TrustFault

_WRITTEN = re.compile(r"ed25519:[^\s\"',}]*")
_LARGEST_FILE = 65536


REFUSALS = dict.fromkeys((KeyFault, TrustFault), Exit.BAD_SPEC)


def public_key(text: str) -> PublicKey:
    """The public key that is meant: itself, `@FILE`, or the path of a file that holds it or the private one.

    Raises:
        KeyFault: there is none, or more than one.
    """
    if text.startswith("@"):
        return _public_key_in(Path(text[1:]))
    if not text.startswith("ed25519:") and os.path.lexists(text):
        return _public_key_in(Path(text))
    try:
        return PublicKey.parse(text)
    except KeyFault as fault:
        raise KeyFault(str(fault) if text.startswith("ed25519:") else f"{fault}; nor is there such a file") from None


def _public_key_in(path: Path) -> PublicKey:
    """The key in a file: it may hold what `leasehold key` printed, as text or JSON, or be a private key file."""
    try:
        # Without this, a pipe that nobody writes to would be waited for.
        if path.exists() and not path.is_file():
            raise KeyFault(f"{path} is not a file that could hold a key")
        with open(path, "rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise KeyFault(f"the key file {path} cannot be read: {error.strerror or error}") from error
    if b"PRIVATE KEY" in content:
        return PrivateKey.load(path).public
    keys = sorted(set(_WRITTEN.findall(content.decode(errors="replace"))))
    if len(content) > _LARGEST_FILE or not keys:
        raise KeyFault(f"{path} holds no key; a public one is written ed25519: and 43 letters, digits, - or _")
    if len(keys) > 1:
        raise KeyFault(f"{path} holds {len(keys)} public keys; give the one that is meant, {keys[0][:60]} or another")
    try:
        return PublicKey.parse(keys[0])
    except KeyFault as fault:
        raise KeyFault(f"{path}: {fault}") from None


@verb(refusals=REFUSALS)
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def keygen(file: Path, as_json: bool) -> None:
    """Make a key for an actor, in a new private key FILE that only its owner can read.

    Prints the public key, which the others are given, and its fingerprint, by which people compare
    keys. A FILE that exists is never replaced.

    Example:  leasehold keygen site.key
              leasehold keygen site.key --json
    """
    private = PrivateKey.generate()
    private.save(file)
    _print_key(private.public, as_json)


@verb(refusals=REFUSALS)
@click.argument("file", metavar="FILE|KEY")
@json_option
def key(file: str, as_json: bool) -> None:
    """Show the public key and the fingerprint of a private key FILE.

    Nothing private is printed. A public key, or a file that holds one, is shown likewise: to compare
    its fingerprint with the one that its owner reads out.

    Example:  leasehold key site.key
              leasehold key ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo
    """
    _print_key(public_key(file), as_json)


def _print_key(public: PublicKey, as_json: bool) -> None:
    if as_json:
        print_json({"public_key": str(public), "fingerprint": public.fingerprint})
    else:
        click.echo(f"public key   {public}\nfingerprint  {public.fingerprint}")
