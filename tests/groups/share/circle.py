"""A small language for tests of share groups: members beat by name, and read what they are told.

A `Sharer` behaves like a client: it sends what changed, takes what it is given at once, and joins
again when it is fenced.
"""

from dataclasses import replace

from penstock.assignors.partitions import Partitions
from penstock.base.ids import MemberEpoch
from penstock.groups.assigned.messages import HeartbeatReply
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.messages import ShareGroupDescription, ShareHeartbeat
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import GROUP, World, only

SESSION_MS = 45_000
Named = set[tuple[str, int]]


class Circle(World):
    """A World whose groups are share groups."""

    def beat_as(self, member_id: str, epoch: int, **said: object) -> list[HeartbeatReply]:
        """Send a heartbeat; the list gets its answer."""
        answers: list[HeartbeatReply] = []
        said.setdefault("group_id", GROUP)
        beat = ShareHeartbeat(
            member_id=member_id,
            member_epoch=MemberEpoch(epoch),
            client_id=f"client-{member_id}",
            client_host="10.0.0.1",
            **said,  # type: ignore[arg-type]
        )
        self.coordinator.shares.heartbeat(beat, answers.append)
        return answers

    def enter(self, member_id: str, *topics: str, **said: object) -> list[HeartbeatReply]:
        """Join; the list gets the answer."""
        return self.beat_as(member_id, 0, topics=topics, **said)

    def entered(self, member_id: str, *topics: str, **said: object) -> HeartbeatReply:
        """Join, and return the answer, which must be there."""
        return only(self.enter(member_id, *topics, **said))

    def beaten(self, member_id: str, epoch: int, **said: object) -> HeartbeatReply:
        """Send a heartbeat, and return the answer, which must be there."""
        return only(self.beat_as(member_id, epoch, **said))

    def described(self, group_id: str = GROUP) -> ShareGroupDescription:
        found = self.coordinator.shares.describe(group_id)
        return replace(found, members=tuple(found.members))

    def members(self) -> list[str]:
        """Return the ids of the members."""
        return [each.member_id for each in self.described().members]

    def group(self, group_id: str = GROUP) -> ShareGroup:
        """The group itself."""
        found = self.coordinator._table.groups[group_id]
        assert isinstance(found, ShareGroup), found
        return found

    def names(self, partitions: Partitions | None) -> Named:
        """Return partitions by the name of their topic."""
        by_id = {topic.topic_id: name for name, topic in self.cluster.topics.items()}
        return {
            (by_id.get(topic_id, "deleted"), number)
            for topic_id, numbers in (partitions or {}).items()
            for number in numbers
        }

    def shared(self) -> Named:
        """Return what may have a share, by the names of topics."""
        return self.names(self.group().shared.partitions)

    def deleted(self, group_id: str = GROUP) -> list[ErrorCode]:
        """Delete a group; the list gets the outcome."""
        outcomes: list[ErrorCode] = []
        self.coordinator.delete_groups([group_id], lambda one: outcomes.append(one[group_id]))
        return outcomes


class Sharer:
    """One client of a share group."""

    def __init__(self, circle: Circle, member_id: str, *topics: str) -> None:
        self.circle = circle
        self.member_id = member_id
        self.topics = topics
        self.epoch = 0
        self.assigned: Partitions = {}
        self.waits: list[HeartbeatReply] | None = None
        self.sent_ms = self.alive_ms = circle.clock.now_ms
        """When the last heartbeat was sent, and the last one with an answer."""

    @property
    def reads(self) -> Named:
        return self.circle.names(self.assigned)

    def beat(self) -> "Sharer":
        """Send one heartbeat, unless one is open, and hear its answer if it is there."""
        if self.waits is None:
            self.sent_ms = self.circle.clock.now_ms
            topics = self.topics if self.epoch == 0 else None
            self.waits = self.circle.beat_as(self.member_id, self.epoch, topics=topics)
        return self.hear()

    def subscribe(self, *topics: str) -> None:
        """Want other topics, and say so in a heartbeat of its own, or when it joins."""
        self.topics = topics
        if self.epoch > 0 and self.waits is None:
            self.waits = self.circle.beat_as(self.member_id, self.epoch, topics=topics)
        else:
            self.epoch, self.waits = 0, None

    def leave(self) -> list[HeartbeatReply]:
        answers = self.circle.beat_as(self.member_id, -1)
        self.epoch, self.assigned, self.waits = 0, {}, None
        return answers

    def hear(self) -> "Sharer":
        """Take the answer of the open heartbeat, if it is there."""
        if self.waits:
            answer = only(self.waits)
            self.waits = None
            if answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.epoch, self.assigned = 0, {}
            elif answer.error is ErrorCode.NONE:
                self.epoch, self.alive_ms = answer.member_epoch, self.sent_ms
                if answer.assignment is not None:
                    self.assigned = answer.assignment
        return self


def settle(*sharers: Sharer) -> None:
    """Let all of them beat until nothing changes any more."""
    for _ in range(20):
        before = [(one.epoch, one.assigned) for one in sharers]
        for one in sharers:
            one.beat()
        if before == [(one.epoch, one.assigned) for one in sharers]:
            return
    raise AssertionError([(one.member_id, one.epoch, one.reads) for one in sharers])
