"""Readers that stay with one broker each, whatever it says about who leads.

Stock clients leave a master as soon as they hear of another one. These do not: each asks its broker
for every partition again and again on a connection of its own, and notes what came and where the
broker said the log ends. So a master that was replaced without knowing it is watched from the first
moment on. Fetches have version 4, which no slave answers. The end comes from ListOffsets, where a
new master can say that it does not know it yet (KIP-207); its fetches just wait.
"""

import threading
import time
from dataclasses import dataclass, field

from penstock.client.connection import Connection
from penstock.client.errors import ClientError
from penstock.client.fetch import (
    FetchedPartition,
    FetchOptions,
    FetchWant,
    encode_fetch,
    parse_fetch,
)
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.read import iter_batches, iter_records
from simulator.history import MastershipSeen, Poll

FETCH_VERSION = 4
LATEST = -1
ASK_SECONDS = 0.1
RETRY_SECONDS = 0.2
JOIN_SECONDS = 120.0
BEHIND_MAX = 2000
"""A reader further behind begins anew near the end: it watches the end, others read everything."""
_OPTIONS = FetchOptions(partition_bytes_max=256 << 10, bytes_min=0, wait_ms=0)


@dataclass(slots=True)
class _Place:
    """Where a reader stands in one partition."""

    offset: int = 0
    is_fresh: bool = True


@dataclass(slots=True)
class DirectReader:
    """One broker's reader, in a thread of its own."""

    address: str
    topic: str
    partitions: int
    owner: str = "direct"
    polls: list[Poll] = field(default_factory=list)
    masterships: list[MastershipSeen] = field(default_factory=list)
    """Who leads each partition, as this broker said."""
    refusals: list[str] = field(default_factory=list)
    """Answers that no broker may give to a reader of what was confirmed."""
    _is_done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._is_done.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        places = [_Place() for _ in range(self.partitions)]
        settings = ClientSettings(
            bootstrap=self.address, connect_timeout_ms=1000, request_timeout_ms=20_000
        )
        host, _, port = self.address.rpartition(":")
        while not self._is_done.is_set():
            try:
                connection = Connection(host, int(port), settings)
                try:
                    self._ask_until_done(connection, places)
                finally:
                    connection.close()
            except ClientError:
                self._is_done.wait(RETRY_SECONDS)

    def _ask_until_done(self, connection: Connection, places: list[_Place]) -> None:
        while not self._is_done.wait(ASK_SECONDS):
            wants = [
                FetchWant(self.topic, number, place.offset) for number, place in enumerate(places)
            ]
            self._ask_for_ends(connection)
            self._ask_for_masters(connection)
            begun = time.monotonic_ns()
            connection.send(
                ApiKey.FETCH, FETCH_VERSION, encode_fetch(FETCH_VERSION, wants, _OPTIONS)
            )
            frame, at = connection.receive()
            ended = time.monotonic_ns()
            for found in parse_fetch(FETCH_VERSION, frame, at):
                self._take(found, places[found.partition], (begun, ended))

    def _ask_for_ends(self, connection: Connection) -> None:
        begun = time.monotonic_ns()
        asked = [
            {"partition_index": number, "current_leader_epoch": -1, "timestamp": LATEST}
            for number in range(self.partitions)
        ]
        answer = connection.call(
            ApiKey.LIST_OFFSETS,
            {
                "replica_id": -1,
                "isolation_level": 0,
                "topics": [{"name": self.topic, "partitions": asked}],
            },
        )
        ended = time.monotonic_ns()
        for topic in answer.topics:
            self.polls += [
                Poll(
                    self._name,
                    partition.partition_index,
                    (),
                    begun,
                    ended,
                    end_offset=partition.offset,
                )
                for partition in topic.partitions
                if partition.error_code == ErrorCode.NONE
            ]

    def _ask_for_masters(self, connection: Connection) -> None:
        fields = {"topics": [{"name": self.topic}], "allow_auto_topic_creation": False}
        at_ns = time.monotonic_ns()
        for topic in connection.call(ApiKey.METADATA, fields).topics:
            self.masterships += [
                MastershipSeen(
                    self._name,
                    f"{self.topic}-{partition.partition_index}",
                    partition.leader_epoch,
                    partition.leader_id,
                    at_ns,
                    partition.isr_nodes,
                )
                for partition in topic.partitions
                if partition.error_code == ErrorCode.NONE
            ]

    @property
    def _name(self) -> str:
        return f"{self.owner} {self.address}"

    def _take(self, found: FetchedPartition, place: _Place, times: tuple[int, int]) -> None:
        if found.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.refusals.append(
                f"{self.address}: {place.offset} of {found.partition} is not there"
            )
            place.offset, place.is_fresh = 0, True
            return
        if found.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.polls.append(Poll(self._name, found.partition, (), *times, is_elsewhere=True))
        if found.error is not ErrorCode.NONE:
            return
        records = [
            (record.offset, value_name(record.value))
            for _, batch in iter_batches(found.data)
            for record in iter_records(batch)
            if record.offset >= place.offset
        ]
        self.polls.append(Poll(self._name, found.partition, records, *times, place.is_fresh))
        if records:
            place.offset, place.is_fresh = records[-1][0] + 1, False
        if found.high_watermark - place.offset > BEHIND_MAX:
            place.offset, place.is_fresh = found.high_watermark - BEHIND_MAX // 2, True


def value_name(value: bytes | None) -> str:
    """Return the unique part of a record's value."""
    return (value or b"").partition(b".")[0].decode(errors="replace")
