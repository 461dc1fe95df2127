"""A TCP proxy whose connections can be cut, or carry one direction only."""

from __future__ import annotations

import contextlib
import socket
import threading

from leasehold.checker.recovery.processes.resources import PORTS

OPEN, CUT, DEAF, MUTE = "open", "cut", "deaf", "mute"


class TcpProxy:
    """Forwards connections to a server of this machine.

    Args:
        server: the server's port.

    Attributes:
        port: its own port, which stays the same.
        mode: `open`; `cut`, all connections are broken off and none is taken; `deaf`, what is said to the server does
            not come; `mute`, what the server answers does not come.
        hurt: something was broken off, refused or lost since the mode was changed from `open`.
    """

    def __init__(self, server: int) -> None:
        self.server, self.mode = server, OPEN
        self.hurt = False
        self.port = PORTS.take()
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._listen()

    def turn(self, mode: str) -> None:
        """Changes the mode. What was swallowed does not come later: connections with a hole in them are broken off."""
        self.mode = mode
        if mode == CUT:
            self._unlisten()
        if mode in (CUT, OPEN):
            self._break_off()
        if mode == OPEN and self._listener is None:
            self._listen()

    def close(self) -> None:
        self.turn(CUT)

    def _listen(self) -> None:
        self._listener = listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _unlisten(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept
            listener.close()

    def _break_off(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, set()
        self.hurt = self.hurt or (bool(ends) and self.mode == CUT)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.server), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._ends |= {near, far}
            threading.Thread(target=self._carry, args=(near, far, DEAF), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, MUTE), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, lost_in: str) -> None:
        try:
            while content := source.recv(65536):
                if self.mode == lost_in:
                    self.hurt = True
                else:
                    target.sendall(content)
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._ends -= {source, target}
        source.close()
