"""Checks of replica sets: one master per epoch, and equal logs on all members.

Masterships come from metadata answers, or from inside the processes; logs from the files of an idle
cluster or, in a simulation, from the members at any time.

Source: KIP-101 (leader epochs, and the divergence without them); RIP-44 (sync-state set).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from simulator.history.events import (
    NO_MASTER,
    MastershipSeen,
    Partition,
    ReplicaEntry,
    ReplicaLog,
)
from simulator.history.report import Anomaly, Finding


def masterships(seen: Sequence[MastershipSeen]) -> Iterable[Finding]:
    """One leader epoch has one master in all observations, and the sync-state set includes it."""
    master_of: dict[tuple[Partition, int], MastershipSeen] = {}
    reported: set[tuple[Partition, int, int]] = set()
    for one in seen:
        if one.master == NO_MASTER:
            continue
        first = master_of.setdefault((one.replica_set, one.leader_epoch), one)
        key = (one.replica_set, one.leader_epoch, one.master)
        if first.master != one.master and key not in reported:
            reported.add(key)
            detail = (
                f"epoch {one.leader_epoch}: {first.observer} saw {first.master},"
                f" {one.observer} saw {one.master}"
            )
            yield Finding(Anomaly.TWO_MASTERS, one.replica_set, detail)
        if one.sync_state_set is not None and one.master not in one.sync_state_set:
            detail = (
                f"epoch {one.leader_epoch}: {one.observer} saw master {one.master}"
                f" with the sync-state set {list(one.sync_state_set)}"
            )
            yield Finding(Anomaly.MASTER_NOT_IN_SYNC, one.replica_set, detail)


def divergences(logs: Sequence[ReplicaLog]) -> Iterable[Finding]:
    """Members of the sync-state set hold the same below the highest confirm position of the set."""
    members: dict[Partition, list[ReplicaLog]] = defaultdict(list)
    for log in logs:
        if log.is_in_sync:
            members[log.replica_set].append(log)
    for replica_set, group in members.items():
        confirmed = max(log.confirm_position for log in group)
        start = max(log.start_position for log in group)
        model = max(group, key=lambda log: log.confirm_position)
        wanted = _stretch(model, start, confirmed)
        for log in group:
            found = _stretch(log, start, confirmed)
            if log is not model and found != wanted:
                detail = f"replicas {model.replica} and {log.replica} {_difference(wanted, found)}"
                yield Finding(Anomaly.EPOCH_DIVERGENCE, replica_set, detail)


def _stretch(log: ReplicaLog, start: int, confirmed: int) -> list[ReplicaEntry]:
    inside = [
        entry
        for entry in log.entries
        if start <= entry.position and entry.end_position <= confirmed
    ]
    return sorted(inside)


def _difference(wanted: list[ReplicaEntry], found: list[ReplicaEntry]) -> str:
    for one, other in zip(wanted, found, strict=False):
        if one != other:
            return (
                f"differ at position {min(one.position, other.position)}:"
                f" epoch {one.leader_epoch} and epoch {other.leader_epoch}"
            )
    longer = wanted if len(wanted) > len(found) else found
    return f"end apart: one lacks position {longer[min(len(wanted), len(found))].position}"
