"""DeleteRecords (key 21), versions 0 to 2: raise the log start offset of partitions.

    offset -1 means the high watermark; an offset above the high watermark is out of range
    only the master accepts it, and answers when the whole sync-state set has the new start: the low
    watermark of the answer then holds for any next master; members outside the set raise their
    start when they catch up, and are not waited for

    what only the tier has is given up there first, as far as no failover can undo it; where that
    does not work in time the client is told to ask again, and nothing is deleted

    a topic that is compacted and nothing else gives nothing up: the policy that counts is that of
    the moment in which the start is raised

Source: Kafka `ReplicaManager.deleteRecords`, `Partition.deleteRecordsOnLeader`, KIP-107. Internal
topics are refused; a topic without any policy gives records up by this request alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.broker.access import Operation
from penstock.broker.append.append import partition_of
from penstock.broker.errors import DeletionAgainstPolicy, TierUnavailable, UnknownPartition
from penstock.broker.fetch.watermarks import find_high_watermark
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import NO_STORE, first_offset, is_tiered
from penstock.broker.tier.view import TierView
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import hosted_topics
from penstock.kafka.look_ups import RequestLookUps
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.errors import NotMaster, ReplicationError
from penstock.storage.errors import OffsetOutOfRange
from penstock.storage.read.needs_disk import Over

KEY = ApiKey.DELETE_RECORDS
VERSIONS = range(3)
SLICED_BY = (("topics", "partitions"),)
IS_HEAVY = True
"""A frame in the log for each partition, of which 4 KiB of a request name more than 300."""
HIGH_WATERMARK = -1
WAIT_MS_MAX = 300_000
"""Upper bound for the client's time-out: nothing is parked for longer than five minutes."""


class PendingDelete:
    """A request with raised log starts that are not durable yet on every replica set."""

    __slots__ = ("_open_count", "_reply", "_topics", "deadline_ms")

    def __init__(self, reply: Reply, topics: list[dict[str, Any]], deadline_ms: int) -> None:
        self._reply = reply
        self._topics = topics
        self._open_count = 0
        self.deadline_ms = deadline_ms

    def park(self, members: list[ReplicaSetMember]) -> None:
        """Wait for every set with a new log start; without any, answer at once."""
        waited_for = [one for one in members if one.log.end_position > one.confirm_position]
        self._open_count = len(waited_for)
        for member in waited_for:
            member.waiting_for_all.park(member.log.end_position, self)
        if not waited_for:
            self._reply({"topics": self._topics})

    def complete(self) -> None:
        self._open_count -= 1
        if self._open_count == 0:
            self._reply({"topics": self._topics})

    def expire(self) -> bool:
        self._give_up(ErrorCode.REQUEST_TIMED_OUT)
        return False

    def fail(self) -> None:
        self._give_up(ErrorCode.KAFKA_STORAGE_ERROR)

    def refuse(self, error: ReplicationError) -> None:
        self._give_up(error_code_of(error))

    def shrunk(self, in_sync_count: int) -> None:
        """Ignore a smaller set: a new log start needs no minimum of members."""

    def _give_up(self, error: ErrorCode) -> None:
        if self._open_count <= 0:
            return
        self._open_count = -1
        for topic in self._topics:
            for partition in topic["partitions"]:
                if partition["error_code"] == ErrorCode.NONE:
                    partition.update(error_code=error, low_watermark=-1)
        self._reply({"topics": self._topics})


class Deletion:
    """What is deleted of a partition, and the high watermark, which the disk may have to tell."""

    __slots__ = ("_start_of", "answer", "found", "hosted", "offset")

    def __init__(self, hosted: HostedPartition, offset: Offset, answer: dict[str, object]) -> None:
        self.hosted = hosted
        self.offset = offset
        self.answer = answer
        self._start_of: Callable[[], Offset | None] | None = None
        """What tells the log start where the tier has a part in it."""
        self.found: Offset | PlatformError | None = hosted.member.high_watermark(hosted.log)

    def begin(self, over: Over) -> None:
        """Look the high watermark up."""

        def done(end: Offset | None, error: PlatformError | None) -> None:
            self.found = error if end is None else end
            over()

        find_high_watermark(self.hosted, done)

    def drop(self) -> None:
        """The client has gone: nothing is deleted for it."""
        self.found = NotMaster("the client has gone")

    def ask_tier(self, tier: TierView | None, then: Callable[[], None]) -> None:
        """Let the tier give up its part first; what it does not, `run` tells. `then` comes once."""
        if not is_tiered(self.hosted):
            then()
            return
        try:
            offset = self._checked()
            if tier is None:
                raise TierUnavailable(NO_STORE)
        except PlatformError as refused:
            self.found = refused
            then()
            return
        self.offset, self._start_of = offset, partial(first_offset, self.hosted, tier)

        def done(error: PlatformError | None) -> None:
            self.found = error or self.found
            then()

        tier.reads.raise_start(self.hosted, offset, done)

    def run(self) -> None:
        """Raise the log start. Raises PlatformError kinds."""
        offset, log = self._checked(), self.hosted.log
        local_start = self.hosted.member.log.delete_records(log, offset)
        self.answer["low_watermark"] = local_start if self._start_of is None else self._start_of()

    def _checked(self) -> Offset:
        """Return the new log start. Raises PlatformError kinds."""
        hosted, high_watermark, offset = self.hosted, self.found, self.offset
        if hosted.is_dropped:
            raise UnknownPartition
        hosted.member.check_writable()
        settings = hosted.topic.settings
        if settings.is_compacted and not settings.deletes:
            raise DeletionAgainstPolicy
        if isinstance(high_watermark, PlatformError):
            raise high_watermark
        assert high_watermark is not None
        if offset == HIGH_WATERMARK:
            offset = high_watermark
        if not 0 <= offset <= high_watermark:
            raise OffsetOutOfRange(offset, hosted.log.log_start_offset, high_watermark)
        return Offset(offset)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Raise every log start that can be raised, then wait."""
    hosted_ones = hosted_topics(context, Operation.DELETE, by_id=False, is_noted=True)
    deletions: list[Deletion] = []
    topics: list[dict[str, Any]] = []
    timeout_ms = int(request.body.timeout.total_seconds() * 1000)
    wait_ms = min(max(timeout_ms, 0), WAIT_MS_MAX)
    deadline_ms = context.broker.clock.monotonic_ms() + wait_ms

    def delete() -> None:
        pending = PendingDelete(reply, topics, deadline_ms)
        pending.park(_run(deletions))

    def ask_tier() -> None:
        _ask_tier(deletions, context.broker.tier, delete)

    look_ups = RequestLookUps(context.broker.look_ups, request, ask_tier)
    for topic in request.body.topics:
        name = topic.name.encode()
        answers: list[dict[str, object]] = []
        for wanted in topic.partitions:
            answer: dict[str, object] = {
                "partition_index": wanted.partition_index,
                "low_watermark": -1,
                "error_code": ErrorCode.NONE,
            }
            answers.append(answer)
            try:
                hosted = partition_of(hosted_ones.get(name), wanted.partition_index)
                hosted.member.check_writable()
            except PlatformError as refused:
                answer["error_code"] = error_code_of(refused)
                continue
            deletion = Deletion(hosted, wanted.offset, answer)
            deletions.append(deletion)
            if deletion.found is None:
                look_ups.add(deletion.begin, deletion.drop)
        topics.append({"name": topic.name, "partitions": answers})
    look_ups.start()


def _ask_tier(deletions: list[Deletion], tier: TierView | None, finish: Callable[[], None]) -> None:
    """Let the tier give up what is deleted, all at the same time; then `finish`."""
    left = [len(deletions)]

    def ended() -> None:
        left[0] -= 1
        if not left[0]:
            finish()

    for deletion in deletions:
        deletion.ask_tier(tier, ended)
    if not deletions:
        finish()


def _run(deletions: list[Deletion]) -> list[ReplicaSetMember]:
    """Raise the log starts; return the members whose sets have new ones."""
    members: dict[int, ReplicaSetMember] = {}
    for deletion in deletions:
        try:
            deletion.run()
        except PlatformError as refused:
            deletion.answer["error_code"] = error_code_of(refused)
        else:
            member = deletion.hosted.member
            members[member.replica_set_id] = member
    return list(members.values())
