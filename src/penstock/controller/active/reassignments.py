"""Reassignments under way: each look takes the next step of those sets that are due for one.

    target in the image ─► next_step ─► a member more or less, a transfer, the end ─► the next look

Nothing is kept but which commands are not answered yet (each is, also after the lead is lost):
whoever becomes active looks at the image and goes on. A step is refused if the target has changed
meanwhile, and a set whose step was refused is looked at again after a while.

Source: KIP-455; Kafka's controller completes reassignments as replicas join the ISR. Which step is
next is decided by `next_step`.
"""

from typing import assert_never

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.active.context import ActiveContext
from penstock.controller.active.next_step import Add, End, Lead, Remove, joining, next_step
from penstock.controller.active.transfers import Transfers
from penstock.controller.commands.reassignment.commands import AdvanceReassignment
from penstock.controller.errors import MetadataError
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.controller.metadata.reassignment_records import ReassignmentChanged

COPIES_MAX = 16
"""Sets with a member that copies the log for a reassignment, in the whole cluster: as many as there
are transfers at a time. Further ones wait for their turn."""


class Reassignments:
    """See the module. Each set has one step under way at most."""

    def __init__(self, context: ActiveContext, transfers: Transfers) -> None:
        self._context = context
        self._transfers = transfers
        self._submitted: set[ReplicaSetId] = set()
        self._not_before_ms: dict[ReplicaSetId, int] = {}

    def is_under_way(self, set_id: ReplicaSetId) -> bool:
        """Whether the set is to have other members."""
        return set_id in self._context.image.configuration.reassignments

    def look(self) -> None:
        """Take the next step wherever one is due."""
        image = self._context.image
        under_way = [
            (image.replica_sets[set_id], wanted)
            for set_id, wanted in sorted(image.configuration.reassignments.items())
            if set_id in image.replica_sets
        ]
        copies = sum(bool(joining(*one, self._is_able)) for one in under_way)
        for replica_set, wanted in under_way:
            if self._is_due(replica_set.replica_set_id):
                copies += self._step(replica_set, wanted, has_room=copies < COPIES_MAX)

    def _is_due(self, set_id: ReplicaSetId) -> bool:
        is_early = self._context.now_ms < self._not_before_ms.get(set_id, 0)
        return not is_early and set_id not in self._submitted and not (
            self._transfers.is_moving(set_id)
        )  # fmt: skip

    def _is_able(self, broker_id: BrokerId) -> bool:
        return self._context.is_able(broker_id) and not self._context.is_draining(broker_id)

    def _step(
        self, replica_set: ReplicaSetImage, wanted: ReassignmentChanged, *, has_room: bool
    ) -> bool:
        """Take a step; return whether it has a member copy the log."""
        set_id, target = replica_set.replica_set_id, wanted.target
        match next_step(replica_set, wanted, self._is_able):
            case None:
                return False
            case Add(broker_id):
                if has_room:
                    self._submit(
                        AdvanceReassignment(replica_set_id=set_id, target=target, added=broker_id)
                    )
                return has_room
            case Remove(broker_id):
                self._submit(
                    AdvanceReassignment(replica_set_id=set_id, target=target, removed=broker_id)
                )
            case Lead(broker_ids):
                self._lead(set_id, broker_ids)
            case End():
                self._submit(AdvanceReassignment(replica_set_id=set_id, target=target))
            case step:
                assert_never(step)
        return False

    def _lead(self, set_id: ReplicaSetId, broker_ids: tuple[BrokerId, ...]) -> None:
        for broker_id in broker_ids:
            is_free = self._is_able(broker_id) and self._transfers.is_due(set_id)
            if is_free and not self._transfers.refusal(set_id, broker_id):
                self._transfers.start(set_id, broker_id, cause=Cause.DRAIN)
                return

    def _submit(self, command: AdvanceReassignment) -> None:
        set_id = command.replica_set_id
        self._submitted.add(set_id)
        self._context.submit(command, lambda answer: self._on_answer(set_id, answer))

    def _on_answer(self, set_id: ReplicaSetId, answer: object) -> None:
        self._submitted.discard(set_id)
        self._not_before_ms.pop(set_id, None)
        if isinstance(answer, MetadataError):
            wait_ms = self._context.config.election_retry_ms
            self._not_before_ms[set_id] = self._context.now_ms + wait_ms
