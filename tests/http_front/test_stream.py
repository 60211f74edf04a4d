"""Server-sent events: messages as they come, so many at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.http_front import Events, HttpProcess, all_of
from harness.waiting import wait_until
from penstock.controller.commands.command import DeleteTopics, TopicReference
from tests.live_node import LiveNode

pytestmark = pytest.mark.process


@contextmanager
def streaming(front: HttpProcess, topic: str, query: str = "") -> Iterator[Events]:
    events = Events(front, f"/v1/topics/{topic}/groups/g/stream{query}")
    try:
        yield events
    finally:
        events.close()
    assert wait_until(lambda: front.metric("penstock_http_waiting") == 0, 60)


def test_messages_come_as_they_are_produced(front: HttpProcess, topic: str) -> None:
    with streaming(front, topic) as events:
        assert events.answer.getheader("content-type") == "text/event-stream"
        for value in "abc":
            front.produce(topic, value)
            name, message = events.next()
            assert (name, message["value"], message["attempt"]) == ("message", value, 1)
            assert front.say("ack", topic, [message["receipt"]]).status == 200
    assert front.receive(topic).messages == []


def test_no_more_are_sent_than_may_be_in_flight_until_one_is_settled(
    front: HttpProcess, topic: str
) -> None:
    front.produce(topic, *({"value": str(n), "key": "k"} for n in range(6)))
    with streaming(front, topic, "?in_flight=2&invisible_seconds=600") as events:
        first, second = events.next()[1], events.next()[1]
        others = all_of(front, topic, "g", 4)  # so the stream has taken no more
        assert sorted(one["value"] for one in (first, second, *others)) == list("012345")
        front.say("release", topic, [others[0]["receipt"]], after_seconds=1)
        front.say("ack", topic, [first["receipt"]])
        assert events.next()[1]["value"] == others[0]["value"]


def test_what_is_renewed_stays_in_flight(front: HttpProcess, topic: str) -> None:
    front.produce(topic, *({"value": str(n), "key": "k"} for n in range(2)))
    with streaming(front, topic, "?in_flight=1&invisible_seconds=2") as events:
        first = events.next()[1]
        (told,) = front.say("renew", topic, [first["receipt"]], invisible_seconds=600).document[
            "receipts"
        ]
        (other,) = front.receive(topic, wait_seconds=10, invisible_seconds=3).messages
        assert other["value"] == "1"
        # When the first one's time would be over, and the other one comes again, it takes neither.
        (other,) = front.receive(topic, wait_seconds=20, invisible_seconds=600).messages
        assert (other["value"], other["attempt"]) == ("1", 2)
        front.say("release", topic, [other["receipt"]])
        front.say("ack", topic, [told["renewed"]])
        assert events.next()[1]["value"] == "1"


def test_a_message_whose_time_is_over_makes_room_and_comes_again(
    front: HttpProcess, topic: str
) -> None:
    front.produce(topic, "a")
    with streaming(front, topic, "?in_flight=1&invisible_seconds=1") as events:
        assert events.next()[1]["attempt"] == 1
        assert events.next()[1]["attempt"] == 2


@pytest.mark.parametrize(
    "query",
    [
        "?in_flight=0",
        "?in_flight=257",
        "?max=x",
        "?nothing=1",
        "?max=1&max=2",
        "?tags=%ff",
        "?invisible_seconds=nan",
        "?invisible_seconds=inf",
        "?wait_seconds=1e999",
    ],
)
def test_wishes_that_can_not_be_are_refused(front: HttpProcess, topic: str, query: str) -> None:
    answer = front.ask("GET", f"/v1/topics/{topic}/groups/g/stream{query}")
    assert (answer.status, answer.document["code"]) == (400, "bad-query")


def test_what_is_wrong_with_the_topic_is_told_with_its_status(front: HttpProcess) -> None:
    answer = front.ask("GET", "/v1/topics/nowhere/groups/g/stream")
    assert (answer.status, answer.document["code"]) == (404, "topic-not-found")


def test_a_topic_that_is_deleted_ends_the_stream_with_a_problem(
    front: HttpProcess, topic: str, node: LiveNode
) -> None:
    with streaming(front, topic) as events:
        assert wait_until(lambda: front.metric("penstock_http_waiting") > 0, 60)
        node.submit(DeleteTopics(topics=(TopicReference(name=topic),)))
        name, problem = events.next()
        assert (name, problem["code"]) == ("problem", "topic-not-found")
        assert events.next()[0] == "closed"
