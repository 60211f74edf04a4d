"""What brokers, masters, operators and another controller ask in a walk of an active controller."""

from random import Random

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaId, RequestId
from penstock.controller.commands import command as c
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import (
    NO_MASTER,
    BrokerImage,
    ClusterImage,
    ReplicaSetImage,
)
from penstock.controller.session import ElectRequest, TransferRequest

KINDS = (PolicyKind.ALL, PolicyKind.QUORUM, PolicyKind.K_OF_N)


def some_set(draw: Random, image: ClusterImage) -> ReplicaSetImage:
    """Return any set."""
    return draw.choice(list(image.replica_sets.values()))


def operation(draw: Random, image: ClusterImage) -> ElectRequest | TransferRequest:
    """Return an operator's request for an election or a transfer."""
    known = some_set(draw, image)
    set_id, whom = known.replica_set_id, draw.choice((NO_MASTER, *known.replicas, *known.replicas))
    if draw.random() < 0.5:
        return ElectRequest(request_id=RequestId(1), replica_set_id=set_id, master=whom)
    return TransferRequest(request_id=RequestId(1), replica_set_id=set_id, target=whom)


def drain(draw: Random, image: ClusterImage) -> c.DrainBroker:
    """Return the begin or the end of a drain."""
    one = draw.choice(list(image.brokers.values()))
    return c.DrainBroker(broker_id=one.broker_id, is_draining=not one.is_draining)


def policy(draw: Random, image: ClusterImage) -> c.SetAckPolicy:
    """Return a change of a set's policy."""
    wanted = AckPolicy(kind=draw.choice(KINDS), required=2, minimum=1)
    return c.SetAckPolicy(replica_set_id=some_set(draw, image).replica_set_id, policy=wanted)


def change_of_set(draw: Random, image: ClusterImage) -> c.ChangeSyncStateSet | None:
    """Return a master's wish to take members in or to leave some out; None of a set without one."""
    one, brokers = some_set(draw, image), image.brokers
    if one.master == NO_MASTER:
        return None
    others = {each for each in one.replicas if draw.random() < 0.7}
    wanted = tuple(sorted({one.master, *others}))
    joining = tuple(
        c.JoiningReplica(
            broker_id=each,
            replica_id=one.replica_ids.get(each, ReplicaId(-1)),
            broker_epoch=brokers[each].broker_epoch,
        )
        for each in wanted
        if each not in one.sync_state_set
    )
    return c.ChangeSyncStateSet(
        replica_set_id=one.replica_set_id,
        master=one.master,
        leader_epoch=one.leader_epoch,
        sync_state_set_epoch=one.sync_state_set_epoch,
        sync_state_set=wanted,
        joining=joining,
    )


def mastership(
    draw: Random, replica_set: ReplicaSetImage, pool: list[BrokerId]
) -> c.BeginMasterships:
    """Return what another controller decides about a set."""
    begun = c.NewMastership(
        replica_set_id=replica_set.replica_set_id,
        master=draw.choice(pool),
        leader_epoch=replica_set.leader_epoch,
        sync_state_set_epoch=replica_set.sync_state_set_epoch,
        cause=Cause.RETURN,
        sync_state_set=tuple(sorted(pool)),
    )
    return c.BeginMasterships(masterships=(begun,))


def registration(known: BrokerImage, incarnation: str) -> c.RegisterBroker:
    """Return the registration of a process of a known broker."""
    return c.RegisterBroker(
        broker_id=known.broker_id,
        host=known.host,
        port=known.port,
        rack=known.rack,
        ha_host=known.ha_host,
        ha_port=known.ha_port,
        identity=known.identity,
        incarnation=incarnation,
        directory_count=known.directory_count,
    )
