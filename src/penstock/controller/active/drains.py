"""Draining: a broker gives up its duties step by step, without interrupting clients.

    is_draining ─► masterships transferred to members in step ─► out of the sync-state sets ─► done

After that no client and no write depends on the broker, and it can be stopped. It continues to
replicate, and may join sync-state sets again when the drain is ended. A duty that no other member
can take stays, and the operator's answer names it.

Source: KIP-491 (deprioritised brokers), Kubernetes drain; RocketMQ has wipeWritePerm only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.ids import BrokerId
from penstock.controller.active.context import ActiveContext
from penstock.controller.active.transfers import Transfers
from penstock.controller.commands.command import LeaveSyncStateSets
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import ReplicaSetImage

DRAIN_TIMEOUT_MS = 60_000
"""After this the operator gets an answer with the remaining duties; the drain goes on."""

DrainDone = Callable[[str, MetadataError | None], None]
"""Receives the text for the operator, or the error that ended the wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """An operator's request that waits for the end of a drain."""

    broker_id: BrokerId
    until_ms: int
    done: DrainDone


class Drains:
    """Drains the brokers that are marked for it in the image, and those that are shutting down."""

    def __init__(
        self, context: ActiveContext, transfers: Transfers, on_settled: Callable[[], None]
    ) -> None:
        self._context = context
        self._transfers = transfers
        self._on_settled = on_settled
        self._watches: list[_Watch] = []
        self._leaving: dict[int, None] = {}
        self._not_before_ms: dict[int, int] = {}

    def forget(self, error: MetadataError) -> None:
        """Fail the waiting requests: this controller has lost the lead, its successor goes on."""
        watches, self._watches = self._watches, []
        self._leaving.clear()
        self._not_before_ms.clear()
        for watch in watches:
            watch.done("", error)

    def watch(self, broker_id: BrokerId, done: DrainDone) -> None:
        """Call `done` when the broker, which is being drained, has no duties left."""
        until_ms = self._context.now_ms + DRAIN_TIMEOUT_MS
        self._watches.append(_Watch(broker_id=broker_id, until_ms=until_ms, done=done))

    def look(self) -> None:
        """Continue every drain, and move masterships off brokers that are shutting down."""
        context = self._context
        may_move = context.image.is_failover_enabled
        for broker_id, broker in sorted(context.image.brokers.items()):
            if broker.is_draining:
                self._drain(broker_id)
            elif may_move and context.is_stopping(broker_id):
                self._move(broker_id)
        self._tell()

    def _move(self, broker_id: BrokerId) -> bool:
        """Start transfers of the broker's masterships; returns whether it has any."""
        sets = sorted(self._context.image.replica_sets.items())
        led = [(set_id, one) for set_id, one in sets if one.master == broker_id]
        for set_id, replica_set in led:
            target = self._successor(replica_set)
            if target is not None and self._transfers.is_due(set_id):
                self._transfers.start(set_id, target, cause=Cause.DRAIN)
        return bool(led)

    def _drain(self, broker_id: BrokerId) -> None:
        sets = sorted(self._context.image.replica_sets.items())
        if not self._move(broker_id) and any(broker_id in one.sync_state_set for _, one in sets):
            self._leave(broker_id)

    def _successor(self, replica_set: ReplicaSetImage) -> BrokerId | None:
        """Return the first member, in the set's order, that can take over; None if none can."""
        for replica in replica_set.replicas:
            is_free = not self._context.is_draining(replica)
            if is_free and not self._transfers.refusal(replica_set.replica_set_id, replica):
                return replica
        return None

    def _leave(self, broker_id: BrokerId) -> None:
        context = self._context
        is_early = context.now_ms < self._not_before_ms.get(broker_id, 0)
        if is_early or broker_id in self._leaving:
            return
        self._leaving[broker_id] = None
        command = LeaveSyncStateSets(broker_id=broker_id)
        context.submit(command, lambda _: self._on_left(broker_id))

    def _on_left(self, broker_id: BrokerId) -> None:
        self._leaving.pop(broker_id, None)
        wait_ms = self._context.config.election_retry_ms
        self._not_before_ms[broker_id] = self._context.now_ms + wait_ms
        self._on_settled()

    def _tell(self) -> None:
        """Answer the requests whose drain is done, was ended, or exceeded the time-out."""
        waiting: list[_Watch] = []
        for watch in self._watches:
            text = self._outcome(watch)
            if text is None:
                waiting.append(watch)
            else:
                watch.done(text, None)
        self._watches = waiting

    def _outcome(self, watch: _Watch) -> str | None:
        broker_id = watch.broker_id
        if not self._context.is_draining(broker_id):
            return f"The drain of broker {broker_id} was ended."
        sets = sorted(self._context.image.replica_sets.items())
        led = [set_id for set_id, one in sets if one.master == broker_id]
        held = [set_id for set_id, one in sets if broker_id in one.sync_state_set]
        if not held and not led:
            return f"Broker {broker_id} has no duties left: it can be stopped."
        alone = [set_id for set_id, one in sets if one.replicas == (broker_id,)]
        if alone:
            return (
                f"Broker {broker_id} is the only member of the sets {alone}: no other broker can"
                " take them over. Add a member (penstock set add) or delete their topics; the drain"
                " goes on."
            )
        if self._context.now_ms < watch.until_ms:
            return None
        return (
            f"Broker {broker_id} is still master of the sets {led} and in step in {held}: too few"
            " other members can take over. The drain goes on."
        )
