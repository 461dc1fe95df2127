"""A transport from a configuration."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from leasehold.impl.transport.http import HttpTransport
from leasehold.impl.transport.nats import NatsTransport
from leasehold.impl.transport.open import open_transport
from leasehold.impl.transport.transport import Delivery, TransportError
from tests.impl.transport.test_http import certify


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ("http://127.0.0.1:0", HttpTransport),
        ("http://[::1]:8470/", HttpTransport),
        ({"listen": "http://0.0.0.0:0", "advertise": "http://h:1", "limits": {"parcel": 1000}}, HttpTransport),
        ("nats://127.0.0.1:4222/a.b", NatsTransport),
        ({"listen": "nats://h/a", "limits": {"batch": 3}, "login": {"user": "u", "password": "p"}}, NatsTransport),
    ],
)
def test_each_form_of_address_opens_its_transport(config, kind):
    assert type(open_transport(config)) is kind


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("", "no address to listen on"),
        ("htp://h:1", "did you mean http"),
        ("http", "no address to listen on"),
        ("http://h", "nothing to listen on"),
        ("http://h:x", "nothing to listen on"),
        ("http://h:1/path", "nothing to listen on"),
        ("https://h:1", "https needs `tls`"),
        ("nats://h", "no NATS address"),
        ("memory:tenant", "no address to listen on"),
        ({}, "needs `listen`"),
        ([], "settings by name"),
        ({"lisen": "http://h:1"}, "did you mean listen"),
        ({"listen": "http://h:1", "limits": {"parcels": 3}}, "did you mean parcel"),
        ({"listen": "http://h:1", "limits": {"parcel": "3"}}, "`parcel` must be a whole number"),
        ({"listen": "http://h:1", "limits": 3}, "`limits` has settings by name"),
        ({"listen": "http://h:1", "advertise": "h"}, "others can reach"),
        ({"listen": "http://h:1", "login": {}}, "is for nats"),
        ({"listen": "https://h:1", "tls": {"certificate": "c"}}, "`tls` needs `key`"),
        ({"listen": "https://h:1", "tls": {"certificate": "/absent", "key": "/absent"}}, "cannot be used"),
        ({"listen": "nats://h/a", "tls": {}}, "leave it out"),
        ({"listen": "nats://h/a", "login": {"pasword": "x"}}, "did you mean password"),
        (":1", "no address to listen on"),
        ("memory", "no address to listen on"),
        ({"listen": 8470}, "needs `listen`"),
        ({"listen": "http://h:1", "limits": []}, "`limits` has settings by name"),
        ({"listen": "http://h:1", "limits": {"batch": 0}}, "`batch` must be"),
        ("http://:8470", "nothing to listen on"),
        ("http://h:70000", "nothing to listen on"),
        ("http://h:1?a=b", "nothing to listen on"),
        ("http://h:1#a", "nothing to listen on"),
        ("http://user@h:1", "nothing to listen on"),
        ("http://[::1", "nothing to listen on"),
        ("https://h", "nothing to listen on"),
        ({"listen": "http://127.0.0.1:0", "advertise": 8470}, "others can reach"),
        ({"listen": "http://127.0.0.1:0", "advertise": "ftp://h:1"}, "others can reach"),
        ({"listen": "http://127.0.0.1:0", "advertise": ["http://h:1"]}, "others can reach"),
        ("http://192.0.2.1:0", "nothing can listen at 192.0.2.1"),
        ("http://no.such.host.invalid:0", "nothing can listen at no.such.host.invalid"),
        ({"listen": "http://h:1", "tls": "site.pem"}, "`tls` has settings by name"),
        ({"listen": "https://h:1", "tls": {}}, "`tls` needs `certificate`"),
        ({"listen": "https://h:1", "tls": {"key": "k"}}, "`tls` needs `certificate`"),
        ({"listen": "https://h:1", "tls": {"certificate": 1, "key": "k"}}, "`tls` needs `certificate`"),
        ({"listen": "https://h:1", "tls": {"certificate": "c", "key": "k", "autority": "a"}}, "did you mean authority"),
        ({"listen": "nats://h/a", "advertise": "http://h:1"}, "`advertise` is for http and https, and nats"),
        ({"listen": "nats://h/a", "tls": {}}, "`tls` is for http and https, and nats"),
        ({"listen": "nats://h/a", "login": "word"}, "`login` has settings by name"),
    ],
    ids=str,
)
def test_a_configuration_that_is_not_good_is_refused_with_the_near_miss(config, words):
    with pytest.raises(TransportError, match=words):
        open_transport(config)


def test_what_a_configuration_says_holds(tmp_path, receiver):
    """Limits, the advertised address and the routes reach the transport, over http and https."""
    certificate, key = certify(tmp_path)
    tls = {"certificate": certificate, "key": key, "authority": certificate}

    async def hello(request):
        return web.Response(text="hello")

    async def talk(config):
        transport = open_transport(config, routes=[web.get("/hello", hello)])
        advertised = await transport.start(receiver)
        assert advertised == config.get("advertise", advertised)
        port = transport._server.server.sockets[0].getsockname()[1]
        address = f"{config['listen'].partition(':')[0]}://127.0.0.1:{port}"
        assert (await transport.send(address, b"x" * 100)).answer is Delivery.TAKEN
        assert (await transport.send(address, b"x" * 101)).answer is Delivery.REFUSED
        async with aiohttp.ClientSession() as session, session.get(f"{address}/hello", ssl=False) as response:
            assert await response.text() == "hello"
        await transport.close()

    limits = {"parcel": 100}
    for name in ("http://site.example:1", "https://site.example:1", ""):
        asyncio.run(talk({"listen": "http://127.0.0.1:0", "limits": limits, **({"advertise": name} if name else {})}))
    asyncio.run(talk({"listen": "https://127.0.0.1:0", "limits": limits, "tls": tls}))


def test_files_of_tls_that_cannot_be_used_are_refused(tmp_path):
    certificate, key = certify(tmp_path)
    with pytest.raises(TransportError, match="http has no use of `tls`"):
        open_transport({"listen": "http://127.0.0.1:0", "tls": {"certificate": certificate, "key": key}})
    for wrong in ({"certificate": key}, {"key": certificate}, {"authority": key}, {"authority": 3}):
        with pytest.raises(TransportError, match="the files of `tls` cannot be used"):
            open_transport({"listen": "https://127.0.0.1:0", "tls": {"certificate": certificate, "key": key, **wrong}})
