"""A proxy in front of the server, which weakens one statement on its way there."""

import asyncio
import threading

PREPARE, QUERY, ERROR = 0x16, 0x03, 0xFF
# A longer payload comes in several packets; no statement is that long.
LONGEST = 0xFFFFFF


class Wire:
    """Listens on a port of its own, on a thread of its own, until the process ends."""

    def __init__(self, server):
        self.host, self.port = server.hostname, server.port
        self.statements, self.mutant, self.taken, self.refusal = set(), None, 0, None
        self.listens_on = None
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait()
        self.url = server._replace(netloc=f"{server.netloc.rpartition('@')[0]}@127.0.0.1:{self.listens_on}").geturl()

    def plant(self, mutant):
        """Weakens what the mutant weakens from now on; without one, nothing. What was seen of the last one is kept."""
        self.mutant = mutant
        if mutant is not None:
            self.taken, self.refusal = 0, None

    async def serve(self, ready):
        server = await asyncio.start_server(self.connected, "127.0.0.1", 0, limit=1 << 20)
        self.listens_on = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def connected(self, reader, writer):
        try:
            theirs, ours = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.close()
            return
        awaited = []
        await asyncio.gather(
            self.forwards(reader, ours, awaited), self.backwards(theirs, writer, awaited), return_exceptions=True
        )

    async def forwards(self, reader, writer, awaited):
        """From the client, packet by packet."""
        try:
            while True:
                header = await reader.readexactly(4)
                length = int.from_bytes(header[:3], "little")
                payload = await reader.readexactly(length)
                if header[3] == 0 and 0 < length < LONGEST and payload[0] in (PREPARE, QUERY):
                    if payload[1:].startswith(b"-- repo::"):
                        self.statements.add(payload)
                    weakened = self.weakened(payload)
                    if weakened is not None:
                        payload, header = weakened, len(weakened).to_bytes(3, "little") + header[3:]
                        awaited.append(payload)
                writer.write(header + payload)
                await writer.drain()
        finally:
            writer.close()

    async def backwards(self, reader, writer, awaited):
        """From the server; the first packet after a weakened statement says whether the server takes it."""
        try:
            while data := await reader.read(1 << 16):
                if awaited:
                    sent = awaited.pop()
                    # What a prepared statement does when it runs is the tests' business.
                    if sent[0] == PREPARE and len(data) > 6 and data[4] == ERROR:
                        self.refusal = data[13:].decode(errors="replace")
                    else:
                        self.taken += 1
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    def weakened(self, payload):
        """The command with the mutant in it; nothing if it is another statement."""
        if self.mutant is None or not meets(self.mutant, payload):
            return None
        return payload.replace(self.mutant.literal.encode(), self.mutant.weakened.encode())


def meets(mutant, payload):
    """Whether this command holds what the mutant weakens. A piece of a statement counts only in those of its own module."""
    literal, tag = mutant.literal.encode(), f"-- repo::{mutant.file.removesuffix('.rs').split('/')[0]}\n".encode()
    return literal in payload and (literal.startswith(b"-- repo::") or payload[1:].startswith(tag))
