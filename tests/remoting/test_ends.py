"""The end of a queue, as a new master tells it."""

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, LeaderEpoch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.replication.confirm import Membership
from tests.broker.cluster import Cluster
from tests.remoting.served import sent
from tests.remoting.world import SET, remotings


def test_a_new_master_does_not_tell_an_end_before_it_knows_what_was_confirmed() -> None:
    """Else a client that begins at the end would get what others have consumed before."""
    cluster = Cluster(2)
    cluster.create("events")
    master, other = remotings(cluster)
    cluster.replicate()
    asked = master.send(RequestCode.SEND_MESSAGE_V2, sent("events", n=SET), b"body")
    cluster.world.run()
    member = other.node.member
    cluster._copy(master.node.member.log, member.log)
    master.node.member.acknowledge(BrokerId(1), member.log.durable_position)
    cluster.world.run()
    acknowledged = master.answer(asked)
    assert acknowledged is not None
    assert acknowledged.code == ResponseCode.SUCCESS
    epoch = LeaderEpoch(cluster.lead(1))
    assert member.confirm_position < member.epoch_start
    place = {"topic": "events", "queueId": 0, "bname": SET}
    early = other.answer(other.send(RequestCode.GET_MAX_OFFSET, place))
    assert early is not None
    assert early.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "end" in (early.remark or "")
    alone = as_brokers(1)
    member.become_master(epoch, Membership(replicas=alone, committed=alone))
    member.confirm_reached()
    cluster.world.run()
    told = other.answer(other.send(RequestCode.GET_MAX_OFFSET, place))
    assert told is not None
    assert told.fields == {"offset": "1"}


def test_a_new_master_tells_the_end_once_all_before_its_mastership_is_confirmed() -> None:
    cluster = Cluster(2)
    cluster.create("events")
    master, other = remotings(cluster)
    master.send(RequestCode.SEND_MESSAGE_V2, sent("events", n=SET), b"body")
    cluster.replicate()
    cluster.lead(1)
    member = other.node.member
    member.acknowledge(BrokerId(0), member.epoch_start)  # and nothing of the mastership itself
    assert member.confirm_position == member.epoch_start
    place = {"topic": "events", "queueId": 0, "bname": SET}
    told = other.answer(other.send(RequestCode.GET_MAX_OFFSET, place))
    assert told is not None
    assert told.fields == {"offset": "1"}
