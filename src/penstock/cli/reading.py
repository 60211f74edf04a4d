"""Reads several partitions of a topic side by side, to an end or for ever.

The idea: one Fetch request to each leader with all the partitions it leads; what comes is decoded
and handed on, and the next request asks from there. A broken connection or a moved leader is
looked up again, within the client's time. Partitions that have reached their end are left out.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.client.cluster import Cluster, Retries
from penstock.client.errors import ClientError
from penstock.client.fetch import (
    FetchedPartition,
    FetchOptions,
    FetchWant,
    check_fetched,
    encode_fetch,
    parse_fetch,
)
from penstock.protocol.api_keys import ApiKey
from penstock.record.read import DecodedRecord, iter_batches, iter_records

if TYPE_CHECKING:
    from penstock.client.connection import Connection

FETCH = FetchOptions(partition_bytes_max=1 << 20, request_bytes_max=16 << 20, wait_ms=500)


class Read(NamedTuple):
    """A record and the partition it stands in."""

    partition: int
    record: DecodedRecord


def read_topic(
    cluster: Cluster, topic: str, *, starts: Mapping[int, int], ends: Mapping[int, int] | None
) -> Iterator[list[Read]]:
    """Yield records as they come, answer by answer, in the order of offsets in each partition.

    `starts` inclusive, `ends` exclusive; without ends it never stops, and yields an empty list when
    nothing came for a while. Raises ClientError kinds, RecordError.
    """
    positions = dict(starts)
    retries = Retries(cluster.settings, f"reading {topic}")
    while True:
        open_positions = {
            number: at for number, at in positions.items() if ends is None or at < ends[number]
        }
        if not open_positions:
            return
        try:
            answers = _fetch(cluster, topic, open_positions)
        except ClientError as error:
            retries.pause_or_raise(error)
            cluster.forget(topic)
            continue
        retries.restart()
        for answer in answers:
            number = answer.partition
            end = ends[number] if ends is not None else None
            found, positions[number] = _records(answer, positions[number], end)
            yield found


def _fetch(cluster: Cluster, topic: str, positions: Mapping[int, int]) -> list[FetchedPartition]:
    by_leader: dict[int, list[FetchWant]] = {}
    for number, at in positions.items():
        leader = cluster.leader(topic, number)
        by_leader.setdefault(leader, []).append(FetchWant(topic, number, at))
    answers: list[FetchedPartition] = []
    for leader, wants in by_leader.items():
        for answer in _ask(cluster.connection(leader), wants):
            check_fetched(answer, positions[answer.partition])
            answers.append(answer)
    return answers


def _ask(connection: "Connection", wants: list[FetchWant]) -> list[FetchedPartition]:
    version = connection.version(ApiKey.FETCH)
    connection.send(ApiKey.FETCH, version, encode_fetch(version, wants, FETCH))
    frame, at = connection.receive(wait_ms=FETCH.wait_ms)
    return parse_fetch(version, frame, at)


def _records(answer: FetchedPartition, start: int, end: int | None) -> tuple[list[Read], int]:
    """Return the records of an answer from `start` on, and where to go on."""
    found: list[Read] = []
    position = start
    for header, batch in iter_batches(answer.data):
        position = header.last_offset + 1
        if header.is_control:
            continue
        found += [
            Read(answer.partition, record)
            for record in iter_records(batch)
            if record.offset >= start and (end is None or record.offset < end)
        ]
    return found, position
