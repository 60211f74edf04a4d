"""Releases members from their promise to confirm nothing, once no decision depends on it.

    round or transfer ended without a new mastership ─► its members are released at once
    a heartbeat reports a promise that no decision depends on ─► that member is released

The second way covers what the first one misses: promises to a controller that died, answers to
late probes, broken sessions. It needs no list of them.

A controller may release promises made to older controllers: it became active with an image that
holds everything they could ever commit. It releases its own once the log has settled what it
proposed, see `ActiveContext.submit_to_the_end`.

Source: our own, docs/adr/0016; the member's side is replication/promise.py.
"""

from collections.abc import Callable, Iterable

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.active.context import ActiveContext
from penstock.controller.session import NOT_PROMISED, ProbedSet, ReleasePromises, SetReport


class Promises:
    """Sends releases. `is_needed(set_id)`: whether a decision depends on the promises for a set."""

    def __init__(self, context: ActiveContext, is_needed: Callable[[ReplicaSetId], bool]) -> None:
        self._context = context
        self._is_needed = is_needed

    def on_reports(self, broker_id: BrokerId, reports: Iterable[SetReport]) -> None:
        """Check the promises that a member reports. Called on the active controller only."""
        self.release(
            (broker_id,),
            tuple(
                report.replica_set_id
                for report in reports
                if NOT_PROMISED < report.promised_to <= self._context.controller_epoch
            ),
        )

    def release(self, broker_ids: Iterable[BrokerId], set_ids: Iterable[ReplicaSetId]) -> None:
        """Release these brokers from their promises for those of the sets that need none."""
        context = self._context
        sets = tuple(
            ProbedSet(
                replica_set_id=set_id,
                leader_epoch=context.image.replica_sets[set_id].leader_epoch,
            )
            for set_id in set_ids
            if set_id in context.image.replica_sets and not self._is_needed(set_id)
        )
        if not sets:
            return
        message = ReleasePromises(
            controller_epoch=context.controller_epoch,
            request_id=context.last_request_id,
            sets=sets,
        )
        for broker_id in broker_ids:
            context.send(broker_id, message)
