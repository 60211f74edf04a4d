"""A master that can not know whether it still is one gives nothing to consumers."""

from typing import Any

from penstock.base.ids import LeaderEpoch
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.kafka.fetch.session import SessionPartition
from penstock.protocol.error_codes import ErrorCode
from penstock.replication.errors import NotMaster
from tests.broker.cluster import Cluster, fetched, produced


def test_a_fetch_at_a_master_that_was_cut_off_is_refused_until_it_hears_of_the_others() -> None:
    cluster = Cluster(3)
    cluster.create("events")
    cluster.nodes[0].produce(b"x")
    cluster.replicate()
    master = cluster.nodes[0].member
    assert fetched(cluster.nodes[0].fetch(0)).error_code == 0
    master.may_read = lambda: False
    answer = fetched(cluster.nodes[0].fetch(0))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not answer.records
    master.may_read = lambda: True
    assert fetched(cluster.nodes[0].fetch(0)).records


def test_a_fetch_of_two_sets_asks_for_each_whether_its_master_still_is_one() -> None:
    clusters = [Cluster(3), Cluster(3)]
    reads = []
    for cluster in clusters:
        cluster.create("events")
        cluster.nodes[0].produce(b"x")
        cluster.replicate()
        hosted = cluster.nodes[0].broker.partitions.find("events", 0)
        wanted = SessionPartition((b"events", 0), 0, 1 << 20, LeaderEpoch(-1), LeaderEpoch(-1))
        reads += [PartitionRead(wanted, hosted), PartitionRead(wanted, hosted)]
    clusters[1].nodes[0].member.may_read = lambda: False
    broker = clusters[0].nodes[0].broker
    answers: list[Any] = []
    limits = {"min_bytes": 1, "max_bytes": 1 << 20}
    FetchOperation(broker, reads, on_done=answers.append, consumer=Consumer(), **limits).start(0)
    assert [(type(read.error), read.size > 0) for read in answers[0]] == [
        (type(None), True),
        (type(None), True),
        (NotMaster, False),
        (NotMaster, False),
    ]


def test_a_producer_is_not_ended_by_a_master_that_does_not_know_of_its_successor() -> None:
    """Its next batch may follow one that only the successor has; aiokafka gives up for good."""
    cluster = Cluster(3)
    cluster.create("events")
    master = cluster.nodes[0]
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1}
    first = master.produce(b"x", base_sequence=0, **producer)
    cluster.replicate()
    assert produced(first).error_code == 0
    master.member.may_read = lambda: False
    for wrong in (
        {"base_sequence": 5, **producer},
        {"base_sequence": 0, **producer, "producer_epoch": 0},
    ):
        answer = produced(master.produce(b"y", **wrong))
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    master.member.may_read = lambda: True
    answer = produced(master.produce(b"y", base_sequence=5, **producer))
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
