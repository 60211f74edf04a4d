"""A writer that notices how long a cluster takes no records, and what that silence is.

It sends every few milliseconds, whatever was answered, and notes when each acknowledgement came.
"""

import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Sequence
from types import TracebackType

from confluent_kafka import KafkaError, Producer

from benchmarks.peers.model import CanNotRun

SEND_EVERY_SECONDS = 0.005
ACKS_BEFORE = 200
FAILOVER_SECONDS_MAX = 120.0


def longest_silence(acked_at: Sequence[float], *, since: float) -> float:
    """Return the longest time between two acknowledgements, both not before `since`, in seconds."""
    late = sorted(at for at in acked_at if at >= since)
    return max((after - before for before, after in itertools.pairwise(late)), default=0.0)


class SteadyWriter:
    """Writes to partition 0 of a topic from a thread of its own until the `with` block ends."""

    def __init__(self, bootstrap: str, topic: str, *, acks: str) -> None:
        self.acked_at: list[float] = []
        self._last_sent_and_acked = 0.0
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0, "log_level": 0}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def wait_for_acks(self, *, sent_after: float | None = None) -> None:
        """Wait until the writes flow; with `sent_after`, those of records sent after that time."""
        deadline = time.monotonic() + FAILOVER_SECONDS_MAX
        while time.monotonic() < deadline:
            if sent_after is None and len(self.acked_at) >= ACKS_BEFORE:
                return
            if sent_after is not None and self._last_sent_and_acked > sent_after:
                return
            time.sleep(0.05)
        raise CanNotRun(f"no write was acknowledged for {FAILOVER_SECONDS_MAX:.0f} s")

    def _write(self) -> None:
        while not self._is_over.is_set():
            on_delivery = functools.partial(self._delivered, time.monotonic())
            # Full is the queue with what was sent during the silence.
            with contextlib.suppress(BufferError):
                self._producer.produce(
                    self._topic, b"x" * 100, partition=0, on_delivery=on_delivery
                )
            self._producer.poll(SEND_EVERY_SECONDS)

    def _delivered(self, sent_at: float, error: KafkaError | None, _: object) -> None:
        if error is None:
            self.acked_at.append(time.monotonic())
            self._last_sent_and_acked = max(self._last_sent_and_acked, sent_at)

    def __enter__(self) -> "SteadyWriter":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.purge()
