"""The loads behind the rows of cleaning and of reading from an object store.

Both are done twice on each server: what is counted is the second time, when compilers have seen
the cleaner and the reader.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from benchmarks.parts.keys import key_of
from benchmarks.parts.native import LoadFailed
from benchmarks.parts.second_level import (
    COMPACTED,
    FILLER_BYTES,
    LOADED,
    SEGMENT_BYTES,
    STILL_SECONDS,
    NotCleaned,
    Progress,
    wait_clean,
)
from benchmarks.peers.model import Answer, CanNotRun, Scale
from benchmarks.peers.probes import Probe, read_from_start
from benchmarks.peers.servers import Server
from harness.waiting import wait_until
from penstock.client.admin import LATEST
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import decode_response, encode_request

VALUE_BYTES: Final = 1024
BATCH_BYTES: Final = 16_384
COPIES: Final = 4
"""How often a key comes, on average: a quarter of the records stays."""
CLEAN_SECONDS: Final = 300.0
COPY_SECONDS: Final = 300.0
READ_SECONDS: Final = 60.0
END_OF_PARTITION: Final = KafkaError._PARTITION_EOF  # noqa: SLF001  its name for users
WARM_SHARE: Final = 0.25
EARLIEST_LOCAL: Final = -4
FIRST_WITH_STORES: Final = 8
"""Version of ListOffsets: from it on EARLIEST_LOCAL may be asked for (KIP-405)."""
IN_STORE: Mapping[str, str] = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
}


def clean(*, codec: str) -> Probe:
    """Have a log cleaned: `MB/s` of what is cleaned, and CPU seconds per GB of it, `cpu`.

    From the change that makes the topic compacted until every closed file of it is clean. Bytes are
    those of the values, before compression.
    """

    def ask(server: Server, scale: Scale) -> Answer:
        _cleaned(server, int(scale.total_bytes * WARM_SHARE), codec)
        return _cleaned(server, scale.total_bytes, codec)

    return ask


def _cleaned(server: Server, total: int, codec: str) -> dict[str, float]:
    load, bootstrap = server.load, server.bootstrap
    total = max(total, 2 * SEGMENT_BYTES)
    keys = total // VALUE_BYTES // COPIES
    with load.topic(bootstrap, configs=LOADED) as topic, load.topic(bootstrap) as behind:
        how = (VALUE_BYTES, BATCH_BYTES, codec, total, keys)
        records = load.produce_keyed(bootstrap, topic, how)
        load.produce(bootstrap, behind, (1, VALUE_BYTES, 262_144, "none", FILLER_BYTES))
        progress, end_offset = server.cleaning_of(topic, records)
        begun, cpu = time.time(), server.cpu_seconds()
        ended, used = _until_clean(server, topic, progress)
        check_clean(read_keys(bootstrap, topic), records, keys, end_offset)
    gigabytes = end_offset * VALUE_BYTES / 1e9
    return {"MB/s": 1e3 * gigabytes / (ended - begun), "cpu": (used - cpu) / gigabytes}


def _until_clean(server: Server, topic: str, progress: Progress) -> tuple[float, float]:
    """Let the cleaner begin; return when it did the last part, and the server's CPU seconds then,
    up to a second of its idling included.

    Raises LoadFailed.
    """
    last: list[tuple[float, float]] = []

    def note() -> None:
        last[:] = [(progress.done_at, server.cpu_seconds())]

    server.load.alter(server.bootstrap, topic, COMPACTED)
    try:
        wait_clean(progress, seconds=CLEAN_SECONDS, on_change=note)
    except NotCleaned as error:
        raise LoadFailed(f"{server.spec.label}: {error}") from error
    return last[0]


def check_clean(
    left: Iterable[tuple[int, bytes]], records: int, keys: int, end_offset: int
) -> None:
    """Fail unless exactly the newest record of each key is left below an offset (exclusive).

    `left` are offsets and keys that are read, of so many that were written. Raises LoadFailed.
    """
    assert 0 < end_offset <= records
    newest = {key_of(offset, keys): offset for offset in range(end_offset)}
    found = {offset: key for offset, key in left if offset < end_offset}
    lost = [key for key, offset in newest.items() if found.get(offset) != key]
    if lost:
        raise LoadFailed(f"{len(lost):,} of {len(newest):,} keys have lost their newest record")
    if len(found) > len(newest):
        raise LoadFailed(f"{len(found) - len(newest):,} old records are left: it is not clean")


def read_keys(bootstrap: str, topic: str) -> Iterator[tuple[int, bytes]]:
    """Yield offset and key of every record in partition 0. Raises LoadFailed."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "checker",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(READ_SECONDS)) is not None:
            error = message.error()
            if error is None:
                yield int(message.offset() or 0), _bytes_of(message.key())
            elif error.code() == END_OF_PARTITION:
                return
            else:
                break
        raise LoadFailed(f"{topic} can not be read to its end")
    finally:
        consumer.close()


def _bytes_of(key: str | bytes | None) -> bytes:
    return key if isinstance(key, bytes) else str(key).encode()


def catch_up(*, partitions: int) -> Probe:
    """Read from the beginning what only the store has, as `consume` does."""

    def ask(server: Server, scale: Scale) -> Answer:
        load, bootstrap = server.load, server.bootstrap
        with load.topic(bootstrap, partitions, configs=IN_STORE) as topic:
            how = (partitions, VALUE_BYTES, 262_144, "none", scale.total_bytes)
            written = int(load.produce(bootstrap, topic, how)["bytes"])
            with Cluster(ClientSettings(bootstrap=bootstrap)) as cluster:
                ends = offsets_of(cluster, topic, partitions, LATEST)
                filler = 3 * SEGMENT_BYTES * partitions
                load.produce(bootstrap, topic, (*how[:-1], filler))
                _wait_for_store(cluster, topic, ends)
            read_from_start(server, topic, partitions, written)
            return read_from_start(server, topic, partitions, written)

    return ask


def offsets_of(cluster: Cluster, topic: str, partitions: int, special: int) -> Sequence[int]:
    """Ask the one node for an offset of each partition, as a client that knows of stores."""
    asked = [
        {"partition_index": partition, "current_leader_epoch": -1, "timestamp": special}
        for partition in range(partitions)
    ]
    body = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": asked}],
    }
    key, version = ApiKey.LIST_OFFSETS, FIRST_WITH_STORES
    connection = cluster.connection(cluster.leader(topic, 0))
    connection.send(key, version, encode_request(key, version, body))
    answer = decode_response(key, version, *connection.receive())
    told = sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)
    refused = [one for one in told if one.error_code]
    if refused or len(told) != partitions:
        raise LoadFailed(f"offsets of {topic} are refused: {refused}")
    return [int(one.offset) for one in told]


def _wait_for_store(cluster: Cluster, topic: str, ends: Sequence[int]) -> None:
    """Return when nothing below these offsets is on the server's disk, and no more is copied."""
    seen: list[tuple[float, Sequence[int]]] = []

    def is_still() -> bool:
        starts = offsets_of(cluster, topic, len(ends), EARLIEST_LOCAL)
        if not seen or starts != seen[-1][1]:
            seen[:] = [(time.monotonic(), starts)]
        is_there = all(start >= end for start, end in zip(starts, ends, strict=True))
        return is_there and time.monotonic() - seen[-1][0] >= STILL_SECONDS

    if not wait_until(is_still, COPY_SECONDS, every_seconds=0.5):
        raise CanNotRun(f"not in the store after {COPY_SECONDS:.0f} s: {seen[-1][1]} of {ends}")
