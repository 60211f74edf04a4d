"""A consumer group of stock clients that reads and commits while a cluster is being broken.

    two members     subscribe, read, and commit what they have read a few times a second
    one observer    asks for the group's positions again and again

Every commit and every position that was told is noted: the judge says whether one went back. Each
record has to be read by a member of the group; a member reads on from the group's position, which
may be one that it heard of before the faults began.
"""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from harness.login import Login
from harness.workload import as_polls
from simulator.history import NOTHING_COMMITTED, Commit, History, Outcome, Poll

GROUP = "history-group"
MEMBERS = 2
SESSION_TIMEOUT_MS = 6_000
GOT_MAX = 500
COMMIT_SECONDS = 0.3
OBSERVE_SECONDS = 0.3
CALL_SECONDS = 5.0
CAUGHT_UP_SECONDS = 60.0
JOIN_SECONDS = 120.0


@dataclass(slots=True)
class GroupReader:
    """A companion: the members and the observer, a thread each."""

    bootstrap: str
    topic: str
    partitions: int
    socket_timeout_ms: int = 10_000
    login: Login | None = None
    _polls: list[Poll] = field(default_factory=list)
    _commits: list[Commit] = field(default_factory=list)
    _problems: list[str] = field(default_factory=list)
    _read: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Partition -> offsets that some member has read."""
    _is_done: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin to read and to ask."""
        work = [threading.Thread(target=self._observe, daemon=True)]
        for number in range(MEMBERS):
            member = _Member(self, f"group member {number}")
            work.append(threading.Thread(target=member.run, daemon=True))
        self._threads = work
        for thread in work:
            thread.start()

    def stop(self) -> None:
        """Let the members read what is there, then end."""
        deadline = time.monotonic() + CAUGHT_UP_SECONDS
        unread = self._unread()
        while unread and time.monotonic() < deadline:
            time.sleep(0.2)
            unread = self._unread()
        if unread:
            self._problems.append(f"group {GROUP} left {unread} records unread")
        self._is_done.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    def history(self) -> History:
        """Return what was read, committed and told."""
        return History(polls=list(self._polls), commits=list(self._commits))

    def problems(self) -> list[str]:
        """Return what was not read in the end, and members that could not go on."""
        acked = sum(commit.outcome is Outcome.ACKED for commit in self._commits)
        return self._problems + ([] if acked else [f"group {GROUP} could never commit"])

    def _unread(self) -> int:
        """Count what is readable and was read by no member; offsets have no holes here."""
        consumer = self.consumer()
        try:
            ends = [
                consumer.get_watermark_offsets(TopicPartition(self.topic, number), CALL_SECONDS)[1]
                for number in range(self.partitions)
            ]
        except KafkaException:
            return 1  # not known; the caller asks again
        finally:
            consumer.close()
        return sum(len(set(range(end)) - self._read[part]) for part, end in enumerate(ends))

    def consumer(self) -> Consumer:
        """Return a stock consumer in the group, which has joined nothing yet."""
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "socket.timeout.ms": self.socket_timeout_ms,
                "fetch.wait.max.ms": min(500, self.socket_timeout_ms // 2),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **({} if self.login is None else self.login.librdkafka()),
            }
        )

    def note_polls(self, polls: list[Poll]) -> None:
        """Add what a member has read."""
        self._polls += polls
        for poll in polls:
            self._read[int(poll.partition)].update(offset for offset, _ in poll.records)

    def commit(self, consumer: Consumer, positions: dict[int, int]) -> None:
        """Commit positions and note what came of it; who owns a partition no more is refused."""
        wanted = [TopicPartition(self.topic, part, at) for part, at in positions.items()]
        begun_ns = time.monotonic_ns()
        try:
            told = consumer.commit(offsets=wanted, asynchronous=False) or []
        except KafkaException:
            told = []
        ended_ns = time.monotonic_ns()
        good = {one.partition for one in told if one.error is None}
        self._commits += [
            Commit(GROUP, part, at, begun_ns, ended_ns, Outcome.ACKED)
            if part in good
            else Commit(GROUP, part, at, begun_ns, None, Outcome.UNKNOWN)
            for part, at in positions.items()
        ]

    @property
    def is_done(self) -> bool:
        """Whether the members are to leave."""
        return self._is_done.is_set()

    def failed(self, reason: str) -> None:
        """Note that a member could not go on."""
        self._problems.append(reason)

    def _observe(self) -> None:
        consumer = self.consumer()
        asked = [TopicPartition(self.topic, number) for number in range(self.partitions)]
        while not self._is_done.wait(OBSERVE_SECONDS):
            begun_ns = time.monotonic_ns()
            try:
                told = consumer.committed(asked, timeout=CALL_SECONDS)
            except KafkaException:
                continue  # no answer while a node is down is no finding
            ended_ns = time.monotonic_ns()
            self._commits += [
                Commit(
                    GROUP,
                    one.partition,
                    max(one.offset, NOTHING_COMMITTED),
                    begun_ns,
                    ended_ns,
                    is_fetched=True,
                )
                for one in told
                if one.error is None
            ]
        consumer.close()


@dataclass(slots=True)
class _Member:
    """One member: what it has read and not committed, and which partitions are new to it."""

    group: GroupReader
    name: str
    got: list[Message] = field(default_factory=list)
    got_from_ns: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)

    def run(self) -> None:
        """Read and commit until the group ends."""
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  whatever ends a member is a finding
            self.group.failed(f"{self.name}: {type(error).__name__}: {error}")

    def _run(self) -> None:
        group = self.group
        consumer = group.consumer()
        consumer.subscribe(
            [group.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        commit_at = time.monotonic()
        while not group.is_done:
            self._get(consumer)
            self._take()
            if self.positions and time.monotonic() > commit_at:
                self._commit(consumer)
                commit_at = time.monotonic() + COMMIT_SECONDS
        self._commit(consumer)
        consumer.close()

    def _get(self, consumer: Consumer) -> None:
        """One by one: a batch may be of before and after a rebalance, and does not say where."""
        self.got_from_ns = time.monotonic_ns()
        while len(self.got) < GOT_MAX:
            message = consumer.poll(0.1 if not self.got else 0)
            if message is None:
                return
            self.got.append(message)

    def _take(self) -> None:
        polls = as_polls(self.name, self.got, self.got_from_ns)
        self.got = []
        self.group.note_polls([self._placed(poll) for poll in polls])

    def _placed(self, poll: Poll) -> Poll:
        part = int(poll.partition)
        self.positions[part] = poll.records[-1][0] + 1
        is_fresh = part in self.fresh
        self.fresh.discard(part)
        return poll._replace(is_fresh=is_fresh)

    def _commit(self, consumer: Consumer) -> None:
        if self.positions:
            self.group.commit(consumer, self.positions)
            self.positions = {}

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.fresh.update(partition.partition for partition in partitions)

    def _revoked(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        self._take()
        self._commit(consumer)

    def _lost(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._take()
        self.positions = {}
