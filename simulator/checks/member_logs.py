"""Reads a partition of one member from its log start to its end, as a fetch reads it.

It is read in the member's own process, which acts on the damage that a read finds.
"""

import asyncio
from typing import Any, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.record.batch import BatchHeader
from penstock.record.read import iter_batches
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.commit_log.set_log import Chunk, NeedsDisk
from penstock.storage.index.partition_log import PartitionLog
from simulator.run.server import Server

READ_BYTES = 64 << 10


class MemberLog(NamedTuple):
    """What one member gives of a partition."""

    server: str
    batches: list[tuple[BatchHeader, memoryview]]
    complaint: str = ""
    """Why it does not give the rest."""


async def read_member(
    server: Server, member: ReplicaSetMember, partition: PartitionLog
) -> MemberLog:
    """Read all of a partition."""
    process = server.process
    assert process is not None
    reading = asyncio.get_running_loop().create_task(
        _read(server.name, member, partition), name="member log", context=process.context
    )
    ends: set[asyncio.Future[Any]] = {reading, process.ended}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not reading.done():
        return MemberLog(server.name, [], "its process ended as it was read")
    return reading.result()


async def _read(server: str, member: ReplicaSetMember, partition: PartitionLog) -> MemberLog:
    found: list[tuple[BatchHeader, memoryview]] = []
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        try:
            chunk = await _chunk(member, partition, offset)
        except PlatformError as error:
            return MemberLog(server, found, f"offset {offset} can not be read: {error}")
        before = offset
        for header, batch in iter_batches(chunk.data):
            if header.base_offset + header.last_offset_delta < offset:
                return MemberLog(server, found, f"offset {header.base_offset} comes again")
            found.append((header, batch))
            offset = Offset(header.last_offset + 1)
        if offset == before:
            return MemberLog(server, found, f"nothing is read at offset {offset}")
    return MemberLog(server, found)


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
