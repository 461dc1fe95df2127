"""Answer with the unit's settings at a socket in its folder."""

import contextlib
import os
import pathlib
import socket

for name in ("socket", "new"):
    pathlib.Path(name).unlink(missing_ok=True)
server = socket.socket(socket.AF_UNIX)
server.bind("new")
server.listen()
os.rename("new", "socket")  # it listens as soon as it has its name
while True:
    connection, _ = server.accept()
    with contextlib.suppress(OSError):
        connection.sendall(pathlib.Path("settings").read_bytes())
    connection.close()
