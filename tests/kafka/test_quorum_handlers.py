"""DescribeQuorum and UnregisterBroker, against a real node alone and by what a leader tells."""

import json
import uuid
from typing import Any, cast

import pytest

from penstock.kafka.handlers.cluster.describe_quorum import NAMED_MAX, _fields
from penstock.node.metadata_commands import read_quorum
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.live_node import RawClient

METADATA = "__cluster_metadata"


def describe(client: RawClient, version: int, *asked: tuple[str, list[int]]) -> Any:
    topics = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": partition} for partition in partitions],
        }
        for name, partitions in asked
    ]
    return client.ask(ApiKey.DESCRIBE_QUORUM, version, {"topics": topics})


@pytest.mark.parametrize("version", range(3))
def test_a_node_alone_is_the_only_voter_and_has_all(client: RawClient, version: int) -> None:
    answer = describe(client, version, (METADATA, [0]))
    assert answer.error_code == Code.NONE
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert (topic.topic_name, partition.error_code) == (METADATA, Code.NONE)
    assert (partition.leader_id, partition.observers) == (1, ())
    assert partition.leader_epoch > 0
    (voter,) = partition.current_voters
    assert voter.replica_id == 1
    assert voter.log_end_offset >= partition.high_watermark > 0
    if version >= 1:
        assert voter.last_fetch_timestamp == -1
        assert voter.last_caught_up_timestamp > 1_600_000_000_000
    if version == 2:
        assert voter.replica_directory_id is not None
        assert answer.nodes == (), "nobody dials a controller that is alone"


def test_the_high_watermark_grows_with_each_change(client: RawClient) -> None:
    def agreed() -> int:
        answer = describe(client, 1, (METADATA, [0]))
        return int(answer.topics[0].partitions[0].high_watermark)

    before = agreed()
    topic = {"name": "quorum-grows", "num_partitions": 1, "replication_factor": 1}
    topic |= {"assignments": [], "configs": []}
    client.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout_ms": 5000})
    assert agreed() > before


@pytest.mark.parametrize(
    "asked",
    [
        ((METADATA, [1]),),
        ((METADATA, [0, 1]),),
        ((METADATA, [0]), ("events", [0])),
        (("events", [0]),),
        (),
        ((METADATA, []),),
    ],
)
def test_any_other_partition_is_unknown(
    client: RawClient, asked: tuple[tuple[str, list[int]], ...]
) -> None:
    answer = describe(client, 2, *asked)
    assert answer.error_code == Code.NONE
    codes = [
        (
            topic.topic_name,
            [(partition.partition_index, partition.error_code) for partition in topic.partitions],
        )
        for topic in answer.topics
    ]
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [(name, [(one, unknown) for one in named]) for name, named in asked]


@pytest.mark.parametrize("partitions", [100, 50_000])
def test_a_list_that_can_only_be_wrong_is_refused_as_a_whole(
    client: RawClient, partitions: int
) -> None:
    answer = describe(client, 2, (METADATA, list(range(partitions))))
    assert (answer.error_code, answer.topics) == (Code.INVALID_REQUEST, ())


def peer(peer_id: int, **fields: object) -> dict[str, object]:
    base = {"peer_id": peer_id, "address": f"host-{peer_id}:9", "is_voter": True}
    known = {"directory_id": "", "state": "follows", "match_index": 7, "silent_ms": 20}
    return base | known | fields


def told(*peers: dict[str, object], **fields: object) -> dict[str, Any]:
    text = json.dumps({"leader_id": 1, "term": 3, "commit_index": 7, "peers": peers} | fields)
    (topic,) = cast("list[dict[str, Any]]", _fields(read_quorum(text), 1_000)["topics"])
    partition: dict[str, Any] = topic["partitions"][0]
    return partition


def test_lag_and_times_of_those_that_follow_are_told() -> None:
    partition = told(
        peer(1, state="leader", match_index=9, silent_ms=0),
        peer(2),
        peer(3, match_index=4, silent_ms=500),
        peer(4, address="", is_voter=False),
        peer(5, state="vacant", is_voter=False),
    )
    assert (partition["leader_id"], partition["high_watermark"]) == (1, 7)
    shown = {
        one["replica_id"]: (
            one["log_end_offset"],
            one["last_fetch_timestamp"],
            one["last_caught_up_timestamp"],
        )
        for one in partition["current_voters"]
    }
    assert shown == {1: (9, -1, 1_000), 2: (7, 980, 980), 3: (4, 500, -1)}
    assert [one["replica_id"] for one in partition["observers"]] == [4]


def test_addresses_of_voters_are_told() -> None:
    text = {"leader_id": 1, "term": 3, "commit_index": 7, "peers": [peer(1), peer(2)]}
    nodes: Any = _fields(read_quorum(json.dumps(text)), 0)["nodes"]
    assert [(node["node_id"], node["listeners"]) for node in nodes] == [
        (1, [{"name": "CONTROLLER", "host": "host-1", "port": 9}]),
        (2, [{"name": "CONTROLLER", "host": "host-2", "port": 9}]),
    ]


def test_what_a_controller_that_does_not_lead_can_not_know_is_minus_one() -> None:
    unknown: dict[str, object] = {"state": "unknown", "match_index": -1, "silent_ms": -1}
    partition = told(*(peer(one, **unknown) for one in (1, 2)), leader_id=2)
    assert partition["high_watermark"] == 7
    assert {one["log_end_offset"] for one in partition["current_voters"]} == {-1}
    followers = [one for one in partition["current_voters"] if one["replica_id"] != 2]
    assert [follower["last_fetch_timestamp"] for follower in followers] == [-1]
    assert [follower["last_caught_up_timestamp"] for follower in followers] == [-1]


def test_directory_ids_are_kafkas() -> None:
    partition = told(peer(1, directory_id="AAAAAAAAAAAAAAAAAAAABw"), peer(2, directory_id="?"))
    ids = [one["replica_directory_id"] for one in partition["current_voters"]]
    assert ids == [uuid.UUID(int=7), None]


def test_only_a_broker_that_is_known_and_carries_nothing_is_forgotten(client: RawClient) -> None:
    unknown = client.ask(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 77})
    assert unknown.error_code == Code.BROKER_ID_NOT_REGISTERED
    carries = client.ask(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 1})
    assert carries.error_code == Code.INVALID_REQUEST
    assert "penstock set remove" in carries.error_message


def test_what_is_no_metadata_is_counted_to_the_end(client: RawClient) -> None:
    """Behind 100 topics without a partition stood as many as a frame has room for."""
    asked: list[tuple[str, list[int]]] = [("absent", [])] * NAMED_MAX
    assert len(describe(client, 2, *asked).topics) == NAMED_MAX
    for more in ([], list(range(5_000))):
        answer = describe(client, 2, *asked, ("hidden", more))
        assert (answer.error_code, answer.topics) == (Code.INVALID_REQUEST, ())
