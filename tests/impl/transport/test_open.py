"""A transport from a configuration."""

import pytest

from leasehold.impl.transport.http import HttpTransport
from leasehold.impl.transport.memory import MemoryTransport, Network
from leasehold.impl.transport.nats import NatsTransport
from leasehold.impl.transport.open import open_transport
from leasehold.impl.transport.transport import TransportError


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ("http://127.0.0.1:0", HttpTransport),
        ("http://[::1]:8470/", HttpTransport),
        ({"listen": "http://0.0.0.0:0", "advertise": "http://h:1", "limits": {"parcel": 1000}}, HttpTransport),
        ("nats://127.0.0.1:4222/a.b", NatsTransport),
        ({"listen": "nats://h/a", "limits": {"batch": 3}, "login": {"user": "u", "password": "p"}}, NatsTransport),
        ("memory:tenant", MemoryTransport),
    ],
)
def test_each_form_of_address_opens_its_transport(config, kind):
    assert type(open_transport(config, network=Network())) is kind


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
        ("memory:", "needs a name"),
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
        ({"listen": "memory:a", "limits": {"parcel": 9}}, "takes its limits from its network"),
    ],
    ids=str,
)
def test_a_configuration_that_is_not_good_is_refused_with_the_near_miss(config, words):
    with pytest.raises(TransportError, match=words):
        open_transport(config, network=Network())


def test_memory_without_a_network_is_refused():
    with pytest.raises(TransportError, match="network"):
        open_transport("memory:tenant")
