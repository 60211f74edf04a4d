"""Produce requests that arrive together: appended and answered as one, each with its own answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.ids import as_brokers
from penstock.kafka.dispatch import Dispatcher
from penstock.kafka.front import KafkaFront
from penstock.kafka.registry import Api
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.header import parse_response_header
from penstock.protocol.messages import decode_response
from penstock.record.batch import read_header
from penstock.record.read import iter_records
from penstock.replication.confirm import Membership
from tests.broker.cluster import APIS, Cluster, Node, fetched, frames_of, produce_fields
from tests.kafka.test_produce_fetch import create, fetch_fields
from tests.live_node import LiveNode, RawClient, running_node

ALONE = Membership(replicas=as_brokers(0, 1, 2), committed=as_brokers(0))
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("events")
    return cluster


def request(
    *values: bytes, topic: str = "events", acks: int = -1, partition: int = 0, **fields: int
) -> dict[str, Any]:
    return produce_fields(topic, values or (b"x",), acks, fields, partition)


def end_offset(node: Node) -> int:
    asked = node.fetch(0)
    node.cluster.world.run()
    return int(fetched(asked).high_watermark)


def test_requests_that_arrive_together_are_taken_at_once_and_answered_in_order(
    cluster: Cluster,
) -> None:
    asked = cluster.nodes[0].produce_together(request(b"a", b"b"), request(b"c"), request(b"d"))
    assert asked.taken == 3
    assert asked.outcomes == [], "before the others have them"
    cluster.replicate()
    assert asked.outcomes == [(0, 0, 0), (1, 0, 2), (2, 0, 3)]
    assert len(asked.wire.answers) == 1
    assert end_offset(cluster.nodes[0]) == 4


def test_acks_one_waits_for_the_masters_own_disk_alone(cluster: Cluster) -> None:
    asked = cluster.nodes[0].produce_together(request(acks=1), request(acks=1))
    assert asked.outcomes == []
    cluster.world.run()
    assert asked.outcomes == [(0, 0, 0), (1, 0, 1)]


def test_a_refused_batch_among_others_gets_its_own_error_and_the_others_are_appended(
    cluster: Cluster,
) -> None:
    broken = request(b"broken")
    records = broken["topic_data"][0]["partition_data"][0]["records"]
    broken["topic_data"][0]["partition_data"][0]["records"] = records[:-1] + b"!"
    absent = request(topic="absent")
    asked = cluster.nodes[0].produce_together(absent, request(), broken, request())
    cluster.replicate()
    assert asked.outcomes == [
        (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (1, 0, 0),
        (2, ErrorCode.CORRUPT_MESSAGE, -1),
        (3, 0, 1),
    ]
    assert end_offset(cluster.nodes[0]) == 2
    refused = cluster.nodes[0].broker.stats.refused_batches
    assert refused == {"UNKNOWN_TOPIC_OR_PARTITION": 1, "CORRUPT_MESSAGE": 1}


def test_requests_that_are_all_refused_are_answered_at_once(cluster: Cluster) -> None:
    asked = cluster.nodes[0].produce_together(request(topic="no"), request(topic="neither"))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asked.outcomes == [(0, unknown, -1), (1, unknown, -1)]


def test_a_master_that_is_replaced_refuses_every_one_of_them(cluster: Cluster) -> None:
    asked = cluster.nodes[0].produce_together(request(), request())
    cluster.lead(1)
    assert asked.outcomes == [(0, NOT_LEADER, -1), (1, NOT_LEADER, -1)]


def test_one_that_is_no_master_refuses_every_one_of_them(cluster: Cluster) -> None:
    asked = cluster.nodes[1].produce_together(request(), request())
    assert [(number, code) for number, code, _ in asked.outcomes] == [
        (0, NOT_LEADER),
        (1, NOT_LEADER),
    ]


def test_what_nobody_confirms_in_time_is_answered_with_a_time_out(cluster: Cluster) -> None:
    asked = cluster.nodes[0].produce_together(request(), request())
    cluster.world.run()
    cluster.world.now_ms += 6_000
    cluster.nodes[0].broker.expire_waiting()
    late = ErrorCode.REQUEST_TIMED_OUT
    assert asked.outcomes == [(0, late, -1), (1, late, -1)]
    cluster.replicate()
    assert len(asked.outcomes) == 2, "answered once"


def test_a_set_that_shrinks_meanwhile_fails_those_whose_topic_wants_more(cluster: Cluster) -> None:
    cluster.create("strict", min_insync_replicas="2")
    node = cluster.nodes[0]
    asked = node.produce_together(request(), request(topic="strict"), request())
    cluster.world.run()
    node.member.change_members(ALONE)
    cluster.world.run()
    too_few = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert [(number, code) for number, code, _ in asked.outcomes] == [(0, 0), (1, too_few), (2, 0)]


def test_a_run_ends_where_another_replica_set_begins() -> None:
    cluster = Cluster(set_count=2)
    cluster.create("wide", partitions=2)
    broker = cluster.nodes[0].broker
    first, second = (broker.partitions.find("wide", at) for at in range(2))
    assert first is not None
    assert second is not None
    assert first.member is not second.member
    parts = [0, 0, 1, 0]
    asked = cluster.nodes[0].produce_together(
        *(request(topic="wide", partition=part) for part in parts)
    )
    assert asked.taken == 2
    for set_id in (0, 1):
        cluster.replicate(set_id=set_id)
    assert asked.outcomes == [(0, 0, 0), (1, 0, 1)]
    assert second.log.log_end_offset == 0, "left to the next"


def test_repeated_batches_of_a_producer_get_their_first_offsets_and_a_gap_is_refused(
    cluster: Cluster,
) -> None:
    def sent(sequence: int) -> dict[str, Any]:
        return request(producer_id=5, producer_epoch=0, base_sequence=sequence)

    asked = cluster.nodes[0].produce_together(sent(0), sent(1), sent(0), sent(7), sent(2))
    cluster.replicate()
    gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert asked.outcomes == [(0, 0, 0), (1, 0, 1), (2, 0, 0), (3, gap, -1), (4, 0, 2)]
    assert end_offset(cluster.nodes[0]) == 3


def test_a_bug_in_a_run_ends_its_connection_and_is_counted(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a bug")

    node = cluster.nodes[0]
    apis: dict[int, Api] = {ApiKey.PRODUCE: APIS[ApiKey.PRODUCE]._replace(handle_run=broken)}
    node._dispatcher = Dispatcher(
        KafkaFront(node.broker, apis, lambda: 7, lambda *_: None, lambda *_: None)
    )
    asked = node.produce_together(request(), request())
    assert asked.wire.closed == "internal error"
    assert node.broker.stats.request_errors == {"unhandled": 1}
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError]


# Over a real connection to a real node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with running_node(tmp_path) as node:
        yield node


def values_of(partition: Any) -> list[bytes | None]:
    """The values of all batches of a fetched partition."""
    rest, values = memoryview(partition.records), []
    while rest:
        size = read_header(rest).size_bytes
        values += [record.value for record in iter_records(rest[:size])]
        rest = rest[size:]
    return values


def numbers_and_offsets(client: RawClient, count: int, version: int) -> list[tuple[int, int]]:
    found = []
    for _ in range(count):
        frame = client.receive_frame()
        number, at = parse_response_header(frame, ApiKey.PRODUCE, version)
        answer = decode_response(ApiKey.PRODUCE, version, frame, at)
        (part,) = answer.responses[0].partition_responses
        assert part.error_code == 0
        found.append((number, part.base_offset))
    return found


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize("acks", [1, -1])
def test_two_hundred_requests_in_one_write_are_answered_in_order(
    node: LiveNode, version: int, acks: int
) -> None:
    create(node, "events")
    client = node.connect()
    requests = [request(b"%d" % number, acks=acks) for number in range(200)]
    client.send_bytes(b"".join(frames_of(requests, version)))
    expected = [(number, number) for number in range(200)]
    assert numbers_and_offsets(client, 200, version) == expected
    counted = node.call(lambda: node.broker.stats.by_api[ApiKey.PRODUCE].requests)
    assert counted == 200
    read = client.ask(ApiKey.FETCH, 11, fetch_fields("events", 0))
    assert values_of(read.responses[0].partitions[0]) == [b"%d" % number for number in range(200)]
    client.close()


def test_what_is_sent_between_them_is_answered_between_them(node: LiveNode) -> None:
    create(node, "events")
    client = node.connect()
    produce = list(frames_of([request(acks=1) for _ in range(6)], 9))
    head = b"\0\x12\0\2\0\0\0\x63\xff\xff"  # ApiVersions v2, correlation id 99
    versions = len(head).to_bytes(4, "big") + head
    client.send_bytes(b"".join([*produce[:3], versions, *produce[3:]]))
    assert numbers_and_offsets(client, 3, 9) == [(0, 0), (1, 1), (2, 2)]
    assert int.from_bytes(client.receive_frame()[:4], "big") == 99
    assert numbers_and_offsets(client, 3, 9) == [(3, 3), (4, 4), (5, 5)]
    client.close()


def test_a_frame_that_is_damaged_ends_the_connection_and_what_came_before_is_kept(
    node: LiveNode,
) -> None:
    create(node, "events")
    client, other = node.connect(), node.connect()
    frames = list(frames_of([request(acks=1) for _ in range(4)], 9))
    cut = bytearray(frames[2])
    cut[12] = 0x70  # a client id that is longer than the frame
    client.send_bytes(b"".join([*frames[:2], cut, frames[3]]))
    while client.receive_frame():
        pass
    read = other.ask(ApiKey.FETCH, 11, fetch_fields("events", 0, max_wait_ms=5000))
    assert read.responses[0].partitions[0].high_watermark == 2
    client.close()
    other.close()


def test_runs_are_the_produce_handlers_own_affair() -> None:
    assert [key for key, api in APIS.items() if api.handle_run] == [ApiKey.PRODUCE]
