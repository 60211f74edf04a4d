"""Who may have a part of the log only, copied from its master's newest segment on.

Where copies on all replicas count, any of them may be elected for the end of its log, in step or
not: there a part would win, and all older records would be gone for consumers (ADR 0149).

Source: ours; RocketMQ's syncFromLastFile for parts, and Kafka for electing members in step only.
"""

from collections.abc import Callable

from penstock.base.ids import BrokerId, Position
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.replication.confirm import Membership


def may_have_part(membership: Membership, broker_id: BrokerId) -> bool:
    """Whether a slave may copy the newest segment only: nobody elects it before it joins."""
    return not membership.policy.counts_replicas and broker_id not in membership.effective


def may_count(
    membership: Membership, broker_id: BrokerId, *, whole_from: Position, kept_from: Position
) -> bool:
    """Whether it does no harm that a log counts which is whole from there on.

    `kept_from`: below it (exclusive) the master keeps nothing.
    """
    is_judged = broker_id in membership.committed or not membership.policy.counts_replicas
    return is_judged or whole_from <= kept_from


def must_be_whole(image: Callable[[], ReplicaSetImage | None], own_id: BrokerId) -> bool:
    """Whether the own log must have all that its set keeps, as far as is known here."""
    replica_set = image()
    return replica_set is not None and replica_set.must_be_whole(own_id)
