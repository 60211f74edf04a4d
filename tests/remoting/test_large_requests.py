"""The largest requests that are served, of each kind: none of them takes a long turn."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.dispatch import BODY_BYTES_MAX
from penstock.remoting.errors import MalformedBody
from penstock.remoting.filters.compiled import CompiledExpressions
from penstock.remoting.front import TELL_MS, RemotingFront
from penstock.remoting.handlers import clients
from penstock.remoting.subscription import TAGS_CHARACTERS_MAX, read_filter
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from tests.live_node import ANSWER_SECONDS, LiveNode
from tests.remoting.served import SET, Remote
from tests.turn_calls import CALLS_MAX, Turns

C = RequestCode
SUCCESS = ResponseCode.SUCCESS
WIDE = 6_000
GROUPS = 1_000


@pytest.fixture(scope="module")
def wide(node: LiveNode) -> str:
    """A topic of many queues."""
    node.submit(CreateTopics(topics=(NewTopic(name="wide", partition_count=WIDE),)))
    return "wide"


@pytest.fixture
def front(node: LiveNode) -> RemotingFront:
    front = node.node._rocketmq.remoting
    assert front is not None
    return front


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def beat(client_id: str, groups: int = GROUPS, producers: int = 0, subscriptions: int = 1) -> bytes:
    wanted = [{"topic": f"t{one}"} for one in range(1, subscriptions)]
    return body(
        clientID=client_id,
        consumerDataSet=[
            {"groupName": f"g{one}", "subscriptionDataSet": [{"topic": "wide"}, *wanted]}
            for one in range(groups)
        ],
        producerDataSet=[{"groupName": f"p{one}"} for one in range(producers)],
    )


def longest(node: LiveNode, ask: Callable[[], Any]) -> tuple[Any, Turns]:
    turns = Turns()
    node.call(turns.begin)
    try:
        return ask(), turns
    finally:
        node.call(turns.end)


@pytest.mark.parametrize("model", ["BROADCASTING", "CLUSTERING"])
def test_thousands_of_queues_are_assigned_in_short_turns(
    node: LiveNode, remote: Remote, wide: str, model: str
) -> None:
    assert remote.ask_among(C.HEART_BEAT, {}, beat("one", 1)).code == SUCCESS
    asked = body(topic=wide, consumerGroup="g0", clientId="one", messageModel=model)
    answer, turns = longest(node, lambda: remote.ask_among(C.QUERY_ASSIGNMENT, {}, asked))
    told = json.loads(bytes(answer.body))["messageQueueAssignments"]
    assert [one["messageQueue"]["queueId"] for one in told] == list(range(WIDE))
    assert {(one["messageQueue"]["brokerName"], one["mode"]) for one in told} == {(SET, "PULL")}
    assert 0 < turns.longest < 2 * CALLS_MAX, turns.begun_in


def test_thousands_of_queues_are_locked_in_short_turns(
    node: LiveNode, remote: Remote, wide: str, front: RemotingFront
) -> None:
    assert remote.ask_among(C.HEART_BEAT, {}, beat("one", 1)).code == SUCCESS
    assert remote.ask_among(C.GET_ROUTEINFO_BY_TOPIC, {"topic": wide}).code == SUCCESS
    queues = [{"topic": wide, "brokerName": SET, "queueId": one} for one in range(2_000)]
    asked = body(consumerGroup="g0", clientId="one", mqSet=queues)
    assert node.until(lambda: not front._told and not front._is_telling), "of others' groups"
    answer, turns = longest(node, lambda: remote.ask_among(C.LOCK_BATCH_MQ, {}, asked))
    assert len(json.loads(bytes(answer.body))["lockOKMQSet"]) == 2_000
    assert 0 < turns.longest < CALLS_MAX, turns.begun_in
    assert remote.ask_among(C.UNLOCK_BATCH_MQ, {}, asked).code == SUCCESS
    assert node.call(lambda: front.locks.count) == 0


def test_members_of_thousands_of_groups_are_told_in_short_turns(
    node: LiveNode, remote: Remote, other: Remote, front: RemotingFront
) -> None:
    remote.send(C.HEART_BEAT, {}, beat("stays", producers=0))
    assert remote.receive_answer().code == SUCCESS  # notices may come before it
    told: set[str] = set()
    while len(told) < GROUPS:
        told.add(remote.receive().fields["consumerGroup"])

    def join() -> None:
        assert other.ask_among(C.HEART_BEAT, {}, beat("comes")).code == SUCCESS
        again: set[str] = set()
        while len(again) < GROUPS:
            notice = remote.receive()
            assert notice.code == C.NOTIFY_CONSUMER_IDS_CHANGED
            again.add(notice.fields["consumerGroup"])

    _, turns = longest(node, join)
    assert 0 < turns.longest < 2 * CALLS_MAX, turns.begun_in
    assert node.call(lambda: front.members.count) >= 2 * GROUPS


def test_changes_that_come_while_members_are_told_are_told_together_afterwards(
    node: LiveNode, front: RemotingFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a client that joins and hangs up has one telling begun upon the other."""
    begun: list[Coroutine[Any, Any, None]] = []
    idle: tuple[int, dict[str, None], bool] = (0, {}, False)
    assert node.until(lambda: (front.members.count, front._told, front._is_telling) == idle)
    monkeypatch.setattr(front, "spawn", lambda _, work: begun.append(work))
    node.call(lambda: front.tell_members(["a"]))
    assert node.until(lambda: len(begun) == 1)
    later: list[bool] = []
    node.call(lambda: front.tell_members(["b"]))
    node.call(lambda: front.tell_members(["c"]))
    node.call(lambda: front.broker.scheduler.call_later(3 * TELL_MS, lambda: later.append(True)))
    assert node.until(lambda: bool(later))
    assert len(begun) == 1, "it is not over yet"
    asyncio.run_coroutine_threadsafe(begun[0], node.loop).result(ANSWER_SECONDS)
    assert node.until(lambda: len(begun) == 2)
    asyncio.run_coroutine_threadsafe(begun[1], node.loop).result(ANSWER_SECONDS)
    assert node.call(lambda: (front._told, front._is_telling)) == ({}, False)


def test_clients_that_hang_up_leave_no_member_and_no_producer(
    node: LiveNode, served: tuple[LiveNode, str], front: RemotingFront
) -> None:
    for _ in range(3):
        with closing(Remote(served[1])) as gone:
            for one in range(3):
                asked = beat(f"gone-{one}", producers=0)
                assert gone.ask_among(C.HEART_BEAT, {}, asked).code == SUCCESS
            producing = beat("gone", groups=0, producers=GROUPS)
            assert gone.ask_among(C.HEART_BEAT, {}, producing).code == SUCCESS
    producers = front.asker.producers
    assert node.until(lambda: (front.members.count, front.members.bytes_now) == (0, 0))
    assert node.until(lambda: (producers.count, producers._of) == (0, {}))


@pytest.mark.parametrize(("groups", "subscriptions"), [(GROUPS, 20), (20, 990)])
def test_heartbeats_with_tens_of_thousands_of_subscriptions_are_noted_in_short_turns(
    node: LiveNode, remote: Remote, front: RemotingFront, groups: int, subscriptions: int
) -> None:
    assert node.until(lambda: not front.members.count), "those of other tests have room"
    asked = beat("large", groups, subscriptions=subscriptions)
    answer, turns = longest(node, lambda: remote.ask_among(C.HEART_BEAT, {}, asked))
    assert answer.code == SUCCESS
    assert 0 < turns.longest < 2 * CALLS_MAX, turns.begun_in
    noted = node.call(lambda: front.members.members(f"g{groups - 1}"))
    (group,) = [group for client_id, _, group in noted if client_id == "large"]
    assert [one.topic for one in group.subscriptions[:2]] == ["wide", "t1"]
    assert len(group.subscriptions) == subscriptions


def test_of_an_address_one_long_heartbeat_is_read_at_a_time(
    node: LiveNode, remote: Remote, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read of one has ten times its bytes until it is noted."""
    read, noted = clients._note_in_turns, []
    at_work: set[int] = set()

    async def counted(context: Any, command: Command, reply: Any) -> None:
        at_work.add(id(command))
        noted.append(len(at_work))
        await read(context, command, reply)
        at_work.discard(id(command))

    monkeypatch.setattr(clients, "_note_in_turns", counted)
    for number, one in enumerate((remote, other) * 3):
        one.send(C.HEART_BEAT, {}, beat(f"many-{number}"))
    for one in (remote, other):
        answers: list[Command] = []
        while len(answers) < 3:
            got = one.receive()
            answers += [] if got.code == C.NOTIFY_CONSUMER_IDS_CHANGED else [got]
        assert {one.code for one in answers} == {SUCCESS}
    assert noted == [1] * 6


def test_a_long_heartbeat_is_refused_whole_where_one_of_its_groups_is_none(
    node: LiveNode, remote: Remote, front: RemotingFront
) -> None:
    wrong = beat("wrong", subscriptions=5).replace(b'{"groupName": "g999"', b'{"groupName": 999')
    assert remote.ask_among(C.HEART_BEAT, {}, wrong).code == ResponseCode.SYSTEM_ERROR
    assert "wrong" not in node.call(lambda: front.members.client_ids("g0"))


def test_members_of_a_connection_that_closes_leave_in_short_turns(
    node: LiveNode, served: tuple[LiveNode, str], front: RemotingFront
) -> None:
    gone = Remote(served[1])
    for one in range(10):
        assert gone.ask_among(C.HEART_BEAT, {}, beat(f"left-{one}")).code == SUCCESS

    def leave() -> None:
        gone.close()
        assert node.until(lambda: not front.members.count)

    _, turns = longest(node, leave)
    assert 0 < turns.longest < CALLS_MAX, turns.begun_in


def test_a_client_that_hangs_up_while_its_heartbeat_is_noted_leaves_no_member(
    node: LiveNode, remote: Remote, front: RemotingFront
) -> None:
    assert remote.ask_among(C.HEART_BEAT, {}, beat("here", 1)).code == SUCCESS
    asked = Command(C.HEART_BEAT, {}, beat("hung-up", producers=0), opaque=7)

    def hang_up() -> int:
        (connection,) = front.members.connections("g0")
        work = clients._noting(connection.state, asked)
        while not front.members.client_ids("g1"):
            next(work)
        connection.close("the test hangs up")
        return len(list(work)) + len(list(clients._noting(connection.state, asked)))

    node.call(hang_up)
    assert node.until(lambda: (front.members.count, front.members.bytes_now) == (0, 0))
    assert node.call(lambda: front.members._places) == {}


LARGE = b'{"x":"' + b"x" * BODY_BYTES_MAX + b'"}'
WITHOUT_MESSAGES = sorted(
    set(C)
    - {C.SEND_MESSAGE, C.SEND_MESSAGE_V2, C.SEND_BATCH_MESSAGE}
    - {C.CHECK_TRANSACTION_STATE, C.NOTIFY_CONSUMER_IDS_CHANGED}
)


@pytest.mark.parametrize("code", WITHOUT_MESSAGES, ids=lambda code: code.name)
def test_a_large_body_without_messages_is_refused_unread(remote: Remote, code: RequestCode) -> None:
    answer = remote.ask(code, {}, LARGE)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        f"a body of {len(LARGE)} bytes, at most {BODY_BYTES_MAX}",
    )


def test_a_body_of_the_greatest_length_is_read(remote: Remote) -> None:
    padding = BODY_BYTES_MAX - len(body(clientID="c", x=""))
    assert remote.ask(C.HEART_BEAT, {}, body(clientID="c", x="x" * padding)).code == SUCCESS


def test_an_expression_of_tags_has_a_bound_before_it_is_taken_apart() -> None:
    compiled = CompiledExpressions()
    padded = "a" + " " * (TAGS_CHARACTERS_MAX - 1)
    assert read_filter(padded, "TAG", compiled).work == 0
    with pytest.raises(MalformedBody, match=str(TAGS_CHARACTERS_MAX + 1)):
        read_filter(padded + " ", "TAG", compiled)


def test_the_longest_turn_of_each_request_is_a_metric_with_its_name(
    node: LiveNode, remote: Remote, wide: str
) -> None:
    assert remote.ask(C.GET_MIN_OFFSET, {"topic": wide, "queueId": 0, "bname": SET}).code == SUCCESS
    turns = node.call(lambda: {one.name: one.us for one in node.broker.stats.longest_turns()})
    assert turns["remoting.GET_MIN_OFFSET"] > 0
    assert turns["remoting.POLLING_INFO"] == 0
