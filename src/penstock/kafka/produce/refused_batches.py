"""Temporary refusals of idempotent producers' batches: later batches get the same refusal.

    R1 refused: not master ─► becomes master ─► R2 arrives: there is a gap before it
                                                 └─► refused like R1, and not as out of order

A producer has several requests in flight. When the first is refused for a temporary reason, the
next may arrive when that is over. The gap before it is no loss: R1 is retried, then R2. After an
out-of-order error, librdkafka would begin a new epoch, in which it sends everything again that was
not certainly acknowledged; what one broker had written would be duplicated.

The first batches of a producer are the same, though no gap is seen there: a partition without its
state takes any sequence, as states are forgotten. R2 taken would keep R1 out for ever.

One refusal is kept for each producer of a partition, for as long as clients wait for an answer.
Only a gap that it explains is answered with it: the refused batch must begin within the gap.

Source: librdkafka issue 4953; Kafka's Java producer, which retries R2 after any error while R1 is
in flight; KAFKA-15591. Departures: Kafka answers R2 with OUT_OF_ORDER_SEQUENCE_NUMBER, and without
state only where the partition never had a record. ADR 0024.
"""

from collections import OrderedDict
from struct import Struct
from typing import NamedTuple, TypeAlias

from penstock.base.errors import PlatformError
from penstock.base.ids import ProducerEpoch
from penstock.base.ports import Clock
from penstock.controller.commands.topic_names import TOPIC_NAME_CHARACTERS_MAX
from penstock.kafka.error_map import error_code_of
from penstock.protocol.error_codes import ErrorCode
from penstock.storage.errors import OutOfOrderSequence
from penstock.storage.index.producers import SEQUENCE_MAX, ProducerTable

KEPT_MAX = 10_000
KEPT_MS = 30_000
"""Default time-out of clients for an answer: no request is in flight for longer."""
GAP_MAX = 1 << 30
"""Sequences wrap around: one that is further ahead than this is behind."""
_PRODUCER_AT = 43
_PRODUCER = Struct(">qhi")
"""Producer id, epoch and base sequence, as encoded in a batch."""
_PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Refusals after which every client retries the same batch. The last is told in version 2 of
transactions, when the end of the producer's last one is still on its way."""

_Key: TypeAlias = tuple[bytes, int, int]
"""(topic name or id, partition, producer id)"""


class Refusal(NamedTuple):
    """The error and text of an answer."""

    code: ErrorCode
    text: str


class _Kept(NamedTuple):
    refusal: Refusal
    producer_epoch: ProducerEpoch
    base_sequence: int
    until_ms: int


class RefusedBatches:
    """The newest refusal of each producer and partition; the oldest are evicted."""

    __slots__ = ("_clock", "kept")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.kept: OrderedDict[_Key, _Kept] = OrderedDict()
        """While it is empty there is nothing for `check_first` to check."""

    def refuse(
        self, topic: bytes, partition: int, batch: memoryview, error: PlatformError
    ) -> Refusal:
        """Return the answer for a batch that cannot be appended because of `error`.

        `batch` may be any bytes. Exceptions are not kept, as they would keep the request in memory.
        """
        refusal = Refusal(error_code_of(error), str(error))
        if len(batch) < _PRODUCER_AT + _PRODUCER.size:
            return refusal
        producer_id, epoch, sequence = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
        if producer_id < 0 or len(topic) > TOPIC_NAME_CHARACTERS_MAX:
            return refusal  # the topic does not exist, and its name is long
        key = (topic, partition, producer_id)
        if refusal.code in _PASSING:
            self._keep(key, _Kept(refusal, epoch, sequence, self._now_ms() + KEPT_MS))
        elif isinstance(error, OutOfOrderSequence):
            earlier = self.kept.get(key)
            if earlier is not None and self._explains(earlier, epoch, error):
                self._keep(key, earlier._replace(base_sequence=sequence))
                return earlier.refusal
        return refusal

    def check_first(
        self, topic: bytes, partition: int, batch: memoryview, producers: ProducerTable
    ) -> None:
        """Check that the first batch of a producer has not overtaken one that was refused.

        Raises OutOfOrderSequence, which `refuse` explains.
        """
        if len(batch) < _PRODUCER_AT + _PRODUCER.size:
            return
        producer_id, epoch, sequence = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
        earlier = self.kept.get((topic, partition, producer_id))
        if earlier is None or producers.known(producer_id) is not None:
            return
        error = OutOfOrderSequence(producer_id, sequence, earlier.base_sequence)
        if self._explains(earlier, epoch, error):
            raise error

    def _explains(self, earlier: _Kept, epoch: int, error: OutOfOrderSequence) -> bool:
        """Whether the refused batch begins in the gap; a new epoch begins at sequence 0."""
        gap = (error.base_sequence - error.expected) & SEQUENCE_MAX
        before = (earlier.base_sequence - error.expected) & SEQUENCE_MAX
        is_same = earlier.producer_epoch == epoch and self._now_ms() <= earlier.until_ms
        return is_same and before < gap < GAP_MAX

    def _keep(self, key: _Key, kept: _Kept) -> None:
        """Keep a refusal; one that another explains expires with that one, to bound the chain."""
        self.kept[key] = kept
        self.kept.move_to_end(key)
        if len(self.kept) > KEPT_MAX:
            self.kept.popitem(last=False)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()
