"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, and deleted topics.

A commit is answered, and visible to OffsetFetch, when it is durable. Members commit with their
generation and are refused when it is over. A commit without generation and member id comes from
outside the group protocol and is accepted while the group is empty.

A commit in a transaction waits for its end: until then OffsetFetch shows what was committed before,
or says that the position is not stable. Without generation and member id it is accepted at any
time, since producers before KIP-447 do not have them.

Source: Kafka, ClassicGroup.validateOffsetCommit, ConsumerGroup.validateOffsetCommit,
OffsetMetadataManager; KIP-98 and KIP-447 for transactions and `require_stable`; KIP-496 for
OffsetDelete. Departure: the retention time of OffsetCommit 2-4 is ignored (retention is one rule,
see expiry.py).
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from penstock.base.ids import MemberEpoch
from penstock.coordinator.pending import Writer
from penstock.coordinator.portions import POSITIONS, TO_WRITE, Steps
from penstock.groups.classic.answering import Answering
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.membership import membership_error
from penstock.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE, topics_of_group
from penstock.groups.consumer import membership
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.context import Context
from penstock.groups.group import BaseGroup
from penstock.groups.journal import GroupChanges
from penstock.groups.messages import (
    NO_MEMBER_ID,
    CommitCallback,
    CommitOffsets,
    DeleteOffsetsCallback,
    DeleteOffsetsReply,
    FetchedOffset,
)
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.groups.share.group import ShareGroup
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.membership import is_subscribed as is_read
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

GROUP_PART, IN_FLIGHT_PART = 2, 4
"""Divisors of the bound for positions: the share of one group, and of writes under way."""
_STRING_BYTES_MAX = 32_767
PENDING_MAX = 5_000
"""Positions of one transaction in a partition of the internal topic: they are written, and count,
in one turn of the loop each. Further ones are refused with INVALID_COMMIT_OFFSET_SIZE."""
NO_BOUND = 1 << 62
TOGETHER = 500
"""Positions examined in one step, and deleted in one batch, when topics are deleted."""
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Commits:
    """Writes and deletes the offsets of groups."""

    __slots__ = ("_answering", "_context", "_gone", "_is_dropping", "_pinned", "_table")

    def __init__(self, context: Context, answering: Answering, table: GroupTable) -> None:
        self._context = context
        self._answering = answering
        self._table = table
        self._pinned = table.pinned
        self._gone: dict[str, set[bytes | None]] = {}
        """Deleted topics, name -> topic ids, that the next pass over all groups has to drop."""
        self._is_dropping = False

    def commit(self, group: BaseGroup, request: CommitOffsets, reply: CommitCallback) -> None:
        """Write offsets; each partition gets its own error."""
        error = _commit_refusal(group, request) or self._busy()
        if error is not None:
            self._context.counters.commits_refused += 1
            reply(dict.fromkeys(request.offsets, error))
            return
        writer = request.writer
        if writer is None and isinstance(group, Group) and request.member_id in group.members:
            self._answering.keep_alive(group, group.members[request.member_id])
        taken, answers = self._sort(group, request)

        def done(error: ErrorCode | None) -> None:
            if error is None:
                self._count(len(taken), is_plain=writer is None)
            elif error in _TOO_LARGE:
                answers.update(dict.fromkeys(taken, ErrorCode.INVALID_COMMIT_OFFSET_SIZE))
            else:
                answers.update(dict.fromkeys(taken, error))
            reply(answers)

        self._context.counters.offsets_refused += len(answers) - len(taken)
        if writer is not None and taken:
            self._table.writers.note(group.partition, writer.producer_id, group.group_id)
        changes = GroupChanges(offsets=taken, encoded=request.records)
        self._context.writer.write(group, changes, done, writer)

    def _count(self, offsets: int, *, is_plain: bool) -> None:
        if is_plain:
            self._context.counters.offsets_committed += offsets
        else:
            self._context.counters.transactional_offsets += offsets

    def _sort(
        self, group: BaseGroup, request: CommitOffsets
    ) -> tuple[dict[TopicKey, CommittedOffset | None], dict[TopicKey, ErrorCode]]:
        """Return which offsets are taken, and the answer for each one if they are written."""
        limit = min(self._context.config.offset_metadata_bytes_max, _STRING_BYTES_MAX)
        taken: dict[TopicKey, CommittedOffset | None] = {}
        answers: dict[TopicKey, ErrorCode] = {}
        producer_id = None if request.writer is None else request.writer.producer_id
        room, places = self._room(group), self._places(group, request.writer)
        for key, offset in request.offsets.items():
            growth = group.offsets.growth(key, offset, producer_id)
            if len(offset.metadata) > limit or len(offset.metadata.encode()) > limit:
                answers[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif growth > 0 and (growth > room or places <= 0):
                answers[key] = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            else:
                room -= growth
                places -= growth > 0
                taken[key] = offset
                answers[key] = ErrorCode.NONE
        return taken, answers

    def _places(self, group: BaseGroup, writer: Writer | None) -> int:
        """Return how many more positions a commit may add: a transaction's have a bound."""
        if writer is None:
            return NO_BOUND
        table, producer_id = self._table, writer.producer_id
        names = table.writers.groups_of(group.partition, producer_id)
        groups = [table.groups[name] for name in names if name in table.groups]
        return PENDING_MAX - sum(one.offsets.pending.count_of(producer_id) for one in groups)

    def _room(self, group: BaseGroup) -> int:
        """Return by how many bytes the positions of a group may grow."""
        bound = self._context.config.offsets_bytes_max
        common = bound if group.member_count else bound // 4 * 3
        of_all = common - self._pinned.offsets - self._pinned.in_flight
        return min(of_all, bound // GROUP_PART - group.offsets.size_bytes)

    def _busy(self) -> ErrorCode | None:
        """Return an error if commits under way, which have a bound of their own, exceed it."""
        bound = self._context.config.offsets_bytes_max
        is_busy = self._pinned.in_flight > bound // IN_FLIGHT_PART
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_busy else None

    def delete(
        self, group: BaseGroup, keys: tuple[TopicKey, ...], reply: DeleteOffsetsCallback
    ) -> None:
        """Delete offsets of topics that no member subscribes to."""
        refusal = _delete_refusal(group)
        if refusal is not None:
            reply(DeleteOffsetsReply(error=refusal, partitions={}))
            return
        answers = {
            key: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if _is_subscribed(group, key.topic)
            else ErrorCode.NONE
            for key in keys
        }
        # Offsets that are already being deleted are deleted again: that is not confirmed yet.
        known = {*group.offsets.keys()}
        gone: dict[TopicKey, CommittedOffset | None] = {
            key: None for key in keys if answers[key] is ErrorCode.NONE and key in known
        }

        def done(error: ErrorCode | None) -> None:
            failed = error or ErrorCode.NONE
            partitions = {} if error is not None else answers
            reply(DeleteOffsetsReply(error=failed, partitions=partitions))

        self._context.writer.write(group, GroupChanges(offsets=gone), done)

    def drop_topics(self, table: GroupTable, topics: Mapping[str, bytes]) -> None:
        """Delete the offsets of deleted topics, group by group, in portions.

        One pass over all groups runs at a time; topics deleted meanwhile wait for the next pass. A
        topic may have been created anew before its groups are reached: positions with another topic
        id stay.
        """
        for name, topic_id in topics.items():
            self._gone.setdefault(name, {None}).add(topic_id)
        if not self._is_dropping:
            self._is_dropping = True
            self._context.portions.begin(self._drop_gone(table))

    def _drop_gone(self, table: GroupTable) -> Steps:
        while self._gone:
            gone, self._gone = self._gone, {}
            for number, group_id in enumerate([*table.groups]):
                if number % POSITIONS == 0:
                    yield 1
                group = table.groups.get(group_id)
                if group is not None:
                    yield from self._drop_from(table, group, gone)
        self._is_dropping = False

    def _drop_from(
        self, table: GroupTable, group: BaseGroup, gone: Mapping[str, set[bytes | None]]
    ) -> Steps:
        keys = group.offsets.keys()
        while some := [*islice(keys, TOGETHER)]:
            named = [key for key in some if key.topic in gone]
            dropped = _of_gone_topics(group, named, gone)
            if dropped:
                self._context.writer.write(group, GroupChanges(offsets=dropped), lambda _: None)
                yield TO_WRITE
            if len(some) == TOGETHER:
                yield TOGETHER // POSITIONS
                now = table.groups.get(group.group_id)
                if now is None or now.offsets is not group.offsets:
                    return

    def drop_rest(self, group: BaseGroup) -> None:
        """A transaction has ended in the group: what it kept of deleted topics may go now."""
        if group.offsets.gone:
            gone, group.offsets.gone = group.offsets.gone, {}
            self._context.portions.begin(self._drop_rest(group, gone))

    def _drop_rest(self, group: BaseGroup, gone: Mapping[str, set[bytes | None]]) -> Steps:
        now = self._table.groups.get(group.group_id)
        if now is not None and now.offsets is group.offsets:
            yield from self._drop_from(self._table, now, gone)


def _of_gone_topics(
    group: BaseGroup, keys: list[TopicKey], gone: Mapping[str, set[bytes | None]]
) -> dict[TopicKey, CommittedOffset | None]:
    """Return the keys all of whose positions, pending ones included, are of deleted topics.

    A tombstone drops all of a key. So where only some are, the topic is noted with the group, and
    looked at again when a transaction has ended in it.
    """
    dropped: dict[TopicKey, CommittedOffset | None] = {}
    if not keys:
        return dropped
    latest = group.offsets.latest_of(keys)
    pending = group.offsets.latest_pending_of(keys)
    for key in keys:
        found = [latest[key], *pending.get(key, ())] if key in latest else pending.get(key, ())
        ids = gone[key.topic]
        are_gone = [offset.topic_id in ids for offset in found]
        if are_gone and all(are_gone):
            dropped[key] = None
        elif any(are_gone):
            group.offsets.gone.setdefault(key.topic, set()).update(ids)
    return dropped


def fetch(
    group: BaseGroup | None, keys: Iterable[TopicKey] | None, *, require_stable: bool
) -> Mapping[TopicKey, FetchedOffset]:
    """Return committed offsets; None for `keys` means all. A missing offset is not an error.

    With `require_stable`, partitions with a commit under way, or in an open transaction, answer
    UNSTABLE_OFFSET_COMMIT.
    """
    if group is None:
        return {key: FetchedOffset(None, ErrorCode.NONE) for key in keys or ()}
    values = group.offsets.values
    wanted = sorted(values) if keys is None else keys
    return {
        key: FetchedOffset(None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if require_stable and group.offsets.is_in_flight(key)
        else FetchedOffset(values.get(key), ErrorCode.NONE)
        for key in wanted
    }


def _commit_refusal(group: BaseGroup, request: CommitOffsets) -> ErrorCode | None:
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if isinstance(group, ShareGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND  # its shares keep their own positions
    if isinstance(group, ConsumerGroup | StreamsGroup):
        return _consumer_refusal(group, request)
    assert isinstance(group, Group), group
    return _classic_refusal(group, request)


def _consumer_refusal(
    group: ConsumerGroup | StreamsGroup, request: CommitOffsets
) -> ErrorCode | None:
    is_plain = request.writer is None
    if not is_plain and not _is_from_member(request):
        return None
    error = membership.commit_refusal(
        group,
        request.member_id,
        request.instance_id,
        MemberEpoch(request.generation),
        is_by_epoch=request.is_by_epoch or not is_plain,
    )
    if error is ErrorCode.STALE_MEMBER_EPOCH and not is_plain:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _is_from_member(request: CommitOffsets) -> bool:
    return (
        request.generation >= 0
        or request.member_id != NO_MEMBER_ID
        or request.instance_id is not None
    )


def _classic_refusal(group: Group, request: CommitOffsets) -> ErrorCode | None:
    if request.generation < 0 and group.state is GroupState.EMPTY:
        return None
    is_plain = request.writer is None
    if not _is_from_member(request):
        return ErrorCode.UNKNOWN_MEMBER_ID if is_plain else None
    error = membership_error(group, request.member_id, request.instance_id, request.generation)
    if error is None and is_plain and group.state is GroupState.COMPLETING:
        # It has no assignment in this generation yet: the offsets are of the last generation.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def _delete_refusal(group: BaseGroup) -> ErrorCode | None:
    if group.is_dead or isinstance(group, ShareGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not isinstance(group, Group) or group.is_empty:
        return None
    return None if group.protocol_type == CONSUMER_PROTOCOL_TYPE else ErrorCode.NON_EMPTY_GROUP


def _is_subscribed(group: BaseGroup, topic: str) -> bool:
    if isinstance(group, ConsumerGroup):
        return membership.is_subscribed(group, topic)
    if isinstance(group, StreamsGroup):
        return is_read(group, topic)
    if group.is_empty or not isinstance(group, Group):
        return False
    members = [*group.members.values()]
    topics = topics_of_group(members, group.protocol_type, group.protocol_name)
    return topics is None or topic in topics
