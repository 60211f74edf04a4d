"""Reading a partition as raw batches: Fetch requests, and their answers without a copy.

The idea: `PartitionFetcher` reads [start, end) of one partition over a connection of its own. When
an answer arrives, the next request is sent before the answer is returned: while the caller decodes,
the broker reads and the kernel receives. Records stay a memoryview into the frame.

    partition in an answer: number i32 | error i16 | high watermark i64 | last stable offset i64 |
        log start i64 (v5) | aborted: count i32, (producer id i64, first offset i64) ... |
        preferred replica i32 (v11) | records: length i32, bytes

Source: Kafka FetchRequest and FetchResponse 4 to 11; KIP-74 (at least one whole batch), KIP-320.
It deliberately uses no fetch sessions. What was aborted is told and not taken out: see
`record.committed`.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.cluster import Cluster, Retries
from penstock.client.connection import Connection
from penstock.client.errors import (
    BrokerError,
    ClientError,
    MalformedAnswer,
    OffsetOutOfRange,
    RequestTimedOut,
    error_code,
)
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import encode_request
from penstock.record.committed import Aborted
from penstock.record.errors import RecordError
from penstock.record.read import run_end

_CONSUMER = -1
_NO_SESSION_EPOCH = -1
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_TOP = struct.Struct(">i")
_TOP_7 = struct.Struct(">ihi")
_PARTITION_4 = struct.Struct(">ihqq")
_PARTITION_5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How much to request at once, and how long a broker may wait for it."""

    partition_bytes_max: int = 4 << 20
    """Large answers cost least per record; memory is about twice this for each fetcher."""

    request_bytes_max: int = 32 << 20
    bytes_min: int = 1
    wait_ms: int = 500
    is_committed_only: bool = False
    """Whether brokers send nothing beyond the last stable offset, and tell what was aborted."""


class FetchWant(NamedTuple):
    """A partition and the offset (inclusive) from which its records are wanted."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1


class FetchedPartition(NamedTuple):
    """The answer for one partition; `data` is a run of batches, of which the last may be cut."""

    topic: str
    partition: int
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    data: memoryview
    aborted: tuple[Aborted, ...] = ()
    """Transactions whose batches may be in `data`; told only if asked for committed records."""


class FetchedRun(NamedTuple):
    """Whole batches, maybe followed by a cut one, and the offset after them.

    `offset` is the fetch offset, which may lie within the first batch; `next_offset` is the offset
    after the last whole batch. Batches may begin before, and end after, the requested range.
    """

    offset: int
    next_offset: int
    high_watermark: int
    data: memoryview
    aborted: tuple[Aborted, ...] = ()


def encode_fetch(version: int, wants: Sequence[FetchWant], options: FetchOptions) -> bytes:
    """Encode the body of a Fetch request, partitions in the order given."""
    topics: dict[str, list[dict[str, int]]] = {}
    for want in wants:
        topics.setdefault(want.topic, []).append(
            {
                "partition": want.partition,
                "current_leader_epoch": want.leader_epoch,
                "fetch_offset": want.offset,
                "log_start_offset": -1,
                "partition_max_bytes": options.partition_bytes_max,
            }
        )
    fields = {
        "replica_id": _CONSUMER,
        "max_wait_ms": options.wait_ms,
        "max_wait": options.wait_ms,
        "min_bytes": options.bytes_min,
        "max_bytes": options.request_bytes_max,
        "isolation_level": int(options.is_committed_only),
        "session_epoch": _NO_SESSION_EPOCH,
        "topics": [{"topic": name, "partitions": parts} for name, parts in topics.items()],
        "forgotten_topics_data": [],
    }
    return encode_request(ApiKey.FETCH, version, fields)


def parse_fetch(version: int, frame: memoryview, at: int) -> list[FetchedPartition]:
    """Parse the body of a Fetch answer, version 4 to 11; records stay slices of `frame`.

    Raises MalformedAnswer, BrokerError for an error of the whole request.
    """
    try:
        return _parse_fetch(version, frame, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedAnswer("broker", f"Fetch answer: {error}") from error


def _parse_fetch(version: int, frame: memoryview, at: int) -> list[FetchedPartition]:
    if version >= 7:
        _, code, _ = _TOP_7.unpack_from(frame, at)
        at += _TOP_7.size
        if code:
            raise BrokerError(error_code(code), "Fetch")
    else:
        at += _TOP.size
    (topic_count,) = _INT32.unpack_from(frame, at)
    at += _INT32.size
    fetched: list[FetchedPartition] = []
    for _ in range(topic_count):
        (name_bytes,) = _INT16.unpack_from(frame, at)
        if name_bytes < 0:
            raise MalformedAnswer("broker", "a topic of a Fetch answer has no name")
        at += _INT16.size
        name = str(frame[at : at + name_bytes], "utf-8")
        at += name_bytes
        (partition_count,) = _INT32.unpack_from(frame, at)
        at += _INT32.size
        for _ in range(partition_count):
            partition, at = _parse_partition(version, frame, at, name)
            fetched.append(partition)
    return fetched


def _parse_partition(
    version: int, frame: memoryview, at: int, topic: str
) -> tuple[FetchedPartition, int]:
    log_start = -1
    if version >= 5:
        partition, code, high_watermark, _, log_start = _PARTITION_5.unpack_from(frame, at)
        at += _PARTITION_5.size
    else:
        partition, code, high_watermark, _ = _PARTITION_4.unpack_from(frame, at)
        at += _PARTITION_4.size
    (aborted_count,) = _INT32.unpack_from(frame, at)
    at += _INT32.size
    aborted = []
    for _ in range(aborted_count):
        producer_id, first_offset = _ABORTED.unpack_from(frame, at)
        aborted.append(Aborted(first_offset, producer_id))
        at += _ABORTED.size
    if version >= 11:
        at += _INT32.size
    (length,) = _INT32.unpack_from(frame, at)
    at += _INT32.size
    end = at + max(0, length)
    if end > len(frame):
        raise MalformedAnswer("broker", "records of a Fetch answer go beyond its end")
    error = error_code(code)
    data = frame[at:end]
    return FetchedPartition(
        topic, partition, error, high_watermark, log_start, data, tuple(aborted)
    ), end


def check_fetched(fetched: FetchedPartition, offset: int) -> None:
    """Raise OffsetOutOfRange or BrokerError if the partition could not be read."""
    if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetOutOfRange(fetched.topic, fetched.partition, offset)
    if fetched.error is not ErrorCode.NONE:
        raise BrokerError(
            fetched.error, f"fetch of {fetched.topic}-{fetched.partition} at offset {offset}"
        )


class PartitionFetcher:
    """Runs of batches that together contain the offsets [start, end); iterate once.

    Survives restarts and moves of the leader within `deadline_ms` without progress. Raises
    OffsetOutOfRange, TopicNotFound, RequestTimedOut, BrokerError; RecordError for damaged batches.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        *,
        start: int,
        end: int,
        options: FetchOptions | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic, self._partition = topic, partition
        self._offset, self._end = start, end
        self._options = options or FetchOptions()
        self._connection: Connection | None = None

    def __iter__(self) -> Iterator[FetchedRun]:
        what = f"reading {self._topic}-{self._partition} from {self._offset} to {self._end}"
        retries = Retries(self._cluster.settings, what)
        try:
            while self._offset < self._end:
                try:
                    run = self._next_run()
                except ClientError as error:
                    self._drop()
                    retries.pause_or_raise(error)
                    continue
                if run.next_offset == run.offset:
                    self._stop_when_stuck(retries)
                    continue
                retries.restart()
                yield run
        finally:
            self._drop()

    def _next_run(self) -> FetchedRun:
        """Receive one answer, and send the next request before returning it."""
        connection = self._ensure_asked()
        frame, at = connection.receive(wait_ms=self._options.wait_ms)
        answers = parse_fetch(connection.version(ApiKey.FETCH), frame, at)
        if len(answers) != 1 or answers[0].partition != self._partition:
            raise MalformedAnswer(connection.address, "Fetch answer for another partition")
        fetched = answers[0]
        check_fetched(fetched, self._offset)
        offset = self._offset
        try:
            self._offset = run_end(fetched.data, offset)
        except RecordError:
            self._drop()
            raise
        if self._offset < self._end:
            self._ask(connection)
        return FetchedRun(
            offset, self._offset, fetched.high_watermark, fetched.data, fetched.aborted
        )

    def _ensure_asked(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            leader = self._cluster.leader(self._topic, self._partition)
            self._connection = self._cluster.open_connection(leader)
            self._ask(self._connection)
        elif not self._connection.in_flight_count:
            self._ask(self._connection)
        return self._connection

    def _ask(self, connection: Connection) -> None:
        """Send a request. If that fails, the next receive opens the connection again."""
        want = FetchWant(self._topic, self._partition, self._offset)
        version = connection.version(ApiKey.FETCH)
        try:
            connection.send(ApiKey.FETCH, version, encode_fetch(version, [want], self._options))
        except ClientError:
            connection.close()

    def _stop_when_stuck(self, retries: Retries) -> None:
        """Raise RequestTimedOut if there was nothing to read until the deadline."""
        if retries.is_over():
            reason = f"nothing readable at offset {self._offset}"
            raise RequestTimedOut(retries.what, self._cluster.settings.deadline_ms, reason)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._cluster.forget(self._topic)
