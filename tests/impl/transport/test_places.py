"""Which addresses are some, for each transport."""

import pytest

from leasehold.impl.transport import http, nats


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("http://10.0.0.9:8472", "http://10.0.0.9:8472/parcels"),
        ("https://site.example/", "https://site.example/parcels"),
        ("http://[::1]:80/deep/er//", "http://[::1]:80/deep/er/parcels"),
        ("ftp://a:1", None),
        ("http://", None),
        ("http:///x", None),
        ("http://a:0", None),
        ("http://a:70000", None),
        ("http://user@a:1", None),
        ("http://a:1?x=1", None),
        ("http://a:1#x", None),
        ("http://a:1/\x07", None),
        ("", None),
        ("http://[::1", None),
        ("http://a:1", "http://a:1/parcels"),
        ("http://a\n:1", None),
        ("http://@a:1", None),
        ("http://a:-1", None),
        ("HTTP://a:1", "HTTP://a:1/parcels"),
    ],
)
def test_http(address: str, place: str | None) -> None:
    assert http._place(address) == place


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("nats://10.0.0.9:4333/site", ("nats://10.0.0.9:4333", "site")),
        ("nats://broker/a.b-c_d", ("nats://broker:4222", "a.b-c_d")),
        ("nats://[::1]:4222/site", ("nats://[::1]:4222", "site")),
        ("nats://a/", None),
        ("nats://a", None),
        ("http://a/site", None),
        ("nats:///site", None),
        ("nats://a/si te", None),
        ("nats://u@a/site", None),
        ("nats://a/site?x", None),
        ("nats://a/site#x", None),
        ("nats://a/*", None),
        ("nats://a/a.>", None),
        ("nats://a/a..b", None),
        ("nats://a:99999/site", None),
        ("nats://a/" + "x" * 5000, None),
        ("nats://a/" + "x" * 201, None),
        ("nats://a/" + "x" * 200, ("nats://a:4222", "x" * 200)),
        ("nats://[::1", None),
        ("", None),
        ("nats://a//b", None),
        ("nats://a/b/c", None),
    ],
)
def test_nats(address: str, place: tuple[str, str] | None) -> None:
    assert nats._place(address) == place
