"""The choice of a master: a pure function of the logs that the candidates report.

    Ballot (set, reports, members yet to answer) ─► Elected │ NoCandidate │ NeedMoreAnswers

Candidates are the members of the sync-state set; where the policy counts copies on any member, all
replicas. The longest log wins: highest leader epoch of the last mastership in it, then the highest
end, compared as whole numbers and never by a difference (RocketMQ #10578: a 64-bit difference in 32
bits elects the shorter log). Ties are broken in this order: a member that is not being drained, the
preferred master, a member in the old master's rack, the order of the members.

How many must answer: one where every member of the sync-state set holds every confirmed record;
otherwise `candidates - copies_held + 1`, so that at least one of them holds each (see `overlap`).
A member outside the sync-state set whose log is only a part of what the set keeps has not answered.

The new sync-state set. Under `all` (and `async-may-lose`, which promises nothing): the members of
the old one that answered, since each holds every confirmed byte by definition. Under the other
policies: those whose log is as long as the winner's. The highest confirm position in the reports
proves nothing there: the dead master may have confirmed more than it had announced.

Source: RIP-44 and RocketMQ's DefaultElectPolicy for the order; unlike there, the set is not reset
to the winner alone. Raft 5.4.1 for "last epoch, then end". It sends nothing and knows no time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.base.ack_policy import PolicyKind
from penstock.base.ids import BrokerId
from penstock.base.invariant import invariant
from penstock.controller.metadata.image import NO_EPOCH, NO_MASTER, ReplicaSetImage
from penstock.controller.session import SetReport

_HOLD_ALL = frozenset({PolicyKind.ALL, PolicyKind.ASYNC})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """The input of an election.

    Args:
        replica_set: as the image has it now.
        reports: answers of live members with their registered logs, by broker id.
        waiting: members that were asked and may still answer.
        racks: rack by broker id, for brokers that have one.
        draining: brokers that are chosen only if no other log is as long.
        wanted: the only broker that may win, as named by an operator; -1: any.
        is_unclean: any member may win, also one that lacks confirmed records.
    """

    replica_set: ReplicaSetImage
    reports: Mapping[BrokerId, SetReport]
    waiting: tuple[BrokerId, ...] = ()
    racks: Mapping[BrokerId, str] = field(default_factory=dict)
    draining: tuple[BrokerId, ...] = ()
    wanted: BrokerId = NO_MASTER
    is_unclean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """`sync_state_set` ascending, always with `master`."""

    master: BrokerId
    sync_state_set: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """No member can be elected by these rules; `reason` is for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class NeedMoreAnswers:
    """Candidates that were asked may still answer."""


Choice = Elected | NoCandidate | NeedMoreAnswers


def answers_needed(replica_set: ReplicaSetImage) -> int:
    """Return how many candidates must answer so that one of them has each confirmed record."""
    if replica_set.leader_epoch == NO_EPOCH or replica_set.policy.kind is PolicyKind.ASYNC:
        return 1
    return max(1, len(replica_set.candidates) - replica_set.copies_held + 1)


def choose_master(ballot: Ballot) -> Choice:
    """Return the master, or why there is none.

    Invariant: the master is in the new sync-state set. Unless an operator named it, no candidate
    that answered has a longer log.
    """
    replica_set = ballot.replica_set
    pool = replica_set.replicas if ballot.is_unclean else replica_set.candidates
    if any(one in pool for one in ballot.waiting):
        return NeedMoreAnswers()
    answered = [one for one in pool if _counts(ballot, one)]
    needed = 1 if ballot.is_unclean else answers_needed(replica_set)
    if len(answered) < needed:
        return NoCandidate(_too_few(replica_set, pool, answered, needed))
    best = max(answered, key=lambda one: _rank(ballot, one))
    winner = best if ballot.wanted == NO_MASTER else ballot.wanted
    if winner not in answered:
        return NoCandidate(f"broker {winner} is not among those that answered, {answered}")
    if not ballot.is_unclean and not _may_win(ballot, winner, best):
        return NoCandidate(f"broker {winner} may lack records that broker {best} has")
    in_step = _sync_state_set(ballot, answered, winner)
    invariant(winner in in_step, "an elected master is in step", master=winner, in_step=in_step)
    return Elected(master=winner, sync_state_set=in_step)


def _counts(ballot: Ballot, broker_id: BrokerId) -> bool:
    """Whether a member has answered with a log that tells what is confirmed.

    A log that is a part of what the set keeps may end where the longest one ends.
    """
    report = ballot.reports.get(broker_id)
    if report is None:
        return False
    is_part = report.whole_from > 0 and ballot.replica_set.must_be_whole(broker_id)
    return ballot.is_unclean or not is_part


def _log(report: SetReport) -> tuple[int, int]:
    return report.last_log_epoch, report.log_end_position


def _rank(ballot: Ballot, broker_id: BrokerId) -> tuple[tuple[int, int], bool, bool, bool, int]:
    """Return the sort key of a member: the largest wins, and no two are equal."""
    replica_set = ballot.replica_set
    rack = ballot.racks.get(broker_id)
    return (
        _log(ballot.reports[broker_id]),
        broker_id not in ballot.draining,
        broker_id == replica_set.replicas[0],
        rack is not None and rack == ballot.racks.get(replica_set.last_master),
        -replica_set.replicas.index(broker_id),
    )


def _may_win(ballot: Ballot, winner: BrokerId, best: BrokerId) -> bool:
    """Whether the winner is known to have every confirmed record."""
    if ballot.replica_set.policy.kind in _HOLD_ALL:
        return True
    return _log(ballot.reports[winner]) == _log(ballot.reports[best])


def _sync_state_set(
    ballot: Ballot, answered: list[BrokerId], winner: BrokerId
) -> tuple[BrokerId, ...]:
    if ballot.is_unclean:
        return (winner,)
    if ballot.replica_set.policy.kind in _HOLD_ALL or ballot.replica_set.leader_epoch == NO_EPOCH:
        return tuple(sorted(answered))
    longest = _log(ballot.reports[winner])
    return tuple(sorted(one for one in answered if _log(ballot.reports[one]) == longest))


def _too_few(
    replica_set: ReplicaSetImage, pool: tuple[BrokerId, ...], answered: list[BrokerId], needed: int
) -> str:
    if not pool:
        return "no member is in step: the last one has lost its log"
    if needed > len(pool):
        return "a lost log may have been the only one with some records"
    return f"{needed} of the brokers {list(pool)} must answer, and {answered or 'none'} did"
