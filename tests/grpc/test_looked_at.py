"""How much of a queue is unpacked for a receive: what is wanted of it, where that is known."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from rocketmq.grpc_protocol import definition_pb2 as definition

from penstock.record.excerpt import Part
from penstock.remoting.pop.records import LOOKED_MAX
from tests.grpc.receiving import Member
from tests.grpc.test_receiving import desk_of
from tests.live_node import UNTIL_SECONDS, LiveNode

PARTITIONS = 1
MESSAGES = 50


@contextmanager
def excerpts(node: LiveNode) -> Iterator[list[Part]]:
    """What is unpacked, in order."""
    made: list[Part] = []
    wanted = desk_of(node).excerpts
    make = wanted.make

    def noted(read: Any, part: Part, *told: Any) -> None:
        made.append(part)
        make(read, part, *told)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wanted, "make", noted)
        yield made


def produce(node: LiveNode, topic: str, *, ends: tuple[str, ...] = ()) -> None:
    """Send a batch; in a transaction for each of the ends."""
    settings: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{node.port}", "linger.ms": 1_000}
    producer = Producer(settings | ({"transactional.id": topic} if ends else {}))
    if ends:
        producer.init_transactions(UNTIL_SECONDS)
    for end in ends or ("",):
        if end:
            producer.begin_transaction()
        for number in range(MESSAGES):
            producer.produce(topic, f"{end}{number}".encode(), headers=[("rmq.tag", b"tag")])
        producer.flush(UNTIL_SECONDS)
        if end:
            getattr(producer, end)(UNTIL_SECONDS)


def test_a_receive_unpacks_as_many_messages_as_it_asks_for(node, one: Member, topic) -> None:
    produce(node, topic)
    with excerpts(node) as made:
        bodies = [body for _ in range(2) for body in one.receive(topic, batch_size=3).bodies]
    assert bodies == ["0", "1", "2", "3", "4", "5"]
    assert [(part.first, part.records_max) for part in made] == [(0, 3), (3, 3)]


def test_a_receive_with_a_filter_looks_at_more_than_it_asks_for(node, one: Member, topic) -> None:
    produce(node, topic)
    with excerpts(node) as made:
        wanted = definition.FilterExpression(type=definition.TAG, expression="no || tag")
        received = one.receive(topic, batch_size=3, filter_expression=wanted)
    assert received.bodies == ["0", "1", "2"]
    assert [(part.first, part.records_max) for part in made] == [(0, LOOKED_MAX)]


def test_what_was_aborted_is_passed_over_in_one_look(node, one: Member, topic) -> None:
    produce(node, topic, ends=("abort_transaction", "commit_transaction"))
    with excerpts(node) as made:
        received = one.receive(topic, batch_size=3)
    assert received.bodies == [f"commit_transaction{number}" for number in range(3)]
    assert [(part.first, part.records_max) for part in made] == [(0, LOOKED_MAX)]
