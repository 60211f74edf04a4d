"""The good client beside a flood: what it asks is answered, how soon, and nothing of it is lost.

Fifty times a second it writes one numbered record with acks=all and waits for it, then asks for
metadata on a connection of its own. A sample belongs to the phase that it began and ended in; one
that spans a change of phase belongs to none.
"""

import socket
import struct
import threading
import time
from collections import defaultdict

from confluent_kafka import KafkaError, Message, Producer

from harness.results import percentile
from harness.workload import create_topic, read_all

TOPIC = "unharmed"
INTERVAL_SECONDS = 0.02
ANSWER_SECONDS = 30.0
_METADATA = struct.pack(">ihhihi", 14, 3, 1, 78, -1, 0)

QUIET, FLOOD, BETWEEN = "quiet", "flood", "between"
WRITE, ASK = "write", "ask"


class GoodClient:
    """One thread; `phase` is set from outside."""

    def __init__(self, bootstrap: str) -> None:
        self.phase = BETWEEN
        self.failures: list[str] = []
        self.acked: list[bytes] = []
        self._bootstrap = bootstrap
        self._samples: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="good-client", daemon=True)
        self._sent = 0
        self._connection: socket.socket | None = None

    def start(self) -> None:
        """Make the topic and begin."""
        create_topic(self._bootstrap, TOPIC, 1)
        self._thread.start()

    def stop(self) -> None:
        """End, when what was sent is answered."""
        self._is_stopping.set()
        self._thread.join(2 * ANSWER_SECONDS)

    def p99_ms(self, what: str, phase: str) -> float:
        """Return the 99th percentile of what was measured in a phase."""
        return percentile(sorted(self._samples[what, phase]), 0.99)

    def p50_ms(self, what: str, phase: str) -> float:
        """Return the median of what was measured in a phase."""
        return percentile(sorted(self._samples[what, phase]), 0.5)

    def count(self, phase: str) -> int:
        """Return how many answers there were in a phase."""
        return sum(len(self._samples[what, phase]) for what in (WRITE, ASK))

    def judge(self) -> list[str]:
        """Read everything back: what was acknowledged is there once and in order."""
        problems = list(self.failures[:20])
        read = [
            str(value).encode()
            for poll in read_all(self._bootstrap, TOPIC, 1)
            for _, value in poll.records
        ]
        if read != self.acked:
            lost = len(set(self.acked) - set(read))
            problems.append(
                f"{len(self.acked)} acknowledged, {len(read)} read, {lost} lost, or not in order"
            )
        return problems

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
                "message.timeout.ms": int(ANSWER_SECONDS * 1000),
            }
        )
        due = time.perf_counter()
        while not self._is_stopping.is_set():
            self._sample(WRITE, lambda: self._write(producer))
            self._sample(ASK, self._ask)
            due = max(due + INTERVAL_SECONDS, time.perf_counter())
            time.sleep(max(0.0, due - time.perf_counter()))
        producer.flush(ANSWER_SECONDS)

    def _sample(self, what: str, work: object) -> None:
        phase, begun = self.phase, time.perf_counter()
        try:
            assert callable(work)
            work()
        except (OSError, TimeoutError, ValueError) as error:
            self.failures.append(f"{what}: {error!r}")
            self._disconnect()
            return
        if phase == self.phase:
            self._samples[what, phase].append((time.perf_counter() - begun) * 1000)

    def _write(self, producer: Producer) -> None:
        value = b"%d" % self._sent
        self._sent += 1
        answers: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            answers.append(error)

        producer.produce(TOPIC, value, partition=0, on_delivery=delivered)
        deadline = time.monotonic() + 2 * ANSWER_SECONDS
        while not answers:
            producer.poll(0.1)
            if time.monotonic() > deadline:
                raise TimeoutError("no answer to a record")
        if answers[0] is not None:
            raise ValueError(str(answers[0]))
        self.acked.append(value)

    def _ask(self) -> None:
        if self._connection is None:
            host, _, port = self._bootstrap.split(",")[0].rpartition(":")
            self._connection = socket.create_connection((host, int(port)), ANSWER_SECONDS)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.sendall(_METADATA)
        size, correlation_id = struct.unpack(">ii", self._take(8))
        self._take(size - 4)
        if correlation_id != 78:
            raise ValueError("an answer to another request")

    def _take(self, size: int) -> bytes:
        assert self._connection is not None
        taken = self._connection.recv(size, socket.MSG_WAITALL)
        if len(taken) < size:
            raise ConnectionResetError("closed by the node")
        return taken

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
