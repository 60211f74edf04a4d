"""Locks of queues, searches by time, and checks of subscriptions."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from penstock.base.ids import TopicId
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.locks import LOCK_MS, LockedQueue, QueueLocks
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from tests.live_node import LiveNode
from tests.remoting.served import SET, Remote, running_remoting_node, sent

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
SEND, SEARCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
QUEUE = LockedQueue("g", TopicId(bytes(16)), 0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("locks")) as served:
        topics = NewTopic(name="t", partition_count=2), NewTopic(name="times")
        served[0].submit(CreateTopics(topics=topics))
        yield served


@pytest.fixture
def remote(served: tuple[LiveNode, str]) -> Iterator[Remote]:
    with closing(Remote(served[1])) as remote:
        yield remote


def test_a_queue_is_one_client_s_until_its_lock_is_over() -> None:
    locks = QueueLocks()
    assert locks.lock(QUEUE, "a", 0)
    assert not locks.lock(QUEUE, "b", LOCK_MS - 1)
    assert locks.lock(QUEUE, "a", LOCK_MS - 1)
    assert not locks.lock(QUEUE, "b", LOCK_MS), "the first client has locked it for longer"
    assert locks.lock(QUEUE, "b", 2 * LOCK_MS)


def test_a_queue_is_given_back_by_its_client_alone() -> None:
    locks = QueueLocks()
    locks.lock(QUEUE, "a", 0)
    locks.unlock(QUEUE, "b")
    assert not locks.lock(QUEUE, "b", 1)
    locks.unlock(QUEUE, "a")
    assert locks.lock(QUEUE, "b", 1)


def test_a_user_leaves_locks_to_others() -> None:
    locks = QueueLocks(locks_max=4)
    queues = [QUEUE._replace(partition=one) for one in range(5)]
    assert [locks.lock(one, "a", 0, "alice") for one in queues] == [True] * 3 + [False] * 2
    assert locks.lock(queues[3], "b", 0, "bob")
    assert not locks.lock(queues[4], "b", 0, "bob"), "there are four"
    assert locks.lock(queues[0], "a", 1, "alice"), "its own for longer"
    locks.unlock(queues[3], "b")
    assert locks.lock(queues[0], "b", 1 + LOCK_MS, "bob"), "it was alice's"
    assert locks.lock(queues[4], "a", 1 + LOCK_MS, "alice"), "and alice has two others left"
    locks.expire(1 + 2 * LOCK_MS)
    assert locks.count == 0
    assert [locks.lock(one, "a", 0, "alice") for one in queues] == [True] * 3 + [False] * 2


def test_locks_have_a_largest_number_and_an_end() -> None:
    locks = QueueLocks(locks_max=1)
    other = QUEUE._replace(partition=1)
    assert locks.lock(QUEUE, "a", 0)
    assert not locks.lock(other, "a", 0)
    locks.expire(LOCK_MS - 1)
    assert locks.count == 1
    locks.expire(LOCK_MS)
    assert locks.count == 0
    assert locks.lock(other, "a", LOCK_MS)


def join(remote: Remote, client_id: str, group: str) -> None:
    body = {"clientID": client_id, "consumerDataSet": [{"groupName": group}]}
    assert remote.ask(RequestCode.HEART_BEAT, {}, json.dumps(body).encode()).code == 0


def locked(remote: Remote, client_id: str, *queues: tuple[str, int]) -> Sequence[tuple[str, int]]:
    """Ask for locks; return the topics and queues that the client has."""
    answer = remote.ask_among(LOCK, {}, asked(client_id, *queues))
    assert answer.code == 0
    found = json.loads(bytes(answer.body))["lockOKMQSet"]
    assert {one["brokerName"] for one in found} <= {SET}
    return [(one["topic"], one["queueId"]) for one in found]


def asked(client_id: str, *queues: tuple[str, int]) -> bytes:
    wanted = [{"topic": name, "brokerName": SET, "queueId": queue} for name, queue in queues]
    body = {"consumerGroup": "ordered", "clientId": client_id, "mqSet": wanted}
    return json.dumps(body).encode()


def test_members_lock_the_queues_that_there_are(remote: Remote) -> None:
    assert locked(remote, "a", ("t", 0)) == [], "it is no member"
    join(remote, "a", "ordered")
    join(remote, "b", "ordered")
    assert locked(remote, "a", ("t", 0), ("t", 7), ("missing", 0)) == [("t", 0)]
    assert locked(remote, "b", ("t", 0), ("t", 1)) == [("t", 1)]
    assert remote.ask_among(UNLOCK, {}, asked("a", ("t", 0))).code == 0
    assert locked(remote, "b", ("t", 0)) == [("t", 0)]
    assert remote.ask_among(LOCK, {}, b"[]").code == ResponseCode.SYSTEM_ERROR


def test_offsets_are_found_by_time(remote: Remote) -> None:
    for born_ms in (1_000, 2_000, 2_000, 3_000):
        assert remote.ask(SEND, sent("times", e=0, g=born_ms), b"message").code == 0
    where = {"topic": "times", "queueId": 0, "bname": SET}

    def found(timestamp: int, **more: str) -> int:
        answer = remote.ask(SEARCH, {**where, "timestamp": timestamp, **more})
        assert answer.code == 0, answer.remark
        return int(answer.fields["offset"])

    assert [found(one) for one in (0, 1_000, 1_001, 2_000, 2_001, 3_001)] == [0, 0, 1, 1, 3, 4]
    upper = [found(one, boundaryType="UPPER") for one in (0, 1_000, 1_001, 2_000, 2_001, 9_999)]
    assert upper == [0, 0, 0, 2, 2, 3]
    assert remote.ask(SEARCH, {**where, "queueId": 5, "timestamp": 0}).code == (
        ResponseCode.TOPIC_NOT_EXIST
    )


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("TAG", ResponseCode.SUCCESS),
        ("SQL92", ResponseCode.SUCCESS),
        ("OTHER", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_clients_learn_which_subscriptions_are_served(
    remote: Remote, kind: str, code: ResponseCode
) -> None:
    wanted = {"topic": "t", "subString": "a", "expressionType": kind}
    body = {"clientId": "c", "group": "g", "subscriptionData": wanted}
    answer = remote.ask(RequestCode.CHECK_CLIENT_CONFIG, {}, json.dumps(body).encode())
    assert answer.code == code
