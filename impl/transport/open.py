"""A transport from a configuration: an address, or an address with settings.

listen: http://0.0.0.0:8470
advertise: http://site.example.org:8470
limits: {parcel: 65536}
tls: {certificate: site.pem, key: site.key, authority: ours.pem}
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from msgspec import Struct

from leasehold.impl.transport.http import HttpTransport
from leasehold.impl.transport.limits import LIMITS, TransportLimits
from leasehold.impl.transport.nats import NatsTransport
from leasehold.impl.transport.transport import Transport, TransportError
from leasehold.impl.words import did_you_mean


class Tls(Struct):
    """PEM files: how this actor shows itself, and how it judges others.

    Attributes:
        certificate: its own.
        key: of the certificate.
        authority: that signed the others' certificates; left out, those that the system trusts.
    """

    certificate: str
    key: str
    authority: str | None = None


class Login(Struct):
    """The credentials that a NATS server is given."""

    user: str | int = ""
    password: str | int = ""
    token: str | int = ""
    user_credentials: str = ""


class Listening(Struct):
    """A transport.

    Attributes:
        listen: the address that it listens on.
        advertise: the address at which others reach it.
        limits: what it grants to strangers (impl/transport/limits.py).
        tls: for https.
        login: for nats.
    """

    listen: str
    advertise: str = ""
    limits: TransportLimits = LIMITS
    tls: Tls | None = None
    login: Login | None = None


_SCHEMES = ("http", "https", "nats")
_FORMS = "http://host:port, https://host:port, nats://host:4222/some.subject"


def open_transport(config: str | Mapping[str, Any], *, routes: Iterable[web.AbstractRouteDef] = ()) -> Transport:
    """Makes a transport, which is not started yet.

    Args:
        config: where to listen, or a mapping with `listen`, `advertise`, `limits`, `tls`, and for nats `login`.
        routes: what else an http transport serves.

    Raises:
        TransportError: the configuration is not good; with the near miss.
    """
    given = _known(
        config if not isinstance(config, str) else {"listen": config}, "a transport", Listening.__struct_fields__
    )
    listen, limits = given.get("listen"), _limits(given.get("limits", {}))
    if not isinstance(listen, str):
        raise TransportError(f"a transport needs `listen`, the address that it listens on: {_FORMS}")
    scheme = listen.partition(":")[0]
    if scheme not in _SCHEMES or ":" not in listen:
        raise TransportError(
            f"{listen[:200]!r} is no address to listen on{did_you_mean(scheme, _SCHEMES)} (forms: {_FORMS})"
        )
    if "login" in given and scheme != "nats":
        raise TransportError(f"`login` is for nats, and {scheme} has no use of it; leave it out")
    if scheme in ("http", "https"):
        return _http(listen, given, limits, routes)
    for setting in ("advertise", "tls"):
        if setting in given:
            raise TransportError(f"`{setting}` is for http and https, and {scheme} has no use of it; leave it out")
    login = _known(given.get("login", {}), "`login`", Login.__struct_fields__)
    return NatsTransport(listen, limits=limits, login={name: str(value) for name, value in login.items()})


def _http(
    listen: str, given: Mapping[str, Any], limits: TransportLimits, routes: Iterable[web.AbstractRouteDef]
) -> HttpTransport:
    try:
        parts = urlsplit(listen)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None or parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        remedy = "write scheme, host and port alone, as in http://127.0.0.1:8470 (port 0 takes any that is free)"
        raise TransportError(f"{listen[:200]!r} is nothing to listen on; {remedy}")
    advertise = given.get("advertise", "")
    if not isinstance(advertise, str) or (advertise and not advertise.startswith(("http://", "https://"))):
        raise TransportError(f"`advertise` is an address that others can reach, not {str(advertise)[:80]!r}")
    server, client = _tls(given.get("tls"))
    if (parts.scheme == "https") != (server is not None):
        wrong = "https needs" if server is None else "http has no use of"
        raise TransportError(f"{wrong} `tls` with `certificate` and `key`")
    _check_host(host)
    return HttpTransport(
        host, port, advertise=advertise, limits=limits, routes=routes, server_tls=server, client_tls=client
    )


def _check_host(host: str) -> None:
    """Checks whether a host's name is known, and is one of this machine."""
    try:
        family, *_, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(where)
    except OSError as error:
        remedy = "; write an address of this machine, and, if others know it by another, `advertise`"
        raise TransportError(f"nothing can listen at {host[:200]}: {error.strerror or error}{remedy}") from None


def _tls(given: Any) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Returns how we show ourselves, and how we judge others: by `authority`, or as the system does."""
    if given is None:
        return None, None
    settings = _known(given, "`tls`", Tls.__struct_fields__)
    for name in ("certificate", "key"):
        if not isinstance(settings.get(name), str):
            raise TransportError(f"`tls` needs `{name}`, the name of a PEM file")
    try:
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(settings["certificate"], settings["key"])
        client = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=settings.get("authority"))
    except (OSError, TypeError) as error:
        raise TransportError(f"the files of `tls` cannot be used: {error}") from error
    return server, client


def _limits(given: Any) -> TransportLimits:
    return TransportLimits(**_known(given, "`limits`", tuple(field.name for field in fields(TransportLimits))))


def _known(given: Any, where: str, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise TransportError(f"{where} has settings by name, not {str(given)[:80]!r}")
    for name in given:
        if name not in names:
            near = did_you_mean(str(name), names)
            raise TransportError(f"{where} has no setting {str(name)[:80]!r}{near} (settings: {', '.join(names)})")
    return dict(given)
