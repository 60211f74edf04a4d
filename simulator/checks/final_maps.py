"""Check: whichever member is read, a compacted partition ends in the last value of every key.

Each member cleans for itself, so what is left of old records differs, and the map does not. Read at
the end of a run, when logs are equal, through the stores of each member as a fetch reads them: in
the member's own process, which acts on the damage that a read finds.

Source: K-35 of the platform's contract with Kafka; the LogCompactionTester of Kafka compares so.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.node.node import Node
from penstock.record.batch import BatchHeader
from penstock.record.read import iter_batches, iter_records
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.commit_log.set_log import Chunk, NeedsDisk
from penstock.storage.index.partition_log import PartitionLog
from simulator.run.server import Server

READ_BYTES = 64 << 10
Values = dict[bytes, bytes]


class ReadLog(NamedTuple):
    """What one member gives of a partition."""

    server: str
    values: Values
    records: int
    complaint: str = ""


async def read_logs(servers: Iterable[Server], topic: str) -> list[ReadLog]:
    """Read partition 0 of a topic of every member that has it."""
    found = []
    for server in servers:
        node = server.node
        if not isinstance(node, Node) or node.manager is None:
            continue
        image = node.image.topics_by_name.get(topic)
        for member in list(node.manager.members.values()):
            for key, partition in list(member.log.partitions.items()):
                if image is not None and key == (image.topic_id, 0):
                    found.append(await _read_there(server, member, partition))
    return found


async def _read_there(server: Server, member: ReplicaSetMember, partition: PartitionLog) -> ReadLog:
    process = server.process
    assert process is not None
    reading = asyncio.get_running_loop().create_task(
        _read(server.name, member, partition), name="final map", context=process.context
    )
    ends: set[asyncio.Future[Any]] = {reading, process.ended}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not reading.done():
        return ReadLog(server.name, {}, 0, "its process ended as it was read")
    return reading.result()


async def _read(server: str, member: ReplicaSetMember, partition: PartitionLog) -> ReadLog:
    values: Values = {}
    count, offset = 0, partition.log_start_offset
    while offset < partition.log_end_offset:
        try:
            chunk = await _chunk(member, partition, offset)
        except PlatformError as error:
            return ReadLog(server, values, count, f"offset {offset} can not be read: {error}")
        before = offset
        for header, batch in iter_batches(chunk.data):
            if header.base_offset + header.last_offset_delta < offset:
                return ReadLog(server, values, count, f"offset {header.base_offset} comes again")
            count += _take(header, batch, values)
            offset = Offset(header.last_offset + 1)
        if offset == before:
            return ReadLog(server, values, count, f"nothing is read at offset {offset}")
    return ReadLog(server, values, count)


async def _chunk(member: ReplicaSetMember, partition: PartitionLog, offset: Offset) -> Chunk:
    """Read on, from the disk if need be. Raises PlatformError."""
    found = member.log.read(partition, offset, READ_BYTES, member.log.end_position)
    if not isinstance(found, NeedsDisk):
        return found
    loaded: asyncio.Future[Chunk] = asyncio.get_running_loop().create_future()

    def done(chunk: Chunk | None, error: PlatformError | None) -> None:
        if chunk is not None:
            loaded.set_result(chunk)
        else:
            assert error is not None
            loaded.set_exception(error)

    found.load(done)
    return await loaded


def _take(header: BatchHeader, batch: memoryview, values: Values) -> int:
    """Apply a batch to the map; return its records."""
    records = [] if header.is_control else list(iter_records(batch))
    for record in records:
        if record.key is not None and record.value is not None:
            values[record.key] = record.value
        elif record.key is not None:
            values.pop(record.key, None)
    return len(records)


def judge_maps(read: Iterable[ReadLog], wanted: Values) -> Iterator[str]:
    """Name the members that end in another map."""
    for log in read:
        if log.complaint:
            yield f"{log.server}: {log.complaint}"
            continue
        for key in sorted(wanted.keys() | log.values.keys()):
            if log.values.get(key) != wanted.get(key):
                told = "nothing" if key not in log.values else f"{log.values[key][:8]!r}"
                yield f"{log.server}: key {key!r} ends in {told}, and another value was written"
