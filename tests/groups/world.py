"""A coordinator with a clock that is turned by hand and a journal kept in a list.

`World` is the small language of these tests: members join, sync and beat by name, time passes, the
journal confirms or refuses, the coordinator restarts from what the journal has.
"""

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.assignors.partitions import Partitions
from penstock.assignors.topic_facts import TopicFacts
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.classic.group import Group
from penstock.groups.config import GroupConfig
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.messages import (
    CommitOffsets,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveReply,
    MemberIdentity,
    OfferedProtocol,
    SyncGroup,
    SyncReply,
)
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.groups.share.masters import Done, NoShareMasters
from penstock.protocol.error_codes import ErrorCode

A = TypeVar("A")

SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 500
GROUP = "orders"
PARTITIONS = 4


def subscription(*topics: str) -> bytes:
    """The front of a consumer's subscription, version 0, with empty user data."""
    names = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class HandClock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.ahead_ms = 0
        """How far the wall clock is set wrong."""

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_us(self) -> int:
        return self.now_ms * 1_000


class ListJournal:
    """Appends to one list per partition; confirms at once, or when told to."""

    def __init__(self, partition_count: int = PARTITIONS) -> None:
        self.partition_count = partition_count
        self.logs: dict[int, list[JournalRecord]] = {
            partition: [] for partition in range(partition_count)
        }
        self.is_prompt = True
        self.refuses: Unwritten | None = None
        self.waiting: deque[Callable[[Unwritten | None], None]] = deque()

    def append(
        self,
        partition: int,
        records: Sequence[JournalRecord],
        done: Callable[[Unwritten | None], None],
        writer: Writer | None = None,
    ) -> None:
        if self.refuses is not None:
            done(self.refuses)
            return
        self.logs[partition].extend(records)
        if self.is_prompt:
            done(None)
        else:
            self.waiting.append(done)

    def confirm(self, count: int | None = None) -> None:
        for _ in range(len(self.waiting) if count is None else count):
            self.waiting.popleft()(None)

    def late(self) -> None:
        """Tell those that wait that it takes long; what they wait for is still to come."""
        for done in [*self.waiting]:
            done(Unwritten.LATE)

    def fail(self, error: Unwritten) -> None:
        while self.waiting:
            self.waiting.popleft()(error)


class HandMasters(NoShareMasters):
    """Where shares are; a test says how deletions end."""

    def __init__(self) -> None:
        self.shares: dict[str, Partitions] = {}
        """What was asked to be deleted last, by group."""
        self.left: list[tuple[str, str, Partitions]] = []
        self.refuses: ErrorCode | None = None
        self.waiting: list[Done] | None = None
        """With a list deletions wait in it."""

    def delete(self, group_id: str, partitions: Partitions, done: Done) -> None:
        self.shares[group_id] = partitions
        if self.waiting is None:
            done(self.refuses)
        else:
            self.waiting.append(done)

    def leave(self, group_id: str, member_id: str, partitions: Partitions) -> None:
        self.left.append((group_id, member_id, partitions))


class HandCluster:
    """Topics that tests create, and keys of groups that they set."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.version = 0
        self.topics: dict[str, TopicFacts] = {}
        self.keys: dict[str, dict[str, str]] = {}
        self.share_masters = HandMasters()
        self.distrusted_ms = 0
        """How much of the wall clock's time retention does not believe."""
        self.when_found: Callable[[], object] | None = None
        """Called once, when a topic was looked at."""

    def create(
        self, name: str, partition_count: int, racks: Sequence[frozenset[str]] = ()
    ) -> bytes:
        """Create a topic, or give it more partitions; returns its id."""
        known = self.topics.get(name)
        topic_id = name.encode().rjust(16, b"-") if known is None else known.topic_id
        self.topics[name] = TopicFacts(topic_id, partition_count, racks)
        self.version += 1
        return topic_id

    def delete(self, name: str) -> None:
        del self.topics[name]
        self.version += 1

    def find(self, name: str) -> TopicFacts | None:
        found, told = self.topics.get(name), self.when_found
        self.when_found = None
        if told is not None:
            told()
        return found

    def names(self) -> list[str]:
        return list(self.topics)

    def names_of_users(self) -> list[str]:
        return [name for name in self.topics if not name.startswith("__")]

    def group_keys(self, group_id: str) -> dict[str, str]:
        return self.keys.get(group_id, {})

    def retention_now_ms(self) -> int:
        return self.clock.wall_ms() - self.distrusted_ms


class World:
    def __init__(self, *, has_turns: bool = False, **settings: Any) -> None:
        """With `has_turns` long work waits for `turn`; without, it is done when it begins."""
        defaults: dict[str, Any] = {
            "partition_count": PARTITIONS,
            "initial_rebalance_delay_ms": DELAY_MS,
        }
        self.config = GroupConfig(**{**defaults, **settings})
        self.clock = HandClock()
        self.journal = ListJournal(self.config.partition_count)
        self.has_turns = has_turns
        self.turns: deque[Callable[[], None]] = deque()
        self.suffixes = 0
        self.cluster = HandCluster(self.clock)
        self.coordinator = self._start()

    def _start(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            self.clock,
            self.journal,
            config=self.config,
            new_suffix=self._suffix,
            cluster=self.cluster,
            later=self.turns.append if self.has_turns else None,
        )
        for partition, log in self.journal.logs.items():
            coordinator.runtime.begin_loading(partition)
            for record in log:
                coordinator.runtime.load(partition, record)
            coordinator.runtime.finish_loading(partition)
        return coordinator

    def _suffix(self) -> str:
        self.suffixes += 1
        return str(self.suffixes)

    def restart(self) -> None:
        """kill -9: what is not in the journal is gone, parked answers are never given."""
        self.journal.waiting.clear()
        self.turns.clear()
        self.coordinator = self._start()
        while self.coordinator.is_loading:
            self.turn()

    def load(self, partition: int) -> None:
        """Read a partition of the journal; its groups are there when turns have passed."""
        self.coordinator.runtime.begin_loading(partition)
        for record in self.journal.logs[partition]:
            self.coordinator.runtime.load(partition, record)
        self.coordinator.runtime.finish_loading(partition)

    def turn(self) -> None:
        """One turn of the loop, in which long work goes on."""
        for _ in range(len(self.turns)):
            self.turns.popleft()()

    def all_turns(self) -> int:
        """Turns until no long work is left; returns how many they were."""
        count = 0
        while self.turns:
            self.turn()
            count += 1
        return count

    def pass_ms(self, ms: int) -> None:
        """Let time pass, with a tick at every deadline on the way."""
        end_ms = self.clock.now_ms + ms
        while True:
            due = self.coordinator.runtime.next_deadline_ms()
            if due is None or due > end_ms:
                break
            self.clock.now_ms = max(due, self.clock.now_ms)
            self.coordinator.runtime.tick(self.clock.now_ms)
        self.clock.now_ms = end_ms

    # Requests; those that can be parked return the list their answer arrives in.

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        client: str = "client",
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"meta"),),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        id_required: bool = False,
        can_skip: bool = False,
        is_gone: Callable[[], bool] = lambda: False,
    ) -> list[JoinReply]:
        answers: list[JoinReply] = []
        self.coordinator.join(
            JoinGroup(
                group_id=group,
                member_id=member_id,
                instance_id=instance,
                client_id=client,
                client_host="10.0.0.1",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=protocol_type,
                protocols=tuple(OfferedProtocol(*each) for each in protocols),
                member_id_required=id_required,
                can_skip_assignment=can_skip,
                is_gone=is_gone,
            ),
            answers.append,
        )
        return answers

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> list[SyncReply]:
        answers: list[SyncReply] = []
        self.coordinator.sync(
            SyncGroup(
                group_id=group,
                generation=generation,
                member_id=member_id,
                instance_id=instance,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=assignments or {},
            ),
            answers.append,
        )
        return answers

    def beat(
        self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None
    ) -> ErrorCode:
        return self.coordinator.heartbeat(
            Heartbeat(
                group_id=group,
                generation=generation,
                member_id=member_id,
                instance_id=instance,
            )
        )

    def leave(self, *identities: tuple[str, str | None], group: str = GROUP) -> LeaveReply:
        return self.coordinator.leave(group, tuple(MemberIdentity(*each) for each in identities))

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = GROUP,
        instance: str | None = None,
        metadata: str = "",
        is_by_epoch: bool = False,
    ) -> list[dict[TopicKey, ErrorCode]]:
        answers: list[dict[TopicKey, ErrorCode]] = []
        self.coordinator.commit(
            CommitOffsets(
                group_id=group,
                generation=generation,
                member_id=member_id,
                instance_id=instance,
                is_by_epoch=is_by_epoch,
                offsets={
                    TopicKey(*key): CommittedOffset(
                        offset, metadata=metadata, commit_timestamp_ms=self.clock.wall_ms()
                    )
                    for key, offset in offsets.items()
                },
            ),
            lambda answer: answers.append(dict(answer)),
        )
        return answers

    def committed(self, topic: str = "t", partition: int = 0, *, group: str = GROUP) -> int | None:
        reply = self.coordinator.reading.fetch_offsets(group, [TopicKey(topic, partition)])
        assert reply.error is ErrorCode.NONE, reply.error
        found = reply.offsets[TopicKey(topic, partition)].committed
        return None if found is None else found.offset

    def all_committed(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        reply = self.coordinator.reading.fetch_offsets(group, None)
        return {
            (key.topic, key.partition): each.committed.offset
            for key, each in reply.offsets.items()
            if each.committed is not None
        }

    def state(self, group: str = GROUP) -> str:
        return self.coordinator.reading.describe(group).state

    def assignments(self, group: str = GROUP) -> dict[str, bytes]:
        return {m.member_id: m.assignment for m in self.coordinator.reading.describe(group).members}

    def classic(self, group: str = GROUP) -> Group:
        """The group itself."""
        found = self.coordinator._table.classic(group)
        assert found is not None, group
        return found

    # Whole situations

    def joined(self, count: int = 1, **options: object) -> list[JoinReply]:
        """A fresh group whose `count` members have just been told their first generation."""
        parked = [self.join(client=f"c{n}", **options) for n in range(count)]  # type: ignore[arg-type]
        self.pass_ms(DELAY_MS * (count + 1))
        return [only(answers) for answers in parked]

    def stable(self, count: int = 1, **options: object) -> list[JoinReply]:
        """A group with `count` members, each with its assignment; the first one leads."""
        replies = self.joined(count, **options)
        assignments = {reply.member_id: reply.member_id.encode() for reply in replies}
        for reply in reversed(replies):
            is_leader = reply.member_id == reply.leader_id
            self.sync(reply.member_id, reply.generation, assignments if is_leader else None)
        assert self.state() == "Stable"
        return replies


def only(answers: list[A]) -> A:
    """The one answer there is."""
    assert len(answers) == 1, answers
    return answers[0]
