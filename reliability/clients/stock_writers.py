"""Writers of a workload that use kafka-python and aiokafka: idempotent, acks=all, any retries.

They wait for an answer as long as the load says. Both must never give a record up by themselves:
a record that an idempotent producer has numbered and then drops is a hole which no broker accepts.
"""

import asyncio
import itertools
import random
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError

from harness.workload import FLUSH_SECONDS, Pending, Writer

TICK_SECONDS = 0.01
NEVER_MS = 300_000
AT_ONCE_MAX = 200
SECURE_MS = 5_000
"""For TLS and SASL of a connection, and for an answer on it: a busy machine takes a second for
either. An answer that is late costs kafka-python its connection, and the next one seven answers: on
a machine that is too slow for 1.5 s it does little but connect."""


def bound_handshakes(seconds: float) -> None:
    """Let kafka-python give up a TLS handshake after this time, in this process.

    `KafkaSSLTransport.handshake` of 3.0.12 waits without a time-out. A broker that hangs, or that
    is cut off, still takes connections for a while; a request for metadata that waits behind such
    a handshake is never timed out, no other is sent beside it, and the client is stuck until the
    broker is back. No setting bounds it.
    """
    from kafka.net.transport import KafkaSSLTransport  # noqa: PLC0415  as above

    async def handshake(transport: Any) -> None:
        until = time.monotonic() + seconds
        while True:
            try:
                transport._sock.do_handshake()  # noqa: SLF001
                return
            except ssl.SSLWantReadError:
                await transport._net.wait_read(transport._sock, timeout_at=until)  # noqa: SLF001
            except ssl.SSLWantWriteError:
                await transport._net.wait_write(transport._sock, timeout_at=until)  # noqa: SLF001

    KafkaSSLTransport.handshake = handshake


@dataclass(slots=True)
class KafkaPythonWriter(Writer):
    """kafka-python; its own threads do the sending."""

    kind: ClassVar[str] = "kafka-python"

    def write(self) -> None:
        """Write until told to stop."""
        from kafka import KafkaProducer  # noqa: PLC0415  its import warns, which tests forbid

        wait_ms = self.load.socket_timeout_ms
        if self.load.login is not None:
            wait_ms = max(wait_ms, SECURE_MS)
            bound_handshakes(wait_ms / 1000)
        producer: Any = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            request_timeout_ms=wait_ms,
            delivery_timeout_ms=NEVER_MS,
            retry_backoff_ms=50,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            metadata_max_age_ms=self.load.metadata_ms,
            **self.load.python(),
        )
        # A broker that hangs still takes connections, and it waits 10 s for the first answer on one
        # before it asks another who leads; a producer has no setting for that.
        connecting = producer._sender._client._manager.config  # noqa: SLF001
        for key in ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"):
            assert key in connecting, key
            connecting[key] = wait_ms
        chooser = random.Random(f"{self.load.seed}-{self.name}")
        begun = time.monotonic()
        while not self.is_stopping.is_set():
            due = int((time.monotonic() - begun) * self.load.records_per_second) + 1
            for _ in range(min(due - len(self.records), AT_ONCE_MAX)):
                self._hand_over(producer, chooser)
            time.sleep(TICK_SECONDS)
        producer.flush(FLUSH_SECONDS)
        producer.close(timeout=10)

    def _hand_over(self, producer: Any, chooser: random.Random) -> None:
        value = f"{self.name}-{len(self.records)}"
        partition = chooser.randrange(self.load.partitions)
        record = Pending(self.tally, self.name, partition, value, time.monotonic_ns())
        self.records.append(record)
        padded = self.load.padded(value, chooser).encode()
        key = self.key_of(record).encode()
        sent = producer.send(self.load.topic, padded, key, partition=partition)
        sent.add_callback(lambda answer: record.acked(answer.offset))
        sent.add_errback(lambda error: record.given_up(repr(error)))


@dataclass(slots=True)
class AiokafkaWriter(Writer):
    """aiokafka with a loop of its own; one task per partition, as a full one blocks its sender."""

    kind: ClassVar[str] = "aiokafka"
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _unanswered: int = 0

    def write(self) -> None:
        """Write until told to stop."""
        asyncio.run(self._write_all())

    async def _write_all(self) -> None:
        producer: Any = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            request_timeout_ms=self.load.socket_timeout_ms,
            retry_backoff_ms=50,
            metadata_max_age_ms=self.load.metadata_ms,
            **self.load.python(),
        )
        # The time-out of a request is also the age at which it drops what waits for a leader.
        producer._message_accumulator._batch_ttl = NEVER_MS / 1000  # noqa: SLF001
        await producer.start()
        parts = range(self.load.partitions)
        await asyncio.gather(*(self._write_to(producer, partition) for partition in parts))
        await self._answered()
        await producer.stop()

    async def _answered(self) -> None:
        """Wait until all is answered; its own flush returns while batches are on their way."""
        for _ in range(int(FLUSH_SECONDS / TICK_SECONDS)):
            if not self._unanswered:
                return
            await asyncio.sleep(TICK_SECONDS)

    async def _write_to(self, producer: Any, partition: int) -> None:
        chooser = random.Random(f"{self.load.seed}-{self.name}-{partition}")
        begun, sent = time.monotonic(), 0
        rate = self.load.records_per_second / self.load.partitions
        while not self.is_stopping.is_set():
            due = int((time.monotonic() - begun) * rate) + 1
            for _ in range(min(due - sent, AT_ONCE_MAX)):
                if self.is_stopping.is_set():
                    return
                await self._hand_over(producer, partition, chooser)
                sent += 1
            await asyncio.sleep(TICK_SECONDS)

    async def _hand_over(self, producer: Any, partition: int, chooser: random.Random) -> None:
        value = f"{self.name}-{next(self._numbers)}"
        padded = self.load.padded(value, chooser).encode()
        record = Pending(self.tally, self.name, partition, value, time.monotonic_ns())
        self.records.append(record)
        key = self.key_of(record).encode()
        while not self.is_stopping.is_set():
            try:
                sent = await producer.send(self.load.topic, padded, key, partition=partition)
            except KafkaTimeoutError:
                continue  # there was no room for it: it is not on its way
            self._unanswered += 1
            sent.add_done_callback(lambda done: self._done(record, done))
            return

    def _done(self, record: Pending, done: "asyncio.Future[Any]") -> None:
        self._unanswered -= 1
        error = None if done.cancelled() else done.exception()
        if error is not None:
            record.given_up(repr(error))
        elif not done.cancelled():
            record.acked(done.result().offset)


WRITERS: tuple[type[Writer], ...] = (Writer, KafkaPythonWriter, AiokafkaWriter)
"""All kinds of clients, one each."""
