"""Independent rules for commands about brokers and replica sets.

    command, state before ─► must it be refused? ─► which states may follow?

No helper of the handlers is used. If a rule leaves a choice (which policy fits a set), a refusal is
no finding, but an accepted command is still checked. The number of copies left after a change is
counted in copies_kept.py.

Source: RIP-44, KIP-497, KIP-903, KIP-841; docs/adr/0013, 0025.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, Self

from harness.ids import as_brokers
from penstock.base.ack_policy import PolicyKind
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.commands import command as c
from penstock.controller.metadata.image import (
    NO_MASTER,
    BrokerImage,
    ClusterImage,
    ReplicaSetImage,
)

Sets = Mapping[ReplicaSetId, ReplicaSetImage]


class State(NamedTuple):
    """The part of an image that is judged, as it was at a moment."""

    sets: Sets
    brokers: Mapping[BrokerId, BrokerImage]

    @classmethod
    def of(cls, image: ClusterImage) -> Self:
        """Return what an image says now."""
        return cls(dict(image.replica_sets), dict(image.brokers))

    def is_able(self, broker_id: int, dead: tuple[int, ...] = ()) -> bool:
        """Whether a broker may get duties."""
        broker = self.brokers.get(BrokerId(broker_id))
        return broker is not None and not broker.is_fenced and broker_id not in dead


def refusal(  # noqa: PLR0911  one for each command
    state: State, command: c.Command[object]
) -> str:
    """Say why a command is to be refused; an empty text where it is not, or may be either."""
    match command:
        case c.ChangeSyncStateSet():
            return _change_refused(state, command)
        case c.BeginMasterships():
            return _masterships_refused(state, command.masterships, ())
        case c.FenceBrokers():
            return _masterships_refused(state, command.masterships, fenced_by(state, command))
        case c.RegisterBroker():
            known = state.brokers.get(command.broker_id)
            is_taken = known is not None and known.identity not in {"", command.identity}
            return "another data directory has the id" if is_taken else ""
        case c.RegisterReplica():
            return _log_refused(state, command)
        case c.RemoveReplica():
            is_led = state.sets[command.replica_set_id].master == command.broker_id
            return "it is the master" if is_led else ""
        case c.LeaveSyncStateSets():
            known = state.brokers.get(command.broker_id)
            return "" if known is not None and known.is_draining else "it is not being drained"
        case _:
            return ""


def must_be_taken(command: c.Command[object]) -> bool:
    """Whether a command for which there is no reason to refuse it has to be taken."""
    return isinstance(
        command,
        c.ChangeSyncStateSet | c.BeginMasterships | c.FenceBrokers | c.RegisterBroker
        | c.RegisterReplica | c.LeaveSyncStateSets | c.DrainBroker,
    )  # fmt: skip


def _change_refused(state: State, command: c.ChangeSyncStateSet) -> str:
    one, wanted = state.sets[command.replica_set_id], {*command.sync_state_set}
    asked = command.master, command.leader_epoch, command.sync_state_set_epoch
    if asked != (one.master, one.leader_epoch, one.sync_state_set_epoch):
        return f"(master, epochs) are not {asked}"
    if command.master not in wanted or not wanted <= {*one.replicas}:
        return f"{sorted(wanted)} is no set of members with the master"
    judged = {each.broker_id: (each.replica_id, each.broker_epoch) for each in command.joining}
    for broker_id in sorted(wanted - {*one.sync_state_set}):
        broker = state.brokers[broker_id]
        if broker.is_fenced or broker.is_draining:
            return f"{broker_id} is fenced or being drained"
        if judged.get(broker_id) != (one.replica_ids.get(broker_id), broker.broker_epoch):
            return f"{broker_id} was judged by another log or process"
    return ""


def _masterships_refused(
    state: State, masterships: tuple[c.NewMastership, ...], dead: tuple[int, ...]
) -> str:
    for wanted in masterships:
        replica_set = state.sets[wanted.replica_set_id]
        decided_by = wanted.leader_epoch, wanted.sync_state_set_epoch
        if decided_by != (replica_set.leader_epoch, replica_set.sync_state_set_epoch):
            return f"the epochs of set {replica_set.replica_set_id} are not {decided_by}"
        members = (
            replica_set.sync_state_set if wanted.sync_state_set is None else wanted.sync_state_set
        )
        if wanted.master == NO_MASTER:
            continue
        if not state.is_able(wanted.master, dead) or wanted.master not in members:
            return f"{wanted.master} is dead, or not in {members}"
        if wanted.is_unclean and wanted.sync_state_set is None:
            return f"{members} may hold what {wanted.master} lacks"
        if not {*members} <= {*eligible(replica_set, is_unclean=wanted.is_unclean)}:
            return f"not all of {members} may lead"
    return ""


def _log_refused(state: State, command: c.RegisterReplica) -> str:
    one, broker = state.sets[command.replica_set_id], state.brokers.get(command.broker_id)
    if command.broker_id not in one.replicas:
        return "it is no member"
    process = "" if broker is None else broker.incarnation
    return "another process is registered" if command.incarnation not in {"", process} else ""


def eligible(replica_set: ReplicaSetImage, *, is_unclean: bool) -> tuple[int, ...]:
    """Return the candidates: the members that may have a counted copy, or all."""
    is_anybody = is_unclean or replica_set.policy.kind in {PolicyKind.K_OF_N, PolicyKind.QUORUM}
    return tuple(
        each for each in replica_set.replicas if is_anybody or each in replica_set.sync_state_set
    )


def fenced_by(state: State, command: c.FenceBrokers) -> tuple[int, ...]:
    """Return the brokers that a command fences: those that have not registered again since."""
    known = state.brokers
    return tuple(
        broker_id
        for broker_id, epoch in command.brokers
        if broker_id in known and known[broker_id].broker_epoch == epoch
    )


# --- what was taken ------------------------------------------------------------------------------


def wrong_sets(before: State, after: State, command: c.Command[object]) -> Iterator[str]:
    """Yield in what the sets are not as a command that was taken makes them.

    Epochs of masterships that may lose records are told by `lossy_masterships`, floors counted in
    copies_kept.py: here they are taken as they are.
    """
    expected = dict(_expected(before, command))
    for set_id, replica_set in before.sets.items():
        found, wanted = after.sets[set_id], expected.get(set_id, replica_set)
        if _is_kept_by_its_master(replica_set, wanted, found):
            wanted = replace(wanted, sync_state_set=found.sync_state_set)
        if _facts(found) != _facts(wanted):
            yield f"set {set_id} is {_facts(found)}, and not {_facts(wanted)}"


def _is_kept_by_its_master(
    replica_set: ReplicaSetImage, wanted: ReplicaSetImage, found: ReplicaSetImage
) -> bool:
    """Whether a log was lost, and the copies left of what it held may be too few.

    Then the master alone surely has everything.
    """
    is_lost = any(
        wanted.replica_ids.get(each, old) != old for each, old in replica_set.replica_ids.items()
    )
    return is_lost and found.sync_state_set == (wanted.master,)


def _facts(replica_set: ReplicaSetImage) -> tuple[object, ...]:
    in_step = tuple(sorted(replica_set.sync_state_set))
    return (
        replica_set.master,
        replica_set.leader_epoch,
        in_step,
        replica_set.sync_state_set_epoch,
        dict(replica_set.replica_ids),
    )


def _expected(before: State, command: c.Command[object]) -> Iterator[tuple[int, ReplicaSetImage]]:
    """Yield the sets that are others afterwards; of operators' changes what must hold of them."""
    sets = before.sets
    match command:
        case c.ChangeSyncStateSet():
            replica_set = sets[command.replica_set_id]
            yield replica_set.replica_set_id, _with_members(replica_set, command.sync_state_set)
        case c.BeginMasterships():
            yield from _begun(before, command.masterships)
        case c.FenceBrokers():
            yield from _orphans(before, fenced_by(before, command))
            yield from _begun(before, command.masterships)
        case c.RegisterBroker():
            known = before.brokers.get(command.broker_id)
            if known is not None and known.incarnation != command.incarnation:
                yield from _orphans(before, (command.broker_id,))
        case c.RegisterReplica():
            yield command.replica_set_id, _with_log(sets[command.replica_set_id], command)
        case _:
            return


def _with_members(replica_set: ReplicaSetImage, members: tuple[int, ...]) -> ReplicaSetImage:
    epoch = replica_set.sync_state_set_epoch + 1
    return replace(
        replica_set,
        sync_state_set=tuple({*as_brokers(*members)}),
        sync_state_set_epoch=SyncStateSetEpoch(epoch),
    )


def _orphans(before: State, dead: tuple[int, ...]) -> Iterator[tuple[int, ReplicaSetImage]]:
    for set_id, replica_set in before.sets.items():
        if replica_set.master in dead:
            yield (
                set_id,
                replace(
                    replica_set,
                    master=NO_MASTER,
                    leader_epoch=LeaderEpoch(replica_set.leader_epoch + 1),
                ),
            )


def _begun(
    before: State, masterships: tuple[c.NewMastership, ...]
) -> Iterator[tuple[int, ReplicaSetImage]]:
    for wanted in masterships:
        one = before.sets[wanted.replica_set_id]
        if wanted.master != NO_MASTER and wanted.sync_state_set is not None:
            one = _with_members(one, wanted.sync_state_set)
        one = replace(one, master=wanted.master, leader_epoch=LeaderEpoch(one.leader_epoch + 1))
        yield one.replica_set_id, one


def _with_log(replica_set: ReplicaSetImage, command: c.RegisterReplica) -> ReplicaSetImage:
    broker_id = command.broker_id
    if replica_set.log_ids.get(broker_id) == command.log_id:
        return replica_set
    numbers = {**replica_set.replica_ids, broker_id: replica_set.next_replica_id}
    if broker_id not in replica_set.log_ids:
        return replace(replica_set, replica_ids=numbers)
    is_led = replica_set.master == broker_id
    master, epoch = (
        (NO_MASTER, replica_set.leader_epoch + 1)
        if is_led
        else (replica_set.master, replica_set.leader_epoch)
    )
    is_new = replica_set.leader_epoch < 0  # nothing was confirmed in it yet, and all begin alike
    left = tuple(each for each in replica_set.sync_state_set if is_new or each != broker_id)
    return replace(
        _with_members(replica_set, left),
        replica_ids=numbers,
        master=master,
        leader_epoch=LeaderEpoch(epoch),
    )


def wrong_brokers(before: State, after: State, command: c.Command[object]) -> Iterator[str]:
    """Yield in what the brokers are not as a command that was taken makes them."""
    for broker_id, broker in before.brokers.items():
        wanted = broker
        match command:
            case c.FenceBrokers() if broker_id in fenced_by(before, command):
                wanted = replace(broker, is_fenced=True)
            case c.DrainBroker(broker_id=who, is_draining=is_draining) if who == broker_id:
                wanted = replace(broker, is_draining=is_draining)
            case c.RegisterBroker(broker_id=who) if who == broker_id:
                wanted = replace(broker, is_fenced=False)
            case _:
                pass
        found = after.brokers[broker_id]
        facts = found.is_fenced, found.is_draining
        if facts != (wanted.is_fenced, wanted.is_draining):
            yield f"(fenced, drained) of broker {broker_id} are {facts}"
        if found.broker_epoch < broker.broker_epoch:
            yield f"the epoch of broker {broker_id} falls to {found.broker_epoch}"
        is_other = found.incarnation != broker.incarnation
        if is_other and found.broker_epoch == broker.broker_epoch:
            yield f"another process of broker {broker_id} has epoch {broker.broker_epoch} as well"


def wrong_members(before: State, after: State, command: c.Command[object]) -> Iterator[str]:
    """Yield what an operator's change of a set may not come to."""
    match command:
        case c.RemoveReplica() | c.AddReplica() | c.SetAckPolicy():
            set_id = command.replica_set_id
        case _:
            return
    one, found = before.sets[set_id], after.sets[set_id]
    is_same = (one.replicas, one.policy) == (found.replicas, found.policy)
    gained = {*found.sync_state_set} - {*one.sync_state_set}
    if gained and one.leader_epoch >= 0:
        yield f"{sorted(gained)} get in step in set {set_id} by it"
    if (found.master, found.leader_epoch) != (one.master, one.leader_epoch):
        yield f"set {set_id} has another mastership after it"
    if not is_same and found.sync_state_set_epoch == one.sync_state_set_epoch:
        yield f"set {set_id} has other members or another policy, and the same epoch"


def leaves(before: State, after: State, broker_id: int) -> Iterator[str]:
    """Yield what is wrong after a drained broker has left: it is out, or the set needs it."""
    for set_id, replica_set in before.sets.items():
        found = {*after.sets[set_id].sync_state_set}
        in_step = {*replica_set.sync_state_set}
        if broker_id not in in_step or found == in_step:
            continue
        if replica_set.policy.kind is PolicyKind.ADAPTIVE:
            in_step &= {replica_set.master, broker_id}
        if found != in_step - {broker_id} or replica_set.master == broker_id:
            yield f"set {set_id} has {sorted(found)} in step after it, led by {replica_set.master}"


def lossy_masterships(
    before: State, command: c.Command[object]
) -> Iterator[tuple[ReplicaSetId, LeaderEpoch]]:
    """Yield (set, leader epoch) of each mastership begun whose master may lack records."""
    if isinstance(command, c.BeginMasterships | c.FenceBrokers):
        for wanted in command.masterships:
            replica_set = before.sets[wanted.replica_set_id]
            may_lose = wanted.is_unclean or replica_set.policy.kind is PolicyKind.ASYNC
            if wanted.master != NO_MASTER and may_lose:
                yield replica_set.replica_set_id, LeaderEpoch(replica_set.leader_epoch + 1)
