import asyncio
import struct

import pytest

from penstock.cli.launch.probe import brokers_seen

API_VERSIONS_ANSWER = struct.pack(">ihi", 1, 0, 0)
METADATA_ANSWER = (
    struct.pack(">ii", 1, 2)
    + struct.pack(">ih3sih1s", 1, 3, b"one", 9092, 1, b"r")
    + struct.pack(">ih3sih", 2, 3, b"two", 9093, -1)
    + struct.pack(">ii", 1, 0)
)


async def seen_from(*answers):
    async def serve(reader, writer):
        for answer in answers:
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            await reader.readexactly(length)
            writer.write(struct.pack(">i", len(answer)) + answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        return await brokers_seen("127.0.0.1", port)
    finally:
        server.close()
        await server.wait_closed()


def test_the_brokers_of_the_metadata_answer_are_returned():
    assert asyncio.run(seen_from(API_VERSIONS_ANSWER, METADATA_ANSWER)) == {1, 2}


@pytest.mark.parametrize(
    "answers",
    [
        (),
        (struct.pack(">ihi", 1, 35, 0),),
        (API_VERSIONS_ANSWER,),
        (API_VERSIONS_ANSWER, METADATA_ANSWER[:20]),
        (API_VERSIONS_ANSWER, b""),
        (b"x" * 5,),
    ],
)
def test_anything_else_is_no_broker(answers):
    assert asyncio.run(seen_from(*answers)) == set()


def test_a_port_nobody_listens_on_is_no_broker():
    assert asyncio.run(brokers_seen("127.0.0.1", 1)) == set()
