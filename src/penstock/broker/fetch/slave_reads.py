"""Which replica a consumer reads from (KIP-392): configurable, off by default.

    off     all consumers read from the master; slaves refuse
    rack    a consumer is sent to a member in its own rack, unless the master is there
    lag     a consumer whose offset is further behind than the page cache is expected to reach is
            sent to a slave, so that its reads from disk do not disturb the master's writes

The master answers with a preferred read replica and no records; the consumer fetches there until
its metadata is a few minutes old. Only members of the sync-state set on live brokers are
candidates, those in the consumer's rack first. If there are several, partitions are spread over
them.

The page cache is expected to hold `slave_read_memory_percent` of the machine's memory, shared by
the replica sets of this broker. The offset below which a partition's records are older than that is
looked up when the log has grown by a sixteenth of it; a slightly old value favours the master.

    at a slave, offset is          answer
    below the log start            OFFSET_OUT_OF_RANGE; where the object store may have it records
                                   from there. Without tier.url NOT_LEADER_OR_FOLLOWER: the consumer
                                   returns to the master
    up to the own end              records up to the own confirm position, else a wait
    above the own end              OFFSET_NOT_AVAILABLE: the slave lags, or the offset is wrong

What only the store has is read by slaves, too (ADR 0162): with `lag` all of it, with `rack` by the
member in the consumer's rack. Who comes back from a slave unserved is not sent there again soon.

Source: KIP-392; Kafka `RackAwareReplicaSelector`; RocketMQ `accessMessageInMemoryMaxRatio` (40 %).
Departure: lag as a reason, and slaves refuse unless slave reads are enabled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.broker.config import SlaveReads
from penstock.broker.errors import OffsetNotAvailable
from penstock.broker.fetch.partition_read import NO_PREFERENCE
from penstock.broker.live_broker import live_broker
from penstock.broker.tier.reach import is_tiered
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.errors import NotMaster
from penstock.storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.base.errors import PlatformError
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition

LOOK_UP_FRACTION = 16


@dataclass(slots=True)
class ReplicaSelector:
    """The choice for one request, whose version can name a preferred read replica (v11+)."""

    broker: Broker
    rack: str
    """The consumer's rack; empty if unknown."""
    client: object
    """The connection of the consumer."""
    _chosen: dict[TopicPartition, int] = field(default_factory=dict)
    """For what only the tier has, as the same request may look at a partition again."""

    def check_slave(self, hosted: HostedPartition, offset: int) -> None:
        """Check that this slave can answer for `offset`.

        Raises NotMaster, OffsetOutOfRange, OffsetNotAvailable.
        """
        member, log = hosted.member, hosted.log
        if member.role is not Role.SLAVE:
            raise NotMaster("this broker follows no master now")
        start: Offset | None = log.log_start_offset
        if offset < log.log_start_offset and is_tiered(hosted):
            tier = self.broker.tier
            if tier is None:
                raise NotMaster("what only the object store has is read from the master")
            start = tier.reads.told_start(hosted)
        if start is not None and offset < start:
            raise OffsetOutOfRange(offset, start, log.log_end_offset)
        if offset > log.log_end_offset:
            raise OffsetNotAvailable(f"this slave's log ends at {log.log_end_offset}")

    def preferred(self, hosted: HostedPartition, offset: int) -> int:
        """Return the broker that the consumer is to read from, -1 for the master."""
        if offset < hosted.log.log_start_offset:
            return self._preferred_for_tier(hosted, offset)
        is_wanted = bool(self.rack)
        if self.broker.config.slave_reads == SlaveReads.LAG:
            is_wanted = is_far_behind(hosted, offset, self._trusted_bytes())
        if not is_wanted:
            return NO_PREFERENCE
        return self._choose(hosted)

    def _preferred_for_tier(self, hosted: HostedPartition, offset: int) -> int:
        """Return who is to read the store: what it has is far behind, and costs whoever reads."""
        key = hosted.log.topic_partition
        if key not in self._chosen:
            is_wanted = bool(self.rack) or self.broker.config.slave_reads == SlaveReads.LAG
            chosen = self._choose(hosted) if is_wanted else NO_PREFERENCE
            if chosen != NO_PREFERENCE and not self.broker.sent_away.may_send(
                self.client, key, offset
            ):
                chosen = NO_PREFERENCE
            self._chosen[key] = chosen
        return self._chosen[key]

    def _choose(self, hosted: HostedPartition) -> int:
        image = self.broker.metadata
        replica_set = image.replica_sets.get(hosted.member.replica_set_id)
        if replica_set is None:
            return NO_PREFERENCE
        own_id = self.broker.broker_id
        by_lag = self.broker.config.slave_reads == SlaveReads.LAG
        live = [one for one in replica_set.sync_state_set if live_broker(image, one) is not None]
        slaves = [one for one in live if one != own_id]
        in_rack = [one for one in live if image.brokers[one].rack == self.rack]
        if not by_lag and own_id in in_rack:
            return NO_PREFERENCE
        near = [slave for slave in slaves if slave in in_rack] if self.rack else []
        candidates = near or (slaves if by_lag else [])
        return candidates[hosted.partition % len(candidates)] if candidates else NO_PREFERENCE

    def _trusted_bytes(self) -> int:
        config = self.broker.config
        share = self.broker.memory_bytes * config.slave_read_memory_percent // 100
        return share // max(1, len(self.broker.members))


def is_far_behind(hosted: HostedPartition, offset: int, trusted_bytes: int) -> bool:
    """Whether `offset` is more than `trusted_bytes` of log before the end, as far as known."""
    member = hosted.member
    position = Position(member.log.end_position - trusted_bytes)
    if position <= 0:
        return False
    grown = position - hosted.trusted_from_position
    if grown > trusted_bytes // LOOK_UP_FRACTION:
        _look_up(hosted, member, position)
    return offset < hosted.trusted_from_offset


def _look_up(hosted: HostedPartition, member: ReplicaSetMember, position: Position) -> None:
    """Find the first offset expected in the page cache; if off the loop, for later fetches."""
    log = hosted.log
    hosted.trusted_from_position = position

    def found(offset: Offset | None, _: PlatformError | None) -> None:
        if offset is not None and hosted.log is log:
            hosted.trusted_from_offset = max(hosted.trusted_from_offset, offset)

    member.log.find_offset_at(log, position, found)
