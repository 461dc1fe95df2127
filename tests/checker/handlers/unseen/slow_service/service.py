"""Answer with the settings at a socket in the unit's folder, when the index has been read."""

import contextlib
import os
import pathlib
import socket
import time

time.sleep(1.5)  # reads the index
if os.path.exists("socket"):
    os.unlink("socket")
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
server.listen()
while True:
    connection, _ = server.accept()
    with contextlib.suppress(OSError):
        connection.sendall(pathlib.Path("settings").read_bytes())
    connection.close()
