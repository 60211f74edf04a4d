"""Writers and a reader that keep a history while a node is being broken, and its judgement.

Stock librdkafka producers (idempotent, acks=all) send numbered records at a bounded rate; a stock
consumer reads along. Both go on through every fault. In the end everything is read once more from
the beginning, and `simulator.history` judges: acknowledged but not readable is lost, twice is
doubled. A record's value is its producer and number, so it is unique; its key is the producer.
"""

import bisect
import itertools
import random
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.companions import Companion
from harness.contents import content_now, content_of
from harness.direct_readers import DirectReader, value_name
from harness.end_offsets import ends_of
from harness.load import FINAL_READER, Load
from harness.login import Login
from harness.waiting import UNTIL_SECONDS, wait_until
from simulator.history import Content, History, Outcome, Poll, Report, Send, judge

FLUSH_SECONDS = 120.0
READ_SECONDS = 120.0
REASONS_MAX = 20
_CLIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}


@dataclass(slots=True)
class Tally:
    """How many records of one producer are acknowledged; read by other threads."""

    acked: int = 0
    last_acked_ns: dict[int, int] = field(default_factory=dict)
    """When the newest acknowledged record of each partition was sent."""
    reasons: list[str] = field(default_factory=list)
    """Why the client gave records up."""


@dataclass(slots=True)
class Pending:
    """A record on its way; the delivery report fills in the rest."""

    tally: Tally
    producer: str
    partition: int
    value: str
    start_ns: int
    end_ns: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None
    content: Content | None = None
    key: str | None = None
    """Set when its producer keeps the order of each key."""

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked(message.offset())
        else:
            self.given_up(str(error))

    def acked(self, offset: int | None) -> None:
        """Note that it was acknowledged just now, and where it stands."""
        self.end_ns = time.monotonic_ns()
        self.outcome = Outcome.ACKED
        self.offset = offset
        self.tally.acked += 1
        last = self.tally.last_acked_ns
        last[self.partition] = max(last.get(self.partition, 0), self.start_ns)

    def given_up(self, reason: str) -> None:
        """Note that the client does not try any more; reasons are kept once each."""
        self.end_ns = time.monotonic_ns()
        if reason not in self.tally.reasons and len(self.tally.reasons) < REASONS_MAX:
            self.tally.reasons.append(reason)

    def as_send(self) -> Send:
        sent = self.producer, self.partition, self.value, self.start_ns, self.end_ns
        return Send(*sent, self.outcome, self.offset, self.key, content=self.content)


@dataclass(slots=True)
class Writer:
    """One librdkafka producer in its own thread; those of other clients are made from it."""

    kind: ClassVar[str] = "librdkafka"
    name: str
    load: Load
    bootstrap: str
    is_stopping: threading.Event
    records: list[Pending] = field(default_factory=list)
    fatal: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def run(self) -> None:
        """Write until told to stop, or until the producer itself says that it can not go on."""
        try:
            self.write()
        except Exception as error:  # noqa: BLE001  whatever ends a writer is a finding
            self.fatal.append(f"{self.name}: {type(error).__name__}: {error}")

    def write(self) -> None:
        producer = Producer(self._settings())
        chooser = random.Random(f"{self.load.seed}-{self.name}")
        begun = time.monotonic()
        while not self.is_stopping.is_set():
            due = int((time.monotonic() - begun) * self.load.records_per_second) + 1
            for _ in range(min(due - len(self.records), 500)):
                self._send(producer, chooser)
            producer.poll(0.005)
        producer.flush(FLUSH_SECONDS)

    def key_of(self, record: Pending) -> str:
        """Return the key that a record is sent with; its order is judged where it is promised."""
        key = f"{self.name}-{record.partition}"
        record.key = key if self.load.is_idempotent else None
        return key

    def acks_of(self, partition: int) -> list[tuple[int, int]]:
        """Return (acknowledged, sent) of every acknowledged record, in that order."""
        return sorted(
            (record.end_ns, record.start_ns)
            for record in list(self.records)
            if record.partition == partition
            and record.end_ns is not None
            and record.outcome is Outcome.ACKED
        )

    def _settings(self) -> dict[str, object]:
        return {
            **_CLIENT,
            "socket.timeout.ms": self.load.socket_timeout_ms,
            "bootstrap.servers": self.bootstrap,
            "enable.idempotence": self.load.is_idempotent,
            "acks": "all",
            "linger.ms": 5,
            "topic.metadata.refresh.interval.ms": self.load.metadata_ms,
            "batch.size": self.load.batch_bytes_max,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
            "message.timeout.ms": 300_000,
            "error_cb": self._on_error,
            **self.load.librdkafka(),
            **({} if self.load.has_retries else {"retries": 0}),
        }

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal.append(f"{self.name}: {error}")

    def _send(self, producer: Producer, chooser: random.Random) -> None:
        value = f"{self.name}-{len(self.records)}"
        padded = self.load.padded(value, chooser)
        partition = chooser.randrange(self.load.partitions)
        record = Pending(self.tally, self.name, partition, value, time.monotonic_ns())
        record.content = content_now(padded)
        key = self.key_of(record)
        try:
            producer.produce(
                self.load.topic,
                key=key,
                value=padded,
                partition=partition,
                timestamp=record.content[0],
                on_delivery=record.delivered,
            )
        except BufferError:
            producer.poll(0.05)
            return
        self.records.append(record)


class Workload:
    """Writers and a reader around one topic. `start`, break things, `finish`."""

    def __init__(
        self,
        bootstrap: str,
        load: Load | None = None,
        kinds: Sequence[type[Writer]] = (Writer,),
        companions: Sequence[Companion] = (),
    ) -> None:
        """`kinds` of writers are taken in turn."""
        self._companions = companions
        self.bootstrap = bootstrap
        self.load = load or Load()
        self.polls: list[Poll] = []
        self._acks: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """Made when it is first asked for: after the writers have stopped."""
        self._is_stopping = threading.Event()
        self.writers = [
            kind(f"{self.load.name_prefix}{number}", self.load, bootstrap, self._is_stopping)
            for number, kind in zip(range(self.load.producers), itertools.cycle(kinds))
        ]
        self._direct = [
            DirectReader(
                address, self.load.topic, self.load.partitions, f"direct {self.load.name_prefix}"
            )
            for address in self.load.direct_brokers
        ]
        self._beside: list[DirectReader | Companion] = [*self._direct, *companions]
        self._is_reading_done = threading.Event()
        self._threads: list[threading.Thread] = []
        self._reader = threading.Thread(target=self._read_along, daemon=True)

    def start(self, *, has_topic: bool = False) -> None:
        """Make the topic, unless it is there, and begin to write and read."""
        if not has_topic:
            where = self.bootstrap, self.load.topic, self.load.partitions
            create_topic(*where, login=self.load.login)
        self._threads = [threading.Thread(target=w.run, daemon=True) for w in self.writers]
        for thread in self._threads:
            thread.start()
        self._reader.start()
        for other in self._beside:
            other.start()

    @property
    def acked(self) -> int:
        """Records acknowledged so far."""
        return sum(writer.tally.acked for writer in self.writers)

    def wait_for(self, acked: int, timeout_seconds: float = UNTIL_SECONDS) -> bool:
        """Wait until so many records are acknowledged; False when they were not in time."""
        return wait_until(lambda: self.acked >= acked, timeout_seconds)

    def stop_writing(self) -> None:
        """Stop the writers; waits until every record has its answer or the time is over."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join(FLUSH_SECONDS + 10)

    def finish(self, *others: tuple[list[Send], list[Poll]]) -> Report:
        """Stop, read everything once more from the beginning, and judge.

        `others`: what clients in other processes sent to the topic and saw there.
        """
        self.stop_writing()
        sends, polls = self.leave()
        noted = [companion.history() for companion in self._companions]
        for more_sends, more_polls in (*others, *((one.sends, one.polls) for one in noted)):
            sends, polls = [*sends, *more_sends], [*polls, *more_polls]
        where = self.bootstrap, self.load.topic, self.load.partitions
        final = read_all(*where, login=self.load.login)
        masterships = [mastership for reader in self._direct for mastership in reader.masterships]
        commits = [commit for one in noted for commit in one.commits]
        return judge(
            History(sends, [*polls, *final], commits, masterships=masterships), self.load.rules()
        )

    def leave(self) -> tuple[list[Send], list[Poll]]:
        """Stop reading too; returns what was sent and seen. The writers have been stopped."""
        self._is_reading_done.set()
        self._reader.join(30)
        for other in self._beside:
            other.stop()
        sends = [record.as_send() for writer in self.writers for record in writer.records]
        return sends, [*self.polls, *(poll for reader in self._direct for poll in reader.polls)]

    @property
    def refusals(self) -> list[str]:
        """What brokers said to readers that they never may, and what companions complain of."""
        refused = [text for reader in self._direct for text in reader.refusals]
        return refused + [text for companion in self._companions for text in companion.problems()]

    @property
    def fatal_errors(self) -> list[str]:
        """Errors after which a producer could not go on."""
        return [text for writer in self.writers for text in writer.fatal]

    def has_acked_since(self, since_ns: int, partitions: Collection[int]) -> bool:
        """Whether every writer had a record acknowledged that it sent after `since_ns`."""
        return all(
            writer.tally.last_acked_ns.get(partition, 0) > since_ns
            for writer in self.writers
            for partition in partitions
        )

    def gaps_around(
        self, at_ns: int, partitions: Collection[int], *, count_from: int = 0, until: int = 0
    ) -> list[float]:
        """Return the longest silence in seconds around `at_ns`, one per writer and partition.

        Looked at are the acknowledgements from the last one before that moment to the first one of
        a record that was sent after it: what was on its way already does not end the silence.
        Silence before `count_from` does not count; what was done went on until `until`.
        """
        return [
            _silence_around(self._acks_of(writer, partition), at_ns, count_from, until)
            for writer in self.writers
            for partition in partitions
        ]

    def gaps_between(
        self, begun_ns: int, ended_ns: int, partitions: Collection[int]
    ) -> list[float]:
        """Return the longest silence in seconds that began or ended in that time, as above.

        May be asked while the writers write, about what is over.
        """
        found = []
        for writer in self.writers:
            for partition in partitions:
                acks = [at for at, _ in writer.acks_of(partition)]
                first = max(0, bisect.bisect_right(acks, begun_ns) - 1)
                last = bisect.bisect_right(acks, ended_ns) + 1
                silences = itertools.pairwise(acks[first:last])
                found.append(max((later - earlier for earlier, later in silences), default=0) / 1e9)
        return found

    def read_gaps_around(
        self, at_ns: int, partitions: Collection[int], *, count_from: int = 0
    ) -> list[float]:
        """Return the same for the reader that reads along, one per partition, after `finish`."""
        return [
            _silence_around(self._reads_of(partition), at_ns, count_from)
            for partition in partitions
            if self._reads_of(partition)
        ]

    def acks(self) -> list[tuple[int, int]]:
        """Return (acknowledged at, latency) of every acknowledged record, ns, in that order."""
        return sorted(
            (record.end_ns, record.end_ns - record.start_ns)
            for writer in self.writers
            for record in writer.records
            if record.end_ns is not None and record.outcome is Outcome.ACKED
        )

    @property
    def _reader_name(self) -> str:
        return f"along {self.load.name_prefix}"

    def _reads_of(self, partition: int) -> list[tuple[int, int]]:
        """Return (read at, sent at) of every answer of the reader, newest record of it. Kept."""
        key = ("reader", partition)
        if key not in self._acks:
            sent = {record.value: record.start_ns for w in self.writers for record in w.records}
            self._acks[key] = sorted(
                (poll.end_ns, sent.get(cast("str", poll.records[-1][1]), 0))
                for poll in self.polls
                if poll.partition == partition and poll.records
            )
        return self._acks[key]

    def _acks_of(self, writer: Writer, partition: int) -> list[tuple[int, int]]:
        """Return (acknowledged, sent) of every acknowledged record, in that order. Kept."""
        key = (writer.name, partition)
        if key not in self._acks:
            self._acks[key] = writer.acks_of(partition)
        return self._acks[key]

    def longest_gaps_ms(self, count: int) -> list[float]:
        """Return the longest spans without any acknowledgement, longest first."""
        ends = sorted(
            record.end_ns
            for writer in self.writers
            for record in writer.records
            if record.end_ns is not None and record.outcome is Outcome.ACKED
        )
        gaps = [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(ends)]
        return sorted(gaps, reverse=True)[:count]

    def _read_along(self) -> None:
        consumer = _reader(self.bootstrap, self.load.socket_timeout_ms, login=self.load.login)
        _assign(consumer, self.load.topic, self.load.partitions)
        try:
            while not self._is_reading_done.is_set():
                started = time.monotonic_ns()
                messages = consumer.consume(500, 0.1)
                polls = as_polls(self._reader_name, messages, started)
                self.polls += polls or self._nothing(started)
        finally:
            consumer.close()

    def _nothing(self, started_ns: int) -> list[Poll]:
        """A consumer that gets nothing may be stuck."""
        ended_ns, parts = time.monotonic_ns(), range(self.load.partitions)
        return [Poll(self._reader_name, part, (), started_ns, ended_ns) for part in parts]


def _silence_around(
    events: list[tuple[int, int]], at_ns: int, count_from: int, until: int = 0
) -> float:
    """Return the longest silence, s, from the last (time, sent) before `at_ns` to the first event
    whose record was sent after it.
    """
    first = max(0, bisect.bisect_right(events, (at_ns, 0)) - 1)
    longest = 0
    for (earlier, _), (later, sent) in itertools.pairwise(events[first:]):
        longest = max(longest, later - max(earlier, count_from))
        if sent > max(at_ns, until):
            break
    return longest / 1e9


def create_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    config: dict[str, str] | None = None,
    *,
    login: Login | None = None,
) -> None:
    """Create a topic and wait until it is there; one that exists is fine."""
    settings: dict[str, Any] = {**_CLIENT, "bootstrap.servers": bootstrap}
    admin = AdminClient(settings if login is None else settings | login.librdkafka())
    try:
        wanted = NewTopic(topic, partitions, -1, config=config or {})
        admin.create_topics([wanted])[topic].result(UNTIL_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def read_all(
    bootstrap: str, topic: str, partitions: int, *, login: Login | None = None
) -> list[Poll]:
    """Read every partition from its beginning to its end with a new consumer."""
    consumer = _reader(bootstrap, login=login)
    try:
        ends = ends_of(consumer, topic, partitions)
        _assign(consumer, topic, partitions)
        polls: list[Poll] = []
        deadline = time.monotonic() + READ_SECONDS
        while any(end > 0 for end in ends.values()) and time.monotonic() < deadline:
            started = time.monotonic_ns()
            for poll in as_polls(FINAL_READER, consumer.consume(2000, 0.5), started):
                polls.append(poll)
                if poll.records[-1][0] + 1 >= ends[int(poll.partition)]:
                    ends[int(poll.partition)] = 0
        return polls
    finally:
        consumer.close()


def _reader(
    bootstrap: str, socket_timeout_ms: int = 10_000, *, login: Login | None = None
) -> Consumer:
    return Consumer(
        {
            **_CLIENT,
            **({} if login is None else login.librdkafka()),
            "bootstrap.servers": bootstrap,
            "socket.timeout.ms": socket_timeout_ms,
            "fetch.wait.max.ms": min(500, socket_timeout_ms // 2),
            "group.id": "history-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "auto.offset.reset": "earliest",
        }
    )


def _assign(consumer: Consumer, topic: str, partitions: int) -> None:
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])


def as_polls(name: str, messages: list[Message], started_ns: int) -> list[Poll]:
    grouped: dict[int, list[tuple[int, str]]] = {}
    contents: dict[int, list[Content]] = {}
    for message in messages:
        offset, value, partition = message.offset(), message.value(), message.partition()
        if message.error() is not None or offset is None or partition is None:
            continue
        grouped.setdefault(partition, []).append((offset, value_name(value and bytes(value))))
        contents.setdefault(partition, []).append(content_of(message))
    ended = time.monotonic_ns()
    return [
        Poll(name, part, records, started_ns, ended, contents=contents[part])
        for part, records in grouped.items()
    ]
