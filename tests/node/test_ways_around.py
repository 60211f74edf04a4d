"""Ways around the rules, tried by a user who may use one topic and one group: all end nowhere.

Each way is one request, or a few, by which somebody has got around the rules of some broker: by
topic id, as a replica, by an expression, by somebody's transaction, by a message that names another
topic inside. After each nothing has changed that the user may not change, and no answer has what it
may not read. What each request needs stands in test_needs.py of each front.
"""

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from harness.waiting import wait_until
from penstock.controller.commands.topic_names import DELAY_TOPICS, HALF_TOPIC
from penstock.grpc.consuming.receipts import write_receipt
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.remoting.ids import locator_of
from penstock.remoting.pop.receipts import Receipt
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from tests.broker.cluster import batch, frames_of, produce_fields
from tests.grpc.receiving import Member, named
from tests.grpc.served import message
from tests.kafka.gate_asks import enter, fetch, ms, play, share_enter, share_fetch
from tests.live_node import UNTIL_SECONDS, RawClient
from tests.node.ways_around import (
    DEAD,
    FOREIGN,
    HIDDEN,
    OPEN,
    OWN,
    RETRY,
    SECRET,
    Fronts,
    codes_of,
    produce,
    running_fronts,
)
from tests.remoting.popping import asked, receipt_fields
from tests.remoting.served import SET, pulled, sent
from tests.remoting.signing import SignedRemote

TRANSACTIONAL, CONTROL = 0x10, 0x20
OF_BROKERS = (4, 5, 6, 7, 52, 53, 54, 56, 58, 62, 63, 67, 70, 82, 87)
"""Keys that only brokers and controllers use among themselves; 58 is the envelope that carries a
request with the name of who is said to have sent it."""
INTERNAL = ("__consumer_offsets", "__transaction_state", HALF_TOPIC, DELAY_TOPICS[0])


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronts]:
    with running_fronts(tmp_path_factory.mktemp("ways")) as fronts:
        yield fronts


@pytest.fixture(autouse=True)
def nothing_happens(fronts: Fronts) -> Iterator[None]:
    """What alice may not change is as it was, after each test."""
    before = fronts.look()
    yield
    assert fronts.look() == before


@pytest.fixture
def alice(fronts: Fronts) -> Iterator[RawClient]:
    with fronts.kafka() as client:
        yield client


@pytest.fixture
def remote(fronts: Fronts) -> Iterator[SignedRemote]:
    with fronts.remoting() as client:
        yield client


def is_kept(*said: Any) -> bool:
    """Whether nothing that was said has the secret."""
    return SECRET not in b"".join(
        one if isinstance(one, bytes) else repr(one).encode() for one in said
    )


def test_what_is_open_can_be_used(fronts: Fronts, alice: RawClient, remote: SignedRemote) -> None:
    """The others find nothing because of the rules, and not because nothing works."""
    assert codes_of(produce(alice, OPEN, batch(b"v"))) == [Code.NONE]
    assert b"in the open" in repr(alice.ask(ApiKey.FETCH, 12, fetch(OPEN))).encode()
    assert remote.ask(RequestCode.SEND_MESSAGE_V2, sent(OPEN), b"b").code == ResponseCode.SUCCESS
    answer = remote.ask(RequestCode.PULL_MESSAGE, pulled(OPEN, consumerGroup=OWN))
    assert b"in the open" in bytes(answer.body)
    with fronts.grpc() as caller:
        assert caller.send(message(OPEN)).status.code == definition.OK
    with fronts.kafka("root") as root:
        assert not is_kept(root.ask(ApiKey.FETCH, 12, fetch(HIDDEN)))


# --- Kafka: ids, replicas, names ---------------------------------------------------------------


def test_no_topic_is_read_or_named_by_its_id(fronts: Fronts, alice: RawClient) -> None:
    fields = fetch(HIDDEN)
    for topic in fields["topics"]:
        topic.pop("topic")
        topic["topic_id"] = fronts.id_of(HIDDEN)
    assert is_kept(alice.ask(ApiKey.FETCH, 13, fields))
    asked_of = {"topics": [{"topic_id": fronts.id_of(HIDDEN), "name": None}]}
    told = repr(alice.ask(ApiKey.METADATA, 12, asked_of))
    assert HIDDEN not in told
    deleted = {"topics": [{"name": None, "topic_id": fronts.id_of(HIDDEN)}], "timeout": ms(5_000)}
    told = repr(alice.ask(ApiKey.DELETE_TOPICS, 6, deleted))
    assert HIDDEN not in told


@pytest.mark.parametrize("version", [12, 16])
def test_who_says_to_be_a_replica_reads_no_more(
    fronts: Fronts, alice: RawClient, version: int
) -> None:
    fields = fetch(HIDDEN, OPEN)
    if version >= 15:
        fields.pop("replica_id")
        fields["replica_state"] = {"replica_id": 1, "replica_epoch": 1}
        for topic in fields["topics"]:
            topic["topic_id"] = fronts.id_of(topic.pop("topic"))
    else:
        fields["replica_id"] = 1
    assert is_kept(alice.ask(ApiKey.FETCH, version, fields))


def test_no_broker_s_request_is_taken_of_a_client(fronts: Fronts) -> None:
    """Least of all an envelope, which says in whose name another request was sent."""
    for key in OF_BROKERS:
        with fronts.kafka() as client:
            head = struct.pack(">hhih", key, 0, 1, -1)
            client.send_bytes(struct.pack(">i", len(head) + 8) + head + bytes(8))
            assert client.is_closed_by_node(), key


@pytest.mark.parametrize("topic", INTERNAL)
def test_nobody_writes_what_is_the_platform_s_own(fronts: Fronts, topic: str) -> None:
    """Root may do everything, and a record there would be a position that nobody has committed."""
    with fronts.kafka("root") as root, fronts.remoting("root") as remote:
        assert codes_of(produce(root, topic, batch(b"v"))) != [Code.NONE]
        for properties in ({}, {"DELAY": "1"}):
            answer = remote.ask(RequestCode.SEND_MESSAGE_V2, sent(topic, properties), b"b")
            assert answer.code != ResponseCode.SUCCESS


def test_a_topic_that_is_asked_for_is_not_made(alice: RawClient, remote: SignedRemote) -> None:
    for name in ("not-there", f"rmq.retry.{OWN}-not"):
        wanted = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
        (topic,) = alice.ask(ApiKey.METADATA, 8, wanted).topics
        assert topic.error_code == Code.TOPIC_AUTHORIZATION_FAILED
        assert codes_of(produce(alice, name, batch(b"v"))) == [Code.TOPIC_AUTHORIZATION_FAILED]
        told = remote.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name})
        assert told.code == ResponseCode.NO_PERMISSION


# --- Kafka: groups and transactions ------------------------------------------------------------


@pytest.mark.parametrize("regex", [".*", "hid.*", "(open|hidden)"])
def test_an_expression_finds_no_more_than_may_be_described(
    fronts: Fronts, alice: RawClient, regex: str
) -> None:
    fields = enter(OWN) | {"subscribed_topic_names": None, "subscribed_topic_regex": regex}
    fields |= {"member_id": f"by-regex-{len(regex)}"}
    told: list[Any] = []

    def is_assigned() -> bool:
        told.append(alice.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields))
        fields["member_epoch"] = told[-1].member_epoch
        fields["topic_partitions"] = None
        return told[-1].assignment is not None

    assert wait_until(is_assigned, UNTIL_SECONDS), told
    permitted = set() if regex == "hid.*" else {fronts.id_of(OPEN)}
    assert {one.topic_id for one in told[-1].assignment.topic_partitions} <= permitted
    fields |= {"member_epoch": -1, "subscribed_topic_names": None}
    alice.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields)


def test_members_ask_for_no_topic_that_is_hidden(fronts: Fronts, alice: RawClient) -> None:
    for key, version, fields in (
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, enter(OWN, OPEN, HIDDEN)),
        (ApiKey.SHARE_GROUP_HEARTBEAT, 1, share_enter(OWN, OPEN, HIDDEN)),
        (ApiKey.STREAMS_GROUP_HEARTBEAT, 0, play(OWN, OPEN, HIDDEN)),
    ):
        if key is ApiKey.CONSUMER_GROUP_HEARTBEAT:
            fields |= {"subscribed_topic_regex": None}
        answer = alice.ask(key, version, fields)
        assert answer.error_code == Code.TOPIC_AUTHORIZATION_FAILED, key


def test_a_share_session_has_no_topic_that_is_hidden(fronts: Fronts, alice: RawClient) -> None:
    shared = share_fetch(fronts.id_of) | {"group_id": OWN, "member_id": "m"}
    told = alice.ask(ApiKey.SHARE_FETCH, 2, shared)
    assert is_kept(told)
    codes = {one.topic_id: one.partitions[0].error_code for one in told.responses}
    assert codes[fronts.id_of(HIDDEN)] == Code.TOPIC_AUTHORIZATION_FAILED
    assert codes.get(fronts.id_of(OPEN)) != Code.TOPIC_AUTHORIZATION_FAILED


def test_a_streams_group_makes_no_topics_that_it_may_not_create(alice: RawClient) -> None:
    fields = play(OWN, OPEN)
    (part,) = fields["topology"]["subtopologies"]
    own = {"name": "made-by-the-way", "partitions": 0, "replication_factor": 0, "topic_configs": []}
    part["state_changelog_topics"] = [own]
    answer = alice.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, fields)
    assert answer.error_code == Code.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("transactional_id", [None, FOREIGN])
def test_nobody_writes_in_somebody_s_transaction(
    alice: RawClient, transactional_id: str | None
) -> None:
    records = batch(
        b"v", producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
    )
    (code,) = codes_of(produce(alice, OPEN, records, transactional_id))
    assert code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def begin(client: RawClient, transactional_id: str) -> dict[str, int]:
    """Return the producer of a transactional id, once its coordinator answers."""
    fields = {"transactional_id": transactional_id, "transaction_timeout": ms(60_000)}
    fields |= {"producer_id": -1, "producer_epoch": -1}
    told: list[Any] = []

    def is_made() -> bool:
        client.ask(ApiKey.FIND_COORDINATOR, 3, {"key_type": 1, "key": transactional_id})
        told.append(client.ask(ApiKey.INIT_PRODUCER_ID, 4, fields))
        return bool(told[-1].error_code == Code.NONE)

    assert wait_until(is_made, UNTIL_SECONDS), told
    return {"producer_id": told[-1].producer_id, "producer_epoch": told[-1].producer_epoch}


def add(client: RawClient, whose: str, topic: str, producer: dict[str, int]) -> list[Code]:
    """Add a topic to a transaction; return the codes."""
    fields = {"transactional_id": whose, "topics": [{"name": topic, "partitions": [0]}], **producer}
    old = {f"v3_and_below_{name}": value for name, value in fields.items()}
    answer = client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, old)
    return [
        part.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]


def test_who_names_no_transaction_writes_into_none_that_is_open(
    fronts: Fronts, alice: RawClient
) -> None:
    """One that another producer has open in a topic that both may write; alone, and in a run."""
    with fronts.kafka("root") as root:
        producer = begin(root, FOREIGN)
        whose = producer | {"attributes": TRANSACTIONAL}
        assert add(root, FOREIGN, OPEN, producer) == [Code.NONE]
        first = batch(b"v", base_sequence=0, **whose)
        assert codes_of(produce(root, OPEN, first, FOREIGN)) == [Code.NONE]
        more = whose | {"base_sequence": 1}
        refused = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert codes_of(produce(alice, OPEN, batch(b"alices", **more))) == [refused]
        run = [produce_fields(OPEN, (b"v",), -1, fields) for fields in ({}, {}, more, {})]
        alice.send_bytes(b"".join(frames_of(run, 11)))
        answers = [alice.receive(ApiKey.PRODUCE, 11) for _ in run]
        codes = [code for answer in answers for code in codes_of(answer)]
        assert codes == [Code.NONE, Code.NONE, refused, Code.NONE]
        ended = {"transactional_id": FOREIGN, "committed": False, **producer}
        before = end_of(fronts, OPEN)
        assert root.ask(ApiKey.END_TXN, 3, ended).error_code == Code.NONE
        assert wait_until(lambda: end_of(fronts, OPEN) == before + 1, UNTIL_SECONDS), "no marker"


def test_a_transaction_of_one_s_own_leads_to_no_hidden_topic(alice: RawClient) -> None:
    """Its producer may write to it only what it may write without."""
    producer = begin(alice, OWN)
    refused = Code.TOPIC_AUTHORIZATION_FAILED
    assert add(alice, OWN, HIDDEN, producer) == [refused]
    whose = producer | {"base_sequence": 0, "attributes": TRANSACTIONAL}
    assert codes_of(produce(alice, HIDDEN, batch(b"v", **whose), OWN)) == [refused]
    named_group = {"transactional_id": OWN, "group_id": FOREIGN, **producer}
    answer = alice.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, named_group)
    assert answer.error_code == Code.GROUP_AUTHORIZATION_FAILED


def test_no_client_writes_a_marker(alice: RawClient) -> None:
    whose = {"producer_id": 1, "producer_epoch": 0, "attributes": TRANSACTIONAL | CONTROL}
    (code,) = codes_of(produce(alice, OPEN, batch(b"v", **whose), OWN))
    assert code == Code.INVALID_RECORD


# --- RocketMQ's port ---------------------------------------------------------------------------


@pytest.mark.parametrize("topic", [RETRY, DEAD, HIDDEN, f"rmq.retry.{FOREIGN}", *INTERNAL])
def test_a_pull_or_a_pop_reads_nothing_of_another_group(remote: SignedRemote, topic: str) -> None:
    for code, fields in (
        (RequestCode.PULL_MESSAGE, pulled(topic, consumerGroup=OWN)),
        (RequestCode.LITE_PULL_MESSAGE, pulled(topic, consumerGroup=OWN)),
        (RequestCode.POP_MESSAGE, asked(topic, consumerGroup=OWN, pollTime=0)),
        (RequestCode.VIEW_MESSAGE_BY_ID, {"topic": topic, "offset": locator_of(0, 0)}),
    ):
        answer = remote.ask_among(code, fields)
        assert answer.code != ResponseCode.SUCCESS, code
        assert is_kept(bytes(answer.body), answer.fields, answer.remark)


@pytest.mark.parametrize("topic", [RETRY, DEAD, HIDDEN])
@pytest.mark.parametrize("properties", [{}, {"DELAY": "1"}, {"TRAN_MSG": "true", "PGROUP": OWN}])
def test_nothing_is_sent_to_what_is_another_s(
    remote: SignedRemote, topic: str, properties: dict[str, str]
) -> None:
    flag = 4 if "TRAN_MSG" in properties else 0
    answer = remote.ask(RequestCode.SEND_MESSAGE_V2, sent(topic, properties, f=flag), b"b")
    assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("more", [{}, {"DELAY": "1"}, {"TRAN_MSG": "true", "PGROUP": OWN}])
def test_a_topic_that_a_message_names_inside_gets_nothing(
    fronts: Fronts, remote: SignedRemote, more: dict[str, str]
) -> None:
    """RocketMQ's brokers keep in these properties where what waits is to go."""
    names = {"REAL_TOPIC": HIDDEN, "REAL_QID": "0", "RETRY_TOPIC": HIDDEN, "topic": HIDDEN}
    flag = 4 if "TRAN_MSG" in more else 0
    before = end_of(fronts, OPEN)
    answer = remote.ask(RequestCode.SEND_MESSAGE_V2, sent(OPEN, names | more, f=flag), b"b")
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    if flag:
        place = {"commitLogOffset": int(answer.fields["msgId"][-16:], 16)}
        place |= {"tranStateTableOffset": int(answer.fields["queueOffset"])}
        ended = {"topic": HIDDEN, "producerGroup": OWN, "commitOrRollback": 8} | place
        assert remote.ask(RequestCode.END_TRANSACTION, ended).code != ResponseCode.SUCCESS
        remote.ask(RequestCode.END_TRANSACTION, ended | {"topic": OPEN})
    assert wait_until(lambda: end_of(fronts, OPEN) == before + 1, UNTIL_SECONDS)


def test_a_batch_of_messages_goes_to_its_one_topic(fronts: Fronts, remote: SignedRemote) -> None:
    before = end_of(fronts, OPEN)
    body = encode_batch([BatchedMessage(0, b"b", f"REAL_TOPIC\x01{HIDDEN}\x02") for _ in range(2)])
    answer = remote.ask(RequestCode.SEND_BATCH_MESSAGE, sent(OPEN, m=True), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert end_of(fronts, OPEN) == before + 2


def test_nothing_that_is_hidden_is_sent_back_to_one_s_own_group(remote: SignedRemote) -> None:
    """What comes back is a copy, which the group may read."""
    fields = {"group": OWN, "delayLevel": 1, "maxReconsumeTimes": 16, "offset": locator_of(0, 0)}
    for topic in (HIDDEN, RETRY, DEAD):
        answer = remote.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields | {"originTopic": topic})
        assert answer.code == ResponseCode.NO_PERMISSION
    foreign = fields | {"group": FOREIGN, "originTopic": OPEN}
    answer = remote.ask(RequestCode.CONSUMER_SEND_MSG_BACK, foreign)
    assert answer.code == ResponseCode.NO_PERMISSION


def test_receipts_that_nobody_was_given_end_nothing_of_another_group(remote: SignedRemote) -> None:
    for topic, group in ((HIDDEN, OWN), (OPEN, FOREIGN), (RETRY, OWN)):
        receipt = receipt_fields(topic, Receipt(0, 1, 1, 1, SET, 0, 0), consumerGroup=group)
        for code in (RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME):
            answer = remote.ask(code, receipt | {"invisibleTime": 1})
            assert answer.code == ResponseCode.NO_PERMISSION
        acks = [{"c": group, "t": topic, "r": "0", "q": 0, "so": 0, "rq": 1, "b": "AQ=="}]
        body = json.dumps({"brokerName": SET, "acks": acks}).encode()
        answer = remote.ask(RequestCode.BATCH_ACK_MESSAGE, {}, body)
        assert answer.code == ResponseCode.NO_PERMISSION


# --- the gRPC port -----------------------------------------------------------------------------


def test_messages_of_several_topics_in_one_call_are_all_refused(fronts: Fronts) -> None:
    before = end_of(fronts, OPEN)
    with fronts.grpc() as caller:
        for other in (HIDDEN, DEAD, *(f"not-there-{number}" for number in range(12))):
            for topics in ((OPEN, other), (other, OPEN)):
                sent_now = caller.send(*map(message, topics))
                assert sent_now.status.code != definition.OK
    assert end_of(fronts, OPEN) == before


@pytest.mark.parametrize("topic", [RETRY, DEAD, HIDDEN, f"rmq.dlq.{FOREIGN}", *INTERNAL])
def test_a_member_receives_nothing_of_another_group(fronts: Fronts, topic: str) -> None:
    handle = write_receipt(0, 0, 0).decode()
    with fronts.grpc() as caller:
        member = Member(caller, group=OWN)
        got = member.receive(topic, 0)
        assert got.code != definition.OK
        assert not got.messages
        for answer in (
            caller.send(message(topic)),
            member.ack(topic, handle),
            member.forward(topic, handle),
            member.change(topic, handle, 60),
            member.assignments(topic),
        ):
            assert answer.status.code != definition.OK
            assert is_kept(answer)


def test_who_takes_the_client_id_of_another_user_ends_and_replaces_nothing(fronts: Fronts) -> None:
    with fronts.grpc("root") as root, fronts.grpc() as caller:
        victim, same = Member(root, "victim@1", FOREIGN), Member(caller, "victim@1", OWN)
        with victim.settled() as told:
            assert told.status.code == definition.OK
            with same.settled() as own:
                assert own.status.code == definition.OK
                assert victim.beat().status.code == definition.OK
                assert same.end().status.code == definition.OK
            assert victim.beat().status.code == definition.OK


def test_settings_of_another_group_are_told_to_nobody(fronts: Fronts) -> None:
    with fronts.grpc() as caller:
        member = Member(caller, group=FOREIGN)
        assert member.beat().status.code == definition.FORBIDDEN
        with member.settled() as told:
            assert told.status.code == definition.FORBIDDEN


def test_a_half_message_of_another_topic_is_not_decided(fronts: Fronts) -> None:
    """Whoever has its ids: they are told to its producer alone, and may be guessed."""
    with fronts.grpc("root") as root, fronts.grpc() as caller:
        made = root.send(message(HIDDEN, message_type=definition.TRANSACTION))
        (entry,) = made.entries
        assert made.status.code == definition.OK, made.status
        for topic in (OPEN, HIDDEN):
            ended = service.EndTransactionRequest(
                topic=named(topic),
                message_id=entry.message_id,
                transaction_id=entry.transaction_id,
                resolution=definition.COMMIT,
            )
            assert caller.call("EndTransaction", ended).status.code != definition.OK


def end_of(fronts: Fronts, topic: str) -> int:
    """Return where a topic's log ends."""

    def read() -> int:
        hosted = fronts.node.broker.partitions.find(topic, 0)
        assert hosted is not None
        return hosted.log.log_end_offset

    return fronts.node.call(read)
