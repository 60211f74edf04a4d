"""A language for tests of groups with members of both protocols.

A `Worker` behaves like a client of the classic protocol: it joins, syncs and beats, leads if it is
told to, and stops to read what it loses before it says so. One that is eager gives all up before it
joins; an incremental one says what it keeps.
"""

import struct
from collections.abc import Mapping

from penstock.groups.messages import JoinReply
from penstock.groups.migration.consumer_protocol import (
    encode_assignment,
    read_assignment,
    read_subscription,
)
from penstock.protocol.error_codes import ErrorCode
from tests.groups.consumer.club import Club, Consumer, Owned
from tests.groups.world import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, only

OK = ErrorCode.NONE
LOST = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
Named = dict[str, set[int]]


def said(*topics: str, owned: Owned = frozenset(), generation: int = -1, version: int = 3) -> bytes:  # type: ignore[assignment]
    """The bytes of a subscription."""
    parts = [struct.pack(">hi", version, len(topics)), *map(_text, topics), b"\xff\xff\xff\xff"]
    by_topic: Named = {}
    for topic, number in owned:
        by_topic.setdefault(topic, set()).add(number)
    if version >= 1:
        parts.append(struct.pack(">i", len(by_topic)))
        for topic, numbers in sorted(by_topic.items()):
            listed = sorted(numbers)
            parts += (_text(topic), struct.pack(f">{len(listed) + 1}i", len(listed), *listed))
    if version >= 2:
        parts.append(struct.pack(">i", generation))
    if version >= 3:
        parts.append(b"\xff\xff")
    return b"".join(parts)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def given(owned: Owned) -> bytes:
    """The bytes of an assignment."""
    by_topic: Named = {}
    for topic, number in owned:
        by_topic.setdefault(topic, set()).add(number)
    return encode_assignment(3, {topic: frozenset(ns) for topic, ns in by_topic.items()})


class Worker:
    """One client of the classic protocol; `instance` makes it a static member."""

    def __init__(
        self,
        club: Club,
        name: str,
        *topics: str,
        is_eager: bool = True,
        instance: str | None = None,
        version: int = 3,
    ) -> None:
        self.club, self.name, self.topics, self.instance = club, name, topics, instance
        self.is_eager, self.version = is_eager, version
        self.member_id, self.generation = "", -1
        self.reads: Owned = set()
        self.joining: list[JoinReply] | None = None
        self.syncing: list[object] | None = None
        self.is_in = False
        """Whether it is in a generation, so that it beats."""
        self.last_error = OK
        self.leads: Mapping[str, bytes] | None = None

    @property
    def protocol(self) -> str:
        return "range" if self.is_eager else "cooperative-sticky"

    def step(self) -> "Worker":
        """Do the next thing that a client does."""
        if self.joining:
            self._joined(only(self.joining))
        elif self.joining is None and not self.is_in:
            self.join()
        elif self.is_in and self.joining is None:
            self._beat()
        return self

    def join(self) -> list[JoinReply]:
        if self.is_eager:
            self.reads = set()
        metadata = said(
            *self.topics, owned=self.reads, generation=self.generation, version=self.version
        )
        self.joining = self.club.join(
            self.member_id,
            client=self.name,
            instance=self.instance,
            protocols=((self.protocol, metadata),),
            id_required=self.instance is None,
        )
        return self.joining

    def leave(self) -> None:
        self.club.leave((self.member_id, self.instance))
        self.member_id, self.generation, self.is_in, self.reads = "", -1, False, set()

    def _joined(self, reply: JoinReply) -> None:
        self.joining, self.last_error = None, reply.error
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            return
        if reply.error in LOST:
            self.member_id, self.generation, self.reads = "", -1, set()
        if reply.error is not OK:
            self.is_in = False
            return
        self.member_id, self.generation = reply.member_id, reply.generation
        led = None
        if reply.member_id == reply.leader_id:
            led = self._divided({each.member_id: each.metadata for each in reply.members})
        answers = self.club.sync(self.member_id, self.generation, led, instance=self.instance)
        self.is_in = True
        self.parked = answers
        self._hear()

    def _divided(self, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """Lead: every partition of the topics in turn, and none that another member reads yet."""
        all_: list[tuple[str, int]] = [
            (topic, number)
            for topic in self.topics
            for number in range(self.club.cluster.topics[topic].partition_count)
        ]
        order = sorted(members)
        wanted = {one: set(all_[place :: len(order)]) for place, one in enumerate(order)}
        owned = {one: _owned(metadata) for one, metadata in members.items()}
        taken = set().union(*owned.values())
        return {one: given(wanted[one] - (taken - owned[one])) for one in order}

    def _hear(self) -> None:
        if not self.parked:
            return
        answer = only(self.parked)
        self.parked = []
        self.last_error = answer.error
        if answer.error is not OK:
            self.is_in = False
            return
        had, self.reads = self.reads, named(answer.assignment)
        if not self.is_eager and had - self.reads:
            self.is_in = False  # it gives up what it lost, and joins again

    def _beat(self) -> None:
        self._hear()
        if not self.is_in:
            return
        error = self.club.beat(self.member_id, self.generation, instance=self.instance)
        self.last_error = error
        if error in LOST:
            self.reads = set()
            self.generation = -1
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        if error in LOST or error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.is_in = False

    parked: list = []  # noqa: RUF012  replaced, never changed


def _owned(metadata: bytes) -> Owned:
    """The partitions that a member says it reads."""
    owned = read_subscription(metadata).owned
    return {(topic, number) for topic, numbers in owned.items() for number in numbers}


def named(assignment: bytes) -> Owned:
    """The partitions in the bytes of an assignment."""
    partitions = read_assignment(assignment).partitions
    return {(topic, number) for topic, numbers in partitions.items() for number in numbers}


def check(*members: Worker | Consumer) -> None:
    """No partition has two readers."""
    seen: Owned = set()
    for one in members:
        assert not seen & one.reads, (seen & one.reads, one)
        seen |= one.reads


def settle(*members: Worker | Consumer, rounds: int = 40) -> None:
    """Let all act until all is read and nothing changes; nothing is ever read twice."""
    club = members[0].club
    for _ in range(rounds):
        before = [(_epoch(one), set(one.reads)) for one in members]
        for one in members:
            one.beat() if isinstance(one, Consumer) else one.step()
            club.all_turns()
            check(*members)
        club.pass_ms(DELAY_MS)
        if before == [(_epoch(one), set(one.reads)) for one in members] and _is_calm(members):
            return
    raise AssertionError([(_epoch(one), one.reads, one.last_error) for one in members])


def _epoch(one: Worker | Consumer) -> int:
    return one.epoch if isinstance(one, Consumer) else one.generation


def _is_calm(members: tuple[Worker | Consumer, ...]) -> bool:
    return all(one.last_error is OK and (isinstance(one, Consumer) or one.is_in) for one in members)


def crew(count: int, *, club: Club | None = None, **said_: object) -> tuple[Club, list[Worker]]:
    """A classic group whose members have all that there is to read."""
    club = club or Club()
    if "t" not in club.cluster.topics:
        club.cluster.create("t", 6)
    workers = [Worker(club, f"w{n}", "t", **said_) for n in range(count)]  # type: ignore[arg-type]
    settle(*workers)
    return club, workers


def kind(club: Club) -> str:
    (listed,) = club.coordinator.reading.list_groups().groups
    assert listed.group_id == GROUP
    return listed.group_type


ALL = {("t", number) for number in range(6)}
__all__ = ["ALL", "GROUP", "OK", "REBALANCE_MS", "SESSION_MS", "Consumer", "Worker"]
