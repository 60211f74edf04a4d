"""What gRPC clients are told of a topic that three nodes lead, by any of them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rocketmq.grpc_protocol import service_pb2 as service

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS
from tests.grpc.receiving import Member, named
from tests.grpc.served import Caller

pytestmark = pytest.mark.process

TOPIC, PARTITIONS = "orders", 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with ClusterProcess(directory, has_grpc=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(UNTIL_SECONDS)
        yield cluster


@pytest.fixture(params=[1, 2, 3])
def caller(cluster: ClusterProcess, request: pytest.FixtureRequest) -> Iterator[Caller]:
    with closing(Caller(f"127.0.0.1:{cluster.grpc_ports[request.param]}")) as caller:
        yield caller


def test_a_route_has_a_queue_0_of_each_node_and_a_queue_of_each_partition(
    cluster: ClusterProcess, caller: Caller
) -> None:
    leaders = [cluster.leader_of(TOPIC, partition) for partition in range(PARTITIONS)]
    assert {*leaders} == {1, 2, 3}
    route = caller.call("QueryRoute", service.QueryRouteRequest(topic=named(TOPIC)))
    told = [(queue.id, queue.broker.name) for queue in route.message_queues]
    assert told == [
        (0 if leader not in leaders[:partition] else partition, f"node-{leader}")
        for partition, leader in enumerate(leaders)
    ]


def test_a_push_consumer_is_to_receive_from_each_of_the_nodes(
    cluster: ClusterProcess, caller: Caller
) -> None:
    answer = Member(caller).assignments(TOPIC)
    told = {
        one.message_queue.broker.name: one.message_queue.broker.endpoints.addresses[0].port
        for one in answer.assignments
    }
    assert len(answer.assignments) == len(told)
    assert told == {f"node-{one}": port for one, port in cluster.grpc_ports.items()}
