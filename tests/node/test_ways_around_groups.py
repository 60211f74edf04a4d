"""More ways around the rules on RocketMQ's fronts: by what groups have, by what is made just now.

See test_ways_around.py. Here what alice may not see or change is made by the tests themselves.
"""

import json
from collections.abc import Iterator

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from penstock.access.rules import AclOperation, AclResource
from penstock.controller.commands.access.commands import AddAcls
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import encode_frame
from tests.grpc.receiving import named
from tests.node.test_ways_around import INTERNAL
from tests.node.ways_around import (
    FOREIGN,
    HIDDEN,
    OPEN,
    OWN,
    PASSWORDS,
    Fronts,
    rule,
    running_fronts,
)
from tests.remoting.served import SET, sent
from tests.remoting.signing import SignedRemote, signed

NEW, CLIENT = "alices-new", "victim@1"


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronts]:
    with running_fronts(tmp_path_factory.mktemp("groups")) as fronts:
        own_retry = NewTopic(name=f"rmq.retry.{OWN}", partition_count=1)
        fronts.node.submit(CreateTopics(topics=(own_retry,)))
        fronts.node.submit(AddAcls(acls=(rule(AclResource.TOPIC, NEW, AclOperation.CREATE),)))
        yield fronts


@pytest.fixture
def remote(fronts: Fronts) -> Iterator[SignedRemote]:
    with fronts.remoting() as client:
        yield client


@pytest.fixture
def root(fronts: Fronts) -> Iterator[SignedRemote]:
    with fronts.remoting("root") as client:
        yield client


def test_the_progress_of_one_s_own_group_names_no_hidden_topic(
    remote: SignedRemote, root: SignedRemote
) -> None:
    """Somebody else has committed a position of the group there."""
    for topic in (OPEN, HIDDEN):
        place = {"consumerGroup": OWN, "topic": topic, "queueId": 0, "bname": SET}
        kept = root.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 1})
        assert kept.code == ResponseCode.SUCCESS, kept.remark
    told = remote.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": OWN})
    assert OPEN.encode() in bytes(told.body)
    assert HIDDEN.encode() not in bytes(told.body)


def test_nobody_takes_a_member_out_of_another_group(
    remote: SignedRemote, root: SignedRemote
) -> None:
    body = {"clientID": CLIENT, "consumerDataSet": [{"groupName": FOREIGN}]}
    root.ask(RequestCode.HEART_BEAT, {}, json.dumps(body).encode())
    remote.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": CLIENT, "consumerGroup": FOREIGN})
    told = root.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": FOREIGN})
    assert json.loads(bytes(told.body)) == {"consumerIdList": [CLIENT]}


def test_a_retry_topic_is_its_group_s(remote: SignedRemote) -> None:
    """By the name that clients have for it, no rule of topics counts."""
    place = {"queueId": 0, "bname": SET}
    for group, expected in (
        (OWN, ResponseCode.SUCCESS),
        (FOREIGN, ResponseCode.NO_PERMISSION),
    ):
        asked = place | {"topic": f"%RETRY%{group}"}
        assert remote.ask(RequestCode.GET_MAX_OFFSET, asked).code == expected


def test_a_producer_group_that_is_named_as_a_topic_gives_nobody_its_half_messages(
    fronts: Fronts, root: SignedRemote
) -> None:
    """A gRPC producer's group is its topic; a remoting one's may have any name."""
    told = {"TRAN_MSG": "true", "PGROUP": OPEN, "UNIQ_KEY": "ID"}
    half = root.ask(RequestCode.SEND_MESSAGE_V2, sent(HIDDEN, told, f=4), b"half")
    assert half.code == ResponseCode.SUCCESS, half.remark
    place = half.fields["msgId"][-16:]
    ended = service.EndTransactionRequest(
        topic=named(OPEN),
        message_id="ID",
        transaction_id=place,
        resolution=definition.ROLLBACK,
    )
    with fronts.grpc() as caller:
        assert caller.call("EndTransaction", ended).status.code != definition.OK
    named_half = {
        "topic": HIDDEN,
        "producerGroup": OPEN,
        "commitLogOffset": int(place, 16),
        "tranStateTableOffset": half.fields["queueOffset"],
        "commitOrRollback": 8,
    }
    decided = root.ask(RequestCode.END_TRANSACTION, named_half)
    assert decided.code == ResponseCode.SUCCESS, "nobody has decided it before"


def test_how_a_half_message_of_a_hidden_topic_was_decided_is_told_to_nobody(
    fronts: Fronts, remote: SignedRemote, root: SignedRemote
) -> None:
    """Its number can be guessed; whoever asks may name another topic, or none."""
    told = {"TRAN_MSG": "true", "PGROUP": "payers", "UNIQ_KEY": "ID-2"}
    half = root.ask(RequestCode.SEND_MESSAGE_V2, sent(HIDDEN, told, f=4), b"half")
    place = half.fields["msgId"][-16:]
    named_half = {
        "producerGroup": "payers",
        "commitLogOffset": int(place, 16),
        "tranStateTableOffset": half.fields["queueOffset"],
    }
    for outcome, code in ((12, ResponseCode.SUCCESS), (8, ResponseCode.SYSTEM_ERROR)):
        decision = named_half | {"commitOrRollback": outcome}
        assert root.ask(RequestCode.END_TRANSACTION, decision).code == code
        for topic in ({}, {"topic": HIDDEN}, {"topic": OPEN}):
            refused = remote.ask(RequestCode.END_TRANSACTION, decision | topic)
            assert refused.code == ResponseCode.NO_PERMISSION
    ended = service.EndTransactionRequest(
        topic=named(OPEN),
        message_id="ID-2",
        transaction_id=place,
        resolution=definition.ROLLBACK,
    )
    with fronts.grpc() as caller:
        assert caller.call("EndTransaction", ended).status.code != definition.OK


def test_who_may_make_a_topic_may_not_change_it_once_it_is_made(
    fronts: Fronts, remote: SignedRemote
) -> None:
    """Both requests are checked before there is a topic; the second is too late to make it."""
    frames = []
    for number, queues in enumerate((1, 3)):
        fields = {"topic": NEW, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
        proved = signed(fields, b"", "alice", PASSWORDS["alice"])
        texts = {name: str(value) for name, value in proved.items()}
        code = RequestCode.UPDATE_AND_CREATE_TOPIC
        frames.append(encode_frame(Command(code=code, fields=texts, opaque=number)))
    remote.socket.sendall(b"".join(frames))
    codes = {one.opaque: one.code for one in (remote.receive_answer(), remote.receive_answer())}
    assert codes == {0: ResponseCode.SUCCESS, 1: ResponseCode.NO_PERMISSION}
    assert len(fronts.node.broker.metadata.topics_by_name[NEW].partitions) == 1


@pytest.mark.parametrize("topic", INTERNAL)
def test_nobody_is_told_the_way_to_an_internal_topic(fronts: Fronts, topic: str) -> None:
    """By gRPC it can neither be read nor written."""
    with fronts.grpc("root") as caller:
        answer = caller.call("QueryRoute", service.QueryRouteRequest(topic=named(topic)))
        assert answer.status.code == definition.TOPIC_NOT_FOUND
        assert not answer.message_queues
