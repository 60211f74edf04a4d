"""Fetch sessions (KIP-227): a consumer names its partitions once and then only what changes.

    request (id, epoch)     meaning
    0, -1                   no session: a full request
    any, 0                  end session `id` if it exists, create one from this request
    id, -1                  end the session; a full request
    id, n > 0               incremental: n must be the next epoch of the session

Which clients have a session, and for how long, is decided in session_cache.py.

Source: KIP-227, Kafka `FetchSession.scala`.
"""

from collections.abc import Iterable
from typing import Protocol

from penstock.base.ids import LeaderEpoch, Offset
from penstock.broker.fetch.partition_read import PartitionKey, WantedPartition
from penstock.kafka.session_epochs import FIRST_EPOCH, following

NO_SESSION = 0
SESSION_BYTES = 512
PARTITION_BYTES = 384
"""Memory of a session and of each of its partitions at most, without the topic's name: entry, key,
numbers and table slot are 280 bytes by tracemalloc, and 380 if nothing is shared."""


class Client(Protocol):
    """The owner of a session: a connection."""

    @property
    def client_host(self) -> str: ...

    @property
    def is_closed(self) -> bool: ...


class SessionPartition(WantedPartition):
    """One partition of a session: what to fetch next, and what was answered last."""

    __slots__ = ("high_watermark", "log_start_offset", "was_told")

    def __init__(
        self,
        key: PartitionKey,
        fetch_offset: int,
        max_bytes: int,
        leader_epoch: LeaderEpoch,
        last_fetched_epoch: LeaderEpoch,
    ) -> None:
        super().__init__(key, fetch_offset, max_bytes, leader_epoch, last_fetched_epoch)
        self.high_watermark = -1
        self.log_start_offset = -1
        self.was_told = False

    @property
    def size_bytes(self) -> int:
        """Bytes it is counted as. A shared name counts for each session, as the others may end."""
        return PARTITION_BYTES + len(self.key[0])

    def update(
        self,
        fetch_offset: int,
        max_bytes: int,
        leader_epoch: LeaderEpoch,
        last_fetched_epoch: LeaderEpoch,
    ) -> None:
        """Adopt the partition's fields of a later request."""
        self.fetch_offset = Offset(fetch_offset)
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = LeaderEpoch(last_fetched_epoch)

    def has_news(
        self, *, size: int, is_told: bool, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Whether an incremental answer must have the partition; remembers what is answered.

        `is_told`: there is an error, a preferred replica or a diverging epoch. Such a partition is
        always in the answer, and so is the first answer after it, which ends that state.
        """
        news = (
            size > 0
            or is_told
            or self.was_told
            or high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
        )
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.was_told = is_told
        return news


class FetchSession:
    """The partitions of one consumer, in the order in which they are served."""

    __slots__ = (
        "client",
        "host",
        "last_used_ms",
        "next_epoch",
        "partitions",
        "session_id",
        "size_bytes",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, uses_topic_ids: bool, client: Client) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.client = client
        """The connection that used it last."""
        self.host = client.client_host
        """The host that it is counted for: that of its first connection."""
        self.next_epoch = FIRST_EPOCH
        self.last_used_ms = 0
        self.size_bytes = SESSION_BYTES
        self.partitions: dict[PartitionKey, SessionPartition] = {}

    def apply(self, wanted: Iterable[SessionPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Add or update the named partitions, then drop the forgotten ones."""
        for partition in wanted:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
                self.size_bytes += partition.size_bytes
                continue
            known.update(
                partition.fetch_offset,
                partition.max_bytes,
                partition.leader_epoch,
                partition.last_fetched_epoch,
            )
        for key in forgotten:
            gone = self.partitions.pop(key, None)
            if gone is not None:
                self.size_bytes -= gone.size_bytes

    def served(self, key: PartitionKey) -> None:
        """Move a partition that got records to the end, so that none starves."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.partitions[key] = partition

    def advance(self) -> None:
        """Advance to the next epoch."""
        self.next_epoch = following(self.next_epoch)
