"""The content of `cluster status`: the image, and the last reports of brokers to this controller.

Any controller answers: heartbeats, with the members' positions, go to all of them.

Source: our own; mqadmin's getSyncStateSet, haStatus and getBrokerEpoch in one answer.
"""

from penstock.base.ids import BrokerId, ReplicaId, ReplicaSetId, RequestId
from penstock.controller.active.context import ActiveContext, Reported
from penstock.controller.active.elections import Elections
from penstock.controller.metadata.image import NO_EPOCH, NO_MASTER, BrokerImage, ReplicaSetImage
from penstock.controller.replicated_log import Leadership
from penstock.controller.session import (
    BrokerStatus,
    ControllerStatus,
    MemberStatus,
    SetStatus,
    StatusAnswer,
)

_UNKNOWN = -1


def status_answer(
    context: ActiveContext, elections: Elections, leadership: Leadership, request_id: RequestId
) -> StatusAnswer:
    """Return the status of the cluster, its brokers and its sets, by ascending id."""
    image = context.image
    return StatusAnswer(
        request_id=request_id,
        cluster_id=image.cluster_id,
        controller=ControllerStatus(
            answered_by=context.own_id,
            active_id=leadership.leader_id,
            controller_epoch=leadership.term,
            is_failover_enabled=image.is_failover_enabled,
        ),
        brokers=tuple(_broker(context, one) for _, one in sorted(image.brokers.items())),
        sets=tuple(
            _replica_set(context, elections, one) for _, one in sorted(image.replica_sets.items())
        ),
    )


def _broker(context: ActiveContext, broker: BrokerImage) -> BrokerStatus:
    sets = context.image.replica_sets.values()
    broker_id = broker.broker_id
    return BrokerStatus(
        broker_id=broker_id,
        host=broker.host,
        port=broker.port,
        ha_host=broker.ha_host,
        ha_port=broker.ha_port,
        rack=broker.rack or "",
        machine=broker.machine,
        broker_epoch=broker.broker_epoch,
        is_live=_is_live(context, broker_id),
        is_fenced=broker.is_fenced,
        is_draining=broker.is_draining,
        heard_ms_ago=context.liveness.heard_ms_ago(broker_id, context.now_ms),
        master_count=sum(replica_set.master == broker_id for replica_set in sets),
        replica_count=sum(broker_id in replica_set.replicas for replica_set in sets),
    )


def _is_live(context: ActiveContext, broker_id: BrokerId) -> bool:
    return context.liveness.is_connected(broker_id, context.now_ms)


def _replica_set(
    context: ActiveContext, elections: Elections, replica_set: ReplicaSetImage
) -> SetStatus:
    set_id = replica_set.replica_set_id
    is_led = replica_set.master != NO_MASTER and not context.has_failed_master(replica_set)
    return SetStatus(
        replica_set_id=set_id,
        policy_kind=replica_set.policy.kind.value,
        policy_required=replica_set.policy.required,
        policy_minimum=replica_set.policy.minimum,
        master=replica_set.master,
        leader_epoch=replica_set.leader_epoch,
        cause=_why(replica_set),
        since_ms=replica_set.last_change_ms,
        preferred_master=replica_set.replicas[0],
        sync_state_set=replica_set.sync_state_set,
        sync_state_set_epoch=replica_set.sync_state_set_epoch,
        partition_count=context.image.partition_counts[set_id],
        is_unclean_allowed=replica_set.is_unclean_allowed,
        is_electing=elections.is_electing(set_id),
        reason="" if is_led else elections.reasons.get(set_id, ""),
        members=tuple(_member(context, replica_set, replica) for replica in replica_set.replicas),
    )


def _member(
    context: ActiveContext, replica_set: ReplicaSetImage, broker_id: BrokerId
) -> MemberStatus:
    set_id = replica_set.replica_set_id
    known = _reported(context, broker_id, set_id)
    report = None if known is None else known.report
    lag_bytes, caught_up_ms_ago = _lag(context, replica_set, broker_id)
    return MemberStatus(
        broker_id=broker_id,
        replica_id=replica_set.replica_ids.get(broker_id, ReplicaId(_UNKNOWN)),
        is_live=_is_live(context, broker_id),
        is_in_sync=broker_id in replica_set.sync_state_set,
        role="" if report is None else report.role,
        leader_epoch=NO_EPOCH if report is None else report.leader_epoch,
        last_log_epoch=NO_EPOCH if report is None else report.last_log_epoch,
        log_start_position=_UNKNOWN if report is None else report.log_start_position,
        log_end_position=_UNKNOWN if report is None else report.log_end_position,
        confirm_position=_UNKNOWN if report is None else report.confirm_position,
        lag_bytes=lag_bytes,
        caught_up_ms_ago=caught_up_ms_ago,
        reported_ms_ago=_UNKNOWN if known is None else context.now_ms - known.at_ms,
    )


def _reported(context: ActiveContext, broker_id: BrokerId, set_id: ReplicaSetId) -> Reported | None:
    return context.reports.get(broker_id, {}).get(set_id)


def _lag(
    context: ActiveContext, replica_set: ReplicaSetImage, broker_id: BrokerId
) -> tuple[int, int]:
    """Return (bytes behind, ms since caught up), by the master's report or by both ends."""
    if broker_id == replica_set.master:
        return 0, 0
    master = _reported(context, replica_set.master, replica_set.replica_set_id)
    own = _reported(context, broker_id, replica_set.replica_set_id)
    if master is None:
        return _UNKNOWN, _UNKNOWN
    for slave in master.report.slaves:
        if slave.broker_id == broker_id:
            return slave.lag_bytes, slave.caught_up_ms_ago
    if own is None:
        return _UNKNOWN, _UNKNOWN
    return max(0, master.report.log_end_position - own.report.log_end_position), _UNKNOWN


def _why(replica_set: ReplicaSetImage) -> str:
    """Return cause and detail of the last mastership, for people."""
    cause, detail = replica_set.last_cause.value, replica_set.last_detail
    return f"{cause}: {detail}" if cause and detail else cause or detail
