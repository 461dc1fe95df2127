"""A small NATS server, for where there is no real one: subjects, answers, and who is told that nobody listens.

It covers what clients of the transport use (docs.nats.io/reference/reference-protocols/nats-protocol): CONNECT, PING,
SUB, UNSUB, PUB, HPUB, wildcards at the end of a subject, and the status 503 for a request that nobody hears. It has no
accounts, no queue groups and no TLS. It is a process of its own, so that descriptors of a test are its own; it writes
its port, and ends with its standard input.
"""

import asyncio
import json
import sys

INFO = {"server_id": "small", "version": "2.10.0", "proto": 1, "headers": True, "max_payload": 1024 * 1024}
NOBODY = b"NATS/1.0 503\r\n\r\n"


class Client:
    """One connection."""

    def __init__(self, others, reader, writer):
        self.others, self.reader, self.writer = others, reader, writer
        self.subscriptions: dict[bytes, bytes] = {}
        self.wants_status = False

    async def serve(self):
        self.others.append(self)
        try:
            self.writer.write(b"INFO %b\r\n" % json.dumps(INFO).encode())
            while line := await self.reader.readline():
                await self.obey(line.split())
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.others.remove(self)
            self.writer.close()

    async def obey(self, words):
        match words[0].upper() if words else b"":
            case b"CONNECT":
                self.wants_status = json.loads(b" ".join(words[1:])).get("no_responders", False)
            case b"PING":
                self.writer.write(b"PONG\r\n")
            case b"SUB":
                self.subscriptions[words[-1]] = words[1]
            case b"UNSUB":
                self.subscriptions.pop(words[1], None)
            case b"PUB":
                content = await self.reader.readexactly(int(words[-1]) + 2)
                self.publish(words[1], words[2] if len(words) == 4 else b"", b"", content[:-2])
            case b"HPUB":
                content = await self.reader.readexactly(int(words[-1]) + 2)
                head = int(words[-2])
                self.publish(words[1], words[2] if len(words) == 5 else b"", content[:head], content[head:-2])

    def publish(self, subject, reply, head, content):
        heard = False
        for other in tuple(self.others):
            heard |= other.hear(subject, reply, head, content)
        if reply and not heard and self.wants_status:
            self.hear(reply, b"", NOBODY, b"")

    def hear(self, subject, reply, head, content):
        """Sends a message to the client for each of its subscriptions that fits; returns whether one does."""
        fitting = [one for one, pattern in self.subscriptions.items() if fits(pattern, subject)]
        for one in fitting:
            names = b" ".join(word for word in (subject, one, reply) if word)
            if head:
                self.writer.write(b"HMSG %b %d %d\r\n" % (names, len(head), len(head) + len(content)))
            else:
                self.writer.write(b"MSG %b %d\r\n" % (names, len(content)))
            self.writer.write(head + content + b"\r\n")
        return bool(fitting)


def fits(pattern, subject):
    wanted, given = pattern.split(b"."), subject.split(b".")
    if wanted[-1] == b">":
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(one in (b"*", other) for one, other in zip(wanted, given, strict=True))


async def main():
    clients: list[Client] = []
    server = await asyncio.start_server(
        lambda reader, writer: Client(clients, reader, writer).serve(), "127.0.0.1", 0, limit=4 * 1024 * 1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for client in tuple(clients):
        client.writer.transport.abort()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
