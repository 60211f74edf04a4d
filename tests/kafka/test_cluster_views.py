"""What clients are told of a cluster whose brokers come and go, and elections that they ask for."""

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.base.endpoints import NamedEndpoint
from penstock.base.ids import BrokerId, PeerId, ReplicaSetId, RequestId
from penstock.broker.quorum import Quorum
from penstock.controller.commands.command import EndMastership, FenceBrokers
from penstock.controller.errors import TransferFailed
from penstock.controller.session import ElectRequest, TransferRequest
from penstock.kafka.handlers.cluster import elect_leaders
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.broker.cluster import SET, Cluster, Node, Wire


def three() -> Cluster:
    cluster = Cluster(3)
    cluster.create("events", partitions=2)
    return cluster


def fence(cluster: Cluster, broker_id: int) -> None:
    brokers = cluster.metadata.image.brokers
    brokers[BrokerId(broker_id)] = replace(brokers[BrokerId(broker_id)], is_fenced=True)


def metadata(node: Node) -> Any:
    fields = {"topics": None, "allow_auto_topic_creation": False}
    return node.ask(ApiKey.METADATA, 12, fields)


def test_every_broker_tells_the_same_masters_and_members() -> None:
    cluster = three()
    epoch = cluster.lead(1)
    for node in cluster.nodes:
        answer = metadata(node)
        assert [broker.node_id for broker in answer.brokers] == [0, 1, 2]
        for partition in answer.topics[0].partitions:
            assert (partition.leader_id, partition.leader_epoch) == (1, epoch)
            assert partition.replica_nodes == partition.isr_nodes == (0, 1, 2)
            assert partition.offline_replicas == ()


def test_a_fenced_broker_is_not_named_and_its_partitions_have_no_leader() -> None:
    cluster = three()
    fence(cluster, 0)
    answer = metadata(cluster.nodes[1])
    assert [broker.node_id for broker in answer.brokers] == [1, 2]
    for partition in answer.topics[0].partitions:
        assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, partition.offline_replicas) == (-1, (0,))
    fields = {"topics": [{"name": "events"}], "cursor": None, "response_partition_limit": 9}
    described = cluster.nodes[1].ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, fields)
    first = described.topics[0].partitions[0]
    assert (first.leader_id, first.offline_replicas) == (-1, (0,))


def test_a_broker_that_was_fenced_a_moment_ago_is_named_where_nobody_is_sent_to_it() -> None:
    """Who forgets the brokers that are not named may hang with what waits for them (librdkafka)."""
    cluster = three()
    epoch = cluster.metadata.image.brokers[BrokerId(0)].broker_epoch
    cluster.metadata.submit(FenceBrokers(brokers=((BrokerId(0), epoch),)))
    answer = metadata(cluster.nodes[1])
    assert [broker.node_id for broker in answer.brokers] == [0, 1, 2]
    assert answer.controller_id == 1
    for partition in answer.topics[0].partitions:
        assert (partition.leader_id, partition.offline_replicas) == (-1, (0,))
    fields = {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    described = cluster.nodes[1].ask(ApiKey.DESCRIBE_CLUSTER, 1, fields)
    assert [broker.broker_id for broker in described.brokers] == [1, 2]
    cluster.world.now_ms += cluster.nodes[1].broker.config.fenced_told_ms
    assert [broker.node_id for broker in metadata(cluster.nodes[1]).brokers] == [1, 2]


def with_listener(cluster: Cluster, *broker_ids: int) -> None:
    brokers = cluster.metadata.image.brokers
    for broker_id in broker_ids:
        listeners = (NamedEndpoint("outside", f"outside-{broker_id}", 9100 + broker_id),)
        brokers[BrokerId(broker_id)] = replace(brokers[BrokerId(broker_id)], listeners=listeners)


def test_who_came_in_by_a_listener_is_told_of_brokers_that_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a broker without it leads is there and can not be reached, and says so."""
    cluster = three()
    with_listener(cluster, 1, 2)
    monkeypatch.setattr(Wire, "listener_name", "outside")
    answer = metadata(cluster.nodes[1])
    assert [(broker.host, broker.port) for broker in answer.brokers] == [
        ("outside-1", 9101),
        ("outside-2", 9102),
    ]
    for partition in answer.topics[0].partitions:
        assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.LISTENER_NOT_FOUND)
        assert partition.replica_nodes == (0, 1, 2)
    described = cluster.nodes[1].ask(
        ApiKey.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": False}
    )
    assert [broker.host for broker in described.brokers] == ["outside-1", "outside-2"]
    assert answer.controller_id in {1, 2}


def test_a_hint_at_a_leader_says_where_it_has_the_clients_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = three()
    with_listener(cluster, 1)
    monkeypatch.setattr(Wire, "listener_name", "outside")
    for leader, endpoints in ((1, [("outside-1", 9101)]), (2, [])):
        cluster.lead(leader)
        asked = cluster.nodes[0].produce(b"v")
        cluster.world.run()
        told = [
            (node_endpoint.host, node_endpoint.port)
            for node_endpoint in asked.answer.node_endpoints
        ]
        assert told == endpoints


def test_a_set_without_a_master_keeps_its_members_in_the_answer() -> None:
    cluster = three()
    cluster.metadata.submit(EndMastership(replica_set_id=ReplicaSetId(SET)))
    partition = metadata(cluster.nodes[2]).topics[0].partitions[0]
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.isr_nodes) == (-1, (0, 1, 2))


def test_in_an_image_where_nobody_lives_all_are_named_to_be_tried() -> None:
    cluster = three()
    for broker_id in range(3):
        fence(cluster, broker_id)
    assert [broker.node_id for broker in metadata(cluster.nodes[0]).brokers] == [0, 1, 2]


def test_clients_that_would_hear_of_one_broker_only_hear_of_all_of_them() -> None:
    cluster = three()
    fence(cluster, 0)
    fence(cluster, 1)
    cluster.metadata.image.controller_id = PeerId(0)
    answer = metadata(cluster.nodes[2])
    assert [broker.node_id for broker in answer.brokers] == [0, 1, 2]
    assert answer.controller_id == 2, "administrative requests go to one that lives"


@pytest.mark.parametrize(("active", "told"), [(2, 2), (0, 1), (77, 1), (-1, 1)])
def test_clients_find_a_controller_among_the_live_brokers(active: int, told: int) -> None:
    cluster = three()
    fence(cluster, 0)
    cluster.metadata.image.controller_id = PeerId(active)
    assert metadata(cluster.nodes[1]).controller_id == told
    fields = {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    described = cluster.nodes[1].ask(ApiKey.DESCRIBE_CLUSTER, 1, fields)
    assert described.controller_id == told
    assert [broker.broker_id for broker in described.brokers] == [1, 2]


def test_fenced_brokers_are_told_where_they_are_asked_for() -> None:
    cluster = three()
    fence(cluster, 0)
    told = {}
    for include in (False, True):
        fields = {"include_cluster_authorized_operations": False, "endpoint_type": 1}
        fields |= {"include_fenced_brokers": include}
        answer = cluster.nodes[1].ask(ApiKey.DESCRIBE_CLUSTER, 2, fields)
        told[include] = [(broker.broker_id, broker.is_fenced) for broker in answer.brokers]
    assert told == {
        False: [(1, False), (2, False)],
        True: [(0, True), (1, False), (2, False)],
    }


class Operations:
    """Keeps what was asked for; raises what it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[ElectRequest | TransferRequest] = []
        self._error = error

    async def operate(self, make: Callable[[int], ElectRequest | TransferRequest]) -> str:
        self.asked.append(make(len(self.asked)))
        if self._error is not None:
            raise self._error
        return "done"

    async def quorum(self) -> Quorum:
        raise AssertionError("nobody asks for it here")

    async def change_feature(
        self, feature: str, level: int, *, is_lowering: bool, is_trial: bool
    ) -> None:
        raise AssertionError("nobody asks for it here")


def elect(node: Node, kind: int, partitions: list[int] | None, topic: str = "events") -> Any:
    named = None if partitions is None else [{"topic": topic, "partitions": partitions}]
    timeout = datetime.timedelta(seconds=5)
    fields = {"election_type": kind, "topic_partitions": named, "timeout": timeout}
    answer = node.ask(ApiKey.ELECT_LEADERS, 2, fields)
    return [
        (topic.topic, one.partition_id, one.error_code)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    ]


def test_a_mastership_goes_home_once_for_all_partitions_of_its_set() -> None:
    cluster = three()
    cluster.lead(1)
    operations = Operations()
    cluster.nodes[2].broker.operations = operations
    assert elect(cluster.nodes[2], 0, [0, 1, 1]) == [("events", 0, 0), ("events", 1, 0)]
    assert operations.asked == [
        TransferRequest(request_id=RequestId(0), replica_set_id=ReplicaSetId(SET))
    ]


def test_a_mastership_that_is_at_home_stays() -> None:
    cluster = three()
    operations = Operations()
    cluster.nodes[0].broker.operations = operations
    not_needed = ErrorCode.ELECTION_NOT_NEEDED
    assert elect(cluster.nodes[0], 0, [0]) == [("events", 0, not_needed)]
    assert elect(cluster.nodes[0], 1, [0]) == [("events", 0, not_needed)]
    assert elect(cluster.nodes[0], 0, None) == []
    assert operations.asked == []


def test_a_topic_that_is_deleted_amid_elections_for_all_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = three()
    cluster.lead(1)
    cluster.nodes[1].broker.operations = Operations()
    monkeypatch.setattr(elect_leaders, "find_topic", lambda *_: None)
    assert elect(cluster.nodes[1], 0, None) == []
    assert elect(cluster.nodes[1], 0, [0]) == [("events", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_a_preferred_master_that_is_dead_is_not_elected() -> None:
    cluster = three()
    cluster.lead(1)
    fence(cluster, 0)
    not_available = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(cluster.nodes[1], 0, [0]) == [("events", 0, not_available)]


def test_an_unclean_election_is_for_sets_without_a_master() -> None:
    cluster = three()
    operations = Operations()
    cluster.nodes[1].broker.operations = operations
    fence(cluster, 0)
    assert elect(cluster.nodes[1], 1, None) == [("events", 0, 0), ("events", 1, 0)]
    (asked,) = operations.asked
    assert isinstance(asked, ElectRequest)
    assert asked.is_unclean


def test_refusals_of_the_controller_are_told_for_each_partition() -> None:
    cluster = three()
    cluster.lead(1)
    cluster.nodes[1].broker.operations = Operations(TransferFailed(ReplicaSetId(SET), "it lags"))
    not_available = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(cluster.nodes[1], 0, [0, 9]) == [
        ("events", 0, not_available),
        ("events", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_node_without_controllers_elects_nobody() -> None:
    cluster = three()
    cluster.lead(1)
    assert elect(cluster.nodes[0], 0, [0]) == [("events", 0, ErrorCode.NOT_CONTROLLER)]
