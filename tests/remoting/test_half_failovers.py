"""Half messages through changes of masters, and how their log stays short."""

from typing import Any

import pytest

from penstock.broker.append.append import append_batch
from penstock.remoting.halves import led as led_room
from penstock.remoting.halves import loading as loading_room
from penstock.remoting.wire.codes import ResponseCode
from penstock.remoting.wire.message import decode_messages
from penstock.remoting.wire.properties import read_properties
from penstock.storage.errors import SegmentNotReady
from tests.broker.cluster import Cluster
from tests.remoting.half_client import (
    COMMIT,
    END,
    ROLLBACK,
    SECOND,
    SEND,
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
from tests.remoting.world import SET, look, remotings, settle


@pytest.fixture
def cluster() -> Cluster:
    return half_cluster()


def test_a_decision_is_answered_when_it_is_confirmed(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote)
    asked = remote.send(END, named | {"commitOrRollback": COMMIT})
    again = remote.send(END, named | {"commitOrRollback": COMMIT})
    cluster.world.run()
    later = remote.send(END, named | {"commitOrRollback": COMMIT})
    cluster.world.run()
    assert [remote.answer(one) for one in (asked, again, later)] == [None] * 3
    assert bodies(remote) == []
    cluster.replicate()
    assert [remote.answer(one).code for one in (asked, again, later)] == [0] * 3  # type: ignore[union-attr]


def test_a_new_master_asks_for_what_is_undecided_and_goes_on_with_the_count(
    cluster: Cluster,
) -> None:
    first, second = remotings(cluster)
    beat(first)
    decided, waiting = taken(cluster, first, b"decided"), taken(cluster, first, b"waiting")
    ended(cluster, first, decided, COMMIT)
    pass_time(cluster, 7 * SECOND)
    assert len(checks(first)) == 1
    cluster.lead(1)
    settle(cluster)
    beat(second)
    pass_time(cluster, 31 * SECOND)
    (asked,) = checks(second)
    (message,) = decode_messages(memoryview(asked.body))
    assert message.body == b"waiting"
    assert read_properties(message.properties)["TRANSACTION_CHECK_TIMES"] == "2"
    assert ended(cluster, second, waiting, COMMIT).code == ResponseCode.SUCCESS
    assert ended(cluster, second, waiting, COMMIT).code == ResponseCode.SUCCESS
    assert bodies(second) == [b"decided", b"waiting"]


def test_a_new_master_refuses_until_it_knows_what_waits(cluster: Cluster) -> None:
    first, second = remotings(cluster)
    named = taken(cluster, first)
    cluster.lead(1)
    asked = second.send(END, named | {"commitOrRollback": COMMIT})
    answer = second.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    settle(cluster)
    assert ended(cluster, second, named, COMMIT).code == ResponseCode.SUCCESS
    refused = ended(cluster, first, named, COMMIT)
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE, "it is no master"
    assert bodies(second) == [b"body"]


def copy_some(cluster: Cluster, frames: int) -> None:
    """Give the slave so many more frames of the master's log than it has."""
    source, target = cluster.nodes[0].member.log, cluster.nodes[1].member.log
    cluster.world.run()
    for _ in range(frames):
        run = source.read_run(target.end_position, 1, source.written_position)
        target.append_run(run)  # type: ignore[arg-type]
        cluster.world.run()


@pytest.mark.parametrize("is_written_between", [False, True])
def test_a_decision_whose_copy_is_lost_with_its_master_gets_it_from_the_next_one(
    cluster: Cluster, is_written_between: bool
) -> None:
    """The log of the new master ends between the decision and its copy."""
    first, second = remotings(cluster)
    named = taken(cluster, first)
    first.send(END, named | {"commitOrRollback": COMMIT})
    copy_some(cluster, 1)
    cluster.lead(1, members=(1,))
    assert second.pull("events") == []
    if is_written_between:
        plain = second.send(SEND, sent("events", {}, n=SET), b"between")
        cluster.world.run()
        assert second.answer(plain) is not None
    for _ in range(3):
        look(cluster)
    expected = [b"between", b"body"] if is_written_between else [b"body"]
    assert bodies(second) == expected
    again = second.send(END, named | {"commitOrRollback": COMMIT})
    cluster.world.run()
    answer = second.answer(again)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    cluster.align()
    cluster.replicate()
    cluster.lead(0)
    settle(cluster)
    assert bodies(first) == expected, "and the one behind it adds none"


def test_a_decision_that_is_lost_with_its_copy_was_none(cluster: Cluster) -> None:
    first, second = remotings(cluster)
    named = taken(cluster, first)
    asked = first.send(END, named | {"commitOrRollback": COMMIT})
    cluster.world.run()
    assert first.answer(asked) is None
    cluster.lead(1, members=(1,))
    cluster.align()
    settle(cluster)
    answer = first.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert ended(cluster, second, named, ROLLBACK).code == ResponseCode.SUCCESS
    assert bodies(second) == []


def test_decisions_are_not_made_twice_where_their_copies_are_deleted(cluster: Cluster) -> None:
    """An older half message keeps the decision in the log; the copy may be gone."""
    first, second = remotings(cluster)
    taken(cluster, first, b"older")
    ended(cluster, first, taken(cluster, first, b"newer"), COMMIT)
    member = cluster.nodes[0].member
    hosted = cluster.nodes[0].broker.partitions.led("events", 0)
    member.log.delete_records(hosted.log, hosted.log.log_end_offset)
    cluster.replicate()
    cluster.lead(1)
    settle(cluster)
    assert bodies(second) == []
    assert second.front.halves.waiting() == 1


def test_decisions_are_settled_while_an_older_half_message_waits(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    taken(cluster, remote, b"older")
    ended(cluster, remote, taken(cluster, remote, b"newer"), COMMIT)
    hosted = cluster.nodes[0].broker.partitions.by_name[b"__half_messages"].partitions[0]
    assert hosted is not None
    assert hosted.log.log_end_offset == 3
    pass_time(cluster, 9 * SECOND)
    assert hosted.log.log_end_offset == 3
    pass_time(cluster, 2 * SECOND)
    assert hosted.log.log_end_offset == 4, "said once"
    pass_time(cluster, 30 * SECOND)
    assert hosted.log.log_end_offset == 4


def test_the_log_start_follows_the_first_that_waits(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    named = [taken(cluster, remote, body) for body in (b"a", b"b", b"c")]
    hosted = cluster.nodes[0].broker.partitions.by_name[b"__half_messages"].partitions[0]
    assert hosted is not None
    for at, start in ((1, 0), (0, 2), (2, 6)):
        ended(cluster, remote, named[at], ROLLBACK)
        settle(cluster)
        assert hosted.log.log_start_offset == start


def test_one_that_is_far_behind_is_moved_and_keeps_its_number(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(led_room, "MOVED_BEHIND", 3)
    first, second = remotings(cluster)
    named = taken(cluster, first, b"old")
    for body in (b"a", b"b", b"c"):
        ended(cluster, first, taken(cluster, first, body), ROLLBACK)
    settle(cluster)
    hosted = cluster.nodes[0].broker.partitions.by_name[b"__half_messages"].partitions[0]
    assert hosted is not None
    assert hosted.log.log_start_offset > int(named["tranStateTableOffset"])
    age = first.front.halves.oldest_age_ms()
    cluster.lead(1)
    settle(cluster)
    assert second.front.halves.oldest_age_ms() == age
    beat(second)
    pass_time(cluster, 7 * SECOND)
    (asked,) = checks(second)
    assert asked.fields["commitLogOffset"] == str(named["commitLogOffset"])
    assert ended(cluster, second, named, COMMIT).code == ResponseCode.SUCCESS
    assert bodies(second) == [b"old"]


def test_a_half_message_whose_confirmation_is_not_known_is_as_the_log_says(
    cluster: Cluster,
) -> None:
    """Its sender was told of an error; it waits for its decision nevertheless."""
    remote, _ = remotings(cluster)
    taken(cluster, remote, b"first")
    beat(remote)
    asked = half(remote, b"late")
    cluster.world.run()
    cluster.world.advance(31 * SECOND)
    look(cluster)
    answer = remote.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    settle(cluster)
    beat(remote)
    pass_time(cluster, 7 * SECOND)
    asked_about = {
        bytes(message.body)
        for one in checks(remote)
        for message in decode_messages(memoryview(one.body))
    }
    assert asked_about == {b"first", b"late"}


@pytest.mark.parametrize("failed", [{2}, {2, 3}, {2, 4}])
def test_a_copy_that_could_not_be_appended_is_written_before_anything_else(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, failed: set[int]
) -> None:
    """A segment ends between the decision and its copy, and the next one is not ready yet."""
    remote, _ = remotings(cluster)
    named, later = taken(cluster, remote), taken(cluster, remote, b"later")
    append, calls = append_batch, []

    def failing(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) in failed:
            raise SegmentNotReady("log")
        return append(*arguments)

    monkeypatch.setattr(led_room, "append_batch", failing)
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SYSTEM_ERROR
    refused = ended(cluster, remote, later, COMMIT)
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE, "not before the copy is there"
    settle(cluster)
    assert ended(cluster, remote, later, COMMIT).code == ResponseCode.SUCCESS
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS
    refused = ended(cluster, remote, named, ROLLBACK)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert bodies(remote) == [b"body", b"later"]


def test_the_log_start_passes_none_that_is_not_confirmed_yet(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    old = taken(cluster, remote, b"old")
    asked = half(remote, b"coming")
    cluster.world.run()
    remote.send(END, old | {"commitOrRollback": ROLLBACK})
    cluster.world.run()
    look(cluster)
    assert remote.answer(asked) is None
    answer = answered(cluster, remote, asked)
    place = int(answer.fields["queueOffset"])
    hosted = cluster.nodes[0].broker.partitions.by_name[b"__half_messages"].partitions[0]
    assert hosted is not None
    assert hosted.log.log_start_offset <= place
    beat(remote)
    pass_time(cluster, 7 * SECOND)
    assert len(checks(remote)) == 1


def test_copies_of_settled_decisions_are_not_looked_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = remotings(cluster)
    taken(cluster, first, b"older")
    ended(cluster, first, taken(cluster, first, b"newer"), COMMIT)
    pass_time(cluster, 11 * SECOND)
    read, topics = loading_room.read_at, []

    def noted(broker: Any, hosted: Any, *rest: Any) -> None:
        topics.append(hosted.topic.name)
        read(broker, hosted, *rest)

    monkeypatch.setattr(loading_room, "read_at", noted)
    cluster.lead(1)
    settle(cluster)
    assert set(topics) == {"__half_messages"}
    assert second.front.halves.waiting() == 1
