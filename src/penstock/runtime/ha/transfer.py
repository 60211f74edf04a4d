"""Transfer of a mastership: pause writes, let the target catch up, then the controllers decide.

    PrepareTransfer ─► pause ─► target holds the log's end ─► ready ─► MastershipBegun of another
                          └─ not in time ─► resumes writes     └─ refused ─► resumes writes

A master that was ready and gets no news accepts writes again after a while. It confirms none of
them that the others could confirm without its copy, see ProbeSets, until it learns that the
transfer is off.

Source: Raft thesis 3.10 (leadership transfer) for waiting before the hand-over.
"""

import asyncio
import logging

from penstock.base.callbacks import nothing
from penstock.base.ids import BrokerId
from penstock.base.ports import Scheduler
from penstock.controller.session import PrepareTransfer, TransferReady
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.promise import Asker

log = logging.getLogger(__name__)


async def prepare_transfer(
    master_set: MasterSet | None, request: PrepareTransfer, scheduler: Scheduler
) -> TransferReady:
    """Stop accepting writes and wait until the target holds all; bounded by the request."""
    reason = _why_not(master_set, request)
    if reason or master_set is None:
        return TransferReady(request_id=request.request_id, is_ready=False, reason=reason)
    member = master_set.member
    asker = Asker(request.controller_epoch, request.request_id)
    pause = master_set.handing_over.begin(asker)
    try:
        async with asyncio.timeout(request.timeout_ms / 1000):
            await _caught_up(master_set, request.target)
    except TimeoutError:
        if not _holds_all(master_set, request.target):
            reason = f"broker {request.target} did not catch up in {request.timeout_ms} ms"
    if master_set.is_over:
        reason = "the mastership has ended meanwhile"
    elif reason:
        master_set.handing_over.not_ready(asker, pause)
    else:
        master_set.handing_over.ready(asker)
        scheduler.call_later(request.timeout_ms, lambda: _go_on(master_set, pause))
    log.info(
        "set=%d transfer to broker=%d %s", request.replica_set_id, request.target, reason or "ready"
    )
    return TransferReady(
        request_id=request.request_id,
        is_ready=not reason,
        log_end_position=member.log.end_position,
        reason=reason,
    )


def _why_not(master_set: MasterSet | None, request: PrepareTransfer) -> str:
    if master_set is None or master_set.is_resuming:
        return f"this broker does not lead set {request.replica_set_id}"
    if master_set.leader_epoch != request.leader_epoch:
        return f"the mastership's epoch is {master_set.leader_epoch}, not {request.leader_epoch}"
    if request.target not in master_set.sessions:
        return f"broker {request.target} does not follow set {request.replica_set_id}"
    return ""


async def _caught_up(master_set: MasterSet, target: BrokerId) -> None:
    """Wait until the target holds the log's end and all pending acknowledgements are confirmed."""
    progress = asyncio.Event()

    def on_durable(_: ReplicaSetMember) -> None:
        progress.set()

    on_progress = master_set.on_progress = progress.set
    master_set.member.on_durable.append(on_durable)
    try:
        while not master_set.is_over and not _is_caught_up(master_set, target):
            progress.clear()
            await progress.wait()
    finally:
        if master_set.on_progress is on_progress:  # else a later request has replaced it
            master_set.on_progress = nothing
        master_set.member.on_durable.remove(on_durable)


def _is_caught_up(master_set: MasterSet, target: BrokerId) -> bool:
    member = master_set.member
    queues = (member.waiting_for_all, member.waiting_for_master)
    return _holds_all(master_set, target) and not any(queue.is_awaiting for queue in queues)


def _holds_all(master_set: MasterSet, target: BrokerId) -> bool:
    session = master_set.sessions.get(target)
    end = master_set.member.log.end_position
    return session is not None and session.is_streaming and session.acknowledged >= end


def _go_on(master_set: MasterSet, pause: int) -> None:
    member = master_set.member
    if not master_set.is_over and not member.is_master:
        member.resume_writes(pause)
        if member.is_master:
            log.warning("set=%d no new master followed: writes resume", member.replica_set_id)
