"""A small language for tests of consumer groups: members beat by name, and own what they are told.

A `Consumer` behaves like a client's: it sends what changed, reads what it is given, stops to read
what it is not given any more before it says so, and joins again when it is fenced.
"""

from dataclasses import replace

from penstock.assignors.partitions import Partitions
from penstock.base.ids import MemberEpoch
from penstock.groups.assigned.messages import HeartbeatReply
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.messages import ConsumerGroupDescription, ConsumerHeartbeat
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import GROUP, World, only

TIMEOUT_MS = 60_000
SESSION_MS = 45_000
Owned = set[tuple[str, int]]


class Club(World):
    """A World whose groups are consumer groups."""

    def beat_as(self, member_id: str, epoch: int, **said: object) -> list[HeartbeatReply]:
        """Send a heartbeat; the list gets its answer."""
        answers: list[HeartbeatReply] = []
        said.setdefault("group_id", GROUP)
        beat = ConsumerHeartbeat(
            member_id=member_id,
            member_epoch=MemberEpoch(epoch),
            client_id=f"client-{member_id}",
            client_host="10.0.0.1",
            **said,  # type: ignore[arg-type]
        )
        self.coordinator.consumers.heartbeat(beat, answers.append)
        return answers

    def enter(self, member_id: str, *topics: str, **said: object) -> list[HeartbeatReply]:
        """Join, with everything that a client says then."""
        said = {"topics": topics, "owned": {}, "rebalance_timeout_ms": TIMEOUT_MS, **said}
        return self.beat_as(member_id, 0, **said)

    def entered(self, member_id: str, *topics: str, **said: object) -> HeartbeatReply:
        """Join, and return the answer, which must be there."""
        return only(self.enter(member_id, *topics, **said))

    def described(self, group_id: str = GROUP) -> ConsumerGroupDescription:
        found = self.coordinator.consumers.describe(group_id)
        return replace(found, members=tuple(found.members))

    def members(self) -> list[str]:
        """Return the ids of the members."""
        return [each.member_id for each in self.described().members]

    def group(self) -> ConsumerGroup:
        """The group itself."""
        found = self.coordinator._table.groups[GROUP]
        assert isinstance(found, ConsumerGroup), found
        return found

    def names(self, partitions: Partitions) -> Owned:
        """Return partitions by the name of their topic."""
        by_id = {topic.topic_id: name for name, topic in self.cluster.topics.items()}
        return {
            (by_id.get(topic_id, "deleted"), number)
            for topic_id, numbers in partitions.items()
            for number in numbers
        }


class Consumer:
    """One client of a consumer group."""

    def __init__(self, club: Club, member_id: str, *topics: str, **said: object) -> None:
        self.club = club
        self.member_id = member_id
        self.topics = topics
        self.said = said
        self.epoch = 0
        self.owned: Partitions = {}
        self.told: Partitions | None = None
        self.waits: list[HeartbeatReply] | None = None
        self.last_error = ErrorCode.NONE
        self.sent_ms = self.alive_ms = club.clock.now_ms
        """When the last heartbeat was sent, and the last one with an answer."""

    @property
    def reads(self) -> Owned:
        return self.club.names(self.owned)

    def beat(self) -> "Consumer":
        """Send one heartbeat, unless one is open, and hear its answer if it is there."""
        if self.waits is None:
            self.sent_ms = self.club.clock.now_ms
            if self.epoch == 0:
                self.owned = {}
                self.waits = self.club.enter(self.member_id, *self.topics, **self.said)
            else:
                instance = self.said.get("instance_id")
                self.waits = self.club.beat_as(
                    self.member_id,
                    self.epoch,
                    owned=self.owned,
                    instance_id=instance,
                    may_see=self.said.get("may_see"),
                )
        return self.hear()

    def leave(self, epoch: int = -1) -> list[HeartbeatReply]:
        answers = self.club.beat_as(self.member_id, epoch, instance_id=self.said.get("instance_id"))
        self.epoch, self.owned, self.waits = 0, {}, None
        return answers

    def hear(self) -> "Consumer":
        """Take the answer of the open heartbeat, if it is there."""
        if self.waits:
            answer = only(self.waits)
            self.waits = None
            self.last_error = answer.error
            if answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.epoch, self.owned = 0, {}
            elif answer.error is ErrorCode.NONE:
                self.epoch, self.alive_ms = answer.member_epoch, self.sent_ms
                if answer.assignment is not None:
                    self.owned = answer.assignment
        return self


def settle(*consumers: Consumer) -> None:
    """Let all of them beat until nothing changes any more."""
    for _ in range(20):
        before = [(one.epoch, one.owned) for one in consumers]
        for one in consumers:
            one.beat()
        if before == [(one.epoch, one.owned) for one in consumers]:
            return
    raise AssertionError([(one.member_id, one.epoch, one.reads) for one in consumers])
