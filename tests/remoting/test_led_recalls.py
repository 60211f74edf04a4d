"""Recalls of one mastership: times at their bounds, and what begins anew with another."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import ReplicaSetId
from penstock.controller.commands.topic_names import RECALL_TOPIC
from penstock.remoting.recall.errors import BadHandle, TooLate
from penstock.remoting.recall.handle import Handle, handle_text, read_handle
from penstock.remoting.recall.led import AHEAD_MS, KEPT_MS, LedRecalls
from penstock.remoting.recall.recalls import Recalls
from penstock.remoting.recall.record import Recalled, Through
from penstock.remoting.recall.state import RecallState
from tests.broker.cluster import Cluster
from tests.remoting.test_recalls import MINUTE, late
from tests.remoting.world import Remoting, look, remotings

TOPIC_ID = bytes(range(16))
SET_ID = ReplicaSetId(1)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(2)
    cluster.create("events", partitions=2)
    return cluster


def ready(cluster: Cluster) -> tuple[Recalls, LedRecalls]:
    """The recalls of the first node, which has led a set with a message that waits."""
    remote, _ = remotings(cluster)
    return remote.front.keeping.recalls, ready_of(cluster, remote)


def ready_of(cluster: Cluster, remote: Remoting) -> LedRecalls:
    assert late(cluster, remote, MINUTE)
    recalls = remote.front.keeping.recalls
    topic = cluster.nodes[0].broker.partitions.by_name[RECALL_TOPIC.encode()]
    (place,) = [one for one in topic.partitions if one is not None and one.member.is_master]
    led = recalls._of(place)
    cluster.world.run()
    assert led.is_ready
    return led


def taken(led: LedRecalls, until_ms: int) -> bool:
    told: list[int | PlatformError] = []
    try:
        led.recall(Recalled(until_ms, TOPIC_ID, f"m-{until_ms}"), told.append)
    except TooLate:
        return False
    return True


def test_what_is_due_now_is_too_late_and_a_millisecond_later_it_is_not(cluster: Cluster) -> None:
    _, led = ready(cluster)
    now_ms = cluster.world.wall_ms()
    assert not taken(led, now_ms)
    assert taken(led, now_ms + 1)


def test_what_is_decided_is_too_late_to_its_last_millisecond(cluster: Cluster) -> None:
    _, led = ready(cluster)
    led.decide(cluster.world.wall_ms())
    through_ms = led.state.through_ms
    assert through_ms > cluster.world.wall_ms()
    assert not taken(led, through_ms)
    assert taken(led, through_ms + 1)


def test_the_furthest_time_that_is_kept_is_taken(cluster: Cluster) -> None:
    _, led = ready(cluster)
    now_ms = cluster.world.wall_ms()
    assert taken(led, now_ms + KEPT_MS)
    with pytest.raises(BadHandle):
        taken(led, now_ms + KEPT_MS + 1)


def test_what_is_decided_already_takes_no_record(cluster: Cluster) -> None:
    _, led = ready(cluster)
    log = led.hosted.log
    led.decide(cluster.world.wall_ms())
    end = log.log_end_offset
    led.decide(led.state.through_ms)
    assert log.log_end_offset == end
    led.decide(led.state.through_ms + 1)
    assert log.log_end_offset == end + 1


def test_what_was_due_long_ago_is_decided_with_what_is_due_soon(cluster: Cluster) -> None:
    _, led = ready(cluster)
    now_ms = cluster.world.wall_ms()
    led.decide(now_ms - MINUTE)
    assert led.state.through_ms == now_ms + AHEAD_MS


def test_a_new_mastership_of_the_same_node_reads_anew(cluster: Cluster) -> None:
    recalls, led = ready(cluster)
    cluster.lead(0)
    found = recalls._of(led.hosted)
    assert found is not led
    assert found.is_current


class Hosted(SimpleNamespace):
    """A partition as a mastership sees it."""


def hosted() -> Any:
    member = SimpleNamespace(leader_epoch=1, is_master=True)
    log = SimpleNamespace(log_start_offset=0, log_end_offset=0)
    return Hosted(member=member, log=log, partition=0, is_dropped=False)


def test_a_log_that_was_opened_anew_is_another_one() -> None:
    place = hosted()
    led = LedRecalls(SimpleNamespace(), place)  # type: ignore[arg-type]
    assert led.is_current
    place.log = SimpleNamespace(log_start_offset=0, log_end_offset=0)
    assert not led.is_current


def test_a_log_that_could_not_be_read_is_read_at_the_next_look() -> None:
    place = hosted()
    led = LedRecalls(SimpleNamespace(), place)  # type: ignore[arg-type]
    place.member.is_master = False
    led.load()
    assert not led.is_ready
    place.member.is_master = True
    led.load()
    assert led.is_ready


def test_what_stands_at_an_offset_does_not_stand_before_it() -> None:
    state, recalled = RecallState(), Recalled(5, TOPIC_ID, "m")
    state.apply(Through(3), 7)
    state.apply(recalled, 8)
    assert state.before(7, 9) == []
    assert state.before(8, 9) == [Through(3)]
    assert state.before(9, 9) == [Through(3), recalled]


def test_what_is_refused_is_not_counted_as_recalled(cluster: Cluster) -> None:
    recalls, led = ready(cluster)
    set_id, now_ms = led.hosted.member.replica_set_id, cluster.world.wall_ms()
    with pytest.raises(TooLate):
        recalls.recall(set_id, Recalled(now_ms, TOPIC_ID, "m"), lambda _: None)
    assert recalls.recalled == 0
    recalls.recall(set_id, Recalled(now_ms + 1, TOPIC_ID, "m"), lambda _: None)
    assert recalls.recalled == 1


def test_a_handle_may_have_a_time_of_as_many_digits_as_are_read() -> None:
    handle = Handle("t", SET_ID, 10**18 - 1, "m")
    assert read_handle(handle_text(handle)) == handle
    with pytest.raises(BadHandle):
        read_handle(handle_text(handle._replace(until_ms=10**18)))


def test_what_is_due_first_is_known_of_this_mastership_and_while_nothing_is_read(
    cluster: Cluster,
) -> None:
    """By it recalls are forgotten."""
    remote, _ = remotings(cluster)
    led = ready_of(cluster, remote)
    delivery = remote.front.keeping.delivery
    set_id = led.hosted.member.replica_set_id
    look(cluster)
    known = delivery.floor_ms(set_id)
    assert known is not None
    (source,) = [one for _, one in delivery._led() if one in delivery._heads]
    delivery._open.add(source)
    assert delivery.floor_ms(set_id) is None
    delivery._open.discard(source)
    assert delivery.floor_ms(set_id) == known
    cluster.lead(0)
    assert delivery.floor_ms(set_id) is None


def test_what_another_node_leads_is_not_late_here(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    ready_of(cluster, remote)
    look(cluster)
    delivery = remote.front.delivery
    cluster.world.advance(2 * MINUTE)
    assert delivery.late_ms() > 0
    cluster.lead(1)
    assert delivery.late_ms() == 0
