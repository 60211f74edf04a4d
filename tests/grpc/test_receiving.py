"""ReceiveMessage, AckMessage and what else consumers ask: what a node answers."""

import hashlib
import time
from typing import Any

import pytest
from confluent_kafka import Producer
from google.protobuf.timestamp_pb2 import Timestamp
from rocketmq.grpc_protocol import definition_pb2 as definition

from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.grpc.consuming.consumers import HEARD_MS
from penstock.grpc.consuming.receipts import read_receipt, write_receipt
from tests.grpc.receiving import OK, Member, duration, send
from tests.grpc.served import message
from tests.live_node import UNTIL_SECONDS, LiveNode

PARTITIONS = 3


def test_what_is_received_and_acknowledged_does_not_come_again(one, other, caller, topic) -> None:
    send(caller, topic, "a", "b", "c", queue=1)
    received = one.receive(topic)
    assert received.bodies == ["a", "b", "c"]
    assert other.receive(topic, 0).code == definition.MESSAGE_NOT_FOUND, "invisible"
    answer = other.ack(topic, *received.handles)
    assert answer.status.code == OK, "by any client of the group"
    assert [entry.status.code for entry in answer.entries] == [OK] * 3
    assert [entry.message_id for entry in answer.entries] == ["id-0", "id-1", "id-2"]
    assert [entry.receipt_handle for entry in answer.entries] == received.handles
    assert one.change(topic, received.handles[0], 0).status.code != OK
    assert one.receive(topic, 0).messages == []


def test_a_message_comes_with_all_its_parts(one, caller, node, topic) -> None:
    sent = message(
        topic,
        b"hello" * 100,
        tag="fresh",
        keys=["k1", "k2"],
        message_group="orders-7",
        message_type=definition.FIFO,
        born_timestamp=Timestamp(seconds=1_700_000_000, nanos=123_000_000),
        trace_context="trace",
        properties={"colour": "grün", "long": "x" * 300},
    )
    assert caller.send(sent).status.code == OK
    (got,) = one.receive(topic).messages
    assert (got.topic.name, got.body) == (topic, sent.body)
    assert dict(got.user_properties) == {
        "colour": "grün",
        "long": "x" * 300,
        "__SHARDINGKEY": "orders-7",
    }
    system = got.system_properties
    assert (system.tag, list(system.keys)) == ("fresh", ["k1", "k2"])
    assert system.message_id == sent.system_properties.message_id
    digest = hashlib.md5(sent.body, usedforsecurity=False).hexdigest().upper()
    assert (system.body_digest.type, system.body_digest.checksum) == (definition.MD5, digest)
    assert system.body_encoding == definition.IDENTITY
    assert (system.message_type, system.message_group) == (definition.FIFO, "orders-7")
    assert system.born_timestamp == Timestamp(seconds=1_700_000_000, nanos=123_000_000)
    assert system.store_timestamp == system.born_timestamp, "the record has one time"
    assert system.born_host == "127.0.0.1:0"
    assert system.store_host == node_address(node)
    assert (system.trace_context, system.queue_offset) == ("trace", 0)
    assert (system.delivery_attempt, system.invisible_duration.seconds) == (1, 600)
    assert 0 <= system.queue_id < PARTITIONS


def node_address(node: LiveNode) -> str:
    (found,) = node.broker.metadata.brokers.values()
    host, port = found.endpoint("grpc") or ("", 0)
    return f"{host}:{port}"


def test_a_record_of_a_kafka_producer_is_a_message(one, node, topic) -> None:
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}"})
    producer.produce(topic, b"plain", key=b"k", headers=[("a", b"1"), ("raw", b"\xff")])
    producer.produce(topic, None, key=b"gone", timestamp=7)
    producer.flush()
    got: dict[bytes, Any] = {}
    while len(got) < 2:
        got |= {bytes(m.body): m for m in one.receive(topic).messages}
    plain, gone = got[b"plain"], got[b""]
    assert dict(plain.user_properties) == {"a": "1", "raw.b64": "/w==", "__SHARDINGKEY": "k"}
    assert len(plain.system_properties.message_id) == 32
    assert list(plain.system_properties.keys) == ["k"]
    assert gone.user_properties["KAFKA_NULL"] == "1"
    assert gone.system_properties.born_timestamp == Timestamp(nanos=7_000_000)


def test_what_is_not_acknowledged_comes_again_with_one_more_attempt(one, caller, topic) -> None:
    send(caller, topic, "a")
    first = one.receive(topic)
    assert one.change(topic, first.handles[0], 0).status.code == OK
    again = one.receive(topic)
    assert [m.system_properties.delivery_attempt for m in again.messages] == [2]
    late = one.ack(topic, first.handles[0])
    assert late.status.code == definition.INVALID_RECEIPT_HANDLE
    assert one.ack(topic, again.handles[0]).status.code == OK
    assert one.ack(topic, again.handles[0]).status.code == OK, "over already"


def test_a_changed_message_has_another_receipt(one, caller, topic) -> None:
    send(caller, topic, "a")
    first = one.receive(topic).handles[0]
    changed = one.change(topic, first, 300)
    assert changed.status.code == OK
    assert changed.receipt_handle != first
    assert one.ack(topic, first).status.code == definition.INVALID_RECEIPT_HANDLE
    assert one.ack(topic, changed.receipt_handle).status.code == OK


def test_a_receive_waits_for_a_message_of_any_queue(node, one, caller, topic) -> None:
    stream = one.begin(topic)
    pops = desk_of(node).pops
    assert wait_until(lambda: pops.waiting == 1, UNTIL_SECONDS)
    begun_ms = int(time.time() * 1_000)
    send(caller, topic, "late", queue=2)
    answer = list(stream)
    kinds = [response.WhichOneof("content") for response in answer]
    assert kinds == ["status", "message", "delivery_timestamp"]
    assert begun_ms <= answer[-1].delivery_timestamp.ToMilliseconds() <= time.time() * 1_000
    assert wait_until(lambda: pops.waiting == 0, UNTIL_SECONDS)


def desk_of(node: LiveNode) -> Any:
    return front_of(node).desk


def front_of(node: LiveNode) -> Any:
    port = node.node._rocketmq.grpc
    assert port is not None
    return port.front


def test_a_client_that_goes_while_it_waits_takes_nothing(node, one, caller, topic) -> None:
    stream = one.begin(topic)
    pops = desk_of(node).pops
    assert wait_until(lambda: pops.waiting == 1, UNTIL_SECONDS)
    stream.cancel()
    send(caller, topic, "a")
    assert wait_until(lambda: pops.waiting == 0, UNTIL_SECONDS)
    (got,) = one.receive(topic).messages
    assert got.system_properties.delivery_attempt == 1
    assert node.until(lambda: front_of(node).read_bytes == 0)


def test_a_call_that_waits_ends_before_its_deadline(
    one, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second before it; here a minute, which an answer never takes."""
    before = "penstock.grpc.methods.receive_message._BEFORE_DEADLINE_MS"
    monkeypatch.setattr(before, 60_000)
    # Each call tells the node what is left of its time as it leaves: there is a connection by now.
    assert one.receive(topic, wait=0).code == definition.MESSAGE_NOT_FOUND
    answer = list(one.caller.call("ReceiveMessage", one.asked(topic), timeout=62))
    assert [one.status.code for one in answer] == [definition.MESSAGE_NOT_FOUND]
    answer = list(one.caller.call("ReceiveMessage", one.asked(topic), timeout=50))
    assert [one.status.code for one in answer] == [definition.ILLEGAL_POLLING_TIME]


def test_who_finds_no_place_to_wait_is_told_so_and_gets_what_is_there(
    one, caller, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(caller, topic, "first", queue=1)
    assert one.receive(topic).bodies == ["first"], "the queues are known to the group"
    monkeypatch.setattr("penstock.grpc.methods.receive_message.WAITING_MAX", 0)
    assert one.receive(topic).code == definition.TOO_MANY_REQUESTS
    send(caller, topic, "a", queue=1)
    assert one.receive(topic).bodies == ["a"]


def test_a_batch_has_as_many_as_are_asked_for_and_32_at_most(one, caller, topic) -> None:
    send(caller, topic, *map(str, range(40)), queue=1)
    assert len(one.receive(topic, batch_size=3).messages) == 3
    assert len(one.receive(topic, batch_size=500).messages) == 32
    assert len(one.receive(topic, batch_size=0).messages) == 1


@pytest.mark.parametrize(
    ("kind", "expression"),
    [(definition.TAG, "red || green"), (definition.SQL, "TAGS IN ('red', 'green') AND size > 1")],
)
def test_only_what_is_wanted_comes_and_the_rest_is_over(
    one, other, caller, topic, kind: int, expression: str
) -> None:
    for body, tag in (("a", "red"), ("b", "blue"), ("c", "green")):
        send(caller, topic, body, queue=1, tag=tag, properties={"size": "2"})
    wanted = definition.FilterExpression(type=kind, expression=expression)
    received = one.receive(topic, filter_expression=wanted)
    assert received.bodies == ["a", "c"]
    assert one.ack(topic, *received.handles).status.code == OK
    assert other.receive(topic, 0).code == definition.MESSAGE_NOT_FOUND


def test_one_entry_that_does_not_hold_takes_nothing_from_the_others(one, caller, topic) -> None:
    send(caller, topic, "a", "b", queue=1)
    first, second = one.receive(topic).handles
    partition, offset, number = read_receipt(second)
    other = write_receipt(partition, offset, number ^ 1).decode()
    answer = one.ack(topic, first, other, "nothing", second)
    assert answer.status.code == definition.MULTIPLE_RESULTS
    invalid = definition.INVALID_RECEIPT_HANDLE
    assert [entry.status.code for entry in answer.entries] == [OK, invalid, invalid, OK]
    assert one.receive(topic, 0).messages == []


def test_one_message_of_a_hand_out_that_is_over_takes_nothing_from_the_others(
    one, other, caller, topic
) -> None:
    send(caller, topic, "a", "b", "c", queue=1)
    first, second, third = one.receive(topic).handles
    assert one.change(topic, second, 0).status.code == OK
    assert other.receive(topic).bodies == ["b"]
    answer = one.ack(topic, first, second, third)
    assert answer.status.code == definition.MULTIPLE_RESULTS
    invalid = definition.INVALID_RECEIPT_HANDLE
    assert [entry.status.code for entry in answer.entries] == [OK, invalid, OK]
    assert [entry.receipt_handle for entry in answer.entries] == [first, second, third]
    assert one.ack(topic, first, third).status.code == OK, "over already, which is no error"
    assert one.receive(topic, 0).messages == []


def test_each_acknowledged_message_is_told_and_counted(node, one, caller, topic) -> None:
    send(caller, topic, "a", "b", queue=1)
    handles = one.receive(topic).handles
    counts = desk_of(node).pops.counts
    begun = node.call(lambda: (counts["g", "acknowledged"], counts["g", "refused"]))
    answer = one.ack(topic, *handles, handles[0])
    assert answer.status.code == OK
    told = [(entry.message_id, entry.receipt_handle) for entry in answer.entries]
    assert told == [("id-0", handles[0]), ("id-1", handles[1]), ("id-2", handles[0])]
    assert {entry.status.code for entry in answer.entries} == {OK}
    ended = node.call(lambda: (counts["g", "acknowledged"], counts["g", "refused"]))
    assert ended == (begun[0] + 3, begun[1])


def test_a_receipt_of_another_group_topic_or_partition_is_none(one, caller, node, topic) -> None:
    node.submit(CreateTopics(topics=(NewTopic(name=f"{topic}-2", partition_count=PARTITIONS),)))
    others = Member(caller, "three@3", group="others")
    for name in (topic, f"{topic}-2"):
        send(caller, name, "a", queue=1)
    handle = one.receive(topic).handles[0]
    own = others.receive(topic).handles[0]
    there = one.receive(f"{topic}-2").handles[0]
    invalid = definition.INVALID_RECEIPT_HANDLE
    assert others.ack(topic, handle).status.code == invalid
    assert one.ack(topic, there).status.code == invalid
    partition, offset, number = read_receipt(handle)
    beyond = write_receipt(PARTITIONS, offset, number).decode()
    assert one.ack(topic, beyond).status.code == invalid
    assert one.ack(topic, write_receipt(2, offset, number).decode()).status.code == invalid
    assert partition == 1
    assert one.ack(topic, handle).status.code == OK
    assert others.ack(topic, own).status.code == OK


def test_a_message_that_is_forwarded_is_a_dead_letter(one, caller, node, topic) -> None:
    send(caller, topic, "held", "bad", queue=1)  # of what is behind the first one it is known
    _, handle = one.receive(topic).handles
    assert one.forward(topic, handle).status.code == OK
    assert one.forward(topic, handle).status.code == OK, "it is so already"
    assert one.receive(topic, 0).messages == []
    assert node.until(lambda: b"rmq.dlq.g" in node.broker.partitions.by_name)
    letters = Member(caller, "four@4", group="undertakers")
    (letter,) = letters.receive("rmq.dlq.g").messages
    assert letter.body == b"bad"
    assert one.forward(topic, handle).status.code == OK, "and so it stays"
    counts = node.call(lambda: dict(desk_of(node).pops.counts))
    assert counts["g", "dead_letter"] >= 1


def test_a_group_begins_where_a_young_queue_begins_and_at_the_end_of_another(
    one, caller, node, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(caller, topic, "a", "b", queue=1)
    assert one.receive(topic).bodies == ["a", "b"]
    monkeypatch.setattr("penstock.remoting.pop.beginning.YOUNG_MAX", 1)
    late = Member(caller, "late@1", group="late")
    assert late.receive(topic, 0.5).messages == []
    send(caller, topic, "c", queue=1)
    assert late.receive(topic).bodies == ["c"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group": definition.Resource()}, definition.ILLEGAL_CONSUMER_GROUP),
        ({"group": definition.Resource(name="g" * 1_020)}, definition.ILLEGAL_CONSUMER_GROUP),
        (
            {"group": definition.Resource(name="g", resource_namespace="n")},
            definition.ILLEGAL_CONSUMER_GROUP,
        ),
        ({"message_queue": definition.MessageQueue()}, definition.ILLEGAL_TOPIC),
        (
            {"message_queue": definition.MessageQueue(topic=definition.Resource(name="none"))},
            definition.TOPIC_NOT_FOUND,
        ),
        ({"invisible_duration": duration(9)}, definition.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_duration": duration(50_000)}, definition.ILLEGAL_INVISIBLE_TIME),
        (
            {
                "filter_expression": definition.FilterExpression(
                    type=definition.SQL, expression="a ="
                )
            },
            definition.ILLEGAL_FILTER_EXPRESSION,
        ),
        (
            {"filter_expression": definition.FilterExpression(type=7, expression="a")},
            definition.ILLEGAL_FILTER_EXPRESSION,
        ),
    ],
)
def test_what_is_asked_wrongly_is_refused_by_its_code(one, topic, fields, code) -> None:
    assert one.receive(topic, 0, **fields).code == code


def test_an_internal_topic_is_not_received_from(one, caller, topic) -> None:
    send(caller, topic, "a")
    assert one.receive(topic).bodies == ["a"]  # the internal topic is there from here on
    assert one.receive("__share_state").code == definition.FORBIDDEN


def test_a_change_beyond_the_bound_is_refused(one, caller, topic) -> None:
    send(caller, topic, "a")
    handle = one.receive(topic).handles[0]
    assert one.change(topic, handle, 50_000).status.code == definition.ILLEGAL_INVISIBLE_TIME
    assert one.ack(topic, handle).status.code == OK


def test_an_acknowledgement_of_nothing_or_of_too_much_is_refused(one, topic) -> None:
    assert one.ack(topic).status.code == definition.BAD_REQUEST
    assert one.ack(topic, *["x"] * 1_001).status.code == definition.BAD_REQUEST


def test_a_push_consumer_is_to_receive_from_each_node_once(one, node, topic) -> None:
    answer = one.assignments(topic)
    assert answer.status.code == OK
    (assignment,) = answer.assignments
    queue = assignment.message_queue
    assert (queue.id, queue.broker.id, queue.topic.name) == (-1, 0, topic)
    (address,) = queue.broker.endpoints.addresses
    assert f"{address.host}:{address.port}" == node_address(node)
    assert one.assignments("none").status.code == definition.TOPIC_NOT_FOUND


@pytest.mark.parametrize("handles", [1, 2], ids=["of one hand-out", "of two"])
def test_a_consumer_that_acknowledges_is_heard(node, one, caller, topic, handles: int) -> None:
    send(caller, topic, "a", "b", queue=1)
    received = [one.receive(topic, batch_size=1) for _ in range(handles)]
    consumers, clock = front_of(node).consumers, node.broker.clock
    long_ago = clock.monotonic_ms() - HEARD_MS
    member = "User:ANONYMOUS\0one@1"
    node.call(lambda: consumers.settle(member, "g", definition.PUSH_CONSUMER, "it", long_ago))
    assert not consumers.is_there(member, clock.monotonic_ms())
    assert (
        one.ack(topic, *(handle for some in received for handle in some.handles)).status.code == OK
    )
    assert consumers.is_there(member, clock.monotonic_ms())
    node.call(lambda: consumers.forget(member))


def test_the_record_of_a_hand_out_is_written_with_its_acknowledgement(
    node, one, caller, topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.shares.flushing.LINGER_MS", 3_600_000)
    coordinator = node.broker.shares
    send(caller, topic, "a")
    received = one.receive(topic)
    assert received.bodies == ["a"]
    (shares,) = coordinator._shard.by_partition.values()
    assert node.call(lambda: len(shares.dirty)) == 1, "nobody waits for it"
    assert one.ack(topic, *received.handles).status.code == OK
    assert node.call(lambda: len(shares.dirty)) == 0
    node.call(coordinator._flushing._linger_no_more)
