"""SendMessage: what becomes of messages, and which are refused with which code."""

import gzip
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rocketmq.grpc_protocol import definition_pb2 as definition

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.grpc import incoming
from penstock.grpc.inflating import inflate
from tests.grpc.served import Caller, message, records, running_grpc_node

OK = definition.OK
PARTITIONS = 5


def test_a_message_is_a_record_with_its_key_and_headers(caller, node, topic) -> None:
    sent = message(
        topic,
        b"hello",
        tag="fresh",
        keys=["k1", "k2"],
        message_group="orders-7",
        message_type=definition.FIFO,
        born_timestamp=Timestamp(seconds=1_700_000_000, nanos=123_000_000),
        trace_context="trace",
        properties={"colour": "grün", "empty": ""},
    )
    answer = caller.send(sent)
    assert answer.status.code == OK
    (entry,) = answer.entries
    message_id = sent.system_properties.message_id
    assert (entry.status.code, entry.offset) == (OK, 0)
    assert (entry.message_id, entry.transaction_id) == (message_id, message_id)
    (record,) = records(node, topic, PARTITIONS, 1)
    assert (record.key(), record.value()) == (b"orders-7", b"hello")
    assert record.timestamp()[1] == 1_700_000_000_123
    headers = dict(record.headers())
    assert headers.pop("rmq.bh").startswith(b"127.0.0.1")
    assert headers == {
        "rmq.id": message_id.encode(),
        "rmq.tag": b"fresh",
        "rmq.keys": b"k1 k2",
        "rmq.TRACE_CONTEXT": b"trace",
        "colour": "grün".encode(),
        "empty": b"",
    }


def test_messages_of_a_group_are_in_one_partition_in_their_order(caller, node, topic) -> None:
    for number in range(30):
        for group in ("a", "b", "c"):
            body = f"{group}{number}".encode()
            sent = message(topic, body, message_group=group, message_type=definition.FIFO)
            assert caller.send(sent).status.code == OK
    read = records(node, topic, PARTITIONS, 90)
    for group in ("a", "b", "c"):
        of_group = [one for one in read if one.key() == group.encode()]
        assert len({one.partition() for one in of_group}) == 1
        bodies = [one.value() for one in sorted(of_group, key=lambda one: one.offset())]
        assert bodies == [f"{group}{number}".encode() for number in range(30)]
    assert len({one.partition() for one in read}) > 1


def test_other_messages_go_to_all_partitions_or_to_the_queue_that_is_named(
    caller, node, topic
) -> None:
    for _ in range(2 * PARTITIONS):
        caller.send(message(topic))
    read = records(node, topic, PARTITIONS, 2 * PARTITIONS)
    assert Counter(one.partition() for one in read) == dict.fromkeys(range(PARTITIONS), 2)
    for _ in range(4):
        caller.send(message(topic, b"named", queue_id=3))
    read = records(node, topic, PARTITIONS, 2 * PARTITIONS + 4)
    assert {one.partition() for one in read if one.value() == b"named"} == {3}


def test_several_messages_of_a_request_stay_together(caller, node, topic) -> None:
    sent = [message(topic, b"%d" % one, message_id=f"id{one}") for one in range(4)]
    answer = caller.send(*sent)
    assert [(one.message_id, one.offset) for one in answer.entries] == [
        (f"id{one}", one) for one in range(4)
    ]
    read = records(node, topic, PARTITIONS, 4)
    assert [one.value() for one in read] == [b"0", b"1", b"2", b"3"]


def test_a_body_that_is_compressed_is_stored_as_it_is_read(caller, node, topic) -> None:
    sent = message(topic, gzip.compress(b"plain"), body_encoding=definition.GZIP)
    assert caller.send(sent).status.code == OK
    assert records(node, topic, PARTITIONS, 1)[0].value() == b"plain"


def test_a_message_that_its_topic_does_not_take_is_told_as_too_large(caller, topic) -> None:
    answer = caller.send(message(topic, bytes(2 << 20)))
    assert answer.status.code == definition.MESSAGE_BODY_TOO_LARGE
    assert caller.send(message(topic, bytes(1_000_000))).status.code == OK


def test_bodies_of_a_request_have_a_bound_together_however_small_they_are_packed(
    caller, node, topic
) -> None:
    """128 messages of 4 kB that unpack to 4 MB each took half a gibibyte, and the loop for it."""
    bomb = message(topic, gzip.compress(bytes(1 << 20)), body_encoding=definition.GZIP)
    answer = caller.send(*[bomb] * 5)
    assert answer.status.code == definition.MESSAGE_BODY_TOO_LARGE
    small = message(topic, gzip.compress(bytes(100_000)), body_encoding=definition.GZIP)
    assert caller.send(*[small] * 5).status.code == OK
    assert len(records(node, topic, PARTITIONS, 5)) == 5


def test_a_body_unpacks_to_what_its_topic_permits_and_no_further(
    caller, topic, monkeypatch
) -> None:
    made: list[int] = []

    def counting(data: bytes, bytes_max: int) -> bytes:
        made.append(bytes_max)
        return inflate(data, bytes_max)

    monkeypatch.setattr(incoming, "inflate", counting)
    bomb = message(topic, gzip.compress(bytes(3 << 20)), body_encoding=definition.GZIP)
    assert caller.send(bomb).status.code == definition.MESSAGE_BODY_TOO_LARGE
    assert made == [1_048_588]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no body": ({"body": b""}, "MESSAGE_BODY_EMPTY"),
    "a body of more than 4 MiB": ({"body": bytes((4 << 20) + 1)}, "MESSAGE_BODY_TOO_LARGE"),
    "no id": ({"message_id": ""}, "ILLEGAL_MESSAGE_ID"),
    "a long id": ({"message_id": "x" * 256}, "ILLEGAL_MESSAGE_ID"),
    "a blank tag": ({"tag": " "}, "ILLEGAL_MESSAGE_TAG"),
    "a tag with a bar": ({"tag": "a|b"}, "ILLEGAL_MESSAGE_TAG"),
    "a tag with a control character": ({"tag": "a\x01b"}, "ILLEGAL_MESSAGE_TAG"),
    "a blank key": ({"keys": ["a", ""]}, "ILLEGAL_MESSAGE_KEY"),
    "long keys": ({"keys": ["a" * 5_000, "b" * 4_000]}, "MESSAGE_PROPERTIES_TOO_LARGE"),
    "a long group": ({"message_group": "g" * 64}, "ILLEGAL_MESSAGE_GROUP"),
    "a blank group": ({"message_group": " "}, "ILLEGAL_MESSAGE_GROUP"),
    "FIFO without a group": ({"message_type": definition.FIFO}, "ILLEGAL_MESSAGE_GROUP"),
    "a reserved property": ({"properties": {"TAGS": "x"}}, "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    "a property of ours": ({"properties": {"rmq.x": "x"}}, "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    "a property with an end": ({"properties": {"a": "\x02"}}, "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    "many properties": (
        {"properties": {f"n{one}": "v" for one in range(129)}},
        "MESSAGE_PROPERTIES_TOO_LARGE",
    ),
    "large properties": ({"properties": {"n": "v" * (16 << 10)}}, "MESSAGE_PROPERTIES_TOO_LARGE"),
    "a delay without a time": ({"message_type": definition.DELAY}, "ILLEGAL_DELIVERY_TIME"),
    "a time before all times": (
        {"delivery_timestamp": Timestamp(seconds=-1)},
        "ILLEGAL_DELIVERY_TIME",
    ),
    "a time that is none": (
        {"delivery_timestamp": Timestamp(seconds=1, nanos=-1)},
        "ILLEGAL_DELIVERY_TIME",
    ),
    "a time in the year 2300": (
        {"delivery_timestamp": Timestamp(seconds=10_413_792_000)},
        "ILLEGAL_DELIVERY_TIME",
    ),
    "a time and a group": (
        {"delivery_timestamp": Timestamp(seconds=9), "message_group": "g"},
        "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",
    ),
    "a lite topic": ({"lite_topic": "l"}, "UNSUPPORTED"),
    "a priority": ({"priority": 1}, "UNSUPPORTED"),
    "an unknown kind": ({"message_type": 99}, "UNSUPPORTED"),
    "no gzip": ({"body_encoding": definition.GZIP}, "BAD_REQUEST"),
    "an unknown encoding": ({"body_encoding": 9}, "UNSUPPORTED"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_message_that_has_no_place_is_refused(caller, topic, kind) -> None:
    parts, code = REFUSED[kind]
    answer = caller.send(message(topic, **{"body": b"b"} | parts))
    assert (definition.Code.Name(answer.status.code), len(answer.entries)) == (code, 0)
    assert answer.status.message


def test_requests_that_do_not_hang_together_are_refused(caller, topic) -> None:
    others = message("another")
    grouped = message(topic, message_group="g", message_type=definition.FIFO)
    of_another = message(topic, message_group="h", message_type=definition.FIFO)
    for sent in (
        (),
        (message(topic), others),
        (message(topic), grouped),
        (grouped, of_another),
        (message(topic),) * 129,
    ):
        assert caller.send(*sent).status.code == definition.BAD_REQUEST


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("none", definition.TOPIC_NOT_FOUND),
        ("__consumer_offsets", definition.FORBIDDEN),
        ("", definition.ILLEGAL_TOPIC),
    ],
)
def test_a_topic_that_takes_nothing_from_clients_is_refused(caller, name, code) -> None:
    assert caller.send(message(name)).status.code == code


def test_what_rules_do_not_permit_is_forbidden(tmp_path) -> None:
    rules = "access.authorizer=acl", "access.super_users=User:ANONYMOUS"
    with (
        running_grpc_node(tmp_path, *rules) as (node, address),
        closing(Caller(address)) as caller,
    ):
        node.submit(CreateTopics(topics=(NewTopic(name="t"),)))
        assert caller.send(message("t")).status.code == OK
    denied = "access.authorizer=acl", "access.super_users=User:admin"
    with (
        running_grpc_node(tmp_path, *denied) as (_, address),
        closing(Caller(address)) as caller,
    ):
        assert caller.send(message("t")).status.code == definition.FORBIDDEN
        assert caller.send(message("none")).status.code == definition.FORBIDDEN
