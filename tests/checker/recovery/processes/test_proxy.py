"""A proxy whose connections are cut, or carry one direction only."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from leasehold.checker.recovery.processes.proxy import CUT, DEAF, MUTE, OPEN, TcpProxy


class Echo:
    """A server that answers what it hears in capitals, and remembers it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self._server.accept()
                threading.Thread(target=self._answer, args=(end,), daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        with end, suppress(OSError):
            while words := end.recv(100):
                self.heard.append(words)
                end.sendall(words.upper())

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as made:
        yield made


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    with closing(TcpProxy(echo.port)) as made:
        yield made


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def said(end: socket.socket, words: bytes, seconds: float = 5) -> bytes | None:
    """The answer; empty where the connection was broken off, None where nothing comes."""
    end.settimeout(seconds)
    try:
        end.sendall(words)
        return end.recv(100)
    except TimeoutError:
        return None
    except OSError:
        return b""


def test_an_open_proxy_carries_both_ways(echo: Echo, proxy: TcpProxy) -> None:
    with connected(proxy.port) as one, connected(proxy.port) as two:
        assert (said(one, b"a"), said(two, b"b"), said(one, b"c")) == (b"A", b"B", b"C")
    assert echo.heard == [b"a", b"b", b"c"]
    assert (proxy.mode, proxy.hurt) == (OPEN, False)
    assert proxy.port != echo.port


def test_a_proxy_that_is_cut_breaks_off_and_takes_no_connection(proxy: TcpProxy) -> None:
    with connected(proxy.port) as one:
        assert said(one, b"a") == b"A"
        proxy.turn(CUT)
        assert said(one, b"b") == b""
    assert proxy.hurt
    with pytest.raises(ConnectionRefusedError):
        connected(proxy.port)
    port = proxy.port
    proxy.turn(OPEN)
    with connected(port) as one:
        assert said(one, b"c") == b"C"


def test_where_nobody_is_connected_a_cut_hurts_nobody(proxy: TcpProxy) -> None:
    proxy.turn(CUT)
    proxy.turn(OPEN)
    assert not proxy.hurt


@pytest.mark.parametrize("mode", [DEAF, MUTE])
def test_a_proxy_that_carries_one_way(echo: Echo, proxy: TcpProxy, mode: str) -> None:
    """What was swallowed does not come later."""
    with connected(proxy.port) as one:
        assert said(one, b"a") == b"A"
        proxy.turn(mode)
        assert not proxy.hurt
        assert said(one, b"b", 0.15) is None
        assert echo.heard == ([b"a"] if mode == DEAF else [b"a", b"b"])
        assert proxy.hurt
        proxy.turn(OPEN)
        assert said(one, b"c") == b""
    with connected(proxy.port) as one:
        assert said(one, b"d") == b"D"
    assert [words for words in echo.heard if words not in (b"a", b"d")] == ([] if mode == DEAF else [b"b"])


def test_who_ends_a_connection_ends_it_at_the_other_end(echo: Echo, proxy: TcpProxy) -> None:
    with connected(proxy.port) as one:
        assert said(one, b"a") == b"A"
        echo.close()
        one.shutdown(socket.SHUT_WR)
        assert one.recv(10) == b""


def test_where_the_server_is_gone_a_connection_is_broken_off(echo: Echo, proxy: TcpProxy) -> None:
    echo.close()
    with connected(proxy.port) as one:
        assert said(one, b"a") == b""
    with connected(proxy.port) as one:
        assert said(one, b"a") == b"", "and the next as well"


def test_a_proxy_that_is_closed_has_no_port(echo: Echo) -> None:
    proxy = TcpProxy(echo.port)
    proxy.close()
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        connected(proxy.port)


def test_a_proxy_whose_answers_are_lost_has_hurt_somebody_only_then() -> None:
    """What was lost before it was opened again counts for good."""
    proxy = TcpProxy(1)
    try:
        for mode in (MUTE, CUT, OPEN):
            proxy.turn(mode)
            assert (proxy.mode, proxy.hurt) == (mode, False)
    finally:
        proxy.close()
