"""Predicted fetches that were not read yet: one for each partition, however many are answered."""

import pytest

from harness.log_world import World
from penstock.broker.fetch.read_ahead import DUE_MAX
from penstock.protocol.api_keys import ApiKey
from tests.broker.cluster import Asked, Cluster, Node, batch


def one_iteration(world: World) -> None:
    """Run what an event loop runs in one: what is scheduled meanwhile waits for the next."""
    for _ in range(len(world.soon)):
        handle = world.soon.popleft()
        if handle.callback is not None:
            handle.callback()
    while world.work:
        world.work_one()


def write(node: Node, partition: int) -> None:
    data = [{"index": partition, "records": batch(b"x" * 40)}]
    topics = [{"name": "events", "partition_data": data}]
    fields = {"transactional_id": None, "acks": 1, "timeout_ms": 5000, "topic_data": topics}
    node.send(ApiKey.PRODUCE, 11, fields)


def ask(node: Node, partition: int, offset: int) -> Asked:
    """Fetch about one batch, as a consumer that is behind."""
    wanted = {
        "partition": partition, "fetch_offset": offset, "partition_max_bytes": 200,
        "log_start_offset": -1, "current_leader_epoch": -1, "last_fetched_epoch": -1,
    }  # fmt: skip
    fields = {
        "replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 200, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "",
        "topics": [{"topic": "events", "partitions": [wanted]}],
    }  # fmt: skip
    return node.send(ApiKey.FETCH, 11, fields)


@pytest.mark.parametrize("consumers", [10, DUE_MAX + 10])
def test_predicted_fetches_of_consumers_that_are_behind_do_not_add_up(consumers: int) -> None:
    cluster = Cluster(1)
    cluster.create("events", partitions=consumers)
    node, world = cluster.nodes[0], cluster.world
    for number in range(consumers):
        for _ in range(20):
            write(node, number)
            world.run()
    for offset in range(15):
        asked = [ask(node, number, offset) for number in range(consumers)]
        one_iteration(world)
        for one in asked:
            (partition,) = one.answer.responses[0].partitions
            assert partition.error_code == 0
            assert partition.records
    iterations = 0
    while world.soon:
        one_iteration(world)
        iterations += 1
    assert iterations <= min(consumers, DUE_MAX) + 1
