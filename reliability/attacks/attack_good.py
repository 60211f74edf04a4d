"""The good client beside an attack: fifty records a second, whatever happens to those before.

Records are due at fixed times and their latency counts from then, so a node that stands still is
seen by every record that fell due meanwhile, and not by one only.
"""

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from harness.login import Login
from harness.results import percentile
from harness.workload import create_topic, read_all

TOPIC = "steady"
INTERVAL_SECONDS = 0.02
ANSWER_SECONDS = 60.0


class Answered(NamedTuple):
    """One record: when it was due, and when it was acknowledged, in seconds."""

    due: float
    acked: float


class SteadyClient:
    """One thread that writes; what it measured is asked for by spans of time."""

    def __init__(self, bootstrap: str, login: Login | None = None) -> None:
        self.failures: list[str] = []
        self._bootstrap = bootstrap
        self._login = login
        self._answered: list[Answered] = []
        self._acked: set[bytes] = set()
        self.is_stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="steady-client", daemon=True)

    def start(self) -> None:
        """Make the topic and begin."""
        create_topic(self._bootstrap, TOPIC, 1, login=self._login)
        self._thread.start()

    def stop(self) -> None:
        """End, when what was sent is answered or given up."""
        self.is_stopping.set()
        self._thread.join(2 * ANSWER_SECONDS)

    def p99_ms(self, begin: float, end: float) -> float:
        """Return the 99th percentile of the records due in a span; nan when there were none."""
        latencies = [one.acked - one.due for one in self._answered if begin <= one.due < end]
        return percentile(sorted(latencies), 0.99) * 1000

    def longest_gap_ms(self, begin: float, end: float) -> float:
        """Return the longest time without an acknowledgement in a span."""
        inside = sorted(one.acked for one in self._answered if begin <= one.acked < end)
        times = [begin, *inside, end]
        return max(b - a for a, b in itertools.pairwise(times)) * 1000

    def judge(self) -> list[str]:
        """Read everything back: what was acknowledged is there."""
        polls = read_all(self._bootstrap, TOPIC, 1, login=self._login)
        read = {str(value).encode() for poll in polls for _, value in poll.records}
        lost = len(self._acked - read)
        return self.failures[:5] + ([f"{lost} acknowledged records are lost"] if lost else [])

    def run(self) -> None:
        """Write until it is to end."""
        settings: dict[str, Any] = {
            **({} if self._login is None else self._login.librdkafka()),
            "bootstrap.servers": self._bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            "message.timeout.ms": int(ANSWER_SECONDS * 1000),
        }
        producer = Producer(settings)
        due, number = time.monotonic(), 0
        while not self.is_stopping.is_set():
            value = b"%d" % number
            producer.produce(TOPIC, value, partition=0, on_delivery=self._delivered(value, due))
            number += 1
            due += INTERVAL_SECONDS
            while (left := due - time.monotonic()) > 0:
                producer.poll(left)
        producer.flush(ANSWER_SECONDS)

    def _delivered(self, value: bytes, due: float) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self.failures.append(f"a record failed: {error}")
            else:
                self.note(value, due)

        return note

    def note(self, value: bytes, due: float) -> None:
        """Note that a record was acknowledged just now."""
        self._acked.add(value)
        self._answered.append(Answered(due, time.monotonic()))
