"""Half messages of transactions: what is visible when, who decides, what is refused and bounded."""

from typing import Any

import pytest

from penstock.broker.access import Operation, Resource
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.remoting.halves import halves as halves_room
from penstock.remoting.halves import led as led_room
from penstock.remoting.ids import locator_of, read_offset_id
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.message import decode_messages
from penstock.remoting.wire.properties import read_properties, write_properties
from tests.broker.cluster import Cluster
from tests.remoting.half_client import (
    COMMIT,
    DISCARDED,
    END,
    GROUP,
    ROLLBACK,
    SECOND,
    SEND,
    UNKNOWN,
    answered,
    beat,
    bodies,
    checks,
    ended,
    half,
    half_cluster,
    pass_time,
    taken,
)
from tests.remoting.served import sent
from tests.remoting.world import SET, Remoting, look, remotings, settle


@pytest.fixture
def cluster() -> Cluster:
    return half_cluster()


def test_a_half_message_is_seen_when_it_is_committed_and_once(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote, colour="red")
    settle(cluster)
    assert bodies(remote) == []
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS
    (message,) = remote.pull("events")
    told = read_properties(message.properties)
    assert (message.body, message.born_ms) == (b"body", 7)
    assert (told["colour"], told["UNIQ_KEY"], told["PGROUP"]) == ("red", "ID-body", GROUP)
    assert told["__transactionId__"] == "ID-body"
    assert "TRAN_MSG" not in told
    pass_time(cluster, 100 * SECOND)
    assert bodies(remote) == [b"body"]


def test_it_goes_to_its_queue_behind_what_was_sent_before_its_commit(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote, queue=1)
    plain = remote.send(SEND, sent("events", {}, n=SET, e=1), b"plain")
    assert answered(cluster, remote, plain).code == ResponseCode.SUCCESS
    ended(cluster, remote, named, COMMIT)
    assert (bodies(remote), bodies(remote, queue=1)) == ([], [b"plain", b"body"])


def test_what_is_rolled_back_never_appears(cluster: Cluster) -> None:
    first, second = remotings(cluster)
    named = taken(cluster, first)
    assert ended(cluster, first, named, ROLLBACK).code == ResponseCode.SUCCESS
    beat(first)
    pass_time(cluster, 100 * SECOND)
    assert (bodies(first), checks(first)) == ([], [])
    cluster.lead(1)
    settle(cluster)
    beat(second)
    pass_time(cluster, 100 * SECOND)
    assert (bodies(second), checks(second)) == ([], [])


@pytest.mark.parametrize(("how", "seen"), [(COMMIT, [b"body"]), (ROLLBACK, [])])
def test_the_first_decision_counts(cluster: Cluster, how: int, seen: list[bytes]) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote)
    ended(cluster, remote, named, how)
    assert ended(cluster, remote, named, how).code == ResponseCode.SUCCESS, "an equal one"
    refused = ended(cluster, remote, named, COMMIT + ROLLBACK - how)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "decided otherwise" in (refused.remark or "")
    assert bodies(remote) == seen


def test_of_decisions_that_come_together_the_first_counts(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote)
    hows = (COMMIT, COMMIT, ROLLBACK, COMMIT)
    asked = [remote.send(END, named | {"commitOrRollback": how}) for how in hows]
    cluster.world.run()
    codes = [answered(cluster, remote, one).code for one in asked]
    assert codes == [0, 0, ResponseCode.SYSTEM_ERROR, 0]
    assert bodies(remote) == [b"body"]


def test_producers_of_both_protocols_are_asked_in_turn(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    asked: list[Any] = []

    class Other:
        is_gone = False

        def producer_of(self, group: str, topic: Any) -> Any:
            return self if (group, topic.name) == (GROUP, "events") else None

        def ask(self, question: Any) -> None:
            asked.append(question)

    remote.front.halves.askers.append(Other())
    taken(cluster, remote)
    pass_time(cluster, 6 * SECOND)
    for _ in range(3):
        beat(remote)
        pass_time(cluster, 31 * SECOND)
    assert (len(checks(remote)), len(asked)) == (2, 2)
    assert asked[0].found.half.group == GROUP


def test_producers_are_asked_after_six_seconds_then_each_thirty(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    beat(remote)
    named = taken(cluster, remote, colour="red")
    assert ended(cluster, remote, named, UNKNOWN).code == ResponseCode.SUCCESS
    pass_time(cluster, 5_999)
    assert checks(remote) == []
    pass_time(cluster, SECOND)
    (asked,) = checks(remote)
    assert asked.is_one_way
    fields = dict(asked.fields)
    assert fields["commitLogOffset"] == str(named["commitLogOffset"])
    assert fields["tranStateTableOffset"] == named["tranStateTableOffset"]
    assert (fields["msgId"], fields["transactionId"]) == ("ID-body", "ID-body")
    assert fields["bname"] == SET
    (message,) = decode_messages(memoryview(asked.body))
    assert (message.topic, message.queue_id, message.body) == ("events", 0, b"body")
    assert (message.queue_offset, message.locator, message.born_ms) == (
        int(named["tranStateTableOffset"]),
        named["commitLogOffset"],
        7,
    )
    told = read_properties(message.properties)
    assert (told["PGROUP"], told["TRAN_MSG"], told["colour"]) == (GROUP, "true", "red")
    assert (told["REAL_TOPIC"], told["REAL_QID"]) == ("events", "0")
    pass_time(cluster, 29 * SECOND)
    assert len(checks(remote)) == 1
    pass_time(cluster, 2 * SECOND)
    assert len(checks(remote)) == 2, "to the second"
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS
    pass_time(cluster, 100 * SECOND)
    assert (len(checks(remote)), bodies(remote)) == (2, [b"body"])


def test_a_message_may_say_itself_when_it_is_asked_for(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    beat(remote)
    named = taken(cluster, remote, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    pass_time(cluster, 59 * SECOND)
    assert checks(remote) == []
    pass_time(cluster, SECOND)
    assert len(checks(remote)) == 1
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS


def test_producers_of_the_group_are_asked_in_turn(cluster: Cluster) -> None:
    one, _ = remotings(cluster)
    two = Remoting(cluster.nodes[0])
    two.front = one.front
    two._dispatcher = one._dispatcher
    beat(one, client="one")
    beat(two, client="two")
    beat(two, "others", client="two")
    for body in (b"a", b"b", b"c", b"d"):
        taken(cluster, one, body)
    pass_time(cluster, 7 * SECOND)
    assert (len(checks(one)), len(checks(two))) == (2, 2)
    one.front.on_close(one.wire)  # type: ignore[arg-type]
    pass_time(cluster, 31 * SECOND)
    assert (len(checks(one)), len(checks(two))) == (2, 6)


def test_who_has_gone_takes_nothing_or_is_of_another_group_is_not_asked(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    taken(cluster, remote)
    beat(remote, "others")
    pass_time(cluster, 10 * SECOND)
    beat(remote)
    remote.wire.pinned_bytes = 2 << 20
    pass_time(cluster, 10 * SECOND)
    assert checks(remote) == []
    remote.wire.pinned_bytes = 0
    pass_time(cluster, 10 * SECOND)
    assert len(checks(remote)) == 1
    pass_time(cluster, 121 * SECOND)
    assert len(checks(remote)) == 1, "silent for two minutes"
    remote.send(RequestCode.UNREGISTER_CLIENT, {"clientID": "client", "producerGroup": GROUP})
    pass_time(cluster, 60 * SECOND)
    assert len(checks(remote)) == 1


def test_what_nobody_decides_is_discarded_after_fifteen_checks(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote)
    for _ in range(17):
        beat(remote)
        pass_time(cluster, 31 * SECOND)
    assert len(checks(remote)) == 15
    (message,) = remote.pull(DISCARDED)
    told = read_properties(message.properties)
    assert (message.body, told["REAL_TOPIC"], told["TRANSACTION_CHECK_TIMES"]) == (
        b"body",
        "events",
        "15",
    )
    late = ended(cluster, remote, named, COMMIT)
    assert late.code == ResponseCode.SYSTEM_ERROR
    assert bodies(remote) == []
    assert remote.front.halves.counts["discard"] == 1
    assert remote.front.halves.waiting() == 0


def test_without_a_producer_nothing_is_counted_and_three_days_are_the_end(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    taken(cluster, remote)
    for _ in range(40):
        pass_time(cluster, 31 * SECOND)
    assert remote.front.halves.waiting() == 1
    assert remote.front.halves.oldest_age_ms() >= 40 * 31 * SECOND
    pass_time(cluster, 72 * 3_600 * SECOND)
    settle(cluster)
    assert [one.body for one in remote.pull(DISCARDED)] == [b"body"]
    assert remote.front.halves.waiting() == 0


WRONG = [
    ({"producerGroup": "others"}, "group"),
    ({"topic": "other"}, "topic"),
    ({"msgId": "ID-else"}, "id"),
    ({"tranStateTableOffset": 99}, "two messages"),
    ({"tranStateTableOffset": 99, "commitLogOffset": locator_of(0, 99)}, "no half message"),
    ({"commitLogOffset": locator_of(7, 0)}, "no half message"),
    ({"commitLogOffset": locator_of(0, 0, is_retry=True)}, "no half message"),
    ({"commitLogOffset": -1, "tranStateTableOffset": -1}, "no half message"),
    ({"commitLogOffset": (1 << 63) - 1}, "no half message"),
    ({"commitLogOffset": "x"}, "commitLogOffset"),
    ({"commitOrRollback": 4}, "neither"),
    ({"commitOrRollback": ""}, "commitOrRollback"),
]


@pytest.mark.parametrize(("wrong", "why"), WRONG)
def test_a_decision_about_something_else_is_refused(
    cluster: Cluster, wrong: dict[str, Any], why: str
) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote) | {"commitOrRollback": COMMIT}
    asked = remote.send(END, named | wrong)
    cluster.world.run()
    answer = answered(cluster, remote, asked)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert why in (answer.remark or "")
    assert remote.wire.closed is None
    assert bodies(remote) == []
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("missing", ["producerGroup", "commitLogOffset", "tranStateTableOffset"])
def test_a_decision_that_lacks_a_field_is_refused(cluster: Cluster, missing: str) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote) | {"commitOrRollback": COMMIT}
    del named[missing]
    answer = answered(cluster, remote, remote.send(END, named))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert missing in (answer.remark or "")


def test_a_decision_before_any_half_message_is_refused(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    fields = {"producerGroup": GROUP, "tranStateTableOffset": 0, "commitLogOffset": 0}
    answer = answered(cluster, remote, remote.send(END, fields | {"commitOrRollback": COMMIT}))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "no half message" in (answer.remark or "")


@pytest.mark.parametrize(
    ("fields", "properties", "why"),
    [
        ({"f": 8}, {}, "neither committed"),
        ({"f": 12}, {}, "neither committed"),
        ({}, {"DELAY": "3"}, "no delay"),
        ({"a": ""}, {"PGROUP": ""}, "producer group"),
        ({}, {"PGROUP": "g" * 256}, "producer group"),
        ({}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "soon"}, "seconds"),
        ({}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "9" * 5_000}, "seconds"),
    ],
)
def test_a_half_message_that_is_none_is_refused(
    cluster: Cluster, fields: dict[str, Any], properties: dict[str, str], why: str
) -> None:
    remote, _ = remotings(cluster)
    told = {"TRAN_MSG": "true", "PGROUP": GROUP} | properties
    asked = remote.send(SEND, sent("events", told, n=SET, f=4) | fields, b"body")
    answer = answered(cluster, remote, asked)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert why in (answer.remark or "")


def test_a_batch_has_no_half_messages(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    told = write_properties({"TRAN_MSG": "true", "PGROUP": GROUP})
    body = encode_batch([BatchedMessage(0, one, told) for one in (b"a", b"b")])
    answer = answered(cluster, remote, remote.send(320, sent("events", n=SET, m="true"), body))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "one by one" in (answer.remark or "")


def test_the_bit_or_the_property_makes_a_half_message(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    for fields, properties in (({"f": 4}, {"a": "b"}), ({"f": 0}, {"TRAN_MSG": "true"})):
        asked = remote.send(SEND, sent("events", properties, n=SET, **fields), b"body")
        assert answered(cluster, remote, asked).code == ResponseCode.SUCCESS
    assert (bodies(remote), remote.front.halves.waiting()) == ([], 2)


def test_one_that_its_topic_would_not_take_is_refused_before_it_waits(cluster: Cluster) -> None:
    cluster.create("small", max_message_bytes="1000")
    cluster.create("compacted", cleanup_policy="compact")
    remote, _ = remotings(cluster)
    told = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": "ID"}
    for topic, body in (("small", bytes(900)), ("compacted", b"body")):
        asked = remote.send(SEND, sent(topic, told, n=SET, f=4), body)
        assert answered(cluster, remote, asked).code == ResponseCode.MESSAGE_ILLEGAL
    assert remote.front.halves.waiting() == 0


def test_one_that_its_topic_refuses_at_its_commit_stays_undecided(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    beat(remote)
    named = taken(cluster, remote, b"x" * 2_000)
    hosted = cluster.nodes[0].broker.partitions.by_name[b"events"]
    rules = hosted.rules
    hosted.rules = rules._replace(max_message_bytes=1_000)
    answer = ended(cluster, remote, named, COMMIT)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    hosted.rules = rules
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS
    assert bodies(remote) == [b"x" * 2_000]


def test_a_topic_that_compresses_gets_its_copies_compressed(cluster: Cluster) -> None:
    cluster.create("packed", compression_type="gzip")
    remote, _ = remotings(cluster)
    body = b"x" * 20_000
    told = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": "ID"}
    answer = answered(cluster, remote, remote.send(SEND, sent("packed", told, n=SET, f=4), body))
    named = {
        "producerGroup": GROUP,
        "tranStateTableOffset": answer.fields["queueOffset"],
        "commitLogOffset": read_offset_id(answer.fields["msgId"])[1],
    }
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS
    assert bodies(remote, "packed") == [body]


def test_what_is_committed_for_a_deleted_topic_is_dropped(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote)
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    cluster.world.run()
    answer = ended(cluster, remote, named, COMMIT)
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert remote.front.halves.counts["drop"] == 1
    assert remote.front.halves.waiting() == 0


def test_decisions_wait_for_enough_members_in_step(cluster: Cluster) -> None:
    cluster.create("safe", min_insync_replicas="2")
    remote, _ = remotings(cluster)
    told = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": "ID"}
    answer = answered(cluster, remote, remote.send(SEND, sent("safe", told, n=SET, f=4), b"body"))
    named = {
        "producerGroup": GROUP,
        "tranStateTableOffset": answer.fields["queueOffset"],
        "commitLogOffset": read_offset_id(answer.fields["msgId"])[1],
    }
    cluster.lead(0, members=(0,))
    settle(cluster)
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SERVICE_NOT_AVAILABLE
    cluster.lead(0)
    settle(cluster)
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS
    assert bodies(remote, "safe") == [b"body"]


def test_half_messages_of_a_group_and_of_all_are_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(led_room, "OF_GROUP_MAX", 2)
    monkeypatch.setattr(halves_room, "HALVES_MAX", 3)
    remote, _ = remotings(cluster)
    first = taken(cluster, remote, b"a")
    taken(cluster, remote, b"b")
    assert answered(cluster, remote, half(remote, b"c")).code == ResponseCode.SYSTEM_BUSY
    taken(cluster, remote, b"d", PGROUP="others")
    assert (
        answered(cluster, remote, half(remote, b"e", PGROUP="third")).code
        == ResponseCode.SYSTEM_BUSY
    )
    ended(cluster, remote, first, ROLLBACK)
    taken(cluster, remote, b"f")


def test_those_that_come_together_are_bounded_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(led_room, "OF_GROUP_MAX", 2)
    remote, _ = remotings(cluster)
    taken(cluster, remote, b"a")
    asked = [half(remote, body) for body in (b"b", b"c", b"d")]
    codes = [answered(cluster, remote, one).code for one in asked]
    assert codes == [0, ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_BUSY]


def test_decisions_that_wait_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(led_room, "WORK_MAX", 2)
    remote, _ = remotings(cluster)
    named = [taken(cluster, remote, body) for body in (b"a", b"b", b"c")]
    asked = [remote.send(END, one | {"commitOrRollback": COMMIT}) for one in named]
    cluster.world.run()
    codes = [answered(cluster, remote, one).code for one in asked]
    assert codes == [0, 0, ResponseCode.SYSTEM_BUSY]
    assert ended(cluster, remote, named[2], COMMIT).code == ResponseCode.SUCCESS


def test_so_many_checks_are_sent_in_a_look(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halves_room, "CHECKS_A_LOOK", 2)
    remote, _ = remotings(cluster)
    beat(remote)
    for body in (b"a", b"b", b"c"):
        taken(cluster, remote, body)
    cluster.world.advance(7 * SECOND)
    look(cluster)
    assert len(checks(remote)) == 2
    look(cluster)
    assert len(checks(remote)) == 3


def test_neither_family_reads_half_messages_where_they_wait(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    taken(cluster, remote)
    asked = remote.send(
        11,
        {"consumerGroup": "g", "topic": "__half_messages", "queueId": 0}
        | {"queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4, "subscription": "*", "bname": SET},
    )
    cluster.world.run()
    answer = remote.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.NO_PERMISSION
    for topic in ("events", "other"):
        assert remote.pull(topic) == []


class OnlyReaders:
    """Who may read topics, and not write them."""

    permits_all = False

    def permits(self, context: Any, operation: Operation, resource: Resource, name: str) -> bool:
        return operation is not Operation.WRITE


def test_who_may_not_write_to_the_topic_neither_decides_nor_is_told(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    beat(remote)
    named = taken(cluster, remote)
    broker = cluster.nodes[0].broker
    everybody, broker.authoriser = broker.authoriser, OnlyReaders()  # type: ignore[assignment]
    for fields in (named, {key: one for key, one in named.items() if key != "topic"}):
        assert ended(cluster, remote, fields, COMMIT).code == ResponseCode.NO_PERMISSION
    pass_time(cluster, 7 * SECOND)
    assert checks(remote) == []
    broker.authoriser = everybody
    pass_time(cluster, 7 * SECOND)
    assert len(checks(remote)) == 1
    assert bodies(remote) == []
