"""Topics that take messages of one kind alone."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from penstock.configs.message_types import KEY, MESSAGE_TYPES
from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.grpc.receiving import OK, named
from tests.grpc.served import message

KINDS = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


def made(node: Any, name: str, message_type: str) -> str:
    configs = {KEY: message_type}
    (told,) = node.submit(CreateTopics(topics=(NewTopic(name=name, configs=configs),)))
    assert told.error is None
    return name


def of_kind(topic: str, kind: str) -> definition.Message:
    told: dict[str, dict[str, Any]] = {
        "NORMAL": {},
        "FIFO": {"message_group": "g"},
        "DELAY": {"delivery_timestamp": Timestamp(seconds=1)},
        "TRANSACTION": {},
    }
    return message(topic, b"body", message_type=getattr(definition, kind), **told[kind])


@pytest.mark.parametrize("message_type", MESSAGE_TYPES)
def test_a_topic_takes_messages_of_its_type_and_of_no_other(node, caller, message_type) -> None:
    topic = made(node, f"of-{message_type}", message_type)
    for kind in KINDS:
        status = caller.send(of_kind(topic, kind)).status
        if message_type in {kind, "MIXED"}:
            assert status.code == OK, status
        else:
            assert status.code == definition.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
            told = f"the expected type is {message_type}, but actual type is {kind}"
            assert told in status.message
    hosted = node.call(lambda: node.broker.partitions.by_name[topic.encode()].find(0))
    stored = 3 if message_type == "MIXED" else int(message_type != "TRANSACTION")
    assert node.call(lambda: hosted.log.log_end_offset) == stored


@pytest.mark.parametrize("message_type", MESSAGE_TYPES)
def test_routes_tell_what_a_topic_takes(node, caller, message_type) -> None:
    topic = made(node, f"routes-{message_type}", message_type)
    answer = caller.call("QueryRoute", service.QueryRouteRequest(topic=named(topic)))
    assert answer.status.code == OK
    kinds = KINDS if message_type == "MIXED" else (message_type,)
    for queue in answer.message_queues:
        assert list(queue.accept_message_types) == [getattr(definition, one) for one in kinds]


def test_a_topic_has_no_other_type(node) -> None:
    for wrong in ("fifo", "UNSPECIFIED", "", "LITE"):
        new = NewTopic(name="wrong", configs={KEY: wrong})
        (told,) = node.submit(CreateTopics(topics=(new,)))
        assert told.error is not None
