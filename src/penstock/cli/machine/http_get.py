"""One HTTP GET of the supervisor to a node, bounded in bytes and in time."""

import asyncio
from typing import NamedTuple

import h11

READ_BYTES = 64 << 10


class Answer(NamedTuple):
    """The answer; `status` is 0 if there was none in time, or if it was too long."""

    status: int
    body: bytes


NO_ANSWER = Answer(0, b"")


async def get(address: tuple[str, int], path: str, *, seconds: float, bytes_max: int) -> Answer:
    """Return the answer, of at most `bytes_max` bytes, or NO_ANSWER. Does not raise."""
    try:
        async with asyncio.timeout(seconds):
            return await _exchange(address, path, bytes_max)
    except (OSError, TimeoutError, EOFError, h11.RemoteProtocolError):
        return NO_ANSWER


async def _exchange(address: tuple[str, int], path: str, bytes_max: int) -> Answer:
    reader, writer = await asyncio.open_connection(*address)
    try:
        connection = h11.Connection(h11.CLIENT)
        host = f"{address[0]}:{address[1]}"
        head = h11.Request(method="GET", target=path, headers=[("Host", host)])
        for event in (head, h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        return await _read(connection, reader, bytes_max)
    finally:
        writer.close()


async def _read(connection: h11.Connection, reader: asyncio.StreamReader, bytes_max: int) -> Answer:
    status, body = 0, bytearray()
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(READ_BYTES))
            case h11.Response(status_code=status):
                pass
            case h11.Data(data=data):
                body += data
                if len(body) > bytes_max:
                    return NO_ANSWER
            case h11.EndOfMessage():
                return Answer(status, bytes(body))
            case _:
                return NO_ANSWER
