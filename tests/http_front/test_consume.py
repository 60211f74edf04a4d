"""Consume over HTTP: who has which message, for how long, and what becomes of it."""

import threading
from typing import Any

import pytest

from harness.http_front import TOKEN, HttpProcess, all_of
from harness.waiting import wait_until

pytestmark = pytest.mark.process
SHORT_S, LONG_S = 1, 600
IN_TIME_S = 6
"""Long enough to say something of a message before its time is over."""


def got(front: HttpProcess, topic: str, **wish: Any) -> list[str]:
    """Receive what is there; return its receipts."""
    return front.receive(topic, wait_seconds=20, **wish).receipts


def test_a_message_goes_to_one_receiver_and_never_again_once_it_is_acknowledged(
    front: HttpProcess, topic: str
) -> None:
    front.produce(
        topic, {"value": "a", "key": "k", "tag": "t", "keys": ["x"], "headers": {"h": "1"}}
    )
    (message,) = front.receive(topic, invisible_seconds=IN_TIME_S, wait_seconds=20).messages
    told = {name: message[name] for name in ("value", "key", "tag", "keys", "headers", "topic")}
    assert told == {
        "value": "a",
        "key": "k",
        "tag": "t",
        "keys": ["x"],
        "headers": {"h": "1"},
        "topic": topic,
    }
    assert (message["attempt"], message["offset"]) == (1, 0)
    answer = front.say("ack", topic, [message["receipt"]])
    assert answer.document == {"receipts": [{"receipt": message["receipt"]}]}
    assert front.receive(topic, wait_seconds=IN_TIME_S + 1).messages == []


def test_groups_are_apart(front: HttpProcess, topic: str) -> None:
    front.produce(topic, "a")
    for group in ("one", "two"):
        assert [one["value"] for one in all_of(front, topic, group, 1)] == ["a"]


def test_what_is_not_acknowledged_comes_again_with_another_attempt(
    front: HttpProcess, topic: str
) -> None:
    front.produce(topic, "a")
    (first,) = front.receive(topic, invisible_seconds=SHORT_S, wait_seconds=20).messages
    (again,) = front.receive(topic, invisible_seconds=LONG_S, wait_seconds=20).messages
    assert (first["attempt"], again["attempt"]) == (1, 2)
    assert first["id"] == again["id"]
    over = front.say("ack", topic, [first["receipt"]])
    assert over.status == 410
    assert over.document["receipts"][0]["problem"]["code"] == "receipt-over"
    assert front.say("ack", topic, [again["receipt"]]).status == 200


def test_no_one_else_gets_what_is_invisible(front: HttpProcess, topic: str) -> None:
    front.produce(topic, *"abcdef")
    first = front.receive(topic, max=3, invisible_seconds=LONG_S, wait_seconds=20).messages
    rest = front.receive(topic, max=32, invisible_seconds=LONG_S).messages
    assert len(first) == 3
    assert sorted(one["value"] for one in first + rest) == list("abcdef")
    assert front.receive(topic).messages == []


def test_released_it_comes_at_once_or_after_a_time(front: HttpProcess, topic: str) -> None:
    front.produce(topic, "a")
    (receipt,) = got(front, topic, invisible_seconds=LONG_S)
    assert front.say("release", topic, [receipt]).status == 200
    (receipt,) = got(front, topic, invisible_seconds=LONG_S)
    assert front.say("release", topic, [receipt], after_seconds=LONG_S).status == 200
    assert front.receive(topic).messages == []


def test_released_for_a_while_it_comes_when_that_is_over(front: HttpProcess, topic: str) -> None:
    front.produce(topic, "a")
    (receipt,) = got(front, topic, invisible_seconds=LONG_S)
    front.say("release", topic, [receipt], after_seconds=0.2)
    (message,) = front.receive(topic, wait_seconds=20).messages
    assert message["attempt"] == 2


def test_renewed_it_is_kept_under_another_receipt(front: HttpProcess, topic: str) -> None:
    front.produce(topic, "a")
    (receipt,) = got(front, topic, invisible_seconds=IN_TIME_S)
    (outcome,) = front.say("renew", topic, [receipt], invisible_seconds=LONG_S).document["receipts"]
    assert front.receive(topic, wait_seconds=IN_TIME_S + 1).messages == []
    assert front.say("ack", topic, [receipt]).status == 410
    assert front.say("ack", topic, [outcome["renewed"]]).status == 200


def test_rejected_it_is_a_dead_letter_and_never_comes_again(front: HttpProcess, topic: str) -> None:
    group = f"rejects-{topic}"
    front.produce(topic, "bad", "good")
    found = all_of(front, topic, group, 2)
    receipts = {one["value"]: one["receipt"] for one in found}
    assert front.say("reject", topic, [receipts["bad"]], group).status == 200
    assert front.say("reject", topic, [receipts["bad"]], group).status == 410
    (letter,) = all_of(front, f"%25DLQ%25{group}", "undertaker", 1)
    assert (letter["value"], letter["id"]) == ("bad", found[0]["id"])
    assert front.receive(topic, group, wait_seconds=1).messages == []


def test_a_receipt_of_another_group_or_topic_is_none_here(front: HttpProcess, topic: str) -> None:
    front.produce(topic, {"value": "a", "key": "k"}, {"value": "b", "key": "k"})
    receipts = got(front, topic, invisible_seconds=LONG_S)
    all_of(front, topic, "other", 2)
    assert front.say("ack", topic, receipts, "other").status == 410
    for word in ("ack", "release", "renew", "reject"):
        answer = front.say(word, topic, ["bm90IG9uZQ", "", "%%%", "é", "A" * 900])
        assert answer.status == 400, answer
        codes = {one["problem"]["code"] for one in answer.document["receipts"]}
        assert codes == {"bad-receipt"}
    assert front.say("ack", topic, receipts).status == 200


def test_each_receipt_has_its_own_outcome(front: HttpProcess, topic: str) -> None:
    front.produce(topic, {"value": "a", "key": "k"}, {"value": "b", "key": "k"})
    one, two = got(front, topic, invisible_seconds=LONG_S)
    answer = front.say("ack", topic, [one, "nonsense", two])
    assert answer.status == 207
    told = answer.document["receipts"]
    assert [part["receipt"] for part in told] == [one, "nonsense", two]
    assert ["problem" in part for part in told] == [False, True, False]


def test_a_receive_that_waits_gets_what_is_produced_meanwhile(
    front: HttpProcess, topic: str
) -> None:
    found: list[str] = []

    def wait() -> None:
        found.extend(one["value"] for one in front.receive(topic, wait_seconds=30).messages)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert wait_until(lambda: front.metric("penstock_http_waiting") > 0, 60)
    front.produce(topic, "a")
    waiting.join()
    assert found == ["a"]


def test_a_group_that_waits_does_not_keep_news_from_another(front: HttpProcess, topic: str) -> None:
    front.produce(topic, "a")
    (receipt,) = got(front, topic, invisible_seconds=LONG_S)
    all_of(front, topic, "idle", 1)
    idle = threading.Thread(target=front.receive, args=(topic, "idle"), kwargs={"wait_seconds": 20})
    idle.start()
    assert wait_until(lambda: front.metric("penstock_http_waiting") == 1, 60)
    front.say("release", topic, [receipt], after_seconds=2)
    assert front.receive(topic, wait_seconds=8).messages
    front.produce(topic, "b")
    idle.join()


def test_messages_are_not_handed_out_to_a_client_that_has_gone(
    front: HttpProcess, topic: str
) -> None:
    raw = front.raw()
    body = b'{"wait_seconds": 30, "invisible_seconds": 600}'
    path = f"/v1/topics/{topic}/groups/g/receive"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert wait_until(lambda: front.metric("penstock_http_waiting") > 0, 60)
    raw.close()
    soon = 20  # before the wait is over by itself
    assert wait_until(lambda: front.metric("penstock_http_waiting") == 0, soon)
    front.produce(topic, "a")
    (message,) = front.receive(topic, wait_seconds=20).messages
    assert message["attempt"] == 1


def test_only_messages_with_the_tags_are_received(front: HttpProcess, topic: str) -> None:
    front.produce(topic, *({"value": tag, "tag": tag} for tag in "abcab"))
    found: list[str] = []
    while len(found) < 4:
        got = front.receive(topic, tags="a || b", wait_seconds=20).messages
        found += [one["value"] for one in got]
    assert sorted(found) == ["a", "a", "b", "b"]
    assert front.receive(topic, tags="a || b", wait_seconds=1).messages == []
    assert front.receive(topic, tags="a || || b").status in {200, 400}


def test_a_new_group_begins_at_the_start_or_at_the_end(front: HttpProcess, topic: str) -> None:
    front.produce(topic, "before")
    assert front.receive(topic, "late", begin="end", wait_seconds=3).messages == []
    for _ in range(2):  # both queues
        front.produce(topic, "after")
    assert {one["value"] for one in all_of(front, topic, "late", 2)} == {"after"}
    assert "before" in {one["value"] for one in all_of(front, topic, "early", 3)}


@pytest.mark.parametrize(
    "wish",
    [
        {"max": 0},
        {"max": 33},
        {"wait_seconds": 31},
        {"invisible_seconds": 0.5},
        {"invisible_seconds": 43_201},
        {"begin": "middle"},
        {"tags": ""},
        {"max": "3"},
        {"more": 1},
    ],
)
def test_wishes_out_of_bounds_are_refused(
    front: HttpProcess, topic: str, wish: dict[str, Any]
) -> None:
    answer = front.receive(topic, **wish)
    assert (answer.status, answer.document["code"]) == (400, "bad-body")
