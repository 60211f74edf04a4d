"""Lets members go on that have promised to confirm nothing: when nothing rests on it any more.

    round or transfer over without a new mastership ─► its members are told at once
    a heartbeat that reports a promise which nothing here rests on ─► that member is told

The second way finds everything that the first one misses: promises to a controller that died, to
questions that came late, to a session that broke. It needs no memory of them.

A controller may say so for older controllers too: it became active with an image that holds
whatever they could ever commit. For itself, once the log has settled what it proposed: see
`ActiveContext.submit_to_the_end`.

Source: our own, docs/adr/0016; what is kept stands in replication/promise.py.
"""

from collections.abc import Callable, Iterable

from penstock.controller.active.context import ActiveContext
from penstock.controller.session import NOT_PROMISED, ProbedSet, ReleasePromises, SetReport


class Promises:
    """What ends them. `is_needed(set_id)` says whether something rests on those of a set."""

    def __init__(self, context: ActiveContext, is_needed: Callable[[int], bool]) -> None:
        self._context = context
        self._is_needed = is_needed

    def on_reports(self, broker_id: int, reports: Iterable[SetReport]) -> None:
        """A member reports what it has promised. Called on the active controller only."""
        self.release(
            (broker_id,),
            tuple(
                report.replica_set_id
                for report in reports
                if NOT_PROMISED < report.promised_to <= self._context.controller_epoch
            ),
        )

    def release(self, broker_ids: Iterable[int], set_ids: Iterable[int]) -> None:
        """Tell these brokers to go on with those of the sets that nothing rests on."""
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
