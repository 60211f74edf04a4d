"""Pulls of remoting clients that want some of the messages, by tags and by expressions."""

import json
from contextlib import closing
from itertools import count as counted
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.filters.filtering import PLACES_MAX, SLICES_MAX
from penstock.remoting.filters.parser import LENGTH_MAX
from penstock.remoting.filters.verdicts import Verdict
from penstock.remoting.front import RemotingFront
from penstock.remoting.reading import RECORD_WORK, SLICE_WORK
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import decode_messages
from tests.live_node import LiveNode
from tests.remoting.served import Remote, pulled, sent

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
SQL: dict[str, Any] = {"expressionType": "SQL92"}
OF_SLICE = SLICE_WORK // RECORD_WORK
"""At most so many records are judged in a slice."""
_numbers = counted()


@pytest.fixture
def front(node: LiveNode) -> RemotingFront:
    front = node.node._rocketmq.remoting
    assert front is not None
    assert node.until(lambda: front.filtering.open == 0), "what others have asked for is over"
    return front


@pytest.fixture
def topic(node: LiveNode) -> str:
    name = f"filtered-{next(_numbers)}"
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=1),)))
    return name


def send(remote: Remote, topic: str, *properties: dict[str, str]) -> None:
    """One message for each of these properties; the bodies are numbers."""
    for number, one in enumerate(properties):
        assert remote.ask(SEND, sent(topic, one), b"%d" % number).code == ResponseCode.SUCCESS


def fill(node: LiveNode, topic: str, count: int, wanted: set[int]) -> None:
    """So many small records by one producer of Kafka; those that are wanted have a header."""
    settings = {"linger.ms": 200, "batch.size": 900_000, "batch.num.messages": 20_000}
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", **settings})
    for number in range(count):
        headers: list[tuple[str, str | bytes | None]] = [("colour", b"red")]
        producer.produce(topic, b"%d" % number, headers=headers if number in wanted else None)
    producer.flush()


def heartbeat(remote: Remote, topic: str, expression: str, *, kind: str, version: int = 1) -> None:
    """The heartbeat of a client of group g that wants this."""
    subscription = {"topic": topic, "subString": expression, "expressionType": kind}
    group = {"groupName": "g", "subscriptionDataSet": [subscription | {"subVersion": version}]}
    body = {"clientID": "me", "consumerDataSet": [group], "producerDataSet": []}
    assert remote.ask(RequestCode.HEART_BEAT, {}, json.dumps(body).encode()).code == 0


def bodies(answer: Command) -> list[bytes]:
    return [bytes(one.body) for one in decode_messages(memoryview(answer.body))]


def code(answer: Command) -> ResponseCode:
    return ResponseCode(answer.code)


def following(answer: Command) -> int:
    return int(answer.fields["nextBeginOffset"])


def test_a_pull_gets_what_its_expression_is_true_for(remote: Remote, topic: str) -> None:
    send(remote, topic, {"a": "1"}, {"a": "5"}, {"a": "x"}, {}, {"a": "7", "TAGS": "t"})
    answer = remote.ask(PULL, pulled(topic, subscription="a between 2 and 9", **SQL))
    assert code(answer) is ResponseCode.SUCCESS
    assert (bodies(answer), following(answer)) == ([b"1", b"4"], 5)
    answer = remote.ask(PULL, pulled(topic, subscription="TAGS = 't'", maxMsgNums=1, **SQL))
    assert (bodies(answer), following(answer)) == ([b"4"], 5)
    answer = remote.ask(PULL, pulled(topic, subscription="a is null", offset=3, **SQL))
    assert (bodies(answer), following(answer)) == ([b"3"], 5)


def test_a_pull_that_wants_nothing_of_what_is_there_is_told_where_to_go_on(
    remote: Remote, topic: str, front: RemotingFront, node: LiveNode
) -> None:
    before = node.call(lambda: dict(front.filtering.left_out))
    send(remote, topic, {"a": "1", "TAGS": "t"}, {"a": "x"})
    answer = remote.ask(PULL, pulled(topic, subscription="a > 1", **SQL))
    assert (code(answer), following(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 2)
    answer = remote.ask(PULL, pulled(topic, 2, subscription="a > 1", **SQL))
    assert (code(answer), following(answer)) == (ResponseCode.PULL_NOT_FOUND, 2)
    answer = remote.ask(PULL, pulled(topic, subscription="u"))
    assert (code(answer), following(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 2)
    now = node.call(lambda: dict(front.filtering.left_out))
    told = {one: now[one] - before.get(one, 0) for one in now}
    assert told == {Verdict.SQL: 1, Verdict.SQL_ERROR: 1, Verdict.TAG: 2}


def test_a_pull_waits_on_behind_what_it_does_not_want(
    remote: Remote, served: tuple[LiveNode, str], topic: str
) -> None:
    waiting: dict[str, Any] = {
        "sysFlag": 2 | 4,
        "suspendTimeoutMillis": 20_000,
        "subscription": "a = 1",
    }
    remote.send(PULL, pulled(topic, **waiting, **SQL))
    with closing(Remote(served[1])) as other:
        send(other, topic, {"a": "2"})
        send(other, topic, {"a": "1"})
    answer = remote.receive_answer()
    assert (bodies(answer), following(answer)) == ([b"0"], 2)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"subscription": "a >", **SQL}, "the end stands where"),
        ({"subscription": "a in (" + "'x'," * 10_000 + "'x')", **SQL}, "an expression of 40"),
        ({"subscription": "(" * 10_000, **SQL}, "more than 64 parentheses"),
        ({"subscription": "a", "expressionType": "SQL"}, "expressions of kind SQL are not known"),
    ],
)
def test_a_pull_with_an_expression_that_is_none_is_told_why(
    remote: Remote, topic: str, fields: dict[str, Any], told: str
) -> None:
    answer = remote.ask(PULL, pulled(topic, **fields))
    assert code(answer) is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert answer.remark is not None
    assert answer.remark.startswith(told)


@pytest.mark.parametrize(
    ("expression", "kind", "expected"),
    [
        ("a > 1", "SQL92", ResponseCode.SUCCESS),
        ("a", "TAG", ResponseCode.SUCCESS),
        ("a >", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ("x" * (LENGTH_MAX + 1), "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ("a > 1", "OTHER", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_a_client_can_ask_whether_its_expression_is_one(
    remote: Remote, expression: str, kind: str, expected: ResponseCode
) -> None:
    subscription = {"topic": "t", "subString": expression, "expressionType": kind}
    asked = {"clientId": "me", "group": "g", "subscriptionData": subscription}
    answer = remote.ask(RequestCode.CHECK_CLIENT_CONFIG, {}, json.dumps(asked).encode())
    assert code(answer) is expected


def test_a_pull_without_a_subscription_means_that_of_the_last_heartbeat(
    remote: Remote, topic: str
) -> None:
    send(remote, topic, {"a": "1", "TAGS": "t"}, {"a": "2", "TAGS": "u"})
    asked = pulled(topic, sysFlag=0, subVersion=1, **SQL)
    heartbeat(remote, topic, "a > 1", kind="SQL92")
    assert bodies(remote.ask(PULL, asked)) == [b"1"]
    heartbeat(remote, topic, "a < 2", kind="SQL92", version=2)
    assert bodies(remote.ask(PULL, asked)) == [b"0"], "a newer one, as RocketMQ has it"
    heartbeat(remote, topic, "u", kind="TAG")
    assert bodies(remote.ask(PULL, pulled(topic, sysFlag=0))) == [b"1"]
    assert bodies(remote.ask(PULL, pulled(topic, sysFlag=4))) == [b"0", b"1"], "it has its own"


def test_a_pull_whose_subscription_is_not_known_is_refused_unless_it_is_by_tags(
    remote: Remote, served: tuple[LiveNode, str], topic: str
) -> None:
    send(remote, topic, {"a": "1"})
    by_sql, by_tags = pulled(topic, sysFlag=0, **SQL), pulled(topic, sysFlag=0)
    assert code(remote.ask(PULL, by_sql)) is ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert bodies(remote.ask(PULL, by_tags)) == [b"0"], "its client looks at tags again"
    with closing(Remote(served[1])) as other:
        heartbeat(other, topic, "a = 1", kind="SQL92")
        assert bodies(other.ask(PULL, by_sql)) == [b"0"]
        assert code(remote.ask(PULL, by_sql)) is ResponseCode.SUBSCRIPTION_NOT_EXIST
        answer = other.ask(PULL, by_sql | {"consumerGroup": "h"})
        assert code(answer) is ResponseCode.SUBSCRIPTION_NOT_EXIST, "another group"


def test_a_pull_that_is_newer_than_the_last_heartbeat_is_refused_until_the_next(
    remote: Remote, topic: str
) -> None:
    send(remote, topic, {"a": "1"})
    asked = pulled(topic, sysFlag=0, subVersion=2, **SQL)
    heartbeat(remote, topic, "a = 1", kind="SQL92", version=1)
    assert code(remote.ask(PULL, asked)) is ResponseCode.SUBSCRIPTION_NOT_LATEST
    heartbeat(remote, topic, "a = 1", kind="SQL92", version=2)
    assert bodies(remote.ask(PULL, asked)) == [b"0"]


def test_a_heartbeat_with_an_expression_that_is_none_counts_and_its_pulls_are_refused(
    remote: Remote, topic: str
) -> None:
    heartbeat(remote, topic, "a = ", kind="SQL92")
    answer = remote.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert json.loads(bytes(answer.body)) == {"consumerIdList": ["me"]}
    answer = remote.ask(PULL, pulled(topic, sysFlag=0, **SQL))
    assert code(answer) is ResponseCode.FILTER_DATA_NOT_EXIST
    assert answer.remark is not None
    assert "the end stands where" in answer.remark


def test_one_message_among_many_is_found_by_one_pull(
    node: LiveNode, remote: Remote, topic: str, front: RemotingFront
) -> None:
    count = 5 * OF_SLICE
    fill(node, topic, count, {count - 1})
    before = node.call(lambda: front.filtering.left_out[Verdict.SQL])
    answer = remote.ask(PULL, pulled(topic, subscription="colour = 'red'", **SQL))
    assert (bodies(answer), following(answer)) == ([b"%d" % (count - 1)], count)
    assert node.call(lambda: front.filtering.left_out[Verdict.SQL]) - before == count - 1
    assert node.until(lambda: front.filtering.open == 0)


def test_a_pull_that_finds_nothing_for_long_is_answered_before_the_end(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    count = 2 * SLICES_MAX * OF_SLICE
    fill(node, topic, count, {count - 1})
    offset, places = 0, [0]
    answer = remote.ask(PULL, pulled(topic, subscription="colour = 'red'", **SQL))
    while code(answer) is ResponseCode.PULL_RETRY_IMMEDIATELY:
        assert offset < following(answer) <= offset + (SLICES_MAX + 1) * OF_SLICE
        offset = following(answer)
        places.append(offset)
        answer = remote.ask(PULL, pulled(topic, offset, subscription="colour = 'red'", **SQL))
    assert (bodies(answer), following(answer)) == ([b"%d" % (count - 1)], count)
    assert len(places) > 2


def test_pulls_beyond_the_places_are_answered_after_one_slice_and_lose_nothing(
    node: LiveNode, remote: Remote, topic: str, front: RemotingFront
) -> None:
    count, wanted = 4 * OF_SLICE, {0, OF_SLICE, 3 * OF_SLICE + 7}
    fill(node, topic, count, wanted)

    def take_all() -> None:
        front.filtering.open = PLACES_MAX

    node.call(take_all)
    before = node.call(lambda: front.filtering.left_out[Verdict.SQL])
    found: list[bytes] = []
    offset = answers = 0
    while offset < count:
        answer = remote.ask(PULL, pulled(topic, offset, subscription="colour = 'red'", **SQL))
        assert offset < following(answer) <= offset + OF_SLICE + 1
        found += bodies(answer)
        offset, answers = following(answer), answers + 1
    assert found == [b"%d" % number for number in sorted(wanted)]
    assert answers >= 4
    left_out = node.call(lambda: front.filtering.left_out[Verdict.SQL]) - before
    assert left_out + len(found) == count, "each was judged once"

    def give_back() -> None:
        front.filtering.open = 0

    node.call(give_back)


def test_a_client_that_goes_while_its_pull_goes_on_leaves_nothing_behind(
    node: LiveNode, served: tuple[LiveNode, str], topic: str, front: RemotingFront
) -> None:
    fill(node, topic, 30 * OF_SLICE, set())
    before = node.call(lambda: front.filtering.left_out[Verdict.SQL])
    with closing(Remote(served[1])) as other:
        for _ in range(PLACES_MAX):
            other.send(PULL, pulled(topic, subscription="colour = 'red'", **SQL))
        assert node.until(lambda: front.filtering.left_out[Verdict.SQL] > before), "it is begun"
    assert node.until(lambda: front.filtering.open == front.held.bytes_now == 0)


def test_texts_of_pulls_are_compiled_once_and_counted(
    node: LiveNode, remote: Remote, topic: str, front: RemotingFront
) -> None:
    send(remote, topic, {"a": "1"})
    before = node.call(lambda: (front.compiled.count, front.pinned_bytes))
    for _ in range(3):
        remote.ask(PULL, pulled(topic, subscription=f"a = 1 or '{topic}' = b", **SQL))
    count, size = node.call(lambda: (front.compiled.count, front.pinned_bytes))
    assert (count, size > before[1]) == (before[0] + 1, True)
    many: dict[str, Any] = {"subscription": " or ".join(["a = 1"] * 500), **SQL}
    for number in range(20):
        many["subscription"] += f" /* {number} */ "
        remote.ask(PULL, pulled(topic, **many))
    assert node.call(lambda: front.compiled.bytes_now) <= front.compiled.bytes_max
