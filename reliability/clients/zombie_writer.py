"""A producer that comes back while a cluster is being broken: its replaced epoch must be refused.

    epoch e: a batch -> epoch e + 1: a batch, acknowledged -> epoch e again: must be refused

Producers without transactions raise their epoch by themselves (KIP-360). No stock client sends with
an epoch that it has replaced, so this one is ours. It repeats nothing: what has no answer stays of
unknown fate. An answer of success to the last batch is noted like any other, and the judge calls
it a zombie write.
"""

import threading
import time
from dataclasses import dataclass, field

from harness.contents import content_now
from harness.login import Login
from penstock.client.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.client.produce_request import encode_produce
from penstock.client.security import ClientSecurity
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response
from penstock.record.batch import stamp_producer
from penstock.record.build import Record, build_batch
from simulator.history import History, Outcome, Send

PRODUCE_VERSION = 8
BROKER_TIMEOUT_MS = 5_000
PAUSE_SECONDS = 0.3
JOIN_SECONDS = 120.0
GOOD = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


@dataclass(slots=True)
class ZombieWriter:
    """A companion; a round in each partition in turn, with a producer id of its own each."""

    bootstrap: str
    topic: str
    partitions: int
    login: Login | None = None
    refused: int = 0
    """How often a batch of a replaced epoch was refused, as it should."""
    _sends: list[Send] = field(default_factory=list)
    _is_done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        self._is_done.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def history(self) -> History:
        """Return what was sent."""
        return History(sends=list(self._sends))

    def problems(self) -> list[str]:
        """A zombie that never came so far as to be refused has shown nothing."""
        return [] if self.refused else ["no batch of a replaced producer epoch was refused"]

    def _run(self) -> None:
        settings = ClientSettings(
            bootstrap=self.bootstrap,
            connect_timeout_ms=1_000,
            request_timeout_ms=BROKER_TIMEOUT_MS,
            deadline_ms=BROKER_TIMEOUT_MS,
            security=ClientSecurity() if self.login is None else self.login.own(),
        )
        rounds = 0
        with Cluster(settings) as cluster:
            while not self._is_done.wait(PAUSE_SECONDS):
                try:
                    self._round(cluster, rounds % self.partitions)
                except ClientError:
                    cluster.close()
                    cluster.forget(self.topic)
                rounds += 1

    def _round(self, cluster: Cluster, partition: int) -> None:
        asked = {"transactional_id": None, "transaction_timeout_ms": 1_000}
        answer = cluster.any_connection().call(ApiKey.INIT_PRODUCER_ID, asked)
        if answer.error_code != ErrorCode.NONE:
            return
        producer_id, epoch = answer.producer_id, answer.producer_epoch
        first = self._write(cluster, partition, (producer_id, epoch, 0))
        newer = self._write(cluster, partition, (producer_id, epoch + 1, 0))
        if first in GOOD and newer in GOOD:
            late = self._write(cluster, partition, (producer_id, epoch, 1))
            self.refused += late is ErrorCode.INVALID_PRODUCER_EPOCH

    def _write(self, cluster: Cluster, partition: int, stamp: tuple[int, int, int]) -> ErrorCode:
        producer_id, epoch, sequence = stamp
        number = len(self._sends)
        value = f"zombie-{number}"
        content = content_now(value)
        unknown = Send(
            f"zombie-{producer_id}",
            partition,
            value,
            time.monotonic_ns(),
            None,
            Outcome.UNKNOWN,
            None,
            producer_epoch=epoch,
            content=content,
        )
        self._sends.append(unknown)
        record = Record(None, value.encode(), timestamp_ms=content[0])
        data = bytearray(build_batch([record]))
        stamp_producer(
            memoryview(data),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        error, offset = self._produce(cluster, partition, bytes(data))
        if error in GOOD:
            self._sends[number] = unknown._replace(
                end_ns=time.monotonic_ns(),
                outcome=Outcome.ACKED,
                offset=offset if offset >= 0 else None,
            )
        return error

    def _produce(self, cluster: Cluster, partition: int, data: bytes) -> tuple[ErrorCode, int]:
        connection = cluster.connection(cluster.leader(self.topic, partition))
        body = encode_produce({(self.topic, partition): data}, BROKER_TIMEOUT_MS)
        connection.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)
        frame, at = connection.receive()
        answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame, at)
        (one,) = answer.responses[0].partition_responses
        error = ErrorCode(one.error_code)
        if error not in (*GOOD, ErrorCode.INVALID_PRODUCER_EPOCH):
            cluster.forget(self.topic)
        return error, int(one.base_offset)
