"""The indexes of a node, one for each log, and whose turn it is: one step at a time.

    several times a second: look ─► a member's index has something to do ─► a step, on a thread
      ─► rest, three times as long as it took ─► the next member's

So no send pays for the index, and it takes about a quarter of one processor; where it falls
behind, it says by how much. While a search waits for it there is no rest.

Source: ours, docs/adr/0175.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PlatformError
from penstock.broker.finding.key_index import KeyIndex
from penstock.broker.tier.reach import first_offset, is_tiered
from penstock.finding.traces import TOPIC as MESSAGE_TRACE_TOPIC
from penstock.record.compression import READER_BOUNDS, Bounds
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.base.ids import ReplicaSetId, TopicPartition
    from penstock.broker.broker import Broker
    from penstock.broker.finding.gathering import Naming
    from penstock.replica.replica_set import ReplicaSetMember

REST: Final = 3
REST_MS_MAX: Final = 200


class Indexing:
    """See the module; one for each node whose front searches."""

    def __init__(self, broker: Broker, naming: Naming, bytes_max: int) -> None:
        """`bytes_max` is for the tables of one log; it is set before the first look."""
        self._broker = broker
        self._naming = naming
        self.bytes_max = bytes_max
        """0: there is no index, and nothing is found by name."""
        self.indexes: dict[ReplicaSetId, KeyIndex] = {}
        self.searches: Counter[str] = Counter()
        """By what they found: `found`, `nothing`, `behind`."""
        self._last: ReplicaSetId | None = None
        self._is_at_work = False
        broker.on_expire.append(self._expire)

    def of(self, member: ReplicaSetMember) -> KeyIndex:
        """Return the index of a member's log."""
        known = self.indexes.get(member.replica_set_id)
        if known is not None and known.member is member:
            return known
        if known is not None:
            known.close()
        made = KeyIndex(
            member, self._naming, self._bounds_of, partial(self._is_gone, member), self.bytes_max
        )
        self.indexes[member.replica_set_id] = made
        return made

    def led(self, set_ids: Iterable[ReplicaSetId]) -> list[KeyIndex]:
        """Return the indexes of these sets that are led here."""
        members = (self._broker.members.get(set_id) for set_id in dict.fromkeys(set_ids))
        indexes = [self.of(member) for member in members if member is not None]
        return [index for index in indexes if index.is_led]

    def asked(self, set_id: ReplicaSetId) -> KeyIndex:
        """Return the index of a set that is led here. Raises NotMaster."""
        member = self._broker.members.get(set_id)
        if member is None:
            raise NotMaster(f"another broker carries set {set_id}")
        index = self.of(member)
        index.check_led()
        return index

    def look(self) -> None:
        """Begin a step of the next index that has something to do, if none is under way."""
        if self._is_at_work or not self.bytes_max:
            return
        ids = sorted(self._broker.members)
        last = -1 if self._last is None else self._last
        self._is_at_work = True
        begun_us = self._broker.clock.monotonic_us()
        for set_id in [*(one for one in ids if one > last), *(one for one in ids if one <= last)]:
            index = self.of(self._broker.members[set_id])
            if index.begin(partial(self._over, index, begun_us)):
                self._last = set_id
                return
        self._is_at_work = False

    def _over(self, index: KeyIndex, begun_us: int) -> None:
        took_ms = (self._broker.clock.monotonic_us() - begun_us) // 1_000
        rest_ms = 0 if index.has_waiters else min(REST * took_ms, REST_MS_MAX)
        self._broker.scheduler.call_later(rest_ms, self._go_on)

    def _go_on(self) -> None:
        self._is_at_work = False
        self.look()

    def _expire(self, now_ms: int) -> None:
        gone = [one for one in self.indexes if one not in self._broker.members]
        for set_id in gone:
            self.indexes.pop(set_id).close()
        for index in self.indexes.values():
            index.expire(now_ms)
        self.look()

    def _bounds_of(self, topic_id: bytes) -> Bounds | None:
        """Return how much a topic's batches may unpack to; None: it is not indexed. On workers.

        Of internal topics that of the message trace is, which is what it is found by.
        """
        topic = self._broker.partitions.by_id.get(topic_id)
        if topic is None:
            return READER_BOUNDS  # the metadata may be behind the log
        if topic.internal and topic.name != MESSAGE_TRACE_TOPIC:
            return None
        most = max(topic.rules.bounds.output_bytes_max, READER_BOUNDS.output_bytes_max)
        return Bounds(most, ratio_max=READER_BOUNDS.ratio_max)

    def _is_gone(self, member: ReplicaSetMember, partition: TopicPartition, last: int) -> bool:
        """Whether nothing is left of a partition up to an offset."""
        log = member.log.partitions.get(partition)
        if log is None:
            return True
        topic = self._broker.partitions.by_id.get(partition.topic_id)
        try:
            hosted = None if topic is None else topic.find(partition.partition)
        except PlatformError:
            return False
        if hosted is None or not is_tiered(hosted):
            return log.log_start_offset > last
        first = first_offset(hosted, self._broker.tier)
        is_known = hosted.member.is_master and first is not None
        return is_known and first is not None and first > last
