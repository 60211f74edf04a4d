"""What a node answers to remoting clients."""

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count as counted
from typing import Any

import cramjam
import pytest
from confluent_kafka import Producer

from harness.waiting import wait_until
from penstock.broker.access import Operation, PermitsAll, Requester, Resource
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.record.build import Record
from penstock.remoting.error_map import code_of
from penstock.remoting.handlers.routes import CLIENT_TRACES
from penstock.remoting.ids import locator_of, read_offset_id
from penstock.remoting.sending import BATCH_BYTES_MAX, RECORDS_MAX, Sent, batches_of
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import ANSWER, ONE_WAY, Command, Serialisation
from penstock.remoting.wire.frame import encode_frame
from penstock.remoting.wire.message import decode_messages
from penstock.remoting.wire.properties import read_properties
from penstock.replication.errors import NotMaster
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.remoting.served import SET, Remote, pull, pulled, running_remoting_node, sent

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
PULL, ROUTE = RequestCode.PULL_MESSAGE, RequestCode.GET_ROUTEINFO_BY_TOPIC
QUERY, UPDATE = RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET
NewTopicName = Callable[..., str]
_numbers = counted()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("remoting")) as served:
        yield served


@pytest.fixture(scope="module")
def node(served: tuple[LiveNode, str]) -> LiveNode:
    return served[0]


@pytest.fixture(scope="module")
def address(served: tuple[LiveNode, str]) -> str:
    return served[1]


@pytest.fixture
def remote(address: str) -> Iterator[Remote]:
    with closing(Remote(address)) as remote:
        yield remote


@pytest.fixture
def new_topic(node: LiveNode) -> NewTopicName:
    """Creates a topic of two partitions, with these settings."""

    def create(**configs: str) -> str:
        name = f"topic-{next(_numbers)}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=2, configs=named),)))
        return name

    return create


@pytest.fixture
def topic(new_topic: NewTopicName) -> str:
    return new_topic()


def code(answer: Command) -> ResponseCode:
    """The code of an answer, by its name."""
    return ResponseCode(answer.code)


def test_an_unknown_code_is_answered_and_the_connection_goes_on(remote: Remote) -> None:
    answer = remote.ask(999, {})
    assert code(answer) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert remote.ask(998, {}).code == answer.code


def test_a_malformed_frame_closes_the_connection(node: LiveNode, remote: Remote) -> None:
    errors = node.call(lambda: node.broker.stats.request_errors.get("MalformedFrame", 0))
    remote.socket.sendall(b"\0\0\0\x10" + b"\x09" * 16)
    assert remote.is_closed()
    assert node.call(lambda: node.broker.stats.request_errors["MalformedFrame"]) == errors + 1


def test_what_looks_like_an_answer_is_not_answered(remote: Remote) -> None:
    remote.socket.sendall(encode_frame(Command(code=0, flag=ANSWER)))
    assert remote.ask(999, {}).opaque == 1


@pytest.mark.parametrize("serialisation", Serialisation)
def test_a_message_is_stored_and_pulled(
    address: str, topic: str, serialisation: Serialisation
) -> None:
    with closing(Remote(address, serialisation)) as remote:
        fields = sent(topic, {"TAGS": "a", "UNIQ_KEY": "ID"}, e=1, h=3)
        answer = remote.ask(SEND, fields, b"body")
        assert code(answer) is ResponseCode.SUCCESS
        assert answer.serialisation is serialisation
        told = dict(answer.fields)
        host, locator = read_offset_id(told.pop("msgId"))
        assert told == {"queueId": "1", "queueOffset": "0", "transactionId": "ID"}
        assert (host.address, locator) == (bytes((127, 0, 0, 1)), locator_of(1, 0))
        (message,) = pull(remote, topic, queueId=1)
    assert (message.topic, message.queue_id, message.queue_offset) == (topic, 1, 0)
    assert (message.body, message.flag, message.born_ms) == (b"body", 3, 7)
    assert (message.locator, message.store_host) == (locator, host)
    told = {"TAGS": "a", "UNIQ_KEY": "ID", "MSG_REGION": "DefaultRegion"}
    assert read_properties(message.properties) == told


def test_the_first_kind_of_send_has_long_names(remote: Remote, topic: str) -> None:
    fields = {"topic": topic, "queueId": 0, "sysFlag": 0, "bornTimestamp": 9, "flag": 2}
    answer = remote.ask(RequestCode.SEND_MESSAGE, fields | {"properties": "TAGS\1x\2"}, b"b")
    assert code(answer) is ResponseCode.SUCCESS
    (message,) = pull(remote, topic)
    assert (message.born_ms, message.flag) == (9, 2)
    assert read_properties(message.properties)["TAGS"] == "x"


def test_a_batch_is_stored_whole_and_in_order(remote: Remote, topic: str) -> None:
    batch = [BatchedMessage(n, b"%d" % n, f"KEYS\1k{n}\2") for n in range(3)]
    answer = remote.ask(BATCH, sent(topic, m=True), encode_batch(batch))
    assert answer.fields["queueOffset"] == "0"
    locators = [read_offset_id(one)[1] for one in answer.fields["msgId"].split(",")]
    assert locators == [locator_of(0, n) for n in range(3)]
    messages = pull(remote, topic)
    assert [(one.body, one.flag) for one in messages] == [(b"0", 0), (b"1", 1), (b"2", 2)]


def test_a_one_way_message_is_stored_and_not_answered(remote: Remote, topic: str) -> None:
    remote.send(SEND, sent(topic), b"silent", flag=ONE_WAY)
    opaque = remote.send(SEND, sent(topic), b"told")
    answer = remote.receive_answer()
    assert (answer.opaque, answer.fields["queueOffset"]) == (opaque, "1")
    assert [one.body for one in pull(remote, topic)] == [b"silent", b"told"]


@pytest.mark.parametrize(
    ("fields", "body", "refusal"),
    [
        ({}, b"", ResponseCode.MESSAGE_ILLEGAL),
        ({"f": 12}, b"b", ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "DELAY\x01x\x02"}, b"b", ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "rmq.x\x013\x02"}, b"b", ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "x\x01" + "y" * 32_768}, b"b", ResponseCode.MESSAGE_ILLEGAL),
        ({"f": 1}, b"not zlib", ResponseCode.MESSAGE_ILLEGAL),
        ({"f": 0x701}, b"b", ResponseCode.MESSAGE_ILLEGAL),
        ({"f": 1}, zlib.compress(b"x" * 5_000)[:-5], ResponseCode.MESSAGE_ILLEGAL),
        ({"f": 1}, zlib.compress(bytes(64 << 20)), ResponseCode.MESSAGE_ILLEGAL),
        ({"f": 0x101}, b"not lz4", ResponseCode.MESSAGE_ILLEGAL),
        ({}, b"x" * (2 << 20), ResponseCode.MESSAGE_ILLEGAL),
        ({"e": "x"}, b"b", ResponseCode.SYSTEM_ERROR),
        ({"e": "9" * 30}, b"b", ResponseCode.SYSTEM_ERROR),
        ({"e": 2}, b"b", ResponseCode.TOPIC_NOT_EXIST),
        ({"n": "set-9"}, b"b", ResponseCode.TOPIC_NOT_EXIST),
        ({"b": "missing"}, b"b", ResponseCode.TOPIC_NOT_EXIST),
        ({"b": "__consumer_offsets"}, b"b", ResponseCode.NO_PERMISSION),
    ],
)
def test_what_can_not_be_stored_is_refused(
    remote: Remote, topic: str, fields: dict[str, Any], body: bytes, refusal: ResponseCode
) -> None:
    answer = remote.ask(SEND, sent(topic) | fields, body)
    assert code(answer) is refusal, answer.remark
    assert answer.remark
    assert pull(remote, topic) == []


def test_a_batch_without_messages_or_with_damage_is_refused(remote: Remote, topic: str) -> None:
    assert code(remote.ask(BATCH, sent(topic))) is ResponseCode.MESSAGE_ILLEGAL
    assert code(remote.ask(BATCH, sent(topic), b"\0\0\0\x30")) is ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("name", ["", "x"])
def test_a_client_that_names_no_set_means_the_one_that_is_led_here(
    remote: Remote, topic: str, name: str
) -> None:
    assert code(remote.ask(SEND, sent(topic, n=name), b"b")) is ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("flag", "compressed"),
    [
        (1, zlib.compress(b"plain" * 2_000)),
        (0x301, zlib.compress(b"plain" * 2_000)),
        (0x101, bytes(cramjam.lz4.compress(b"plain" * 2_000))),
        (0x201, bytes(cramjam.zstd.compress(b"plain" * 2_000))),
    ],
)
def test_compressed_bodies_are_stored_plain(
    remote: Remote, topic: str, flag: int, compressed: bytes
) -> None:
    remote.ask(SEND, sent(topic, f=flag), compressed)
    (message,) = pull(remote, topic)
    assert (message.body, message.sys_flag) == (b"plain" * 2_000, 0)


def test_a_topic_s_compression_is_done_by_a_worker(remote: Remote, new_topic: NewTopicName) -> None:
    topic = new_topic(compression_type="zstd")
    bodies = [bytes([n]) * 900_000 for n in range(3)]
    for body in bodies:
        assert code(remote.ask(SEND, sent(topic), body)) is ResponseCode.SUCCESS
    assert [one.body for n in range(3) for one in pull(remote, topic, n, maxMsgNums=1)] == bodies


def test_a_pull_waits_and_holds_nothing_behind_it(remote: Remote, topic: str) -> None:
    waiting = remote.send(PULL, pulled(topic, sysFlag=6, suspendTimeoutMillis=30_000))
    told = remote.send(SEND, sent(topic), b"awaited")
    answers = {
        answer.opaque: answer for answer in (remote.receive_answer(), remote.receive_answer())
    }
    assert code(answers[told]) is ResponseCode.SUCCESS
    (message,) = decode_messages(memoryview(answers[waiting].body))
    assert message.body == b"awaited"
    assert answers[waiting].fields["nextBeginOffset"] == "1"


def test_a_pull_without_messages_says_so_after_its_wait(remote: Remote, topic: str) -> None:
    for fields in ({}, {"sysFlag": 6, "suspendTimeoutMillis": 50}):
        answer = remote.ask(PULL, pulled(topic, **fields))
        assert code(answer) is ResponseCode.PULL_NOT_FOUND
        assert answer.fields["nextBeginOffset"] == "0"


def test_a_pull_begins_and_ends_in_the_middle_of_a_batch(remote: Remote, topic: str) -> None:
    remote.ask(BATCH, sent(topic), encode_batch([BatchedMessage(n, b"b", "") for n in range(9)]))
    answer = remote.ask(PULL, pulled(topic, 2, maxMsgNums=3))
    messages = decode_messages(memoryview(answer.body))
    assert [one.queue_offset for one in messages] == [2, 3, 4]
    fields = {"nextBeginOffset": "5", "minOffset": "0", "maxOffset": "9"}
    assert answer.fields == fields | {"suggestWhichBrokerId": "0"}


def test_a_pull_gets_the_tags_that_it_wants_and_goes_on_behind_the_others(
    remote: Remote, topic: str
) -> None:
    for tag in ("a", "b", "c"):
        remote.ask(SEND, sent(topic, {"TAGS": tag}), tag.encode())
    assert [one.body for one in pull(remote, topic, subscription="a||c")] == [b"a", b"c"]
    answer = remote.ask(PULL, pulled(topic, subscription="d"))
    assert code(answer) is ResponseCode.PULL_RETRY_IMMEDIATELY
    assert answer.fields["nextBeginOffset"] == "3"
    answer = remote.ask(PULL, pulled(topic, subscription="x >", expressionType="SQL92"))
    assert code(answer) is ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize("offset", [-1, 2, 99])
def test_a_pull_out_of_range_is_told_where_to_go_on(
    remote: Remote, topic: str, offset: int
) -> None:
    remote.ask(SEND, sent(topic), b"b")
    answer = remote.ask(PULL, pulled(topic, offset))
    if offset < 0:
        assert code(answer) is ResponseCode.SUCCESS
    else:
        assert code(answer) is ResponseCode.PULL_OFFSET_MOVED
        assert answer.fields["nextBeginOffset"] == "1"


def test_what_kafka_s_transactions_abort_is_not_pulled(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{node.port}", "transactional.id": topic}
    producer = Producer(settings)
    producer.init_transactions(60)
    for value in (b"aborted", b"committed"):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0
        assert pull(remote, topic, 2) == [] if value == b"committed" else True
        if value == b"aborted":
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    answer = remote.ask(PULL, pulled(topic))
    assert [one.body for one in decode_messages(memoryview(answer.body))] == [b"committed"]
    assert answer.fields["nextBeginOffset"] == "4", "behind the marker"


def test_positions_are_kept_and_told(remote: Remote, topic: str) -> None:
    place = {"consumerGroup": f"g-{topic}", "topic": topic, "queueId": 0, "bname": SET}
    assert code(remote.ask(QUERY, place)) is ResponseCode.QUERY_NOT_FOUND
    remote.ask(SEND, sent(topic), b"b")
    assert remote.ask(QUERY, place).fields == {"offset": "0"}, "all its messages are there yet"
    never = place | {"setZeroIfNotFound": "false"}
    assert code(remote.ask(QUERY, never)) is ResponseCode.QUERY_NOT_FOUND
    assert code(remote.ask(UPDATE, place | {"commitOffset": 1})) is ResponseCode.SUCCESS
    assert remote.ask(QUERY, never).fields == {"offset": "1"}
    other = never | {"queueId": 1}
    assert code(remote.ask(QUERY, other)) is ResponseCode.QUERY_NOT_FOUND


def test_a_pull_that_keeps_a_position_is_read_from_its_own_offset(
    remote: Remote, topic: str
) -> None:
    for n in range(4):
        remote.ask(SEND, sent(topic), b"%d" % n)
    group = f"g-{topic}"
    first = pull(remote, topic, 0, consumerGroup=group, sysFlag=5, commitOffset=0)
    assert [one.queue_offset for one in first] == [0, 1, 2, 3], "nothing is consumed yet"
    behind = pull(remote, topic, 3, consumerGroup=group, sysFlag=5, commitOffset=1)
    assert [one.queue_offset for one in behind] == [3], "the others are under way"


def test_a_pull_keeps_a_position_by_the_way(remote: Remote, topic: str) -> None:
    group = f"g-{topic}"
    for n in range(2):
        remote.ask(SEND, sent(topic), b"%d" % n)
    pull(remote, topic, 1, consumerGroup=group, sysFlag=5, commitOffset=1)
    place = {"consumerGroup": group, "topic": topic, "queueId": 0, "bname": SET}
    kept = {"offset": "1"}
    assert wait_until(lambda: remote.ask(QUERY, place).fields == kept, UNTIL_SECONDS)


def test_the_ends_of_a_queue(remote: Remote, topic: str) -> None:
    place = {"topic": topic, "queueId": 0, "bname": SET}
    remote.ask(SEND, sent(topic), b"b")
    assert remote.ask(RequestCode.GET_MAX_OFFSET, place).fields == {"offset": "1"}
    assert remote.ask(RequestCode.GET_MIN_OFFSET, place).fields == {"offset": "0"}


def test_members_of_a_group_are_told_of_each_other(address: str, remote: Remote) -> None:
    group = f"group-{next(_numbers)}"

    def beat(client_id: str) -> bytes:
        consumers = [{"groupName": group, "subscriptionDataSet": []}]
        return json.dumps({"clientID": client_id, "consumerDataSet": consumers}).encode()

    listing = {"consumerGroup": group}
    remote.ask(RequestCode.HEART_BEAT, {}, beat("one"))
    assert _notice(remote) == group
    with closing(Remote(address)) as other:
        other.ask(RequestCode.HEART_BEAT, {}, beat("two"))
        assert _notice(remote) == _notice(other) == group
        answer = other.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, listing)
        assert json.loads(bytes(answer.body)) == {"consumerIdList": ["one", "two"]}
    assert _notice(remote) == group, "its connection has ended"
    left = {"clientID": "one", "consumerGroup": group}
    assert code(remote.ask(RequestCode.UNREGISTER_CLIENT, left)) is ResponseCode.SUCCESS
    answer = remote.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, listing)
    assert json.loads(bytes(answer.body)) == {"consumerIdList": []}


def test_a_group_with_members_has_a_retry_topic(remote: Remote) -> None:
    """Where topics are not made on demand, too: consumers that keep an order send there only."""
    group = f"group-{next(_numbers)}"
    retries = {"topic": f"%RETRY%{group}"}
    assert code(remote.ask(ROUTE, retries)) is ResponseCode.TOPIC_NOT_EXIST
    consumers = [{"groupName": group, "subscriptionDataSet": []}]
    beat = json.dumps({"clientID": "one", "consumerDataSet": consumers}).encode()
    remote.ask(RequestCode.HEART_BEAT, {}, beat)
    assert code(remote.ask_among(ROUTE, retries)) is ResponseCode.SUCCESS


def test_a_notice_that_comes_before_an_answer_is_kept(node: LiveNode, remote: Remote) -> None:
    """As on a machine that stalls: it comes 100 ms after what it tells of."""
    front, group = node.node._rocketmq.remoting, f"group-{next(_numbers)}"
    assert front is not None
    consumers = [{"groupName": group, "subscriptionDataSet": []}]
    beat = json.dumps({"clientID": "one", "consumerDataSet": consumers}).encode()
    remote.ask(RequestCode.HEART_BEAT, {}, beat)
    assert node.until(lambda: not front._told and not front._is_telling)
    assert code(remote.ask(RequestCode.HEART_BEAT, {}, beat)) is ResponseCode.SUCCESS
    assert _notice(remote) == group


def _notice(remote: Remote) -> str:
    notice = remote.receive()
    assert (notice.code, notice.flag) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ONE_WAY)
    return notice.fields["consumerGroup"]


def test_a_malformed_heartbeat_is_refused(remote: Remote) -> None:
    assert code(remote.ask(RequestCode.HEART_BEAT, {}, b"{")) is ResponseCode.SYSTEM_ERROR


def test_every_node_is_a_name_server(address: str, remote: Remote, topic: str) -> None:
    route = json.loads(bytes(remote.ask(ROUTE, {"topic": topic}).body))
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": address}
    assert route["queueDatas"][0]["readQueueNums"] == 2
    info = json.loads(bytes(remote.ask(RequestCode.GET_BROKER_CLUSTER_INFO, {}).body))
    assert list(info["brokerAddrTable"]) == [SET]


def test_missing_topics_are_created_only_where_that_is_on(tmp_path: Any) -> None:
    for is_on in ("true", "false"):
        directory = tmp_path / is_on
        directory.mkdir()
        with (
            running_remoting_node(directory, f"broker.auto_create_topics={is_on}") as (_, address),
            closing(Remote(address)) as remote,
        ):
            codes = [
                code(remote.ask(ROUTE, {"topic": name}))
                for name in ("n", "%RETRY%g", "%RETRY%a%b", "%ELSE%g", "TBW102")
            ]
            traces = remote.ask(ROUTE, {"topic": CLIENT_TRACES})
        assert code(traces) is ResponseCode.SUCCESS, "clients drop traces without a route"
        made = ResponseCode.SUCCESS if is_on == "true" else ResponseCode.TOPIC_NOT_EXIST
        assert codes == [made, made, *[ResponseCode.TOPIC_NOT_EXIST] * 3]


class _Denies(PermitsAll):
    """Denies one operation on one kind of resource."""

    permits_all = False

    def __init__(self, operation: Operation, resource: Resource) -> None:
        self._denied = operation, resource

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        assert who.host == "127.0.0.1"
        return (operation, resource) != self._denied


@pytest.mark.parametrize(
    ("operation", "resource", "asked", "fields"),
    [
        (Operation.WRITE, Resource.TOPIC, SEND, sent("T")),
        (Operation.WRITE, Resource.TOPIC, SEND, sent("missing")),
        (Operation.READ, Resource.TOPIC, PULL, pulled("T")),
        (Operation.READ, Resource.GROUP, PULL, pulled("T")),
        (Operation.DESCRIBE, Resource.TOPIC, ROUTE, {"topic": "T"}),
        (Operation.DESCRIBE, Resource.CLUSTER, RequestCode.GET_BROKER_CLUSTER_INFO, {}),
        (Operation.READ, Resource.GROUP, QUERY, pulled("T")),
        (Operation.READ, Resource.TOPIC, QUERY, pulled("T")),
        (Operation.READ, Resource.GROUP, UPDATE, pulled("T", commitOffset=1)),
        (Operation.DESCRIBE, Resource.TOPIC, RequestCode.GET_MAX_OFFSET, pulled("T")),
        (Operation.DESCRIBE, Resource.TOPIC, RequestCode.GET_MIN_OFFSET, pulled("T")),
        (Operation.READ, Resource.GROUP, RequestCode.GET_CONSUMER_LIST_BY_GROUP, pulled("T")),
    ],
)
def test_what_is_not_permitted_is_refused(
    node: LiveNode,
    remote: Remote,
    topic: str,
    operation: Operation,
    resource: Resource,
    asked: RequestCode,
    fields: dict[str, Any],
) -> None:
    named = {name: topic if value == "T" else value for name, value in fields.items()}
    broker = node.broker
    node.call(lambda: setattr(broker, "authoriser", _Denies(operation, resource)))
    try:
        refused = remote.ask(asked, named, b"b")
    finally:
        node.call(lambda: setattr(broker, "authoriser", PermitsAll()))
    assert code(refused) is ResponseCode.NO_PERMISSION


def test_a_replaced_master_is_answered_so_that_producers_try_another() -> None:
    assert code_of(NotMaster("gone")) is ResponseCode.SERVICE_NOT_AVAILABLE


def _of_sizes(*sizes: tuple[int, int]) -> list[Sent]:
    return [Sent([Record(None, bytes(size))] * count, lambda _: None) for count, size in sizes]


def test_messages_of_a_turn_are_one_batch_up_to_a_size() -> None:
    sents = _of_sizes((1, 10), (3, 10), (1, 10))
    assert list(batches_of(sents)) == [sents]
    many = _of_sizes((RECORDS_MAX - 1, 1), (1, 1), (1, 1))
    assert list(batches_of(many)) == [many[:2], many[2:]]
    large = _of_sizes((1, BATCH_BYTES_MAX), (1, BATCH_BYTES_MAX // 2), (1, 10))
    assert list(batches_of(large)) == [large[:1], large[1:]]


def test_messages_that_come_together_are_stored_together(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    frames = [
        encode_frame(
            Command(
                code=SEND, opaque=n, fields={k: str(v) for k, v in sent(topic).items()}, body=b"b"
            )
        )
        for n in range(50)
    ]
    remote.socket.sendall(b"".join(frames))
    answers = [remote.receive_answer() for _ in frames]
    assert [answer.opaque for answer in answers] == list(range(50))
    assert [int(answer.fields["queueOffset"]) for answer in answers] == list(range(50))
    hosted = node.call(lambda: node.broker.partitions.find(topic, 0))
    assert hosted is not None
    assert hosted.log.size_bytes < 50 * 100, "a batch of its own takes 61 bytes beside the record"
