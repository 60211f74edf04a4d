"""A master that can not know whether it still is one gives nothing to consumers."""

from penstock.protocol.error_codes import ErrorCode
from tests.broker.cluster import Cluster, fetched


def test_a_fetch_at_a_master_that_was_cut_off_is_refused_until_it_hears_of_the_others() -> None:
    cluster = Cluster(3)
    cluster.create("events")
    cluster.nodes[0].produce(b"x")
    cluster.replicate()
    master = cluster.nodes[0].member
    assert fetched(cluster.nodes[0].fetch(0)).error_code == 0
    master.may_read = lambda: False
    answer = fetched(cluster.nodes[0].fetch(0))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not answer.records
    master.may_read = lambda: True
    assert fetched(cluster.nodes[0].fetch(0)).records
