"""What each request of a remoting client asks the gate for: the rows of remoting/needs.py."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from penstock.base.ids import ReplicaSetId
from penstock.broker.access import OPERATIONS_ON, Operation, PermitsAll, Requester, Resource
from penstock.remoting.dispatch import _MODULES
from penstock.remoting.ids import locator_of
from penstock.remoting.needs import (
    ALTER_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    EITHER,
    NEEDS,
    READ_TOPIC,
    Need,
)
from penstock.remoting.pop.receipts import Receipt
from penstock.remoting.recall.handle import Handle, handle_text
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from tests.live_node import LiveNode
from tests.remoting.popping import asked, receipt_fields
from tests.remoting.served import SET, Remote, pulled, running_remoting_node, sent

TOPIC, GROUP, CLIENT = "topic", "group", "client"
PLACE = {"topic": TOPIC, "queueId": 0, "bname": SET}
OF_GROUP = PLACE | {"consumerGroup": GROUP}


class Case(NamedTuple):
    """A request; `{}` in a field stands for a name that nobody has had."""

    fields: dict[str, Any]
    body: bytes = b"b"


def as_json(**members: Any) -> bytes:
    return json.dumps(members).encode()


LOCKS = Case(
    {},
    as_json(
        consumerGroup=GROUP,
        clientId=CLIENT,
        mqSet=[{"topic": TOPIC, "brokerName": SET, "queueId": 0}],
    ),
)
WANTED = [{"topic": TOPIC, "subString": "*"}]
HEARTBEAT = Case(
    {},
    as_json(
        clientID=CLIENT,
        consumerDataSet=[{"groupName": GROUP, "subscriptionDataSet": WANTED}],
        producerDataSet=[{"groupName": GROUP}],
    ),
)
CASES: dict[RequestCode, list[Case]] = {
    RequestCode.SEND_MESSAGE: [Case(PLACE | {"sysFlag": 0, "bornTimestamp": 1, "flag": 0})],
    RequestCode.SEND_MESSAGE_V2: [Case(sent(TOPIC))],
    RequestCode.SEND_BATCH_MESSAGE: [
        Case(sent(TOPIC, m=True), encode_batch([BatchedMessage(0, b"b", "")]))
    ],
    RequestCode.PULL_MESSAGE: [Case(pulled(TOPIC, consumerGroup=GROUP))],
    RequestCode.LITE_PULL_MESSAGE: [Case(pulled(TOPIC, consumerGroup=GROUP))],
    RequestCode.QUERY_CONSUMER_OFFSET: [Case(OF_GROUP)],
    RequestCode.UPDATE_CONSUMER_OFFSET: [Case(OF_GROUP | {"commitOffset": 0})],
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: [Case(PLACE | {"timestamp": 1})],
    RequestCode.GET_MAX_OFFSET: [Case(PLACE)],
    RequestCode.GET_MIN_OFFSET: [Case(PLACE)],
    RequestCode.HEART_BEAT: [HEARTBEAT],
    RequestCode.UNREGISTER_CLIENT: [Case({"clientID": "other", "consumerGroup": GROUP})],
    RequestCode.CONSUMER_SEND_MSG_BACK: [
        Case(
            {
                "group": GROUP,
                "originTopic": TOPIC,
                "offset": locator_of(0, 0),
                "delayLevel": 3,
                "maxReconsumeTimes": 16,
            }
        )
    ],
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: [Case({"consumerGroup": GROUP})],
    RequestCode.LOCK_BATCH_MQ: [LOCKS],
    RequestCode.UNLOCK_BATCH_MQ: [LOCKS],
    RequestCode.CHECK_CLIENT_CONFIG: [
        Case({}, as_json(subscriptionData={"topic": TOPIC, "subString": "*"}))
    ],
    RequestCode.GET_ROUTEINFO_BY_TOPIC: [Case({"topic": TOPIC}), Case({"topic": "missing-{}"})],
    RequestCode.GET_BROKER_CLUSTER_INFO: [Case({})],
}
POPPED = asked(TOPIC, consumerGroup=GROUP, pollTime=0)
RECEIPT = receipt_fields(TOPIC, Receipt(0, 1, 1, 1, SET, 0, 0), consumerGroup=GROUP)
CASES |= {
    RequestCode.END_TRANSACTION: [
        Case(
            {
                "topic": TOPIC,
                "producerGroup": GROUP,
                "commitLogOffset": locator_of(0, 99),
                "tranStateTableOffset": 99,
                "commitOrRollback": 0,
            }
        )
    ],
    RequestCode.RECALL_MESSAGE: [
        Case(
            {
                "topic": TOPIC,
                "recallHandle": handle_text(Handle(TOPIC, ReplicaSetId(1), 1 << 42, "ID")),
            }
        )
    ],
    RequestCode.POP_MESSAGE: [Case(POPPED)],
    RequestCode.NOTIFICATION: [Case(POPPED)],
    RequestCode.POLLING_INFO: [Case(POPPED)],
    RequestCode.ACK_MESSAGE: [Case(RECEIPT)],
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: [Case(RECEIPT | {"invisibleTime": 1})],
    RequestCode.BATCH_ACK_MESSAGE: [
        Case(
            {},
            as_json(
                brokerName=SET,
                acks=[{"c": GROUP, "t": TOPIC, "r": "0", "q": 0, "so": 0, "rq": 1, "b": "AQ=="}],
            ),
        )
    ],
    RequestCode.QUERY_ASSIGNMENT: [
        Case({}, as_json(topic=TOPIC, consumerGroup=GROUP, clientId=CLIENT))
    ],
    RequestCode.SET_MESSAGE_REQUEST_MODE: [
        Case({}, as_json(topic=TOPIC, consumerGroup=GROUP, mode="POP"))
    ],
}
NEW_TOPIC = {"topic": "made-{}", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
CASES |= {
    RequestCode.VIEW_MESSAGE_BY_ID: [Case({"topic": TOPIC, "offset": locator_of(0, 0)})],
    RequestCode.QUERY_MESSAGE: [
        Case({"topic": TOPIC, "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1})
    ],
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: [Case({})],
    RequestCode.GET_TOPIC_STATS_INFO: [Case({"topic": TOPIC})],
    RequestCode.GET_TOPIC_CONFIG: [Case({"topic": TOPIC})],
    RequestCode.GET_BROKER_RUNTIME_INFO: [Case({})],
    RequestCode.GET_BROKER_CONFIG: [Case({})],
    RequestCode.GET_NAMESRV_CONFIG: [Case({})],
    RequestCode.UPDATE_BROKER_CONFIG: [Case({}, b"log.retention.ms=1000000000\n")],
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: [Case({})],
    RequestCode.GET_BROKER_CONSUME_STATS: [Case({"isOrder": "false"})],
    RequestCode.GET_CONSUMER_RUNNING_INFO: [Case({"consumerGroup": GROUP, "clientId": "nobody"})],
    RequestCode.GET_ALL_PRODUCER_INFO: [Case({})],
    RequestCode.GET_CONSUMER_CONNECTION_LIST: [Case({"consumerGroup": GROUP})],
    RequestCode.GET_PRODUCER_CONNECTION_LIST: [Case({"producerGroup": GROUP})],
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: [Case({"topic": TOPIC})],
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: [Case({"group": GROUP})],
    RequestCode.GET_CONSUME_STATS: [Case({"consumerGroup": GROUP, "topic": TOPIC})],
    RequestCode.UPDATE_AND_CREATE_TOPIC: [Case(NEW_TOPIC | {"topic": TOPIC}), Case(NEW_TOPIC)],
    RequestCode.DELETE_TOPIC_IN_BROKER: [Case({"topic": "missing-{}"})],
    RequestCode.DELETE_KV_CONFIG: [Case({"namespace": "ORDER_TOPIC_CONFIG", "key": "missing-{}"})],
    RequestCode.DELETE_TOPIC_IN_NAMESRV: [Case({"topic": "missing-{}"})],
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: [Case({}, as_json(groupName=GROUP))],
    RequestCode.DELETE_SUBSCRIPTIONGROUP: [Case({"groupName": "missing-{}"})],
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: [
        Case({"group": GROUP, "topic": TOPIC, "timestamp": 0, "isForce": "true"})
    ],
}
REFUSED = {RequestCode.GET_ROUTEINFO_BY_TOPIC: ResponseCode.TOPIC_NOT_EXIST}
"""Of a topic that the client may not create: it is told that there is none."""
LEFT_OUT: dict[tuple[RequestCode, Need], bytes] = {
    (RequestCode.LOCK_BATCH_MQ, READ_TOPIC): b"queueId",
    (RequestCode.UNLOCK_BATCH_MQ, READ_TOPIC): b"queueId",
    (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, DESCRIBE_TOPIC): TOPIC.encode() + b'"',
    (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, DESCRIBE_GROUP): GROUP.encode() + b'"',
    (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, DESCRIBE_GROUP): GROUP.encode() + b'"',
    (RequestCode.GET_BROKER_CONSUME_STATS, DESCRIBE_GROUP): GROUP.encode() + b'"',
    (RequestCode.GET_BROKER_CONSUME_STATS, DESCRIBE_TOPIC): TOPIC.encode() + b'"',
}
"""Where an answer leaves out what is not permitted, and what it would have of that."""


class Denies(PermitsAll):
    """Denies what it is told to, and remembers what it was asked."""

    permits_all = False

    def __init__(self, denied: frozenset[Need] = frozenset()) -> None:
        self._denied = denied
        self.asked: set[Need] = set()

    def permits(self, who: Requester, operation: Operation, resource: Resource, name: str) -> bool:
        assert operation in OPERATIONS_ON[resource]
        self.asked.add((operation, resource))
        return (operation, resource) not in self._denied


class World:
    """A node with a topic that has a message, and a client that is a member of a group."""

    def __init__(self, node: LiveNode, remote: Remote) -> None:
        self.node, self.remote = node, remote
        self._missing = 0
        for code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2):
            assert self.ask(code, CASES[code][0]).code == ResponseCode.SUCCESS
        self.ask(RequestCode.HEART_BEAT, HEARTBEAT)
        position = RequestCode.UPDATE_CONSUMER_OFFSET
        assert self.ask(position, CASES[position][0]).code == ResponseCode.SUCCESS
        half = sent(TOPIC, {"TRAN_MSG": "true", "PGROUP": GROUP}, f=4)
        assert self.ask(RequestCode.SEND_MESSAGE_V2, Case(half)).code == ResponseCode.SUCCESS

    def ask(self, code: RequestCode, case: Case) -> Command:
        self._missing += 1
        fields = {
            name: value.format(self._missing) if isinstance(value, str) else value
            for name, value in case.fields.items()
        }
        return self.remote.ask_among(code, fields, case.body)

    def ask_denied(self, code: RequestCode, case: Case, *denied: Need) -> tuple[Command, set[Need]]:
        """Ask with these permissions taken away; return the answer, and all that was asked for."""
        broker, denies = self.node.broker, Denies(frozenset(denied))
        self.node.call(lambda: setattr(broker, "authoriser", denies))
        try:
            return self.ask(code, case), denies.asked
        finally:
            self.node.call(lambda: setattr(broker, "authoriser", PermitsAll()))

    def topics(self) -> set[str]:
        return self.node.call(lambda: set(self.node.broker.metadata.topics_by_name))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("needs")
    # The node asks as well: whether the producer of a half message may still write. Not today.
    settings = "broker.auto_create_topics=true", "remoting.transaction_first_check_ms=86400000"
    with (
        running_remoting_node(directory, *settings) as (node, address),
        closing(Remote(address)) as remote,
    ):
        yield World(node, remote)


def test_every_code_that_is_handled_has_a_row_and_a_case() -> None:
    handled = {RequestCode(code) for module in _MODULES for code in module.CODES}
    assert handled == set(NEEDS) == set(CASES)


@pytest.mark.parametrize("code", NEEDS, ids=lambda code: code.name.lower())
def test_a_request_asks_for_its_row_and_nothing_else(world: World, code: RequestCode) -> None:
    told: set[Need] = set()
    for case in CASES[code]:
        answer, all_asked = world.ask_denied(code, case)
        assert answer.code != ResponseCode.NO_PERMISSION
        told |= all_asked
        for need in NEEDS[code]:
            told |= world.ask_denied(code, case, need)[1]
    assert told == NEEDS[code]


@pytest.mark.parametrize(
    ("code", "need"),
    [(code, need) for code, needs in NEEDS.items() for need in sorted(needs)],
    ids=lambda one: "-".join(
        part.name.lower() for part in (one if isinstance(one, tuple) else [one])
    ),
)
def test_a_request_without_one_permission_is_refused_and_nothing_happens(
    world: World, code: RequestCode, need: Need
) -> None:
    before, locks = world.topics(), world.node.node._rocketmq.remoting.locks.count  # type: ignore[union-attr]
    either = EITHER.get(code, ())
    denied = either if need in either else (need,)
    case = CASES[code][0 if need == ALTER_TOPIC else -1]
    answer, _ = world.ask_denied(code, case, *denied)
    if need in either:
        assert answer.code == REFUSED.get(code, ResponseCode.NO_PERMISSION)
        one = next(other for other in either if other != need)
        told = world.ask_denied(code, CASES[code][-1], one)[0]
        assert told.code == ResponseCode.SUCCESS, "the other one suffices"
        return
    if (code, need) in LEFT_OUT:
        assert answer.code == ResponseCode.SUCCESS
        assert LEFT_OUT[code, need] not in bytes(answer.body)
    else:
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.body == b""
        assert f"permission {need[0].name}" in (answer.remark or "")
    assert world.topics() == before
    assert world.node.node._rocketmq.remoting.locks.count == locks  # type: ignore[union-attr]


@pytest.mark.parametrize(("code", "need"), [one for one in LEFT_OUT if LEFT_OUT[one] != b"queueId"])
def test_what_is_left_out_is_told_to_who_may_see_it(
    world: World, code: RequestCode, need: Need
) -> None:
    assert LEFT_OUT[code, need] in bytes(world.ask(code, CASES[code][-1]).body)
