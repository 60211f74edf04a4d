"""Elections under way on the active controller: probe, choose, submit; one per set at a time.

    start(sets, dead brokers) ─► ProbeSets to every member that can answer
         answers, lost sessions, probe_timeout_ms ─► choose_master for each set
                ─► one entry: FenceBrokers with the masterships, or BeginMasterships

All sets of one failure share one round and one entry. A round that fails keeps no state: the next
evaluation (`controller`) derives what is missing from the image again, so that no election is lost
with a failed trigger (RocketMQ #5009, #5712, #8380, #9717). Promises that members made with their
answers are released as soon as no decision depends on them (`promises`).

Source: RIP-44. RocketMQ chooses by the last heartbeats; here the members are probed first. The
choice itself is in `election`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    ReplicaSetId,
    RequestId,
    SyncStateSetEpoch,
)
from penstock.base.invariant import invariant
from penstock.base.ports import Cancellable
from penstock.controller.active.context import ActiveContext
from penstock.controller.active.election import (
    Ballot,
    Choice,
    Elected,
    NeedMoreAnswers,
    NoCandidate,
    choose_master,
)
from penstock.controller.commands.command import BeginMasterships, FenceBrokers, NewMastership
from penstock.controller.errors import MetadataError, NoEligibleMaster, RefusedCommand
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_EPOCH, NO_MASTER, ReplicaSetImage
from penstock.controller.session import FAILED, ProbeAnswer, ProbedSet, ProbeSets, SetReport

ElectionDone = Callable[[MetadataError | None], None]
RoundOver = Callable[[Iterable[BrokerId], Iterable[ReplicaSetId]], None]


@dataclass(slots=True, kw_only=True)
class Round:
    """One round; `dead` are (broker id, broker epoch) of brokers to fence with it."""

    request_id: RequestId
    set_ids: tuple[ReplicaSetId, ...]
    dead: tuple[tuple[BrokerId, BrokerEpoch], ...]
    started_ms: int
    wanted: BrokerId = NO_MASTER
    is_unclean: bool = False
    done: ElectionDone | None = None
    asked: tuple[BrokerId, ...] = ()
    asked_at: dict[ReplicaSetId, tuple[LeaderEpoch, SyncStateSetEpoch]] = field(
        default_factory=dict
    )
    """(leader epoch, sync-state set epoch) by set id, when its members were probed."""
    promised: dict[ReplicaSetId, LeaderEpoch] = field(default_factory=dict)
    """Leader epochs, by set id, for which the probed members confirm nothing more."""
    waiting: dict[BrokerId, None] = field(default_factory=dict)
    answers: dict[BrokerId, dict[ReplicaSetId, SetReport]] = field(default_factory=dict)
    """By broker, then by set id."""
    timer: Cancellable | None = None
    is_submitted: bool = False
    joined: list[ElectionDone] = field(default_factory=list)
    """Who else is told that it is over, with no error however it has ended."""


class Begun(NamedTuple):
    """What a round submitted."""

    masterships: tuple[NewMastership, ...]
    fenced_count: int


class Elections:
    """The rounds under way.

    After each round `on_over(brokers, sets)` is called with the probed brokers and the sets whose
    promises are not needed any more, then `on_settled`, which evaluates everything again.
    """

    def __init__(
        self, context: ActiveContext, on_settled: Callable[[], None], on_over: RoundOver
    ) -> None:
        self._context = context
        self._on_settled = on_settled
        self._on_over = on_over
        self._rounds: dict[int, Round] = {}
        self.reasons: dict[ReplicaSetId, str] = {}
        """Why the last election of a set without a master had no winner, by set id."""
        self._tries: dict[ReplicaSetId, int] = {}
        self._next_try_ms: dict[ReplicaSetId, int] = {}
        self._held_until_ms = 0
        self._failures = 0

    @property
    def is_held(self) -> bool:
        """Whether rounds are paused because the metadata log just refused one."""
        return self._context.now_ms < self._held_until_ms

    def is_electing(self, set_id: ReplicaSetId) -> bool:
        """Whether a round for this set is under way."""
        return any(set_id in one.set_ids for one in self._rounds.values())

    def join(self, set_id: ReplicaSetId, over: ElectionDone) -> bool:
        """Be told when the round of a set that is under way is over; return whether there is one.

        Then the set is in no round; `over` gets an error only if this controller lost the lead.
        """
        for one in self._rounds.values():
            if set_id in one.set_ids:
                one.joined.append(over)
                return True
        return False

    def is_evicting(self, broker_id: BrokerId) -> bool:
        """Whether a round is about to fence this broker."""
        return any(broker_id == dead for one in self._rounds.values() for dead, _ in one.dead)

    def is_due(self, set_id: ReplicaSetId) -> bool:
        """Whether the backoff after the set's last failed election is over."""
        return self._context.now_ms >= self._next_try_ms.get(set_id, 0)

    def hurry(self) -> None:
        """Reset all backoffs: something changed that may make an election succeed."""
        self._next_try_ms.clear()
        self._tries.clear()

    def forget(self, error: MetadataError) -> None:
        """Drop every round, since this controller lost the lead; operators get `error`."""
        rounds, self._rounds = list(self._rounds.values()), {}
        for one in rounds:
            _cancel(one)
            for done in (one.done, *one.joined):
                if done is not None:
                    done(error)
        self.reasons.clear()
        self.hurry()
        self._held_until_ms = self._failures = 0

    def start(
        self,
        set_ids: tuple[ReplicaSetId, ...],
        *,
        dead: tuple[tuple[BrokerId, BrokerEpoch], ...] = (),
        wanted: BrokerId = NO_MASTER,
        is_unclean: bool = False,
        done: ElectionDone | None = None,
    ) -> None:
        """Probe the members of these sets, none of which is in another round, and elect."""
        assert not any(self.is_electing(set_id) for set_id in set_ids)
        context = self._context
        one = Round(
            request_id=context.next_request_id(),
            set_ids=set_ids,
            dead=dead,
            started_ms=context.now_ms,
            wanted=wanted,
            is_unclean=is_unclean,
            done=done,
        )
        self._rounds[one.request_id] = one
        whom = self._whom_to_ask(one)
        one.asked = tuple(whom)
        for replica_set in (context.image.replica_sets[set_id] for set_id in set_ids):
            one.asked_at[replica_set.replica_set_id] = _epochs(replica_set)
            if replica_set.policy.needs_lease:
                one.promised[replica_set.replica_set_id] = replica_set.leader_epoch
        one.waiting = dict.fromkeys(whom)
        for broker_id, sets in whom.items():
            context.send(broker_id, self._probe(one.request_id, sets))
        if one.waiting:
            timeout_ms = context.config.probe_timeout_ms
            one.timer = context.scheduler.call_later(timeout_ms, lambda: self._on_timeout(one))
        self._maybe_conclude(one)

    def _whom_to_ask(self, one: Round) -> dict[BrokerId, list[ReplicaSetImage]]:
        context = self._context
        dead = {broker_id for broker_id, _ in one.dead}
        asked: dict[BrokerId, list[ReplicaSetImage]] = {}
        for set_id in one.set_ids:
            replica_set = context.image.replica_sets[set_id]
            everybody = one.is_unclean or replica_set.is_unclean_allowed
            failed = replica_set.master if context.has_failed_master(replica_set) else NO_MASTER
            for broker_id in replica_set.replicas if everybody else replica_set.candidates:
                is_known = broker_id in replica_set.log_ids and broker_id != failed
                if broker_id not in dead and is_known and context.is_able(broker_id):
                    asked.setdefault(broker_id, []).append(replica_set)
        return asked

    def _probe(self, request_id: RequestId, sets: list[ReplicaSetImage]) -> ProbeSets:
        return ProbeSets(
            request_id=request_id,
            controller_epoch=self._context.controller_epoch,
            sets=tuple(
                ProbedSet(
                    replica_set_id=replica_set.replica_set_id,
                    leader_epoch=replica_set.leader_epoch,
                    is_promise_wanted=replica_set.policy.needs_lease,
                )
                for replica_set in sets
            ),
        )

    def on_probe_answer(self, broker_id: BrokerId, answer: ProbeAnswer) -> None:
        """Count an answer; a late, duplicate or unrequested one changes nothing."""
        one = self._rounds.get(answer.request_id)
        if one is None or one.is_submitted or broker_id not in one.waiting:
            return
        del one.waiting[broker_id]
        one.answers[broker_id] = {
            report.replica_set_id: report
            for report in answer.reports
            if report.replica_set_id in one.asked_at
        }
        self._maybe_conclude(one)

    def on_lost(self, broker_id: BrokerId) -> None:
        """Stop waiting for a broker whose session is gone, and do not elect it."""
        for one in list(self._rounds.values()):
            if one.is_submitted:
                continue
            one.answers.pop(broker_id, None)
            if broker_id in one.waiting:
                del one.waiting[broker_id]
                self._maybe_conclude(one)

    def _on_timeout(self, one: Round) -> None:
        if one.request_id in self._rounds and not one.is_submitted:
            one.waiting.clear()
            self._conclude(one)

    def _maybe_conclude(self, one: Round) -> None:
        if not one.waiting:
            self._conclude(one)

    def _conclude(self, one: Round) -> None:
        """Choose a master for every set that still needs one, and submit."""
        is_first = not one.is_submitted and not one.waiting
        invariant(is_first, "a round is decided once, by all answers", round=one.request_id)
        _cancel(one)
        context = self._context
        brokers = context.image.brokers
        dead = tuple(
            (broker_id, broker_epoch)
            for broker_id, broker_epoch in one.dead
            if broker_id in brokers
            and brokers[broker_id].broker_epoch == broker_epoch
            and context.is_dead(brokers[broker_id])
        )
        masterships = tuple(
            found
            for set_id in one.set_ids
            if (found := self._elect(one, context.image.replica_sets[set_id], dead)) is not None
        )
        if not dead and not masterships:
            self._settle(one, None)
            return
        one.is_submitted = True
        command = (
            FenceBrokers(brokers=dead, masterships=masterships)
            if dead
            else BeginMasterships(masterships=masterships)
        )
        begun = Begun(masterships, len(dead))
        context.submit_to_the_end(command, lambda answer: self._on_submitted(one, begun, answer))

    def _elect(
        self,
        one: Round,
        replica_set: ReplicaSetImage,
        dead: tuple[tuple[BrokerId, BrokerEpoch], ...],
    ) -> NewMastership | None:
        """Return the mastership to begin, or None where nothing changes.

        Reports are valid for the epochs in which they were requested: they know neither what a
        mastership in between has confirmed, nor another policy. A later evaluation probes again.
        """
        if one.asked_at[replica_set.replica_set_id] != _epochs(replica_set):
            return None
        is_led = replica_set.master != NO_MASTER
        is_lost = any(replica_set.master == broker_id for broker_id, _ in dead)
        if is_led and not is_lost and not self._context.has_failed_master(replica_set):
            return None
        choice, is_unclean = self._choose(one, replica_set)
        match choice:
            case Elected():
                is_in_step = choice.master in choice.sync_state_set
                invariant(is_in_step, "a master is in step with itself", master=choice.master)
                are_members = set(choice.sync_state_set) <= set(replica_set.replicas)
                invariant(are_members, "who is in step is a member", members=choice.sync_state_set)
                self.reasons.pop(replica_set.replica_set_id, None)
                cut = self._what_is_cut(one, replica_set, choice.master) if is_unclean else ""
                return NewMastership(
                    replica_set_id=replica_set.replica_set_id,
                    master=choice.master,
                    leader_epoch=replica_set.leader_epoch,
                    sync_state_set_epoch=replica_set.sync_state_set_epoch,
                    cause=self._cause(one, replica_set, is_unclean=is_unclean),
                    sync_state_set=choice.sync_state_set,
                    is_unclean=is_unclean,
                    detail=cut,
                )
            case NoCandidate(reason):
                self._put_off(replica_set.replica_set_id, reason)
            case NeedMoreAnswers():  # pragma: no cover
                raise AssertionError("no answer is outstanding any more")
        if not is_lost:
            return None
        return NewMastership(
            replica_set_id=replica_set.replica_set_id,
            master=NO_MASTER,
            leader_epoch=replica_set.leader_epoch,
            sync_state_set_epoch=replica_set.sync_state_set_epoch,
            cause=Cause.EVICTION,
        )

    def _choose(self, one: Round, replica_set: ReplicaSetImage) -> tuple[Choice, bool]:
        """Return the choice, and whether it may lose records."""
        choice = choose_master(self._ballot(one, replica_set, is_unclean=False))
        is_allowed = one.is_unclean or replica_set.is_unclean_allowed
        if not isinstance(choice, NoCandidate) or not is_allowed:
            return choice, False
        return choose_master(self._ballot(one, replica_set, is_unclean=True)), True

    def _ballot(self, one: Round, replica_set: ReplicaSetImage, *, is_unclean: bool) -> Ballot:
        context = self._context
        wanted = one.wanted
        if not context.image.is_failover_enabled and one.done is None:
            wanted = context.static_master(replica_set)
        brokers = context.image.brokers
        return Ballot(
            replica_set=replica_set,
            reports=self._reports(one, replica_set),
            racks={key: broker.rack for key, broker in brokers.items() if broker.rack is not None},
            draining=tuple(key for key in brokers if context.is_draining(key)),
            wanted=wanted,
            is_unclean=is_unclean,
        )

    def _reports(self, one: Round, replica_set: ReplicaSetImage) -> dict[BrokerId, SetReport]:
        """Return the valid reports: from live members, about their registered and working logs.

        A member with another log than the registered one has lost what it acknowledged; its new
        log may not be registered yet. A failed log takes no writes.
        """
        return {
            broker_id: report
            for broker_id, reports in one.answers.items()
            if (report := reports.get(replica_set.replica_set_id)) is not None
            and replica_set.log_ids.get(broker_id) == report.log_id
            and report.role != FAILED
            and self._context.is_able(broker_id)
        }

    def _cause(self, one: Round, replica_set: ReplicaSetImage, *, is_unclean: bool) -> Cause:
        if is_unclean:
            return Cause.UNCLEAN
        if replica_set.leader_epoch == NO_EPOCH:
            return Cause.FIRST
        if one.done is not None:
            return Cause.OPERATOR
        if replica_set.master == NO_MASTER:
            return Cause.RETURN
        has_failed = self._context.has_failed_master(replica_set)
        return Cause.FAILED if has_failed else Cause.EVICTION

    def _what_is_cut(self, one: Round, replica_set: ReplicaSetImage, master: BrokerId) -> str:
        """Return, for people, the end of the winner's log and that of the longest one reported."""
        set_id = replica_set.replica_set_id
        own = self._reports(one, replica_set)[master]
        known = [own] + [
            sets[set_id].report for sets in self._context.reports.values() if set_id in sets
        ]
        longest = max((each.last_log_epoch, each.log_end_position) for each in known)
        return (
            f"broker {master} ends at {own.log_end_position} in epoch {own.last_log_epoch};"
            f" the longest log reported ended at {longest[1]} in epoch {longest[0]}"
        )

    def _put_off(self, set_id: ReplicaSetId, reason: str) -> None:
        """Back off after an election without a winner; a registration ends the wait (`hurry`)."""
        config = self._context.config
        self.reasons[set_id] = reason
        self._context.stats.elections_without_winner += 1
        tries = self._tries[set_id] = min(self._tries.get(set_id, 0) + 1, 10)
        wait_ms = min(config.election_retry_ms << (tries - 1), config.session_timeout_ms)
        self._next_try_ms[set_id] = self._context.now_ms + wait_ms

    def _hold(self, error: MetadataError) -> None:
        """Pause after a failed submit; a choice that was overtaken is retried once at once."""
        self._failures += 1
        if self._failures > 1 or not isinstance(error, RefusedCommand):
            self._held_until_ms = self._context.now_ms + self._context.config.election_retry_ms

    def _on_submitted(self, one: Round, begun: Begun, answer: object) -> None:
        if one.request_id not in self._rounds:
            return  # dropped by `forget`: another controller leads
        if isinstance(answer, MetadataError):
            self._hold(answer)
            self._settle(one, answer)
            return
        self._failures = 0
        stats = self._context.stats
        stats.evictions += begun.fenced_count
        for mastership in begun.masterships:
            stats.count_mastership(mastership.cause)
            if mastership.master != NO_MASTER:
                stats.note_election(self._context.now_ms - one.started_ms)
        self._settle(one, None)

    def _settle(self, one: Round, error: MetadataError | None) -> None:
        del self._rounds[one.request_id]
        sets = self._context.image.replica_sets
        kept = [key for key, epoch in one.promised.items() if sets[key].leader_epoch == epoch]
        self._on_over(one.asked, kept)
        if one.done is not None:
            set_id = one.set_ids[0]
            replica_set = self._context.image.replica_sets[set_id]
            has_failed = self._context.has_failed_master(replica_set)
            if error is None and (replica_set.master == NO_MASTER or has_failed):
                error = NoEligibleMaster(set_id, self.reasons.get(set_id, "no member answered"))
            one.done(error)
        for over in one.joined:
            over(None)
        self._on_settled()


def _epochs(replica_set: ReplicaSetImage) -> tuple[LeaderEpoch, SyncStateSetEpoch]:
    return replica_set.leader_epoch, replica_set.sync_state_set_epoch


def _cancel(one: Round) -> None:
    if one.timer is not None:
        one.timer.cancel()
        one.timer = None
