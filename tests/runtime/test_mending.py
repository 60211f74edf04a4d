"""What a member that has damage in its log has cut away, by what was found and when."""

import asyncio
from collections.abc import Callable

from harness.log_world import World
from penstock.base.ids import ReplicaSetId
from penstock.base.ports import Scheduler
from penstock.controller.metadata.image import ClusterImage, ReplicaSetImage
from penstock.controller.metadata.records import BrokerRegistered, ReplicaSetCreated
from penstock.controller.metadata.replay import replay
from penstock.runtime.ha.mending import DamageStats, Mending


class Logs:
    """Notes where logs are cut."""

    def __init__(self) -> None:
        self.cut_at: list[int] = []

    async def repair(self, replica_set_id: ReplicaSetId, position: int) -> int:
        self.cut_at.append(position)
        return position


class Set:
    """A set of three with a log that its member here can not open."""

    member = None
    master_set = None
    open_error = None
    is_failover_enabled = True
    replica_set_id = ReplicaSetId(1)

    def __init__(self) -> None:
        self.trouble = ""
        self.logs = Logs()
        self.scheduler: Scheduler = World()
        image = ClusterImage()
        members = (1, 2, 3)
        replay(image, [
            *(BrokerRegistered(broker_id=one, host="h", port=1, rack=None) for one in members),
            ReplicaSetCreated(
                replica_set_id=1, replicas=members,
                policy_kind="all", policy_required=1, policy_minimum=1,
            ),
        ])  # fmt: skip
        self.image: ReplicaSetImage | None = image.replica_sets[1]
        self.lay_down: Callable[[], None] = lambda: None

    async def close_log(self) -> None:
        """It is not open."""


def test_a_log_is_cut_below_the_lowest_damage_wherever_it_was_found_first() -> None:
    for found in ((500, 200, 900), (200, 500, 900)):
        one = Set()
        mending = Mending(one, DamageStats())
        for position in found:
            mending.found_at_start(position, "a flipped bit")
        assert asyncio.run(mending.mend())
        assert one.logs.cut_at == [200]
        assert not mending.is_pending
