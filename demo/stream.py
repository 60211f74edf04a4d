"""The producer: a stock librdkafka client, idempotent, acks=all, in a thread of its own.

It sends at a steady pace so that the stream is still running when things are killed, and never
past `gate`, which the story opens step by step. Every acknowledgement is written into a ledger by
the record's number; the ledger, not a count, is what the table is compared with.
"""

import threading
import time
from array import array

from confluent_kafka import KafkaError, Message, Producer

from demo.source import Source

POLL_SECONDS = 0.01
FLUSH_SECONDS = 60.0
STOP_SECONDS = 5.0
BURST_RECORDS = 2000
ON_ITS_WAY_SECONDS = 0.1
"""Acknowledgements this soon after a kill were sent before it."""


class Ledger:
    """Where each record stands according to its acknowledgement; -1 while there is none."""

    def __init__(self, records: int) -> None:
        self.partition_of = array("i", [-1]) * records
        self.offset_of = array("q", [-1]) * records
        self.acked = 0
        self.acked_bytes = 0
        self.failed: list[str] = []
        self.last_ack = 0.0
        self.last_ack_of: dict[int, float] = {}
        self.first_ack = 0.0
        self._watched_since = 0.0
        self.gap_seconds = 0.0

    def begin_gap(self) -> None:
        """Something is killed now: from here on keep the longest time without acknowledgement.

        Of a partition, since those of other nodes never stop. The longest, and not the first: what
        the node had sent before it died still arrives.
        """
        self.gap_seconds = 0.0
        self._watched_since = time.monotonic()

    def is_gap_over(self) -> bool:
        """Whether every partition has acknowledged something since, but for what was on its way."""
        since = self._watched_since + ON_ITS_WAY_SECONDS
        return all(last > since for last in self.last_ack_of.values())

    def end_gap(self) -> float:
        """Return the longest time without acknowledgement since `begin_gap`, in seconds."""
        self._watched_since = 0.0
        return self.gap_seconds

    def took(self, record_id: int, message: Message) -> None:
        """Write down one acknowledgement."""
        now = time.monotonic()
        partition = message.partition() or 0
        if self._watched_since:
            quiet = now - max(self.last_ack_of.get(partition, 0.0), self._watched_since)
            self.gap_seconds = max(self.gap_seconds, quiet)
        self.first_ack = self.first_ack or now
        self.last_ack = self.last_ack_of[partition] = now
        self.partition_of[record_id] = partition
        self.offset_of[record_id] = message.offset() or 0
        self.acked += 1
        self.acked_bytes += len(message)


class Stream:
    """Sends a source into a topic. `gate` is how many records it may send; raise it."""

    def __init__(self, source: Source, *, bootstrap: str, topic: str, seconds: float) -> None:
        self.ledger = Ledger(source.records)
        self.sent = 0
        self.gate = 0
        self.is_done = False
        self.fatal = ""
        self._source = source
        self._topic = topic
        self._per_second = source.records / seconds
        self._is_stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 20,
                "compression.type": "lz4",
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.max.ms": 200,
                "message.timeout.ms": 120_000,
                "log_level": 0,
                "error_cb": self._on_error,
            }
        )
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, whether or not everything was sent."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = str(error)

    def _run(self) -> None:
        begun, waited = time.monotonic(), 0.0
        for record in self._source:
            while not self._may_send(begun + waited):
                if self._is_stopping.is_set():
                    return
                if self.sent >= self.gate:
                    waited += POLL_SECONDS
                self._producer.poll(POLL_SECONDS)
            self._send(record.record_id, record.partition, record.key, record.value)
            self.sent += 1
            if self.sent % BURST_RECORDS == 0:
                self._producer.poll(0)
        deadline = time.monotonic() + FLUSH_SECONDS
        while self._producer.flush(0.2) and not self._is_stopping.is_set():
            if time.monotonic() > deadline:
                break
        self.is_done = True

    def _may_send(self, begun: float) -> bool:
        due = (time.monotonic() - begun) * self._per_second
        return self.sent < self.gate and self.sent <= due

    def _send(self, record_id: int, partition: int, key: bytes, value: bytes) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.ledger.took(record_id, message)
            elif len(self.ledger.failed) < 100:
                self.ledger.failed.append(f"record {record_id}: {error}")

        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, partition=partition, on_delivery=delivered
                )
                return
            except BufferError:
                self._producer.poll(POLL_SECONDS)
