"""Messages of gRPC producers that are to be there later."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from harness.waiting import wait_until
from penstock.grpc.config import DELAY_MS_MAX
from penstock.grpc.errors import Refused
from penstock.grpc.producing.delays import delivery_ms
from penstock.grpc.proto.messages import Duration
from tests.grpc.receiving import OK, named
from tests.grpc.served import message, records
from tests.live_node import UNTIL_SECONDS, LiveNode

PARTITIONS = 2
NOW_MS = 1_700_000_000_000
SOON_MS = 6_000
"""Until then a message is sent, looked for and recalled, also by a node that has to wait itself."""


def keeping_of(node: LiveNode) -> Any:
    port = node.node._rocketmq.grpc
    assert port is not None
    return port.front.keeping


def at(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1_000, nanos=ms % 1_000 * 1_000_000)


def late(topic: str, ms: int, **system: Any) -> definition.Message:
    told = {"message_type": definition.DELAY, "delivery_timestamp": at(ms)} | system
    return message(topic, b"late", **told)


def test_a_delayed_message_comes_at_its_time_with_what_it_was_sent_with(
    node, caller, one, topic
) -> None:
    until_ms = node.broker.clock.wall_ms() + SOON_MS
    answer = caller.send(late(topic, until_ms, tag="fresh", properties={"colour": "grün"}))
    assert answer.status.code == OK
    (entry,) = answer.entries
    assert (entry.message_id, entry.transaction_id) == (entry.message_id, entry.message_id)
    assert entry.recall_handle
    assert one.receive(topic, 0).messages == []
    (got,) = one.receive(topic, 20).messages
    assert node.broker.clock.wall_ms() >= until_ms
    system = got.system_properties
    assert system.message_type == definition.DELAY
    assert system.delivery_timestamp.ToMilliseconds() == until_ms
    assert system.store_timestamp.ToMilliseconds() >= until_ms
    assert (got.body, system.tag, dict(got.user_properties)) == (
        b"late",
        "fresh",
        {"colour": "grün"},
    )
    (record,) = records(node, topic, PARTITIONS, 1)
    headers = dict(record.headers())
    assert headers["rmq.TIMER_DELIVER_MS"] == str(until_ms).encode()
    assert not headers.keys() & {"rmq.until", "rmq.delayed"}


def recall(caller, topic: str, handle: str) -> Any:
    request = service.RecallMessageRequest(topic=named(topic), recall_handle=handle)
    return caller.call("RecallMessage", request)


def test_a_message_is_recalled_and_never_comes(node, caller, one, topic) -> None:
    keeping = keeping_of(node)
    until_ms = node.broker.clock.wall_ms() + SOON_MS
    (entry,) = caller.send(late(topic, until_ms)).entries
    answer = recall(caller, topic, entry.recall_handle)
    assert (answer.status.code, answer.message_id) == (OK, entry.message_id)
    assert recall(caller, topic, entry.recall_handle).status.code == OK
    dropped = node.call(lambda: keeping.recalls.dropped)
    assert wait_until(lambda: node.call(lambda: keeping.recalls.dropped) > dropped, UNTIL_SECONDS)
    assert one.receive(topic, 0).messages == []


def test_what_is_delivered_is_not_found_by_a_recall(node, caller, one, topic) -> None:
    (entry,) = caller.send(late(topic, node.broker.clock.wall_ms() + SOON_MS)).entries
    assert one.receive(topic, 20).bodies == ["late"]
    answer = recall(caller, topic, entry.recall_handle)
    assert answer.status.code == definition.MESSAGE_NOT_FOUND


@pytest.mark.parametrize("handle", ["", "x", "djEgb3RoZXJzIHNldC0xIDE3OTYwMTU5MTUwMTcgSUQ="])
def test_a_handle_of_nothing_or_of_another_topic_is_refused(caller, topic, handle: str) -> None:
    assert recall(caller, topic, handle).status.code == definition.BAD_REQUEST


def test_what_is_there_at_once_has_no_recall_handle(node, caller, topic) -> None:
    (entry,) = caller.send(late(topic, node.broker.clock.wall_ms())).entries
    assert not entry.recall_handle


def test_a_time_that_is_over_is_now(node, caller, one, topic) -> None:
    for ms in (0, node.broker.clock.wall_ms()):
        assert caller.send(late(topic, ms)).status.code == OK
    assert len(one.receive(topic).messages + one.receive(topic).messages) == 2


def test_a_time_that_is_too_far_away_is_refused(node, caller, topic) -> None:
    now_ms = node.broker.clock.wall_ms()
    far = caller.send(late(topic, now_ms + DELAY_MS_MAX + 60_000))
    assert far.status.code == definition.ILLEGAL_DELIVERY_TIME
    assert caller.send(late(topic, now_ms + DELAY_MS_MAX - 60_000)).status.code == OK


def test_a_request_has_one_delayed_message(caller, topic) -> None:
    sent = late(topic, 0)
    assert caller.send(sent, sent).status.code == definition.BAD_REQUEST


@pytest.mark.parametrize(
    ("told", "ms"),
    [
        (Duration(seconds=1_700_000_000), NOW_MS),
        (Duration(seconds=1_700_000_000, nanos=1), NOW_MS + 1),
        (Duration(seconds=1_700_000_000, nanos=1_000_000), NOW_MS + 1),
        (Duration(seconds=1_700_086_400), NOW_MS + DELAY_MS_MAX),
        (Duration(), 0),
    ],
)
def test_a_time_is_never_before_it_is_told(told: Duration, ms: int) -> None:
    assert delivery_ms(told, NOW_MS, DELAY_MS_MAX) == ms


@pytest.mark.parametrize(
    "told",
    [
        None,
        Duration(seconds=1_700_086_400, nanos=1),
        Duration(seconds=-1),
        Duration(seconds=1, nanos=1_000_000_000),
        Duration(seconds=1 << 62),
    ],
)
def test_a_time_that_has_no_place_is_refused(told: Duration | None) -> None:
    with pytest.raises(Refused):
        delivery_ms(told, NOW_MS, DELAY_MS_MAX)


def test_what_waits_is_counted_on_a_node_with_this_port_alone(node, caller, one, topic) -> None:
    keeping = keeping_of(node)
    begun = node.call(lambda: (keeping.holding.held, keeping.delivery.delivered))
    assert caller.send(late(topic, node.broker.clock.wall_ms() + 1_000)).status.code == OK
    assert one.receive(topic, 20).bodies == ["late"]
    held, delivered = begun
    assert wait_until(
        lambda: (
            node.call(lambda: (keeping.holding.held, keeping.delivery.delivered))
            == (held + 1, delivered + 1)
        ),
        UNTIL_SECONDS,
    )
