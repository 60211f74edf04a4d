"""A broker that was fenced a moment ago is told of, and one that was fenced long ago is not."""

from dataclasses import replace
from typing import Any

from penstock.base.ids import BrokerId
from penstock.broker.lately_fenced import LatelyFenced
from penstock.controller.metadata.image import BrokerImage, ClusterDelta, ClusterImage
from tests.broker.test_denials import Clock
from tests.controller.cluster import Cluster

TOLD_MS = 9_000
ONE, TWO = BrokerId(1), BrokerId(2)


class Followed:
    """A cluster of three brokers, of which the image says that some are fenced when it begins."""

    def __init__(self, *fenced: BrokerId, told_ms: int = TOLD_MS) -> None:
        self.clock = Clock()
        self.image: ClusterImage = Cluster(sets=((0, 1, 2),)).image
        for broker_id in fenced:
            self.image.brokers[broker_id] = self._now(broker_id, is_fenced=True)
        self.lately = LatelyFenced(self.clock, told_ms)
        self.lately.begin(self.image)

    def _now(self, broker_id: BrokerId, **fields: Any) -> BrokerImage:
        return replace(self.image.brokers[broker_id], **fields)

    def change(self, broker_id: BrokerId, **fields: Any) -> None:
        broker = self.image.brokers[broker_id] = self._now(broker_id, **fields)
        self.lately.note(ClusterDelta(changed_brokers=(broker,)))

    def remove(self, broker_id: BrokerId) -> None:
        self.lately.note(ClusterDelta(removed_brokers=(self.image.brokers[broker_id],)))


def test_a_broker_is_told_of_until_its_time_is_over() -> None:
    followed = Followed()
    assert not followed.lately.has(ONE)
    followed.change(ONE, is_fenced=True)
    followed.clock.now_ms += TOLD_MS - 1
    assert followed.lately.has(ONE)
    assert not followed.lately.has(TWO)
    followed.clock.now_ms += 1
    assert not followed.lately.has(ONE)


def test_another_change_of_a_fenced_broker_does_not_begin_its_time_anew() -> None:
    followed = Followed()
    followed.change(ONE, is_fenced=True)
    followed.clock.now_ms += TOLD_MS - 1
    followed.change(ONE, is_draining=True)
    followed.clock.now_ms += 1
    assert not followed.lately.has(ONE)


def test_a_broker_that_is_fenced_again_has_its_time_again() -> None:
    followed = Followed()
    followed.change(ONE, is_fenced=True)
    followed.change(ONE, is_fenced=False)
    assert not followed.lately.has(ONE)
    followed.clock.now_ms += TOLD_MS
    followed.change(ONE, is_fenced=True)
    assert followed.lately.has(ONE)


def test_it_is_not_known_since_when_a_broker_is_fenced_that_was_so_at_the_beginning() -> None:
    followed = Followed(ONE)
    followed.change(ONE, is_draining=True)
    assert not followed.lately.has(ONE)


def test_nothing_is_told_of_a_removed_broker() -> None:
    followed = Followed()
    followed.change(ONE, is_fenced=True)
    followed.remove(ONE)
    assert not followed.lately.has(ONE)
    followed.remove(TWO)
    followed.change(TWO, is_fenced=True)
    assert not followed.lately.has(TWO)


def test_with_no_time_a_fenced_broker_is_left_out_at_once() -> None:
    followed = Followed(told_ms=0)
    followed.change(ONE, is_fenced=True)
    assert not followed.lately.has(ONE)
