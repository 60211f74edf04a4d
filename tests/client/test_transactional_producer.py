"""Transactions of the own producer, ended by somebody else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.ending import end_transactions
from penstock.client.errors import BrokerError, ProducerFenced
from penstock.client.fetch import FetchOptions, PartitionFetcher
from penstock.client.produce import OpenTransaction, ProduceOptions, Producer, now_ms
from penstock.client.produce_request import encode_transactional
from penstock.client.settings import ClientSettings
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import encode_request
from penstock.record.build import Record
from penstock.record.committed import committed_pieces
from penstock.record.read import iter_batches, iter_records
from tests.live_node import LiveNode, running_node


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with running_node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture
def own(live: LiveNode) -> Iterator[Cluster]:
    settings = ClientSettings(bootstrap=f"127.0.0.1:{live.port}", backoff_ms=5)
    with Cluster(settings) as opened:
        yield opened


@pytest.fixture
def topic(own: Cluster, request: pytest.FixtureRequest) -> str:
    name = Path(request.node.name).name.replace("[", "-").replace("]", "")
    Admin(own).create_topic(name, partitions=2)
    return name


def _producer(cluster: Cluster, name: str) -> Producer:
    return Producer(cluster, ProduceOptions(transactional_id=name))


def _write(producer: Producer, topic: str, value: bytes, partition: int = 0) -> OpenTransaction:
    producer.send(topic, Record(None, value, (), now_ms()), partition=partition)
    producer.flush()
    assert producer.transaction is not None
    return producer.transaction


def _committed(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    ends = Admin(cluster).list_offsets(topic, -1, [partition], is_committed_only=True)
    options = FetchOptions(is_committed_only=True)
    runs = PartitionFetcher(
        cluster, topic, partition, start=0, end=ends[partition].offset, options=options
    )
    return [
        record.value
        for run in runs
        for piece in committed_pieces(run.data, run.aborted)
        for header, batch in iter_batches(piece)
        if not header.is_control
        for record in iter_records(batch)
    ]


def _until_decided(cluster: Cluster, topic: str, partition: int = 0) -> None:
    """Read up to the end: a reader of committed records waits for the markers."""
    end = Admin(cluster).list_offsets(topic, -1, [partition])[partition].offset
    options = FetchOptions(is_committed_only=True)
    list(PartitionFetcher(cluster, topic, partition, start=0, end=end, options=options))


def test_records_count_once_their_transaction_is_committed(own: Cluster, topic: str) -> None:
    producer = _producer(own, topic)
    assert producer.transaction is None
    opened = _write(producer, topic, b"a")
    assert _write(producer, topic, b"b", partition=1) == opened
    assert _committed(own, topic) == []
    assert end_transactions(own, [opened], is_commit=True) == {opened: ErrorCode.NONE}
    for partition, value in enumerate((b"a", b"b")):
        _until_decided(own, topic, partition)
        assert _committed(own, topic, partition) == [value]


def test_many_transactions_are_ended_together_and_each_may_be_ended_again(
    own: Cluster, topic: str
) -> None:
    opened = [_write(_producer(own, f"{topic}-{n}"), topic, b"%d" % n) for n in range(40)]
    first, others = opened[:20], opened[20:]
    assert set(end_transactions(own, first, is_commit=True).values()) == {ErrorCode.NONE}
    again = end_transactions(own, opened, is_commit=False)
    assert [again[one] for one in first] == [ErrorCode.INVALID_TXN_STATE] * 20
    assert [again[one] for one in others] == [ErrorCode.NONE] * 20
    assert set(end_transactions(own, first, is_commit=True).values()) == {ErrorCode.NONE}
    _until_decided(own, topic)
    assert _committed(own, topic) == [b"%d" % n for n in range(20)]


def test_who_begins_with_an_id_aborts_what_its_last_producer_has_left(
    own: Cluster, topic: str
) -> None:
    producer = _producer(own, topic)
    left = _write(producer, topic, b"left")
    opened = _write(_producer(own, topic), topic, b"new")
    producer.send(topic, Record(None, b"late", (), now_ms()), partition=0)
    with pytest.raises(ProducerFenced):
        producer.flush()
    codes = end_transactions(own, [left], is_commit=True)
    assert codes == {left: ErrorCode.PRODUCER_FENCED}
    end_transactions(own, [opened], is_commit=True)
    _until_decided(own, topic)
    assert _committed(own, topic) == [b"new"]


def test_a_transaction_that_was_aborted_takes_no_further_records(own: Cluster, topic: str) -> None:
    producer = _producer(own, topic)
    opened = _write(producer, topic, b"a")
    end_transactions(own, [opened], is_commit=False)
    _until_decided(own, topic)  # before its marker is there, a batch belongs to what is aborted
    producer.send(topic, Record(None, b"late", (), now_ms()), partition=0)
    with pytest.raises((ProducerFenced, BrokerError)):
        producer.flush()
    _until_decided(own, topic)
    assert _committed(own, topic) == []


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a", "b", "x" * 130]), st.integers(0, 9)),
        st.binary(min_size=1, max_size=300),
        min_size=1,
    )
)
def test_produce_of_a_transaction_is_encoded_as_by_the_schema(
    batches: dict[tuple[str, int], bytes],
) -> None:
    topics: dict[str, list[dict[str, object]]] = {}
    for (topic, number), data in sorted(batches.items()):
        topics.setdefault(topic, []).append({"index": number, "records": data})
    fields = {
        "transactional_id": "id",
        "acks": -1,
        "timeout": 30_000,
        "topic_data": [{"name": name, "partition_data": rows} for name, rows in topics.items()],
    }
    expected = encode_request(0, 12, fields | {"timeout_ms": 30_000})
    assert b"".join(encode_transactional("id", batches, 30_000)) == expected
