"""What a replaced coordinator asks for late, and what was overtaken, changes no share."""

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.base.ids import BrokerId, CoordinatorEpoch
from penstock.broker.coordinators.share_places import SharePlaces
from penstock.controller.commands.command import BeginMastership
from penstock.coordinator.calls.shares import (
    NO_EPOCH,
    NOT_STARTED,
    ShareChange,
    ShareChangeKind,
    ShareChangeRequest,
    SharePlace,
    ShareSummaryRequest,
)
from penstock.kafka.shares.change_order import ChangeOrder
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.messages import Unavailable
from penstock.shares.state import ShareKey
from tests.kafka.sharing import ask, set_group, subscribe
from tests.kafka.test_produce_fetch import create
from tests.live_node import ANSWER_SECONDS, LiveNode

START, RESET, DELETE = ShareChangeKind
OVERTAKEN = (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
REPLACED = (ErrorCode.NOT_COORDINATOR,)
DONE = (ErrorCode.NONE,)
LATER = 1_000
"""A leader epoch that the node's own metadata does not come to."""


@pytest.fixture
def topic(node: LiveNode) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic_id = create(node, "t", partitions=2)
    subscribe(node, "t")
    return topic_id


def asked(kind: int, topic: bytes, offset: int = 0, epoch: int = NO_EPOCH) -> ShareChangeRequest:
    changes = (ShareChange(topic, 0, offset),)
    return ShareChangeRequest(
        group="g", kind=kind, changes=changes, coordinator_epoch=CoordinatorEpoch(epoch)
    )


def change(node: LiveNode, *args: Any) -> tuple[int, ...]:
    return tuple(ask(node, asked(*args)).codes)


def start_offset(node: LiveNode, topic: bytes) -> int:
    (found,) = ask(node, ShareSummaryRequest(group="g", places=(SharePlace(topic, 0),))).found
    return int(found.start_offset)


class LatePlaces:
    """The first who needs the place of a share waits for it until `go`."""

    def __init__(self, node: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self._node = node
        self._go = asyncio.Event()
        self.asked = 0
        ensure = SharePlaces.ensure

        async def late(places: SharePlaces, key: ShareKey, deadline: float) -> Unavailable | None:
            self.asked += 1
            if self.asked == 1:
                await self._go.wait()
            return await ensure(places, key, deadline)

        monkeypatch.setattr(SharePlaces, "ensure", late)

    def begin(self, question: ShareChangeRequest) -> "Future[Any]":
        """Ask, and return when it waits."""
        asking = self._node.node.calls.ask(BrokerId(1), question, timeout_ms=30_000)
        answer = asyncio.run_coroutine_threadsafe(asking, self._node.loop)
        assert self._node.until(lambda: self.asked)
        return answer

    def end(self, answer: "Future[Any]") -> tuple[int, ...]:
        """Let it go on, and return its codes."""
        self._node.call(self._go.set)
        return tuple(answer.result(ANSWER_SECONDS).codes)


@pytest.mark.parametrize("kind", [START, RESET])
def test_a_coordinator_that_was_replaced_begins_no_share(
    node: LiveNode, topic: bytes, kind: ShareChangeKind
) -> None:
    assert change(node, DELETE, topic, 0, LATER) == DONE
    assert change(node, kind, topic, 0, LATER - 1) == REPLACED
    assert start_offset(node, topic) == NOT_STARTED
    assert change(node, kind, topic, 3, LATER) == DONE
    assert start_offset(node, topic) == 3


def test_a_coordinator_that_was_replaced_deletes_no_share(node: LiveNode, topic: bytes) -> None:
    assert change(node, RESET, topic, 3, LATER) == DONE
    assert change(node, DELETE, topic, 0, LATER - 1) == REPLACED
    assert start_offset(node, topic) == 3


def test_a_coordinator_that_the_metadata_knows_as_replaced_is_refused_by_who_has_heard_of_no_other(
    node: LiveNode, topic: bytes
) -> None:
    epoch_of = node.broker.groups.shares.masters.epoch_of
    before = node.call(lambda: epoch_of("g"))
    assert before >= 0
    begin_mastership(node, "__consumer_offsets")
    assert node.until(lambda: epoch_of("g") > before)
    assert change(node, RESET, topic, 0, before) == REPLACED
    assert change(node, RESET, topic, 0, node.call(lambda: epoch_of("g"))) == DONE


def begin_mastership(node: LiveNode, topic: str) -> None:
    """Let the node lead the set of a topic's first partition anew."""
    set_id = node.broker.metadata.topics_by_name[topic].partitions.set_ids[0]
    node.submit(BeginMastership(replica_set_id=set_id, master=BrokerId(1)))


def test_a_reset_that_waits_while_the_share_is_deleted_begins_nothing(
    node: LiveNode, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LatePlaces(node, monkeypatch)
    answer = late.begin(asked(RESET, topic))
    assert change(node, DELETE, topic) == DONE
    assert late.end(answer) == OVERTAKEN
    assert start_offset(node, topic) == NOT_STARTED


def test_a_reset_that_waits_while_the_share_is_moved_elsewhere_does_not_move_it_again(
    node: LiveNode, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = LatePlaces(node, monkeypatch)
    answer = late.begin(asked(RESET, topic, 1))
    assert change(node, RESET, topic, 2) == DONE
    assert late.end(answer) == OVERTAKEN
    assert start_offset(node, topic) == 2


def test_a_deletion_that_waits_while_the_share_is_moved_does_not_delete_it(
    node: LiveNode, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert change(node, RESET, topic, 1) == DONE
    late = LatePlaces(node, monkeypatch)
    answer = late.begin(asked(DELETE, topic))
    assert change(node, RESET, topic, 2) == DONE
    assert late.end(answer) == OVERTAKEN
    assert start_offset(node, topic) == 2


def test_a_reset_of_an_earlier_mastership_of_the_data_begins_nothing(
    node: LiveNode, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another master may have been asked to delete the share, and have had none.
    late = LatePlaces(node, monkeypatch)
    answer = late.begin(asked(RESET, topic))
    set_id = node.broker.metadata.topics_by_name["t"].partitions.set_ids[0]
    member = node.broker.members[set_id]
    before = member.leader_epoch
    begin_mastership(node, "t")
    assert node.until(lambda: member.leader_epoch > before and member.is_master)
    assert late.end(answer) == OVERTAKEN
    assert start_offset(node, topic) == NOT_STARTED


def test_what_is_answered_is_not_kept(node: LiveNode, topic: bytes) -> None:
    order = ChangeOrder(node.broker)
    key = ShareKey("g", topic, 0)
    first, second = (node.call(lambda: order.begin(asked(RESET, topic))) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (first.stand(key), second.stand(key)) == (False, True)
    second.end()
    assert not first.stand(key), "an earlier one would count again"
    first.end()
    assert not order._newest
