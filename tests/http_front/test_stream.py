"""Server-sent events: messages as they come, so many at a time."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.http_front import TOKEN, TOKENS, Events, HttpProcess, all_of
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
    with streaming(front, topic, "?in_flight=1&invisible_seconds=8") as events:
        first = events.next()[1]
        (told,) = front.say("renew", topic, [first["receipt"]], invisible_seconds=600).document[
            "receipts"
        ]
        (other,) = front.receive(topic, wait_seconds=20, invisible_seconds=9).messages
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


STREAMED = 'penstock_http_messages_total{outcome="streamed"}'


def test_what_was_handed_out_and_not_sent_comes_again_at_once(
    front: HttpProcess, topic: str
) -> None:
    """More than the buffers of a connection that is not read take."""
    count, before = 600, front.metric(STREAMED)
    for _ in range(count // 50):
        front.produce(topic, *(["x" * 20_000] * 50))
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", front.port))
    path = f"/v1/topics/{topic}/groups/g/stream?in_flight=256&invisible_seconds=600"
    raw.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    seen: list[float] = []

    def is_stuck() -> bool:
        seen.append(front.metric(STREAMED))
        return len(seen) > 20 and seen[-1] == seen[-20] > before

    assert wait_until(is_stuck, 120)
    raw.close()
    assert wait_until(lambda: front.metric("penstock_http_waiting") == 0, 60)
    sent = round(front.metric(STREAMED) - before)
    assert 0 < sent < count
    others = all_of(front, topic, "g", count - sent)
    assert len(others) == count - sent


def test_a_receive_that_waits_gets_nothing_once_its_topic_is_withdrawn(
    served: tuple[LiveNode, str], topic: str, tmp_path: Path
) -> None:
    with HttpProcess(tmp_path, [served[1]]) as front, ThreadPoolExecutor(1) as others:

        def permit(topics: str) -> None:
            new = tmp_path / "new"
            new.touch(0o600)
            new.write_text(TOKENS.replace('consume = ["*"]', f'consume = ["{topics}"]'))
            new.replace(front.tokens)

        events = Events(front, f"/v1/topics/{topic}/groups/of-the-stream/stream")
        waits = others.submit(front.receive, topic, wait_seconds=20)
        assert wait_until(lambda: front.metric("penstock_http_waiting") == 2, 60)
        permit("another")
        assert events.next() == ("end", {}), "the file has been read"
        events.close()
        front.produce(topic, "secret")
        refused = waits.result()
        assert (refused.status, refused.document["code"]) == (403, "not-permitted")
        permit("*")
        assert wait_until(lambda: front.receive(topic, wait_seconds=0, max=1).status == 200, 60)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TOKEN, TOKEN + "-another"),
        ('consume = ["*"]', 'consume = ["another"]'),
    ],
    ids=["the token", "the topic"],
)
def test_what_is_withdrawn_ends_its_streams(
    served: tuple[LiveNode, str], topic: str, tmp_path: Path, before: str, after: str
) -> None:
    with HttpProcess(tmp_path, [served[1]]) as front:
        events = Events(front, f"/v1/topics/{topic}/groups/g/stream")
        new = tmp_path / "new"
        new.touch(0o600)
        new.write_text(TOKENS.replace(before, after))
        new.replace(front.tokens)
        assert events.next() == ("end", {})
        events.close()
