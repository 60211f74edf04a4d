"""Check: whichever member is read, a compacted partition ends in the last value of every key.

Each member cleans for itself, so what is left of old records differs, and the map does not. Read at
the end of a run, when logs are equal, through the stores of each member (member_logs.py).

Source: K-35 of the platform's contract with Kafka; the LogCompactionTester of Kafka compares so.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.node.node import Node
from penstock.record.batch import BatchHeader
from penstock.record.read import iter_records
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.index.partition_log import PartitionLog
from simulator.checks.member_logs import read_member
from simulator.run.server import Server

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
    read = await read_member(server, member, partition)
    values: Values = {}
    count = sum(_take(header, batch, values) for header, batch in read.batches)
    return ReadLog(server.name, values, count, read.complaint)


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
