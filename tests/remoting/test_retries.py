"""Messages that a group sends back: they come again, and in the end they are dead letters."""

from contextlib import closing
from itertools import chain
from typing import Any

import pytest

from penstock.broker.access import Operation, PermitsAll, Requester, Resource
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.controller.errors import MetadataQueueFull, MetadataUnavailable
from penstock.node.pages.keeping_metrics import keeping_metrics
from penstock.node.pages.remoting_metrics import remoting_metrics
from penstock.record.build import Record
from penstock.remoting.ids import NOT_ADDRESSABLE, located, locator_of
from penstock.remoting.later.group_topics import retry_group, stored_name
from penstock.remoting.later.retries import Failed, again, dead_letter, retry_level
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import Message
from penstock.remoting.wire.properties import read_properties
from tests.broker.cluster import Cluster
from tests.remoting.served import Remote, pull, running_remoting_node, sent
from tests.remoting.world import SET, Remoting, remotings, settle

SEND, BACK = RequestCode.SEND_MESSAGE_V2, RequestCode.CONSUMER_SEND_MSG_BACK
RETRY, DEAD = "%RETRY%shop", "%DLQ%shop"
LEVELS = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
SECOND = 1_000


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(2)
    cluster.create("events")
    return cluster


def store(cluster: Cluster, remote: Remoting, body: bytes = b"body", **properties: str) -> Message:
    """Send a message, and pull it."""
    told = {"UNIQ_KEY": "ID", "colour": "red"} | properties
    remote.send(SEND, sent("events", told, n=SET, h=3), body)
    cluster.replicate()
    return remote.pull("events", consumerGroup="shop")[-1]


def returned(message: Message, **fields: object) -> dict[str, object]:
    """What a client sends back: of a message that came again, it tells the first topic."""
    properties = read_properties(message.properties)
    usual: dict[str, object] = {
        "group": "shop",
        "offset": message.locator,
        "delayLevel": 0,
        "originMsgId": properties["UNIQ_KEY"],
        "originTopic": properties.get("RETRY_TOPIC", message.topic),
        "maxReconsumeTimes": 16,
        "bname": SET,
    }
    return usual | fields


def send_back(cluster: Cluster, remote: Remoting, message: Message, **fields: object) -> Command:
    asked = remote.send(BACK, returned(message, **fields))
    cluster.replicate()
    cluster.replicate()
    answer = remote.answer(asked)
    assert answer is not None
    return answer


def told_code(answer: Command) -> ResponseCode:
    return ResponseCode(answer.code)


def test_topics_of_groups_have_names_that_kafka_s_tools_know() -> None:
    assert stored_name(RETRY) == "rmq.retry.shop"
    assert stored_name(DEAD) == "rmq.dlq.shop"
    assert stored_name("events") == "events"
    assert (retry_group(RETRY), retry_group(DEAD), retry_group("events")) == ("shop", None, None)


@pytest.mark.parametrize(("times", "level"), list(enumerate(LEVELS)))
def test_each_attempt_waits_longer_than_the_one_before(times: int, level: int) -> None:
    assert retry_level(Failed("t", "ID", times, 16, 0)) == level


@pytest.mark.parametrize(
    ("times", "times_max", "asked", "level"),
    [
        (16, 16, 0, None),
        (17, 16, 0, None),
        (0, 0, 0, None),
        (16, -1, 0, None),
        (15, -1, 0, 18),
        (2, 3, 1, 1),
        (0, 16, -1, None),
        (0, 16, 99, 18),
        (30, 100, 0, 18),
    ],
)
def test_a_client_says_how_often_and_how_late(
    times: int, times_max: int, asked: int, level: int | None
) -> None:
    assert retry_level(Failed("t", "ID", times, times_max, asked)) == level


def test_a_record_of_kafka_s_comes_again_as_it_was() -> None:
    record = Record(b"\xff", None, (("a", b"\xff"), ("rmq.times", b"4"), ("b", None)), 5)
    once = again(record, Failed("events", "ID", 4, 16, 0))
    added = (("rmq.id", b"ID"), ("rmq.RETRY_TOPIC", b"events"), ("rmq.ORIGIN_MESSAGE_ID", b"ID"))
    expected = (("a", b"\xff"), ("b", None), *added, ("rmq.times", b"5"))
    assert once == record._replace(headers=expected)
    twice = dead_letter(once, Failed("other", "OTHER", 5, 16, 0))
    headers = dict(twice.headers)
    assert (headers["rmq.RETRY_TOPIC"], headers["rmq.DLQ_ORIGIN_TOPIC"]) == (b"events", b"events")
    assert (headers["rmq.ORIGIN_MESSAGE_ID"], headers["rmq.DLQ_ORIGIN_MESSAGE_ID"]) == (b"ID",) * 2
    assert headers["rmq.times"] == b"6"


def test_a_message_comes_again_after_its_delay_with_one_time_more(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    message = store(cluster, remote, TAGS="a", KEYS="k")
    assert told_code(send_back(cluster, remote, message)) is ResponseCode.SUCCESS
    cluster.world.advance(10 * SECOND - 1)
    settle(cluster)
    assert remote.pull(RETRY) == []
    cluster.world.advance(1)
    settle(cluster)
    (again_,) = remote.pull(RETRY)
    assert (again_.topic, again_.body, again_.reconsume_times) == (RETRY, b"body", 1)
    assert (again_.flag, again_.born_ms, again_.born_host) == (3, 7, message.born_host)
    assert read_properties(again_.properties) == read_properties(message.properties) | {
        "RETRY_TOPIC": "events",
        "ORIGIN_MESSAGE_ID": "ID",
    }
    assert remote.front.sent_back == {"retry": 1}


def test_it_is_answered_when_the_set_has_it_and_not_before(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    message = store(cluster, remote)
    asked = remote.send(BACK, returned(message))
    cluster.world.run()
    assert remote.answer(asked) is None
    assert remote.front.held.bytes_now > 0, "it counts among what its client has unanswered"
    cluster.replicate()
    assert remote.front.held.bytes_now == 0
    answer = remote.answer(asked)
    assert answer is not None
    assert told_code(answer) is ResponseCode.SUCCESS


def test_a_message_that_fails_each_time_is_a_dead_letter_in_the_end(cluster: Cluster) -> None:
    """Its second copy is at partition 0 and offset 0, as it is itself: the locator tells them."""
    remote, _ = remotings(cluster)
    message = store(cluster, remote)
    for times in range(2):
        assert located(message.locator) == (0, times - 1 if times else 0, times > 0)
        answer = send_back(cluster, remote, message, maxReconsumeTimes=2)
        assert told_code(answer) is ResponseCode.SUCCESS
        cluster.world.advance(30 * SECOND)
        settle(cluster)
        message = remote.pull(RETRY, times)[0]
        assert message.reconsume_times == times + 1
    answer = send_back(cluster, remote, message, maxReconsumeTimes=2)
    assert told_code(answer) is ResponseCode.SUCCESS
    (dead,) = remote.pull(DEAD)
    assert (dead.topic, dead.body, dead.reconsume_times, dead.born_ms) == (DEAD, b"body", 3, 7)
    properties = read_properties(dead.properties)
    assert (properties["DLQ_ORIGIN_TOPIC"], properties["DLQ_ORIGIN_MESSAGE_ID"]) == ("events", "ID")
    assert len(remote.pull(RETRY)) == 2
    assert remote.front.sent_back == {"retry": 2, "dead_letter": 1}


def test_a_new_master_delivers_what_was_sent_back_to_the_old_one(cluster: Cluster) -> None:
    first, second = remotings(cluster)
    message = store(cluster, first)
    assert told_code(send_back(cluster, first, message)) is ResponseCode.SUCCESS
    cluster.lead(1)
    cluster.replicate()
    cluster.world.advance(10 * SECOND)
    settle(cluster)
    (once,) = second.pull(RETRY)
    assert once.reconsume_times == 1
    assert told_code(send_back(cluster, second, once)) is ResponseCode.SUCCESS


def test_a_record_of_a_kafka_producer_can_be_sent_back(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    cluster.nodes[0].produce(b"by Kafka")
    cluster.replicate()
    (message,) = remote.pull("events")
    assert told_code(send_back(cluster, remote, message)) is ResponseCode.SUCCESS
    cluster.world.advance(10 * SECOND)
    settle(cluster)
    (once,) = remote.pull(RETRY)
    assert once.body == b"by Kafka"
    first_id = read_properties(message.properties)["UNIQ_KEY"]
    assert read_properties(once.properties)["UNIQ_KEY"] == first_id, "an id is that of the message"
    assert once.born_ms == message.born_ms


def test_a_message_in_the_middle_of_a_batch_is_the_one_that_comes_again(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    body = encode_batch([BatchedMessage(n, b"%d" % n, "") for n in range(3)])
    remote.send(RequestCode.SEND_BATCH_MESSAGE, sent("events", n=SET, m=True), body)
    cluster.replicate()
    message = remote.pull("events")[1]
    send_back(cluster, remote, message, delayLevel=1)
    cluster.world.advance(SECOND)
    settle(cluster)
    assert [one.body for one in remote.pull(RETRY)] == [b"1"]


@pytest.mark.parametrize(
    ("fields", "code", "told"),
    [
        ({"offset": NOT_ADDRESSABLE}, ResponseCode.SYSTEM_ERROR, "no place"),
        ({"offset": -1}, ResponseCode.SYSTEM_ERROR, "no place"),
        ({"offset": locator_of(0, 5)}, ResponseCode.SYSTEM_ERROR, ""),
        ({"offset": locator_of(5, 0)}, ResponseCode.TOPIC_NOT_EXIST, ""),
        ({"offset": locator_of(0, 0, is_retry=True)}, ResponseCode.TOPIC_NOT_EXIST, ""),
        ({"originTopic": "missing"}, ResponseCode.TOPIC_NOT_EXIST, ""),
        ({"originTopic": "__consumer_offsets"}, ResponseCode.TOPIC_NOT_EXIST, ""),
        ({"originMsgId": "OTHER"}, ResponseCode.SYSTEM_ERROR, "another message"),
        ({"group": "a%b"}, ResponseCode.TOPIC_NOT_EXIST, "letters"),
        ({"group": "g" * 250}, ResponseCode.TOPIC_NOT_EXIST, "characters"),
        ({"delayLevel": "x"}, ResponseCode.SYSTEM_ERROR, "delayLevel"),
    ],
)
def test_what_can_not_be_sent_back_is_refused_with_its_reason(
    cluster: Cluster, fields: dict[str, Any], code: ResponseCode, told: str
) -> None:
    remote, _ = remotings(cluster)
    message = store(cluster, remote)
    answer = send_back(cluster, remote, message, **fields)
    assert told_code(answer) is code, answer.remark
    assert told in (answer.remark or "")
    assert remote.front.sent_back == {}


def test_a_client_that_knows_no_id_but_that_of_the_place_is_served(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    message = store(cluster, remote)
    by_place = f"7F00000100002694{message.locator:016x}"
    answer = send_back(cluster, remote, message, originMsgId=by_place)
    assert told_code(answer) is ResponseCode.SUCCESS


def test_who_may_not_consume_with_the_group_sends_nothing_back(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    message = store(cluster, remote)
    send_back(cluster, remote, message)

    class Denies(PermitsAll):
        permits_all = False

        def permits(self, who: Requester, op: Operation, kind: Resource, name: str) -> bool:
            return (op, kind, name) != (Operation.READ, Resource.GROUP, "shop")

    remote.node.broker.authoriser = Denies()
    assert told_code(send_back(cluster, remote, message)) is ResponseCode.NO_PERMISSION
    for code, fields in (
        (SEND, sent(RETRY, n=SET)),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": RETRY}),
    ):
        answer = remote.answer(remote.send(code, fields, b"b"))
        assert answer is not None
        assert told_code(answer) is ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(("times", "is_dead"), [(1, False), (2, True), (3, True)])
def test_what_a_client_sends_to_its_retry_topic_is_a_dead_letter_at_its_limit(
    cluster: Cluster, times: int, is_dead: bool
) -> None:
    """So do clients that could not send back, and those that keep the order of queues."""
    remote, _ = remotings(cluster)
    send_back(cluster, remote, store(cluster, remote), delayLevel=18)
    properties = {"UNIQ_KEY": "ID", "RETRY_TOPIC": "events", "DELAY": "1"}
    asked = remote.send(SEND, sent(RETRY, properties, n=SET, j=times, l=2), b"mine")
    cluster.replicate()
    cluster.replicate()
    answer = remote.answer(asked)
    assert answer is not None
    assert told_code(answer) is ResponseCode.SUCCESS
    assert answer.fields.keys() >= {"msgId", "queueId", "queueOffset"}, "Java insists on them"
    cluster.world.advance(SECOND)
    settle(cluster)
    topic = DEAD if is_dead else RETRY
    (message,) = remote.pull(topic)
    assert (message.body, message.reconsume_times) == (b"mine", times)
    if is_dead:
        assert remote.pull(RETRY) == []
        assert read_properties(message.properties)["DLQ_ORIGIN_TOPIC"] == "events"


def test_requests_that_need_the_same_place_wait_for_one_command(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    places, member = remote.front.places, cluster.nodes[0].member
    commands: list[Any] = []
    places._spawn = lambda _, work: commands.append(work)  # the command is under way
    found: list[Any] = []
    for _ in range(3):
        places.use("rmq.retry.shop", member.replica_set_id, found.append)
    assert (len(commands), found) == (1, [])
    with pytest.raises(StopIteration):
        commands[0].send(None)
    assert [one.topic.name for one in found] == ["rmq.retry.shop"] * 3


def test_places_that_are_being_made_are_bounded_and_none_waits_for_ever(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    places, member = remote.front.places, cluster.nodes[0].member
    commands: list[Any] = []
    places._spawn = lambda _, work: commands.append(work)
    found: list[Any] = []
    for n in range(1_001):
        places.use(f"rmq.retry.g{n}", member.replica_set_id, found.append)
    (refused,) = found
    assert isinstance(refused, MetadataQueueFull)
    found.clear()
    node_port = remote.node.broker.controller
    remote.node.broker.controller = _Unavailable()
    for command in commands:
        with pytest.raises(StopIteration):
            command.send(None)
    assert {type(one) for one in found} == {MetadataUnavailable}
    assert len(found) == 1_000
    remote.node.broker.controller = node_port
    places._spawn = remote.front.spawn
    found.clear()
    places.use("rmq.retry.g0", member.replica_set_id, found.append)
    assert [one.topic.name for one in found] == ["rmq.retry.g0"], "it is asked for anew"


class _Unavailable:
    """A controller that nobody reaches."""

    async def submit(self, command: Any) -> Any:
        raise MetadataUnavailable


def test_topics_of_a_group_are_made_and_their_messages_come_by_themselves(tmp_path: Any) -> None:
    with running_remoting_node(tmp_path) as (node, address), closing(Remote(address)) as remote:
        node.submit(CreateTopics(topics=(NewTopic(name="events"),)))
        remote.ask(SEND, sent("events", {"UNIQ_KEY": "ID"}), b"body")
        (message,) = pull(remote, "events")
        fields = returned(message, bname="set-1")
        assert remote.ask(BACK, fields | {"delayLevel": -1}).code == 0
        assert remote.ask(BACK, fields | {"delayLevel": 1}).code == 0
        names = set(node.call(lambda: list(node.broker.metadata.topics_by_name)))
        assert {"rmq.dlq.shop", "rmq.retry.shop", "__delayed_1"} <= names
        assert [one.body for one in pull(remote, DEAD)] == [b"body"]
        waited = pull(remote, RETRY, sysFlag=6, suspendTimeoutMillis=30_000)
        assert [one.reconsume_times for one in waited] == [1]


def test_what_comes_again_is_counted(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    message = store(cluster, remote)
    send_back(cluster, remote, message, delayLevel=1)
    send_back(cluster, remote, message, delayLevel=2)
    send_back(cluster, remote, message, delayLevel=-1)
    cluster.world.advance(SECOND)
    settle(cluster)
    cluster.world.advance(5 * SECOND)
    told = {
        (sample.name, *sample.labels.values()): sample.value
        for family in chain(remoting_metrics(remote.front), keeping_metrics(remote.front.keeping))
        for sample in family.samples
    }
    assert told[("penstock_remoting_sent_back_total", "retry")] == 2
    assert told[("penstock_remoting_sent_back_total", "dead_letter")] == 1
    outcomes = ("held", "delivered", "moved", "put_back", "dropped")
    delayed = [told[("penstock_remoting_delayed_total", one)] for one in outcomes]
    assert delayed == [2, 1, 0, 0, 0]
    assert told[("penstock_remoting_delayed_waiting",)] == 1
    assert told[("penstock_remoting_delayed_late_seconds",)] == 1.0
