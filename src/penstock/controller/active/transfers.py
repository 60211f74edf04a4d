"""Planned transfers of mastership: nothing acknowledged is lost, and nothing is written twice.

    PrepareTransfer ─► the master stops taking writes and waits until the target has caught up
    TransferReady   ─► BeginMasterships: the target, under a new leader epoch
    refusal, time-out or a failed submit ─► the master resumes writes (`promises`)

The sync-state set stays as it is: its members hold every confirmed record before and after.

Source: RIP-44's electMaster with a designated broker; Raft thesis 3.10 (stop, bring up to date,
hand over). Which sets are moved is decided in `controller`, `drains` and `operations`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.ack_policy import AckPolicy
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId, RequestId
from penstock.base.invariant import invariant
from penstock.base.ports import Cancellable
from penstock.controller.active.context import ActiveContext
from penstock.controller.active.elections import RoundOver
from penstock.controller.commands.command import BeginMasterships, NewMastership
from penstock.controller.errors import MetadataError, TransferFailed
from penstock.controller.metadata.causes import Cause
from penstock.controller.session import PrepareTransfer, TransferReady

TRANSFERS_MAX = 16
"""Limit of transfers under way that the controller starts itself; operators' may exceed it."""

ANSWER_MARGIN_MS = 500
"""Time for the master's answer to arrive after its own time-out."""

TransferDone = Callable[[MetadataError | None], None]


@dataclass(slots=True, kw_only=True)
class Transfer:
    """One transfer under way."""

    request_id: RequestId
    replica_set_id: ReplicaSetId
    master: BrokerId
    target: BrokerId
    cause: Cause
    waiting: list[TransferDone]
    """Who is told of its end."""
    leader_epoch: LeaderEpoch
    policy: AckPolicy
    """Epoch and policy when the master was asked: its answer is valid for these only."""
    timer: Cancellable | None = None
    is_submitted: bool = False


class Transfers:
    """The transfers under way, at most one per set."""

    def __init__(
        self, context: ActiveContext, on_settled: Callable[[], None], on_over: RoundOver
    ) -> None:
        """`on_over(brokers, sets)` is called with the master and the set of a failed transfer."""
        self._context = context
        self._on_settled = on_settled
        self._on_over = on_over
        self._transfers: dict[int, Transfer] = {}
        self._not_before_ms: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._transfers)

    def is_moving(self, set_id: ReplicaSetId) -> bool:
        """Whether a transfer of this set is under way."""
        return self._of_set(set_id) is not None

    def is_due(self, set_id: ReplicaSetId) -> bool:
        """Whether the set's backoff is over and fewer than TRANSFERS_MAX are under way."""
        is_room = len(self._transfers) < TRANSFERS_MAX
        return is_room and self._context.now_ms >= self._not_before_ms.get(set_id, 0)

    def forget(self, error: MetadataError) -> None:
        """Drop every transfer, since this controller lost the lead."""
        transfers, self._transfers = list(self._transfers.values()), {}
        for transfer in transfers:
            _cancel(transfer)
            _tell(transfer, error)
        self._not_before_ms.clear()

    def refusal(self, set_id: ReplicaSetId, target: BrokerId) -> str:
        """Return why the set can not be moved to `target` now, empty if it can."""
        context = self._context
        replica_set = context.image.replica_sets[set_id]
        if not context.has_live_master(replica_set):
            return "there is no live master to take it from; elect one"
        if target == replica_set.master:
            return f"broker {target} is the master already"
        if target not in replica_set.sync_state_set:
            return f"broker {target} is not in the sync-state set {replica_set.sync_state_set}"
        if not context.is_able(target) or context.has_failed(target, set_id):
            return f"broker {target} is not alive, or its log has failed"
        if (transfer := self._of_set(set_id)) is not None:
            return f"it is being moved to broker {transfer.target}: look again in a moment"
        return ""

    def join(self, set_id: ReplicaSetId, target: BrokerId, done: TransferDone) -> bool:
        """Wait for a transfer to `target` that is under way; return whether there is one."""
        transfer = self._of_set(set_id)
        if transfer is None or transfer.target != target:
            return False
        transfer.waiting.append(done)
        return True

    def start(
        self,
        set_id: ReplicaSetId,
        target: BrokerId,
        *,
        cause: Cause,
        done: TransferDone | None = None,
    ) -> None:
        """Begin a transfer; `refusal` must be empty for it."""
        assert not self.refusal(set_id, target)
        context = self._context
        replica_set = context.image.replica_sets[set_id]
        is_move = replica_set.master != target and target in replica_set.replicas
        invariant(is_move, "a mastership moves to another member", target=target)
        timeout_ms = context.config.transfer_timeout_ms
        one = Transfer(
            request_id=context.next_request_id(),
            replica_set_id=set_id,
            master=replica_set.master,
            target=target,
            cause=cause,
            waiting=[] if done is None else [done],
            leader_epoch=replica_set.leader_epoch,
            policy=replica_set.policy,
        )
        self._transfers[one.request_id] = one
        one.timer = context.scheduler.call_later(
            timeout_ms + ANSWER_MARGIN_MS, lambda: self._fail(one, "the master did not answer")
        )
        prepare = PrepareTransfer(
            request_id=one.request_id,
            replica_set_id=set_id,
            leader_epoch=replica_set.leader_epoch,
            target=target,
            timeout_ms=timeout_ms,
            controller_epoch=context.controller_epoch,
            is_promise_wanted=replica_set.policy.needs_lease,
        )
        context.send(replica_set.master, prepare)

    def on_ready(self, broker_id: BrokerId, answer: TransferReady) -> None:
        """Take the master's answer; a late, duplicate or unrequested one changes nothing."""
        one = self._transfers.get(answer.request_id)
        if one is None or one.is_submitted or one.master != broker_id:
            return
        replica_set = self._context.image.replica_sets[one.replica_set_id]
        if not answer.is_ready:
            self._fail(one, answer.reason or "the master is not ready")
            return
        is_other = (replica_set.leader_epoch, replica_set.policy) != (one.leader_epoch, one.policy)
        if is_other or not self._context.is_able(one.target):
            self._fail(one, "the set has changed meanwhile")
            return
        one.is_submitted = True
        _cancel(one)
        mastership = NewMastership(
            replica_set_id=one.replica_set_id,
            master=one.target,
            leader_epoch=replica_set.leader_epoch,
            sync_state_set_epoch=replica_set.sync_state_set_epoch,
            cause=one.cause,
        )
        command = BeginMasterships(masterships=(mastership,))
        self._context.submit_to_the_end(command, lambda answer: self._on_submitted(one, answer))

    def on_lost(self, broker_id: BrokerId) -> None:
        """Fail the transfers from or to a broker whose session is gone."""
        for transfer in list(self._transfers.values()):
            if broker_id in {transfer.master, transfer.target} and not transfer.is_submitted:
                self._fail(transfer, f"broker {broker_id} is gone")

    def _of_set(self, set_id: ReplicaSetId) -> Transfer | None:
        """Return the set's transfer that is under way, if there is one."""
        transfers = self._transfers.values()
        return next((one for one in transfers if one.replica_set_id == set_id), None)

    def _on_submitted(self, transfer: Transfer, answer: object) -> None:
        if transfer.request_id not in self._transfers:
            return
        if isinstance(answer, MetadataError):
            self._fail(transfer, str(answer))
            return
        self._context.stats.count_mastership(transfer.cause)
        self._settle(transfer, None)

    def _fail(self, one: Transfer, reason: str) -> None:
        if one.request_id not in self._transfers:
            return
        self._context.stats.transfers_failed += 1
        wait_ms = self._context.config.session_timeout_ms
        self._not_before_ms[one.replica_set_id] = self._context.now_ms + wait_ms
        self._settle(one, TransferFailed(one.replica_set_id, reason))

    def _settle(self, transfer: Transfer, error: MetadataError | None) -> None:
        _cancel(transfer)
        del self._transfers[transfer.request_id]
        if error is not None:
            self._on_over((transfer.master,), (transfer.replica_set_id,))
        _tell(transfer, error)
        self._on_settled()


def _tell(transfer: Transfer, error: MetadataError | None) -> None:
    for done in transfer.waiting:
        done(error)


def _cancel(one: Transfer) -> None:
    if one.timer is not None:
        one.timer.cancel()
        one.timer = None
