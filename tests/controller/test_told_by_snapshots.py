"""What a member that begins with a snapshot must know of sets, as who replayed every entry does."""

from harness.ids import as_brokers
from penstock.base.ids import ReplicaSetId
from penstock.controller.commands import command as c
from penstock.controller.metadata.image import NO_MASTER, ClusterImage
from penstock.controller.metadata.replay import replay
from penstock.controller.metadata.snapshot import snapshot_records
from tests.controller.cluster import Cluster

SET = ReplicaSetId(0)


def _cluster() -> Cluster:
    """One set of brokers 0, 1, 2, whose logs are registered in this order; 0 leads it."""
    cluster = Cluster(sets=((0, 1, 2),))
    for broker_id in as_brokers(0, 1, 2):
        cluster.submit(c.RegisterReplica(replica_set_id=SET, broker_id=broker_id, log_id="first"))
    return cluster


def _again(cluster: Cluster) -> ClusterImage:
    image = ClusterImage()
    replay(image, snapshot_records(cluster.image))
    assert image.replica_sets == cluster.image.replica_sets
    return image


def test_no_replica_id_is_given_out_twice() -> None:
    cluster = _cluster()
    (broker_id,) = as_brokers(0)
    another = c.RegisterReplica(replica_set_id=SET, broker_id=broker_id, log_id="another")
    newest = cluster.submit(another)
    assert _again(cluster).replica_sets[SET].next_replica_id == newest + 1


def test_who_led_last_is_known_while_nobody_leads() -> None:
    cluster = _cluster()
    cluster.submit(c.EndMastership(replica_set_id=SET))
    found = _again(cluster).replica_sets[SET]
    assert (found.master, found.last_master) == (NO_MASTER, 0)
