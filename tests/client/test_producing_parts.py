"""Parts of producer and consumer without brokers: sequences, deadlines, sums and positions."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client import cluster
from penstock.client.consume import RecordStream
from penstock.client.delivery import Delivery, ProduceOptions
from penstock.client.errors import BrokerError, RequestTimedOut
from penstock.client.fetch import FetchedPartition
from penstock.client.produce import Producer
from penstock.client.settings import ClientSettings
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch

RECORD = Record(None, b"x" * 100)


class Brokers:
    """What a producer asks of a cluster, of a topic with two partitions."""

    def __init__(self, **settings: Any) -> None:
        self.settings = ClientSettings(bootstrap="127.0.0.1:1", **settings)
        self.producer_id = 0

    def retry(self, what: str, attempt: Any) -> Any:
        self.producer_id += 1
        return SimpleNamespace(producer_id=self.producer_id, producer_epoch=0)

    def topic(self, name: str, *, create: bool = False) -> Any:
        return SimpleNamespace(partitions=(0, 1))

    def partition(self, topic: str, number: int) -> None: ...

    def forget(self, topic: str) -> None: ...


def delivery(**settings: int) -> Delivery:
    return Delivery(Brokers(**settings), ProduceOptions(), None)  # type: ignore[arg-type]


def sequences(made: Delivery) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Producer id and sequence of the batches that wait, by partition."""
    headers = {
        key: [read_header(memoryview(one.data)) for one in lane.batches]
        for key, lane in made._lanes.items()
    }
    return {
        key: [(one.producer_id, one.base_sequence) for one in some] for key, some in headers.items()
    }


def test_under_a_new_producer_id_every_partition_begins_at_nothing_also_an_idle_one() -> None:
    made = delivery()
    for number in (0, 1):
        made.seal("t", number, [RECORD] * 3)
    made._acknowledge(made._lanes["t", 0], 0)
    made._begin_anew()
    for number in (0, 1):
        made.seal("t", number, [RECORD])
    assert sequences(made) == {("t", 0): [(2, 0)], ("t", 1): [(2, 0), (2, 3)]}


class Clock:
    """Time that passes while somebody sleeps, and else stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_what_was_acknowledged_long_ago_does_not_put_off_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "time", Clock())
    made = delivery(deadline_ms=1_000, backoff_ms=10, backoff_ms_max=20)
    for number in (0, 1):
        made.seal("t", number, [RECORD])
    rounds = []

    def refused(waiting: list[Any]) -> BrokerError:
        rounds.append(len(waiting))
        assert len(rounds) < 1_000, "it never gives up"
        if len(waiting) == 2:
            made._acknowledge(waiting[0], 0)
        return BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "t")

    made._round = refused  # type: ignore[method-assign]
    with pytest.raises(RequestTimedOut):
        made.deliver()
    assert rounds[:2] == [2, 1]


def test_what_is_sealed_is_not_counted_as_gathered_any_more() -> None:
    producer = Producer(Brokers(), ProduceOptions(buffer_bytes_max=20_000))  # type: ignore[arg-type]
    made, deliveries = producer._delivery, []

    def deliver() -> None:
        deliveries.append(made.waiting_bytes)
        for lane in made._lanes.values():
            while lane.batches:
                made._acknowledge(lane, 0)

    made.deliver = deliver  # type: ignore[method-assign]
    for number in range(1_000):
        producer.send("t", RECORD, partition=number % 2)
    producer.flush()
    assert (producer._gathered_bytes, made.waiting_bytes) == (0, 0)
    assert producer.acknowledged_count == 1_000
    assert len(deliveries) < 10, "of some 130,000 bytes"


def test_a_position_is_behind_the_record_that_was_handed_out_last() -> None:
    stream = RecordStream(Brokers(), {("t", 0): 0})  # type: ignore[arg-type]
    data = memoryview(build_batch([RECORD] * 3))
    fetched = FetchedPartition("t", 0, ErrorCode.NONE, 3, 0, data)
    for offset, _ in enumerate(stream._records(fetched)):
        assert stream.positions == {("t", 0): offset + 1}
    assert stream.positions == {("t", 0): 3}


def test_a_stream_wants_nothing_of_partitions_that_are_at_their_end() -> None:
    positions = {("t", 0): 3, ("t", 1): 2, ("t", 2): 4, ("t", 3): 0}
    stream = RecordStream(
        Brokers(),  # type: ignore[arg-type]
        positions,
        ends={("t", 0): 3, ("t", 1): 3, ("t", 2): 3},
    )
    assert stream._wanted() == [("t", 1)]
