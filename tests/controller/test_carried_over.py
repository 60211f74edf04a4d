"""What is known of sets and brokers outlives snapshots and restarts."""

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.commands import command as c
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.records import CopiesFloorChanged
from penstock.controller.metadata.replay import replay
from penstock.controller.metadata.snapshot import snapshot_records
from tests.controller.cluster import Cluster


def test_that_nobody_surely_has_everything_is_known_to_who_begins_with_a_snapshot() -> None:
    cluster = Cluster(sets=((0, 1, 2),))
    (set_id,) = cluster.image.replica_sets
    cluster.controller.replay(
        [CopiesFloorChanged(replica_set_id=ReplicaSetId(set_id), copies_floor=0)]
    )
    again = ClusterImage()
    replay(again, snapshot_records(cluster.image))
    assert again.replica_sets[set_id].copies_floor == 0
    assert again == cluster.image


def test_a_broker_that_is_drained_is_so_as_its_next_process() -> None:
    cluster = Cluster(sets=((0, 1, 2),))
    cluster.submit(c.DrainBroker(broker_id=BrokerId(1), is_draining=True))
    known = cluster.image.brokers[BrokerId(1)]
    command = c.RegisterBroker(
        broker_id=BrokerId(1), host="h", port=1, identity=known.identity, incarnation="the next"
    )
    cluster.submit(command)
    assert cluster.image.brokers[BrokerId(1)].incarnation == "the next"
    assert cluster.image.brokers[BrokerId(1)].is_draining
