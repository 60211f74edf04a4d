"""How many copies elections may count on, and ids that nobody gets twice, also from a snapshot."""

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId
from penstock.controller.commands import command as c
from penstock.controller.metadata import records as r
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_FLOOR, ClusterImage, ReplicaSetImage
from penstock.controller.metadata.replay import replay
from penstock.controller.metadata.snapshot import snapshot_records
from tests.controller.cluster import Cluster
from tests.controller.joining import joining

SET = ReplicaSetId(0)
QUORUM = AckPolicy(kind=PolicyKind.QUORUM)


class Three(Cluster):
    """A set of brokers 0, 1 and 2 that broker 0 leads."""

    def __init__(self, policy: AckPolicy | None = None) -> None:
        super().__init__(sets=((0, 1, 2), (1,), (2,)))
        for broker in (0, 1, 2):
            self.registers(broker, f"log {broker}")
        if policy is not None:
            self.submit(c.SetAckPolicy(replica_set_id=SET, policy=policy))

    @property
    def now(self) -> ReplicaSetImage:
        return self.image.replica_sets[SET]

    def registers(self, broker: int, log_id: str) -> int:
        return self.submit(
            c.RegisterReplica(replica_set_id=SET, broker_id=BrokerId(broker), log_id=log_id)
        )

    def in_step(self, *members: int) -> None:
        self.submit(
            c.ChangeSyncStateSet(
                replica_set_id=SET,
                master=BrokerId(0),
                leader_epoch=self.now.leader_epoch,
                sync_state_set_epoch=self.now.sync_state_set_epoch,
                sync_state_set=tuple(map(BrokerId, members)),
                joining=joining(self.now, self.image.brokers, members),
            )
        )

    def from_snapshot(self) -> ReplicaSetImage:
        image = ClusterImage()
        replay(image, snapshot_records(self.image))
        return image.replica_sets[SET]


def test_who_is_in_step_under_a_quorum_is_not_taken_to_hold_everything_under_all() -> None:
    three = Three(QUORUM)
    three.in_step(0, 1, 2)
    three.submit(c.SetAckPolicy(replica_set_id=SET, policy=AckPolicy()))
    assert three.now.sync_state_set == (0,), "two of the three hold what was confirmed"


def test_a_floor_rises_to_those_who_are_in_step_after_a_change_and_not_before_it() -> None:
    three = Three(AckPolicy(kind=PolicyKind.K_OF_N, required=3))
    three.in_step(0, 1, 2)
    three.controller.replay((r.CopiesFloorChanged(replica_set_id=SET, copies_floor=1),))
    three.in_step(0, 1)
    assert three.now.copies_floor == 2


def test_a_log_that_is_lost_out_of_step_is_one_copy_less_where_it_counted() -> None:
    three = Three(QUORUM)
    three.in_step(0, 1)
    assert three.now.copies_floor == NO_FLOOR
    three.registers(2, "a new disk")
    assert three.now.copies_floor == 1, "it may have been one of the two"


def test_a_snapshot_hands_no_replica_id_out_again() -> None:
    three = Three()
    three.registers(0, "a new disk")  # the broker with the lowest id has the highest replica id
    assert three.from_snapshot() == three.now
    three = Three()
    three.in_step(0, 1)
    highest = three.now.replica_ids[BrokerId(2)]
    three.submit(c.RemoveReplica(replica_set_id=SET, broker_id=BrokerId(2)))
    assert three.from_snapshot() == three.now
    assert three.now.next_replica_id == highest + 1


def test_an_unclean_mastership_is_known_behind_records_that_do_not_name_it() -> None:
    three = Three()
    before = three.now.leader_epoch

    def begun(ahead: int, unclean_epoch: int) -> r.MastershipBegun:
        return r.MastershipBegun(
            replica_set_id=SET,
            master=BrokerId(0),
            leader_epoch=LeaderEpoch(before + ahead),
            cause=Cause.UNCLEAN,
            at_ms=1,
            last_master=BrokerId(0),
            unclean_epoch=LeaderEpoch(unclean_epoch),
        )

    three.controller.replay((begun(1, before + 1),))
    three.controller.replay((begun(2, -1),))  # of an earlier release
    assert three.now.unclean_epoch == before + 1
    assert three.now.may_have_lost(before)
    assert three.from_snapshot().unclean_epoch == before + 1
