"""Writing sealed batches to the log once and in order: sequences, rounds, retries.

The idea: each partition has a lane, a queue of sealed batches. A round sends every leader one
request with the first batch of each of its lanes, to all leaders at once, then receives the
answers. So a lane has one batch under way, and its order cannot change. A batch keeps its bytes:
after a broken connection the same bytes are sent again, and the broker recognizes their sequences.

    answer                        what it means for the batch
    NONE, DUPLICATE_SEQUENCE      it is in the log, once
    no answer, timed out          uncertain: sent again, with the same sequences
    retriable code                not written by this attempt: sent again
    OUT_OF_ORDER, UNKNOWN_ID      the broker lost our state: a new producer id, all lanes begin at
                                  sequence 0; for an uncertain batch DeliveryUnknown, as under a new
                                  id it could be written twice
    fenced, any other code        final

With a transactional id all batches belong to one transaction, which the first one begins: the
broker adds each partition by itself. Nothing is recovered then. A transaction in which something
failed is aborted by the caller, so that lost state is a final error.

Source: KIP-98 (idempotent producer, transactions), KIP-360 (recovery from lost state), KIP-890
(version 2 of transactions), Kafka `Sender` and `TransactionManager`. It deliberately has no thread,
and does not end transactions: see `ending.py`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.client.cluster import TRANSACTION_KEY, Cluster, Retries, check_code, may_pass
from penstock.client.connection import Buffer, Connection
from penstock.client.errors import (
    BrokerError,
    ClientError,
    DeliveryUnknown,
    MalformedAnswer,
    ProducerFenced,
    error_code,
)
from penstock.client.produce_request import encode_produce, encode_transactional
from penstock.client.versions import TRANSACTIONAL_PRODUCE
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.errors import WireError
from penstock.protocol.messages import decode_response
from penstock.record.batch import SEQUENCE_MODULUS, TRANSACTIONAL, stamp_producer
from penstock.record.build import Record, build_batch

_WRITTEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_STATE_LOST = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
_MAYBE_WRITTEN = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """Sizes and codec. Larger batches cost less per record, on both sides."""

    codec: int = 0
    batch_bytes_max: int = 512 << 10
    """Size before compression; below the 1 MiB that topics accept by default."""

    record_bytes_max: int = 0
    """Largest batch of one record, as it is sent; 0: `batch_bytes_max`. A topic's limit is its
    `max.message.bytes`."""

    buffer_bytes_max: int = 16 << 20
    """`send` blocks to deliver batches when this much is buffered."""

    request_bytes_max: int = 8 << 20
    timeout_ms: int = 30_000
    """How long the broker may wait for its replicas."""

    transactional_id: str | None = None
    """The batches are one transaction of this id. What an earlier producer has left open under it
    is aborted by the first batch, and that producer is fenced."""

    transaction_timeout_ms: int = 15 * 60_000
    """The broker aborts a transaction that is open for longer; Kafka's brokers allow no more than
    15 minutes, if they are not told otherwise."""


class OpenTransaction(NamedTuple):
    """What ends a transaction, in whatever process: its id, and the producer that writes to it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Delivered(NamedTuple):
    """An acknowledged batch: `record_count` records from `base_offset` on (-1 if unknown)."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


@dataclass(slots=True)
class _Batch:
    """A sealed batch; `is_uncertain` after an attempt without a clear answer."""

    data: bytearray
    record_count: int
    is_uncertain: bool = False


@dataclass(slots=True)
class _Lane:
    """The sealed batches of one partition; only the first may be under way."""

    topic: str
    number: int
    next_sequence: int = 0
    batches: deque[_Batch] = field(default_factory=deque)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"


class _StateLost(ClientError):
    """Internal: the broker does not know our sequences any more."""


class Delivery:
    """The sealing and sending half of the producer."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProduceOptions,
        on_delivered: Callable[[Delivered], None] | None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._on_delivered = on_delivered
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._producer_id = self._producer_epoch = -1
        self.waiting_bytes = 0
        self.acknowledged_count = 0

    def seal(self, topic: str, number: int, records: list[Record]) -> None:
        """Build a batch of `records` with the next sequences of the partition, and queue it."""
        if self._producer_id < 0:
            self._begin_producer_id()
        lane = self._lanes.get((topic, number))
        if lane is None:
            lane = self._lanes[topic, number] = _Lane(topic, number)
        attributes = 0 if self._options.transactional_id is None else TRANSACTIONAL
        built = build_batch(records, codec=self._options.codec, attributes=attributes)
        batch = _Batch(bytearray(built), len(records))
        self._number(lane, batch)
        lane.batches.append(batch)
        self.waiting_bytes += len(batch.data)

    @property
    def transaction(self) -> OpenTransaction | None:
        """The transaction that the batches belong to; None before the first one."""
        transactional_id = self._options.transactional_id
        if transactional_id is None or self._producer_id < 0:
            return None
        return OpenTransaction(transactional_id, self._producer_id, self._producer_epoch)

    def deliver(self) -> None:
        """Return when every sealed batch is acknowledged. Raises ClientError kinds."""
        retries = Retries(self._cluster.settings, "producing")
        while waiting := [lane for lane in self._lanes.values() if lane.batches]:
            before = self.acknowledged_count
            error = self._round(waiting)
            if self.acknowledged_count > before:
                retries.restart()
            if error is None:
                continue
            self._pause(retries, error)
            for lane in waiting:
                self._cluster.forget(lane.topic)

    # Sequences

    def _begin_producer_id(self) -> None:
        """Get a new producer id, or the next epoch of the transactional id."""
        name = self._options.transactional_id
        what = "producer id" if name is None else f"producer id of {name}"
        timeout_ms = -1 if name is None else self._options.transaction_timeout_ms
        fields = {"transactional_id": name, "transaction_timeout_ms": timeout_ms}

        def attempt() -> Any:
            cluster = self._cluster
            connection = (
                cluster.any_connection()
                if name is None
                else cluster.coordinator_connection(name, key_type=TRANSACTION_KEY)
            )
            answer = connection.call(ApiKey.INIT_PRODUCER_ID, fields)
            check_code(answer.error_code, what)
            return answer

        answer = self._cluster.retry(what, attempt)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    def _number(self, lane: _Lane, batch: _Batch) -> None:
        """Give a batch the next sequences of its lane."""
        stamp_producer(
            memoryview(batch.data),
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=lane.next_sequence,
        )
        lane.next_sequence = (lane.next_sequence + batch.record_count) % SEQUENCE_MODULUS

    def _begin_anew(self) -> None:
        """Renumber all waiting batches under a new producer id; none may be uncertain."""
        self._begin_producer_id()
        for lane in self._lanes.values():
            lane.next_sequence = 0
            for batch in lane.batches:
                assert not batch.is_uncertain, lane.name
                self._number(lane, batch)

    # Rounds

    def _round(self, waiting: list[_Lane]) -> ClientError | None:
        """Send one request to each leader and receive the answers; return the worst error."""
        asked: list[tuple[Connection, list[_Lane]]] = []
        try:
            return self._ask_and_settle(waiting, asked)
        finally:
            for connection, _ in asked:
                if connection.in_flight_count:  # an exception left an answer behind
                    connection.close()

    def _ask_and_settle(
        self, waiting: list[_Lane], asked: list[tuple[Connection, list[_Lane]]]
    ) -> ClientError | None:
        errors: list[ClientError] = []
        for leader, lanes in self._by_leader(waiting, errors).items():
            try:
                connection = self._cluster.connection(leader)
                version = self._version(connection)
            except ClientError as error:
                errors.append(error)
                continue
            try:
                connection.send(ApiKey.PRODUCE, version, *self._encode(lanes))
                asked.append((connection, lanes))
            except ClientError as error:
                errors.append(_now_uncertain(lanes, error))
        for connection, lanes in asked:
            try:
                answers = self._receive(connection)
            except ClientError as error:
                errors.append(_now_uncertain(lanes, error))
                continue
            settled = [self._settle(lane, answers.get((lane.topic, lane.number))) for lane in lanes]
            errors += [error for error in settled if error is not None]
        return min(errors, key=_mildness, default=None)

    def _by_leader(self, waiting: list[_Lane], errors: list[ClientError]) -> dict[int, list[_Lane]]:
        """Return lanes by leader, up to request_bytes_max; the others follow in the next round."""
        by_leader: dict[int, list[_Lane]] = {}
        sizes: dict[int, int] = {}
        for lane in waiting:
            try:
                leader = self._cluster.leader(lane.topic, lane.number)
            except ClientError as error:
                errors.append(error)
                continue
            size = sizes.get(leader, 0) + len(lane.batches[0].data)
            if leader not in by_leader or size <= self._options.request_bytes_max:
                sizes[leader] = size
                by_leader.setdefault(leader, []).append(lane)
        return by_leader

    def _version(self, connection: Connection) -> int:
        is_transactional = self._options.transactional_id is not None
        return connection.version(
            ApiKey.PRODUCE, TRANSACTIONAL_PRODUCE if is_transactional else None
        )

    def _encode(self, lanes: list[_Lane]) -> list[Buffer]:
        batches = {(lane.topic, lane.number): lane.batches[0].data for lane in lanes}
        name, timeout_ms = self._options.transactional_id, self._options.timeout_ms
        if name is None:
            return encode_produce(batches, timeout_ms)
        return encode_transactional(name, batches, timeout_ms)

    def _receive(self, connection: Connection) -> dict[tuple[str, int], Any]:
        frame, at = connection.receive(wait_ms=self._options.timeout_ms)
        try:
            version = self._version(connection)
            answer = decode_response(ApiKey.PRODUCE, version, frame, at)
        except WireError as error:
            connection.close()
            raise MalformedAnswer(connection.address, str(error)) from error
        return {
            (topic.name, partition.index): partition
            for topic in answer.responses
            for partition in topic.partition_responses
        }

    def _settle(self, lane: _Lane, answer: Any) -> ClientError | None:
        """Apply the broker's answer to the first batch of a lane; return its error, if any."""
        what = f"produce to {lane.name}"
        if answer is None:
            error = BrokerError(ErrorCode.NETWORK_EXCEPTION, what, "left out of the answer")
            return _now_uncertain([lane], error)
        code = error_code(int(answer.error_code))
        if code in _WRITTEN:
            self._acknowledge(lane, answer.base_offset)
            return None
        return self._refused(lane, BrokerError(code, what, getattr(answer, "error_message", None)))

    def _refused(self, lane: _Lane, error: BrokerError) -> ClientError:
        """Return the error that a refusal of the first batch of a lane stands for."""
        code = error.code
        if code in _FENCED:
            return ProducerFenced(lane.topic, lane.number)
        if code in _STATE_LOST and self._options.transactional_id is None:
            if lane.batches[0].is_uncertain:
                return DeliveryUnknown(lane.topic, lane.number, str(error))
            return _StateLost(str(error))
        if code in _MAYBE_WRITTEN:
            return _now_uncertain([lane], error)
        return error

    def _acknowledge(self, lane: _Lane, base_offset: int) -> None:
        batch = lane.batches.popleft()
        self.waiting_bytes -= len(batch.data)
        self.acknowledged_count += batch.record_count
        if self._on_delivered is not None:
            delivered = Delivered(lane.topic, lane.number, base_offset, batch.record_count)
            self._on_delivered(delivered)

    def _pause(self, retries: Retries, error: ClientError) -> None:
        """Wait before the next round, or raise: DeliveryUnknown if a batch is uncertain."""
        uncertain = [
            lane for lane in self._lanes.values() if lane.batches and lane.batches[0].is_uncertain
        ]
        try:
            if isinstance(error, _StateLost):
                retries.pause(error)
                if not uncertain:  # otherwise those are settled first, under the old id
                    self._begin_anew()
            else:
                retries.pause_or_raise(error)
        except ClientError as final:
            if uncertain and may_pass(error):
                first = uncertain[0]
                raise DeliveryUnknown(first.topic, first.number, str(final)) from final
            raise


def _now_uncertain(lanes: list[_Lane], error: ClientError) -> ClientError:
    for lane in lanes:
        lane.batches[0].is_uncertain = True
    return error


def _mildness(error: ClientError) -> int:
    """Sort key: final errors come first, then lost state, then errors that may pass."""
    if isinstance(error, _StateLost):
        return 1
    return 2 if may_pass(error) else 0
