"""Batches of Kafka's producers that lie, or are heavy, stop no consumer and hold no turn."""

from contextlib import closing
from typing import Any

import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from penstock.record.compression import ZSTD
from tests.live_node import LiveNode
from tests.record.test_excerpt import LIES
from tests.turn_calls import CALLS_MAX, Turns

IN_RECORDS = sorted(LIES.keys() - {"a codec that there is not", "more records than offsets"})


@pytest.fixture
def header_topic(node: LiveNode, topic: str) -> str:
    """A topic of one partition that looks at headers alone."""
    name = f"{topic}-header"
    configs = {"penstock.record.validation": "header"}
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=1, configs=configs),)))
    return name


def produce(node: LiveNode, topic: str, *batches: bytes) -> None:
    with closing(node.connect()) as client:
        for one in batches:
            data = [{"name": topic, "partition_data": [{"index": 0, "records": one}]}]
            fields = {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": data}
            answer = client.ask(ApiKey.PRODUCE, 7, fields)
            assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("lie", IN_RECORDS)
def test_a_batch_that_lies_stops_no_receive(
    node: LiveNode, one: Any, header_topic: str, lie: str
) -> None:
    good = [build_batch([Record(None, value)]) for value in (b"a", b"b")]
    produce(node, header_topic, good[0], LIES[lie], good[1])
    bodies: list[str] = []
    while len(bodies) < 2:
        received = one.receive(header_topic)
        assert received.messages, received.status
        bodies += received.bodies
    assert bodies == ["a", "b"]


def test_few_messages_of_a_batch_with_many_are_received_in_short_turns(
    node: LiveNode, one: Any, header_topic: str
) -> None:
    produce(node, header_topic, build_batch([Record(None, b"v")] * 9_000, codec=ZSTD))
    turns = Turns()
    node.call(turns.begin)
    try:
        for _ in range(3):
            assert len(one.receive(header_topic).messages) == 32
    finally:
        node.call(turns.end)
    assert 0 < turns.longest < 2 * CALLS_MAX, turns.begun_in
