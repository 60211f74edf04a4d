"""Requests of remoting clients count against quotas and in the audit."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.audit.row import RowKey
from penstock.controller.commands.access.commands import AlterQuotas, QuotaChange
from penstock.net.answers.answering import AnsweringSide
from penstock.quotas.entities import entity_of
from penstock.quotas.keys import QuotaKey
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import ONE_WAY
from tests.live_node import LiveNode
from tests.remoting.served import SET, Remote, running_remoting_node, sent
from tests.remoting.test_admin_changes import wanted

TOPIC = "orders"
BEAT = b'{"clientID":"10.0.0.7@42","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[]}'
OVER = 4_000_000
"""Twice what the quotas here permit in a second."""


@pytest.fixture
def place(tmp_path: Any) -> Iterator[tuple[LiveNode, Remote]]:
    overrides = (
        "broker.audit=true",
        "broker.auto_create_topics=true",
        "topic.max_message_bytes=8000000",
    )
    with running_remoting_node(tmp_path, *overrides) as (node, address):
        remote = Remote(address)
        assert remote.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}).code == 0
        yield node, remote
        remote.close()


def limit(node: LiveNode, key: str, bound: float, **entity: str) -> None:
    whose = entity_of((entity or {"user": "ANONYMOUS"}).items())
    change = QuotaChange(entity=whose, values={key: bound})
    (outcome,) = node.submit(AlterQuotas(changes=(change,)))
    assert outcome.error is None


def throttled(node: LiveNode, key: QuotaKey) -> int:
    return node.call(lambda: node.broker.quota_table.throttled[key])


def pulled(offset: int, wait_ms: int = 0) -> dict[str, object]:
    return {
        "consumerGroup": "g", "topic": TOPIC, "queueId": 0, "queueOffset": offset, "bname": SET,
        "maxMsgNums": 32, "sysFlag": 6 if wait_ms else 4,
        "commitOffset": 0, "suspendTimeoutMillis": wait_ms, "subscription": "*",
        "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip


@pytest.mark.parametrize("bound", [0.001, 100.0])
def test_topics_that_are_made_enlarged_and_deleted_are_mutations(
    place: tuple[LiveNode, Remote], bound: float
) -> None:
    node, remote = place
    limit(node, QuotaKey.MUTATIONS, bound)
    made = wanted("made", 2)
    assert remote.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, made).code == ResponseCode.SUCCESS
    told = ResponseCode.SYSTEM_BUSY if bound < 1 else ResponseCode.SUCCESS
    more = wanted("made", 3)
    for ask, fields in (
        (RequestCode.UPDATE_AND_CREATE_TOPIC, more),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "on-demand"}),
        (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "made"}),
    ):
        assert remote.ask(ask, fields).code == told, ask


def rows(node: LiveNode) -> dict[RowKey, Any]:
    def take() -> dict[RowKey, Any]:
        audit = node.broker.audit
        assert audit is not None
        return audit.fold.take(0).rows

    return node.call(take)


@pytest.fixture
def mutes(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """For how long connections were muted, in order."""
    told: list[int | None] = []
    mute = AnsweringSide.mute

    def noted(connection: AnsweringSide, delay_ms: int | None) -> None:
        told.append(delay_ms)
        mute(connection, delay_ms)

    monkeypatch.setattr(AnsweringSide, "mute", noted)
    return told


def test_a_send_over_the_quota_is_answered_and_then_nothing_is_read(place, mutes) -> None:
    node, remote = place
    limit(node, "producer_byte_rate", OVER / 2)
    body = b"x" * OVER
    answer = remote.ask(RequestCode.SEND_MESSAGE_V2, sent(TOPIC), body)
    assert answer.code == ResponseCode.SUCCESS
    assert throttled(node, QuotaKey.PRODUCE) == 1
    first, second = mutes
    assert first is None
    assert second is not None
    assert 1_000 <= second <= 2_100
    latest = {"topic": TOPIC, "queueId": 0, "bname": SET}
    assert remote.ask(RequestCode.GET_MAX_OFFSET, latest).code == ResponseCode.SUCCESS


def test_a_send_that_wants_no_answer_does_not_mute_for_ever(place, mutes) -> None:
    node, remote = place
    limit(node, "producer_byte_rate", OVER / 2)
    remote.send(RequestCode.SEND_MESSAGE_V2, sent(TOPIC), b"x" * OVER, ONE_WAY)
    latest = {"topic": TOPIC, "queueId": 0, "bname": SET}
    assert remote.ask(RequestCode.GET_MAX_OFFSET, latest).fields["offset"] == "1"
    assert mutes[0] is None
    assert mutes[1] is not None


def test_the_client_id_of_a_heartbeat_counts_from_then_on(place, mutes) -> None:
    node, remote = place
    limit(node, "producer_byte_rate", OVER / 2, **{"client-id": "10.0.0.7@42"})
    assert remote.ask(RequestCode.SEND_MESSAGE_V2, sent(TOPIC), b"x" * OVER).code == 0
    assert mutes == []
    assert remote.ask(RequestCode.HEART_BEAT, {}, BEAT).code == 0
    assert remote.ask(RequestCode.SEND_MESSAGE_V2, sent(TOPIC), b"x" * OVER).code == 0
    assert mutes[0] is None


def test_a_pull_over_the_quota_as_well(place, mutes) -> None:
    node, remote = place
    assert remote.ask(RequestCode.SEND_MESSAGE_V2, sent(TOPIC), b"x" * OVER).code == 0
    assert mutes == []
    limit(node, "consumer_byte_rate", OVER / 2)
    assert remote.ask(RequestCode.PULL_MESSAGE, pulled(0)).code == ResponseCode.SUCCESS
    assert throttled(node, QuotaKey.FETCH) == 1
    (delay,) = mutes
    assert delay is not None
    assert 1_000 <= delay <= 2_100


def test_a_pull_that_waits_holds_nobody_up(place, mutes) -> None:
    node, remote = place
    limit(node, "consumer_byte_rate", 1_000)
    remote.send(RequestCode.PULL_MESSAGE, pulled(0, wait_ms=30_000))
    latest = {"topic": TOPIC, "queueId": 0, "bname": SET}
    assert remote.ask(RequestCode.GET_MAX_OFFSET, latest).code == ResponseCode.SUCCESS
    assert mutes == []


def test_rows_tell_who_sent_and_who_read(place) -> None:
    node, remote = place
    rows(node)
    assert remote.ask(RequestCode.HEART_BEAT, {}, BEAT).code == 0
    assert remote.ask(RequestCode.SEND_MESSAGE_V2, sent(TOPIC), b"hello").code == 0
    assert remote.ask(RequestCode.PULL_MESSAGE, pulled(0)).code == 0
    assert remote.ask(RequestCode.SEND_MESSAGE_V2, sent("absent"), b"hello").code != 0
    assert remote.ask(RequestCode.SEND_MESSAGE_V2, sent(TOPIC, e=99), b"hello").code != 0
    found = {key[1:]: counts for key, counts in rows(node).items()}
    send = found["send_message_v2", TOPIC, 0]
    assert (send.requests, send.records, send.bytes_in, send.errors) == (1, 1, 5, 0)
    read = found["pull_message", TOPIC, 0]
    assert (read.requests, read.records, read.errors) == (1, 1, 0)
    assert read.bytes_out > 5
    own = found["send_message_v2", "", -1]
    assert (own.requests, own.errors) == (3, 2)
    assert found["allowed write topic", TOPIC, -1].requests == 2
    assert found["allowed read group", "g", -1].requests == 1


def test_a_client_is_told_apart_by_what_its_heartbeats_say(place) -> None:
    node, remote = place
    assert remote.ask(RequestCode.HEART_BEAT, {}, BEAT).code == 0
    rows(node)
    assert remote.ask(RequestCode.SEND_MESSAGE_V2, sent(TOPIC), b"hello").code == 0
    (who,) = {key.who for key in rows(node) if key.operation == "send_message_v2"}
    assert who == ("User:ANONYMOUS", "10.0.0.7@42", "rocketmq-python", who.version, "127.0.0.1")
    assert who.version.isdigit()


def test_what_is_not_supported_makes_one_row_whatever_its_number(place) -> None:
    node, remote = place
    rows(node)
    for code in (4_711, 4_712):
        assert remote.ask(code, {}).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    (row,) = [counts for key, counts in rows(node).items() if key.operation == "not_supported"]
    assert (row.requests, row.errors) == (2, 2)
