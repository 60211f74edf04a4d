"""Messages are found by their keys and ids, as remoting clients and mqadmin ask for them."""

from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.ids import derived_id
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import Message, decode_messages
from penstock.remoting.wire.properties import read_properties
from tests.live_node import LiveNode
from tests.remoting.served import SET, Remote, sent

SEND, QUERY = RequestCode.SEND_MESSAGE_V2, RequestCode.QUERY_MESSAGE
ALWAYS = (1 << 63) - 1
_numbers = count()


def make_topic(node: LiveNode) -> str:
    name = f"queried-{next(_numbers)}"
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=2),)))
    return name


@pytest.fixture
def topic(node: LiveNode) -> str:
    """A new topic of two partitions."""
    return make_topic(node)


def asked(topic: str, key: str, **fields: Any) -> dict[str, Any]:
    """The fields of QUERY_MESSAGE, with these in place of the usual ones."""
    return {
        "topic": topic, "key": key, "maxNum": 64, "beginTimestamp": 0, "endTimestamp": ALWAYS,
    } | fields  # fmt: skip


def query(remote: Remote, topic: str, key: str, **fields: Any) -> list[Message]:
    """Return what is found; none is an answer, too."""
    answer = remote.ask(QUERY, asked(topic, key, **fields))
    assert answer.code in {ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND}, answer.remark
    assert int(answer.fields["indexLastUpdateTimestamp"]) > 0
    assert (answer.code == ResponseCode.SUCCESS) == bool(answer.body)
    return decode_messages(memoryview(answer.body))


def bodies(found: list[Message]) -> list[bytes]:
    return [bytes(one.body) for one in found]


def put(remote: Remote, topic: str, body: bytes, properties: dict[str, str], **at: Any) -> Command:
    answer = remote.ask(SEND, sent(topic, properties, **at), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


def test_a_message_is_found_by_each_of_its_keys(remote: Remote, topic: str) -> None:
    put(remote, topic, b"one", {"KEYS": "order-1 user-7", "UNIQ_KEY": "AB01"})
    put(remote, topic, b"two", {"KEYS": "order-2 user-7", "UNIQ_KEY": "AB02"}, e=1)
    assert bodies(query(remote, topic, "order-1")) == [b"one"]
    assert bodies(query(remote, topic, "order-2")) == [b"two"]
    assert set(bodies(query(remote, topic, "user-7"))) == {b"one", b"two"}
    assert query(remote, topic, "order-3") == []
    assert query(remote, topic, "order") == []


def test_a_message_is_found_by_its_id(remote: Remote, topic: str) -> None:
    put(remote, topic, b"one", {"KEYS": "AB02", "UNIQ_KEY": "AB01"})
    put(remote, topic, b"two", {"KEYS": "k", "UNIQ_KEY": "AB02"})
    is_id = {"_UNIQUE_KEY_QUERY": "true"}
    assert bodies(query(remote, topic, "AB02", **is_id)) == [b"two"], "not that with such a key"
    assert bodies(query(remote, topic, "AB01", **is_id)) == [b"one"]
    assert query(remote, topic, "k", **is_id) == []


def test_what_is_found_is_told_as_a_view_tells_it(remote: Remote, topic: str) -> None:
    put(remote, topic, b"one", {"KEYS": "k", "UNIQ_KEY": "AB01", "TAGS": "t", "mine": "x"})
    (found,) = query(remote, topic, "k")
    viewed = remote.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"topic": topic, "offset": found.locator})
    assert decode_messages(memoryview(viewed.body)) == [found]
    assert read_properties(found.properties)["mine"] == "x"


def test_the_newest_are_first_and_no_more_than_wanted(remote: Remote, topic: str) -> None:
    for number in range(5):
        put(remote, topic, b"%d" % number, {"KEYS": "k"}, g=1_000 + number)
    found = query(remote, topic, "k", maxNum=2)
    assert bodies(found) == [b"4", b"3"]
    assert len(query(remote, topic, "k", maxNum=100)) == 5


def test_messages_of_a_time_are_found(remote: Remote, topic: str) -> None:
    for born in (1_000, 2_000, 3_000):
        put(remote, topic, b"%d" % born, {"KEYS": "k"}, g=born)
    times = {"beginTimestamp": 1_500, "endTimestamp": 2_500}
    assert bodies(query(remote, topic, "k", **times)) == [b"2000"]
    assert bodies(query(remote, topic, "k", beginTimestamp=3_000)) == [b"3000"]
    assert bodies(query(remote, topic, "k", endTimestamp=1_000)) == [b"1000"]


def test_names_of_another_topic_are_not_found(node: LiveNode, remote: Remote, topic: str) -> None:
    other = make_topic(node)
    put(remote, topic, b"one", {"KEYS": "k", "UNIQ_KEY": "AB09"})
    assert query(remote, other, "k") == []
    assert query(remote, other, "AB09", _UNIQUE_KEY_QUERY="true") == []


def test_a_record_of_a_kafka_producer_is_found_by_key_and_by_the_id_that_it_is_shown_with(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "compression.type": "zstd"})
    for number in range(3):
        producer.produce(topic, b"%d" % number, b"order %d" % number, partition=1)
    producer.produce(topic, b"binary", b"\xff\x00", partition=1)
    assert not producer.flush(30)
    assert bodies(query(remote, topic, "order 1")) == [b"1"], "its whole key"
    assert len(query(remote, topic, "order")) == 3, "a word of it, as clients take KEYS apart"
    (found,) = query(remote, topic, "2")
    shown = read_properties(found.properties)["UNIQ_KEY"]
    topic_id = node.call(lambda: node.broker.partitions.by_name[topic.encode()].topic_id)
    assert shown == derived_id(topic_id, 1, 2)
    assert bodies(query(remote, topic, shown, _UNIQUE_KEY_QUERY="true")) == [b"2"]
    behind = derived_id(topic_id, 1, 99)
    assert query(remote, topic, behind, _UNIQUE_KEY_QUERY="true") == []


@pytest.mark.parametrize(
    "wrong", [{"key": ""}, {"maxNum": "many"}, {"beginTimestamp": ""}, {"key": "k" * 40_000}]
)
def test_a_query_that_is_none_is_refused(remote: Remote, topic: str, wrong: dict[str, str]) -> None:
    answer = remote.ask(QUERY, asked(topic, "k") | wrong)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark


def test_a_query_for_a_topic_that_is_missing_says_so(remote: Remote) -> None:
    assert remote.ask(QUERY, asked("nothere", "k")).code == ResponseCode.TOPIC_NOT_EXIST


def test_a_query_may_name_the_replica_set(remote: Remote, topic: str) -> None:
    put(remote, topic, b"one", {"KEYS": "k"})
    assert bodies(query(remote, topic, "k", bname=SET)) == [b"one"]
    for wrong in ("set-9", "broker-a"):
        answer = remote.ask(QUERY, asked(topic, "k", bname=wrong))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
