"""What a node tells of all its groups and producers, and changes of its own settings."""

import json
import re
from collections.abc import Iterator
from itertools import count as counted
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.waiting import wait_until
from penstock.configs.group_keys import POP_DELIVERIES
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    CreateTopics,
    NewTopic,
    ResourceEdits,
)
from penstock.controller.metadata.kinds import ResourceType
from penstock.remoting.handlers.admin import broker_progress, change_brokers
from penstock.remoting.needs import NEEDS
from penstock.remoting.operating.refusals import REFUSALS
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.remoting.served import SET, Remote, sent
from tests.remoting.test_admin import code, member, position

SEND = RequestCode.SEND_MESSAGE_V2
ALL_GROUPS = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
PROGRESS = RequestCode.GET_BROKER_CONSUME_STATS
PRODUCERS = RequestCode.GET_ALL_PRODUCER_INFO
CHANGE, CONFIG = RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG
INVALID = ResponseCode.INVALID_PARAMETER
PROJECT = Path(__file__).parents[2]
_numbers = counted()


@pytest.fixture
def topic(node: LiveNode) -> str:
    """A new topic of two partitions."""
    name = f"of-all-{next(_numbers)}"
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=2),)))
    return name


def set_up(node: LiveNode, group: str, key: str, value: str) -> None:
    """Set a key of a group."""
    edit = ConfigEdit(key=key, operation=ConfigOperation.SET, value=value)
    edits = ResourceEdits(resource_type=ResourceType.GROUP, resource_name=group, edits=(edit,))
    node.submit(AlterConfigs(resources=(edits,)))


def groups(remote: Remote) -> dict[str, Any]:
    answer = remote.ask_among(ALL_GROUPS, {})
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    told: dict[str, Any] = json.loads(bytes(answer.body))
    assert list(told) == ["subscriptionGroupTable"]
    table: dict[str, Any] = told["subscriptionGroupTable"]
    return table


def test_groups_are_told_that_have_members_or_a_retry_topic_or_were_set_up(
    remote: Remote, topic: str, node: LiveNode
) -> None:
    member(remote, f"online-{topic}", topic)
    retry = NewTopic(name=f"rmq.retry.earlier-{topic}")
    node.submit(CreateTopics(topics=(retry, NewTopic(name=f"rmq.retry-{topic}"))))
    set_up(node, f"set-{topic}", POP_DELIVERIES, "4")
    set_up(node, f"kafka-{topic}", "consumer.session.timeout.ms", "50000")
    told = groups(remote)
    own = {name for name in told if name.endswith(f"-{topic}")}
    assert own == {f"online-{topic}", f"earlier-{topic}", f"set-{topic}"}
    assert "" not in told
    one = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    for group in own:
        alone = remote.ask_among(one, {"group": group})
        assert told[group] == json.loads(bytes(alone.body)), "as each is told alone"
    assert [told[f"{kind}-{topic}"]["retryMaxTimes"] for kind in ("set", "online")] == [3, 16]


class Progress:
    """The answer about all groups; keys of RocketMQ's JSON are objects."""

    def __init__(self, answer: Command) -> None:
        assert code(answer) is ResponseCode.SUCCESS, answer.remark
        text = re.sub(
            r'\{"brokerName":"([^"]*)","queueId":(\d+),"topic":"([^"]*)"\}:',
            r'"\3 \1 \2":',
            bytes(answer.body).decode(),
        )
        self.told: dict[str, Any] = json.loads(text)

    def queues(self, group: str) -> dict[str, Any] | None:
        """The queues of a group by `topic set queue`; None if the group is not told."""
        found = [one[group] for one in self.told["consumeStatsList"] if group in one]
        if not found:
            return None
        (topics,) = found
        return {name: row for one in topics for name, row in one["offsetTable"].items()}


def store_ms(remote: Remote, topic: str, offset: int) -> int:
    """The time of a message of the first queue, as a view by its locator tells it."""
    from penstock.remoting.ids import locator_of
    from penstock.remoting.wire.message import decode_messages

    fields = {"topic": topic, "offset": locator_of(0, offset)}
    viewed = remote.ask_among(RequestCode.VIEW_MESSAGE_BY_ID, fields)
    (message,) = decode_messages(memoryview(viewed.body))
    return message.store_ms


@pytest.fixture
def behind(remote: Remote, topic: str) -> str:
    """A group that has read two of five messages, and had a member once."""
    group = f"behind-{topic}"
    for number in range(5):
        remote.ask(SEND, sent(topic), b"%d" % number)
    position(remote, group, topic, 2)
    member(remote, group, topic)
    return group


def test_progress_of_all_groups_has_the_time_of_what_was_consumed_last(
    remote: Remote, topic: str, behind: str, served: tuple[LiveNode, str]
) -> None:
    before = Progress(remote.ask_among(PROGRESS, {"isOrder": "false"}))
    rows = before.queues(behind)
    assert rows is not None
    assert set(rows) == {f"{topic} {SET} 0", f"{topic} {SET} 1"}
    first, second = rows[f"{topic} {SET} 0"], rows[f"{topic} {SET} 1"]
    assert (first["brokerOffset"], first["consumerOffset"]) == (5, 2)
    assert first["lastTimestamp"] == store_ms(remote, topic, 1)
    assert (second["brokerOffset"], second["lastTimestamp"]) == (0, 0)
    assert before.told["brokerAddr"] == served[1]
    position(remote, behind, topic, 4)
    after = Progress(remote.ask_among(PROGRESS, {}))
    assert before.told["totalDiff"] - after.told["totalDiff"] == 2
    assert after.told["totalInflightDiff"] == 0


def test_the_time_is_that_of_the_message_before_the_position_with_members_or_without(
    remote: Remote, topic: str, node: LiveNode
) -> None:
    begin, group = 1_700_000_000_000, f"gone-{topic}"
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}"})
    for at in range(4):
        producer.produce(topic, b"v", partition=0, timestamp=begin + at * 1_000)
    assert not producer.flush(UNTIL_SECONDS)
    node.submit(CreateTopics(topics=(NewTopic(name=f"rmq.retry.{group}"),)))
    position(remote, group, topic, 3)
    rows = Progress(remote.ask_among(PROGRESS, {})).queues(group)
    assert rows is not None
    assert rows[f"{topic} {SET} 0"]["lastTimestamp"] == begin + 2_000


def test_what_a_group_has_not_begun_to_consume_has_no_time(remote: Remote, topic: str) -> None:
    group = f"new-{topic}"
    remote.ask(SEND, sent(topic), b"b")
    position(remote, group, topic, 0)
    member(remote, group, topic)
    rows = Progress(remote.ask_among(PROGRESS, {})).queues(group)
    assert rows is not None
    row = rows[f"{topic} {SET} 0"]
    assert (row["brokerOffset"], row["consumerOffset"], row["lastTimestamp"]) == (1, 0, 0)


def test_topics_are_left_out_that_members_of_the_group_do_not_want(
    remote: Remote, topic: str, behind: str, node: LiveNode
) -> None:
    other = f"other-{topic}"
    node.submit(CreateTopics(topics=(NewTopic(name=other),)))
    position(remote, behind, other, 0)
    rows = Progress(remote.ask_among(PROGRESS, {})).queues(behind)
    assert rows is not None
    assert {name.split()[0] for name in rows} == {topic}
    member(remote, behind, topic, other)
    rows = Progress(remote.ask_among(PROGRESS, {})).queues(behind)
    assert rows is not None
    assert {name.split()[0] for name in rows} == {topic, other}


def test_no_topic_is_one_of_rocketmqs_ordered_ones(remote: Remote, behind: str) -> None:
    told = Progress(remote.ask_among(PROGRESS, {"isOrder": "true"}))
    assert (told.told["consumeStatsList"], told.told["totalDiff"]) == ([], 0)


def test_progress_of_too_many_queues_is_refused_and_says_what_to_do(
    remote: Remote, topic: str, behind: str, node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_progress, "READS_MAX", 0)
    refused = remote.ask_among(PROGRESS, {})
    assert code(refused) is ResponseCode.SYSTEM_ERROR
    assert "consumerProgress -g" in (refused.remark or "")
    monkeypatch.undo()
    other = f"other-{topic}"
    node.submit(CreateTopics(topics=(NewTopic(name=other, partition_count=2),)))
    position(remote, behind, other, 0)
    member(remote, behind, topic, other)
    most = bytes(remote.ask_among(PROGRESS, {}).body).count(b"offsetTable") * 200
    monkeypatch.setattr(broker_progress, "BYTES_MAX", most)
    refused = remote.ask_among(PROGRESS, {})
    assert f"more than {most} bytes" in (refused.remark or ""), "all topics together"


def test_producers_of_all_groups_are_told_with_their_last_heartbeat(
    remote: Remote, other: Remote, topic: str, node: LiveNode
) -> None:
    clock = node.broker.clock
    before = node.call(clock.wall_ms)
    member(remote, f"a-{topic}", topic)
    member(other, f"a-{topic}", topic, client="c2")
    member(other, f"b-{topic}", topic, client="c2")
    after = node.call(clock.wall_ms)
    answer = remote.ask_among(PRODUCERS, {})
    data = json.loads(bytes(answer.body))["data"]
    assert [one["clientId"] for one in data[f"p-a-{topic}"]] == ["c1", "c2"]
    (one,) = data[f"p-b-{topic}"]
    assert before - 1 <= one.pop("lastUpdateTimestamp") <= after + 1
    assert one == {
        "clientId": "c2", "language": "PYTHON", "remoteIP": "127.0.0.1", "version": 479
    }  # fmt: skip


def settings(remote: Remote, asked: RequestCode = CONFIG) -> dict[str, str]:
    lines = bytes(remote.ask_among(asked, {}).body).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


KEY = "log.retention.ms"


@pytest.fixture
def usual(remote: Remote) -> Iterator[str]:
    """What the setting is before a test, and behind it."""
    before = settings(remote)[KEY]
    yield before
    assert remote.ask_among(CHANGE, {}, f"{KEY}={before}\n".encode()).code == 0


def test_a_setting_of_the_node_is_changed_and_told_by_both_names_of_the_node(
    remote: Remote, usual: str, node: LiveNode
) -> None:
    body = b"# of the tool\n\n  log.retention.ms = 777000000\nlog.retention.bytes=-1\n"
    assert code(remote.ask_among(CHANGE, {}, body)) is ResponseCode.SUCCESS
    assert wait_until(lambda: settings(remote)[KEY] != usual, UNTIL_SECONDS)
    assert settings(remote)[KEY] == "777000000"
    own = ResourceType.BROKER, str(node.broker.broker_id)
    kept = node.call(lambda: dict(node.broker.metadata.configuration.resources[own]))
    assert kept[KEY] == "777000000", "of this broker, and not of all"
    assert settings(remote, RequestCode.GET_NAMESRV_CONFIG) == settings(remote)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"log.retention.ms=777000000\nnode.broker_id=4\n", "node.broker_id is read-only"),
        (b"log.retention.ms=777000000\nflushDiskType=SYNC_FLUSH\n", "flushDiskType"),
        (b"log.retention.ms=soon\n", "log.retention.ms"),
        (b"log.retention.ms\n", "a line has to be name=value"),
    ],
    ids=["read-only", "no setting", "no value of it", "no value"],
)
def test_a_change_that_can_not_be_is_refused_named_and_changes_nothing(
    remote: Remote, usual: str, body: bytes, told: str
) -> None:
    refused = remote.ask_among(CHANGE, {}, body)
    assert code(refused) is INVALID
    assert told in (refused.remark or "")
    assert settings(remote)[KEY] == usual


def test_a_change_that_is_no_text_or_is_too_long_is_refused(remote: Remote) -> None:
    assert code(remote.ask_among(CHANGE, {}, b"\xff=1\n")) is ResponseCode.SYSTEM_ERROR
    most = change_brokers.EDITS_MAX
    refused = remote.ask_among(CHANGE, {}, b"a=1\n" * (most + 1))
    assert (code(refused), refused.remark) == (INVALID, f"more than {most} settings at once")
    assert code(remote.ask_among(CHANGE, {}, b"# nothing\n")) is ResponseCode.SUCCESS


@pytest.mark.parametrize("number", [*REFUSALS, 999])
def test_what_is_not_served_says_what_there_is_instead(remote: Remote, number: int) -> None:
    assert number not in NEEDS
    refused = remote.ask_among(number, {})
    assert code(refused) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    told = refused.remark or ""
    assert told.startswith(f"request code {number} is not supported")
    assert told.endswith(REFUSALS.get(number, "not supported"))


def test_every_refusal_is_on_the_page_of_rocketmqs_clients() -> None:
    page = (PROJECT / "docs/operations/rocketmq.md").read_text(encoding="utf-8")
    _, _, listed = page.partition("### What mqadmin can not do")
    found = re.findall(r"\((\d+)(?: to (\d+))?\)", listed.partition("\n## ")[0])
    spans = [range(int(first), int(last or first) + 1) for first, last in found]
    assert set(REFUSALS) <= {one for span in spans for one in span}
