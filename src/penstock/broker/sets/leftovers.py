"""Partitions of deleted topics in a log: found and dropped, also at a slave.

A topic is deleted through the metadata log, and its records come by the set's replication: a slave
that has dropped a partition gets records that were in flight, and has the partition again. As long
as the log has it no retention applies to it, and its bytes keep whole files on disk.

A topic missing in the image is no proof, as the image may be behind the log. A partition is dropped

    of a topic that was seen to be deleted                           always
    all of whose frames were written before the mastership that      once the image has that
    is followed, or resumed                                          mastership, and all before it
    that was in the log when it was opened, and has not been         once the image has this
    truncated or copied since                                        process's own registration

A new master drops all topics that it does not know (PartitionRegistry.drop_unknown).

Source: ours; Kafka's brokers delete a stray replica when the image has caught up (KIP-858).
"""

from collections.abc import Callable, Container
from contextlib import suppress

from penstock.base.ids import TopicId
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.storage.errors import LogBusy

DELETED_MAX = 10_000
"""Deleted topics that are remembered; leftovers of older ones are kept until a new mastership."""


class Leftovers:
    """Finds them in the logs of one broker."""

    __slots__ = ("_deleted", "_found_ends", "is_registered")

    def __init__(self) -> None:
        self._deleted: dict[TopicId, None] = {}
        self._found_ends: dict[int, int] = {}
        """By set: end of a log that was opened before this process was registered."""
        self.is_registered: Callable[[], bool] = _never
        """Whether the image has the registration of this process."""

    def note_deleted(self, topic_id: TopicId) -> None:
        """Remember that the topic was deleted."""
        self._deleted[topic_id] = None
        if len(self._deleted) > DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]

    def is_deleted(self, topic_id: TopicId) -> bool:
        """Whether a topic that the image lacks, and a master here knows of, was deleted.

        A mastership that resumes after a restart may know of topics that this process has yet to
        replay, up to its own registration. Any other one is as new as the image.
        """
        return topic_id in self._deleted or self.is_registered()

    def note_opened(self, member: ReplicaSetMember) -> None:
        """Note an opened log: its content is older than a registration still to come."""
        end = 0 if self.is_registered() else member.log.end_position
        self._found_ends[member.replica_set_id] = end

    def note_reopened(self, member: ReplicaSetMember) -> None:
        """Note that the log was truncated or replaced, so that its earlier end proves nothing."""
        self._found_ends[member.replica_set_id] = 0

    def drop(self, member: ReplicaSetMember, known: Container[TopicId]) -> int:
        """Drop the partitions of deleted topics from the member's log; return how many."""
        limit = self._known_below(member)
        gone = [
            topic_partition
            for topic_partition, partition in member.log.partitions.items()
            if topic_partition.topic_id not in known
            and (partition.last_end_position <= limit or topic_partition.topic_id in self._deleted)
        ]
        with suppress(LogBusy):  # being reopened; it is checked again the next time
            for topic_partition in gone:
                member.log.drop_partition(topic_partition)
            return len(gone)
        return 0

    def _known_below(self, member: ReplicaSetMember) -> int:
        """Return the position below which the image knows every topic that was not deleted."""
        found = self._found_ends.get(member.replica_set_id, 0) if self.is_registered() else 0
        if member.role is Role.IDLE:
            return found
        epochs = member.log.epochs
        if epochs and epochs[-1][0] == member.leader_epoch:
            return max(found, epochs[-1][1])
        return max(found, member.log.end_position)


def _never() -> bool:
    return False
