"""Commands, messages and batches as RocketMQ's own Java classes read and write them."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.remoting.heartbeat import read_heartbeat
from penstock.remoting.ids import offset_id
from penstock.remoting.queues import TopicQueues
from penstock.remoting.routes import SetMember, cluster_info, topic_route
from penstock.remoting.wire.batch_body import BatchedMessage, decode_batch, encode_batch
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.frame import decode_frame, encode_frame
from penstock.remoting.wire.message import Host, Message, decode_messages, encode_message
from penstock.remoting.wire.properties import read_properties, write_properties
from tests.compat.java_tools import TOOL_SECONDS, jars_or_skip

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

SOURCE = Path(__file__).with_name("RemotingCodec.java")
Ask = Callable[[str, bytes], Any]

V4, V6 = bytes((192, 168, 7, 9)), bytes(range(16))
FIELDS = {"a": "group", "i": "KEYS\x01k1 k2\x02TAGS\x01tag\x02", "text": 'Grüße "∑" \\ 🐫'}


@pytest.fixture(scope="module")
def java() -> Iterator[Ask]:
    """Asks the Java classes, which one process holds for all tests."""
    class_path = ":".join(map(str, jars_or_skip("rocketmq")))
    command = [
        "java",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dfile.encoding=UTF-8",
    ]
    with subprocess.Popen(
        [*command, "-cp", class_path, str(SOURCE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, told = process.stdin, process.stdout

        def ask(word: str, data: bytes) -> Any:
            given.write(f"{word} {data.hex()}\n")
            given.flush()
            line = next(line for line in told if line.startswith("@"))
            answer = json.loads(line[1:])
            assert "failed" not in answer, answer
            return answer

        yield ask
        given.close()
        process.wait(TOOL_SECONDS)


@pytest.mark.parametrize("serialisation", Serialisation)
@pytest.mark.parametrize("remark", [None, "why it failed: ü"])
@pytest.mark.parametrize("fields", [{}, FIELDS])
@pytest.mark.parametrize("body", [b"", b"\0body"])
def test_commands_are_read_and_written_as_the_java_client_does(
    java: Ask, serialisation: Serialisation, remark: str | None, fields: dict[str, str], body: bytes
) -> None:
    command = Command(
        code=310,
        fields=fields,
        body=body,
        opaque=77,
        flag=3,
        remark=remark,
        serialisation=serialisation,
    )
    told = java("command", encode_frame(command)[4:])
    written = bytes.fromhex(told.pop("written"))
    assert (told.pop("fields", None) or {}) == fields
    assert told.pop("remark", None) == remark
    assert told == {
        "code": 310,
        "opaque": 77,
        "flag": 3,
        "version": 479,
        "language": "PYTHON",
        "body": body.hex(),
    }
    assert int.from_bytes(written[:4]) == len(written) - 4
    assert decode_frame(memoryview(written)[4:]) == command


@pytest.mark.parametrize("topic", ["topic", "t" * 127, "t" * 128, "t" * 249])
@pytest.mark.parametrize("born", [V4, V6])
def test_messages_are_read_and_written_as_the_java_client_does(
    java: Ask, topic: str, born: bytes
) -> None:
    message = Message(
        topic,
        3,
        1 << 40,
        b"first\0",
        properties=write_properties({"TAGS": "ü", "UNIQ_KEY": "id", "user": "v al"}),
        locator=5 << 40 | 9,
        flag=-7,
        sys_flag=2,
        born_ms=1_700_000_000_001,
        born_host=Host(born, 4242),
        store_ms=1_700_000_000_002,
        store_host=Host(V4, 10911),
        reconsume_times=4,
        half_offset=11,
    )
    both = [message, message._replace(body=b"", queue_offset=2, properties="")]
    told = java("messages", b"".join(map(encode_message, both)))
    first, second = told
    assert first["topic"] == topic
    assert (first["queue_id"], first["queue_offset"], first["locator"]) == (3, 1 << 40, 5 << 40 | 9)
    assert (first["flag"], first["reconsume_times"], first["half_offset"]) == (-7, 4, 11)
    assert (first["born_ms"], first["store_ms"]) == (1_700_000_000_001, 1_700_000_000_002)
    assert first["store_host"] == "/192.168.7.9:10911"
    assert first["born_host"].endswith(":4242")
    assert first["properties"] == read_properties(message.properties)
    assert bytes.fromhex(first["body"]) == b"first\0"
    assert (second["queue_offset"], second["body"]) == (2, "")
    if len(topic) <= 127:  # its encoder knows the first magic only
        written = bytes.fromhex(java("again", encode_message(message)))
        (again,) = decode_messages(memoryview(written))
        assert read_properties(again.properties) == read_properties(message.properties)
        assert again._replace(properties=message.properties) == message


def test_offset_ids_are_those_of_the_java_client(java: Ask) -> None:
    host = Host(V4, 10911)
    message = Message("t", 0, 0, b"b", locator=255, store_host=host)
    (told,) = java("messages", encode_message(message))
    assert told["offset_id"] == offset_id(host, 255)


def test_batches_are_read_and_written_as_the_java_client_does(java: Ask) -> None:
    batch = [
        BatchedMessage(1, b"first", write_properties({"KEYS": "k"})),
        BatchedMessage(-2, b"second \0", write_properties({"user": "ü"})),
    ]
    told = java("batch", encode_batch(batch))
    assert [bytes.fromhex(one["body"]) for one in told["messages"]] == [b"first", b"second \0"]
    assert [one["flag"] for one in told["messages"]] == [1, -2]
    assert [one["properties"] for one in told["messages"]] == [{"KEYS": "k"}, {"user": "ü"}]
    assert decode_batch(memoryview(bytes.fromhex(told["written"]))) == batch


@pytest.mark.parametrize(
    "text", ["", "a\x01b", "a\x01b\x02\x02\x01x\x02c\x01\x02d\x01e\x02", "a\x01b\x02a\x01c\x02"]
)
def test_properties_are_read_as_the_java_client_does(java: Ask, text: str) -> None:
    told = java("messages", encode_message(Message("t", 0, 0, b"b", properties=text)))
    assert told[0].get("properties", {}) == read_properties(text)


def test_a_heartbeat_of_the_java_client_is_read(java: Ask) -> None:
    heartbeat = read_heartbeat(bytes.fromhex(java("heartbeat", b"")))
    (consumer,) = heartbeat.consumers
    (subscription,) = consumer.subscriptions
    assert heartbeat.client_id == "client"
    assert [one.group_name for one in heartbeat.producers] == ["p"]
    assert consumer.group_name == "g"
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert consumer.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    assert (subscription.topic, subscription.sub_string) == ("t", "a || b")
    assert subscription.expression_type == "TAG"
    assert subscription.sub_version > 0


def test_routes_and_the_cluster_are_read_by_the_java_client(java: Ask) -> None:
    seven, nine = ReplicaSetId(7), ReplicaSetId(9)
    members = {
        seven: [SetMember(BrokerId(0), "a:1", True), SetMember(BrokerId(2), "b:2", False)],
        nine: [SetMember(BrokerId(1), "c:3", True)],
    }
    told = topic_route(TopicQueues([seven, nine, seven]), members, "cluster")
    assert told is not None
    route = java("route", told)
    brokers = {one["brokerName"]: one for one in route["brokerDatas"]}
    assert brokers["set-7"]["brokerAddrs"] == {"0": "a:1", "3": "b:2"}
    assert brokers["set-9"]["brokerAddrs"] == {"0": "c:3"}
    assert brokers["set-9"]["cluster"] == "cluster"
    queues = {
        one["brokerName"]: (one["readQueueNums"], one["writeQueueNums"], one["perm"])
        for one in route["queueDatas"]
    }
    assert queues == {"set-7": (2, 2, 6), "set-9": (1, 1, 6)}
    info = java("cluster", cluster_info(members, "cluster"))
    assert info["clusterAddrTable"] == {"cluster": ["set-7", "set-9"]}
    assert info["brokerAddrTable"]["set-7"]["brokerAddrs"] == {"0": "a:1", "3": "b:2"}
