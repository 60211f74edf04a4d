"""A member on its way from what it has to what it is to have.

    STABLE ── target has a newer epoch ──┬─ has to give up some ──► UNREVOKED ── given up ──┐
       ▲                                 │                          (keeps its epoch)       │
       │                                 ├─ others hold what it gets ──► UNRELEASED ◄───────┤
       └──────── has all of it ──────────┴──────────────────────────────────────────────────┘

A member takes the target's epoch only once it has given up what it is not to have any more. A
partition is given only when no member has it: neither assigned nor yet to be given up.

Source: KIP-848, "Reconciliation of the group"; Kafka, CurrentAssignmentBuilder.java. KAFKA-16147 (a
partition that is given back to the member that gives it up): here an owner is looked up in what all
members have, so there is none to be forgotten.
"""

from collections.abc import Callable

from penstock.assignors.partitions import NOTHING, Partitions
from penstock.base.ids import MemberEpoch
from penstock.groups.assigned.currents import Current, MemberState

Free = Callable[[bytes, frozenset[int]], frozenset[int]]
"""Returns those of a topic's partitions that no other member has."""


def reconcile(
    current: Current,
    *,
    target_epoch: MemberEpoch,
    target: Partitions,
    owned: Partitions | None,
    free: Free,
) -> Current:
    """Return what the member has next; the same object if nothing changes.

    `owned` is what the member says it reads; None if it did not say.
    """
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
            return _next(current, current.epoch, target_epoch, target, owned, free)
        case MemberState.UNREVOKED:
            if owned is None or _overlaps(owned, current.revoking):
                return current
            return _next(current, MemberEpoch(current.epoch + 1), target_epoch, target, owned, free)
        case MemberState.UNRELEASED:
            return _next(current, current.epoch, target_epoch, target, owned, free)


def _next(  # noqa: PLR0917  private, in the order of reconcile
    current: Current,
    epoch: MemberEpoch,
    target_epoch: MemberEpoch,
    target: Partitions,
    owned: Partitions | None,
    free: Free,
) -> Current:
    kept = both(current.assigned, target)
    surplus = _minus(current.assigned, kept)
    if surplus and (owned is None or _overlaps(owned, surplus)):
        return _changed(current, epoch, MemberState.UNREVOKED, kept, surplus)
    wanted = _minus(target, kept)
    given = _only(wanted, free)
    state = MemberState.STABLE if given == wanted else MemberState.UNRELEASED
    return _changed(current, target_epoch, state, together(kept, given), NOTHING)


def _changed(
    current: Current,
    epoch: MemberEpoch,
    state: MemberState,
    assigned: Partitions,
    revoking: Partitions,
) -> Current:
    after = Current(epoch, current.previous_epoch, state, assigned, revoking)
    if after == current:
        return current
    return after if epoch == current.epoch else after._replace(previous_epoch=current.epoch)


def is_within(some: Partitions, all_: Partitions) -> bool:
    """Return whether all partitions of `some` are in `all_`."""
    return all(numbers <= all_.get(topic_id, frozenset()) for topic_id, numbers in some.items())


def _overlaps(one: Partitions, other: Partitions) -> bool:
    return any(numbers & one.get(topic_id, frozenset()) for topic_id, numbers in other.items())


def both(one: Partitions, other: Partitions) -> Partitions:
    """Return the partitions that are in both."""
    shared = {
        topic_id: numbers & other.get(topic_id, frozenset()) for topic_id, numbers in one.items()
    }
    return {topic_id: numbers for topic_id, numbers in shared.items() if numbers}


def _minus(one: Partitions, other: Partitions) -> Partitions:
    left = {
        topic_id: numbers - other.get(topic_id, frozenset()) for topic_id, numbers in one.items()
    }
    return {topic_id: numbers for topic_id, numbers in left.items() if numbers}


def together(one: Partitions, other: Partitions) -> Partitions:
    """Return the partitions that are in one of them."""
    return {
        topic_id: one.get(topic_id, frozenset()) | other.get(topic_id, frozenset())
        for topic_id in {**one, **other}
    }


def _only(partitions: Partitions, free: Free) -> Partitions:
    found = {topic_id: free(topic_id, numbers) for topic_id, numbers in partitions.items()}
    return {topic_id: numbers for topic_id, numbers in found.items() if numbers}
