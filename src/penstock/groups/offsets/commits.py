"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, and deleted topics.

A commit is answered, and visible to OffsetFetch, when it is durable. Members commit with their
generation and are refused when it is over. A commit without generation and member id comes from
outside the group protocol and is accepted while the group is empty.

Source: Kafka, ClassicGroup.validateOffsetCommit, GroupMetadataManager.storeOffsets; KIP-447 for
`require_stable`; KIP-496 for OffsetDelete. Departure: the retention time of OffsetCommit 2-4 is
ignored (retention is one rule, see expiry.py).
"""

from collections.abc import Iterable, Mapping
from itertools import islice

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
from penstock.groups.pinned import PinnedBytes
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode

GROUP_PART, IN_FLIGHT_PART = 2, 4
"""Divisors of the bound for positions: the share of one group, and of writes under way."""
_STRING_BYTES_MAX = 32_767
TOGETHER = 500
"""Positions examined in one step, and deleted in one batch, when topics are deleted."""
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Commits:
    """Writes and deletes the offsets of groups."""

    __slots__ = ("_answering", "_context", "_gone", "_is_dropping", "_pinned")

    def __init__(self, context: Context, answering: Answering, pinned: PinnedBytes) -> None:
        self._context = context
        self._answering = answering
        self._pinned = pinned
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
        if isinstance(group, Group) and request.member_id in group.members:
            self._answering.keep_alive(group, group.members[request.member_id])
        limit = min(self._context.config.offset_metadata_bytes_max, _STRING_BYTES_MAX)
        taken: dict[TopicKey, CommittedOffset | None] = {}
        answers: dict[TopicKey, ErrorCode] = {}
        room = self._room(group)
        for key, offset in request.offsets.items():
            growth = group.offsets.growth(key, offset)
            if len(offset.metadata) > limit or len(offset.metadata.encode()) > limit:
                answers[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif growth > 0 and growth > room:
                answers[key] = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            else:
                room -= growth
                taken[key] = offset
                answers[key] = ErrorCode.NONE

        def done(error: ErrorCode | None) -> None:
            if error is None:
                self._context.counters.offsets_committed += len(taken)
            elif error in _TOO_LARGE:
                answers.update(dict.fromkeys(taken, ErrorCode.INVALID_COMMIT_OFFSET_SIZE))
            else:
                answers.update(dict.fromkeys(taken, error))
            reply(answers)

        self._context.counters.offsets_refused += len(answers) - len(taken)
        self._context.writer.write(group, GroupChanges(offsets=taken), done)

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
            offsets = group.offsets.latest_of(named) if named else {}
            dropped: dict[TopicKey, CommittedOffset | None] = {
                key: None for key, offset in offsets.items() if offset.topic_id in gone[key.topic]
            }
            if dropped:
                self._context.writer.write(group, GroupChanges(offsets=dropped), lambda _: None)
                yield TO_WRITE
            if len(some) == TOGETHER:
                yield TOGETHER // POSITIONS
                now = table.groups.get(group.group_id)
                if now is None or now.offsets is not group.offsets:
                    return


def fetch(
    group: BaseGroup | None, keys: Iterable[TopicKey] | None, *, require_stable: bool
) -> Mapping[TopicKey, FetchedOffset]:
    """Return committed offsets; None for `keys` means all. A missing offset is not an error.

    With `require_stable`, partitions with a commit under way answer UNSTABLE_OFFSET_COMMIT.
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
    if isinstance(group, ConsumerGroup):
        return membership.commit_refusal(
            group,
            request.member_id,
            request.instance_id,
            request.generation,
            is_by_epoch=request.is_by_epoch,
        )
    assert isinstance(group, Group), group
    return _classic_refusal(group, request)


def _classic_refusal(group: Group, request: CommitOffsets) -> ErrorCode | None:
    if request.generation < 0 and group.state is GroupState.EMPTY:
        return None
    is_from_member = (
        request.generation >= 0
        or request.member_id != NO_MEMBER_ID
        or request.instance_id is not None
    )
    if not is_from_member:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = membership_error(group, request.member_id, request.instance_id, request.generation)
    if error is None and group.state is GroupState.COMPLETING:
        # It has no assignment in this generation yet: the offsets are of the last generation.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def _delete_refusal(group: BaseGroup) -> ErrorCode | None:
    if group.is_dead:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not isinstance(group, Group) or group.is_empty:
        return None
    return None if group.protocol_type == CONSUMER_PROTOCOL_TYPE else ErrorCode.NON_EMPTY_GROUP


def _is_subscribed(group: BaseGroup, topic: str) -> bool:
    if isinstance(group, ConsumerGroup):
        return membership.is_subscribed(group, topic)
    if group.is_empty or not isinstance(group, Group):
        return False
    members = [*group.members.values()]
    topics = topics_of_group(members, group.protocol_type, group.protocol_name)
    return topics is None or topic in topics
