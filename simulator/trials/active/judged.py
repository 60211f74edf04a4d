"""What an active controller may decide, by what it was told in a walk and nothing else.

    what it sends and submits ─► compared with answers, silences and open commands ─► findings

fence      only who was silent for a whole time-out, while the controller was awake, or is gone
elect      the longest log of those that were asked in this mastership, policy and term
move       only after the master that leads now, asked under this policy, has said that it is ready
release    no promise while a command that rests on it may still become an entry

The walk tells it what happens (walk.py); it keeps nothing of the controller's own state.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.base.ack_policy import AckPolicy
from penstock.base.ids import BrokerEpoch, BrokerId, ReplicaSetId
from penstock.controller.commands import command as c
from penstock.controller.config import ControllerConfig
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_MASTER, ClusterImage, ReplicaSetImage
from penstock.controller.session import (
    FAILED,
    PrepareTransfer,
    ProbeSets,
    ReleasePromises,
    SetReport,
)

State = tuple[int, int, AckPolicy]
"""Leader epoch, sync-state set epoch and policy of a set: what a question is asked about."""


def state_of(replica_set: ReplicaSetImage) -> State:
    """Return the state of a set that answers about it are valid for."""
    return replica_set.leader_epoch, replica_set.sync_state_set_epoch, replica_set.policy


@dataclass(slots=True)
class Seen:
    """What the controller has seen of a broker."""

    is_open: bool = False
    is_known: bool = False
    """Whether there was any session of it."""
    is_awaited: bool = False
    """Whether the controller has led since, and waits for its first session."""
    incarnation: str = ""
    silent_ms: int = 0
    """Since its last sign of life, while the controller was awake."""
    forgiven_ms: int = 0
    """At most so much of the silence did the controller's pauses add."""
    reports: dict[ReplicaSetId, SetReport] = field(default_factory=dict)


@dataclass(slots=True)
class Asked:
    """A round of questions, or a transfer."""

    term: int
    states: Mapping[ReplicaSetId, State]
    target: int = NO_MASTER
    answers: dict[BrokerId, dict[ReplicaSetId, SetReport]] = field(default_factory=dict)
    is_ready: bool = False


class Judge:
    """See the module. `found` gets each finding."""

    def __init__(
        self, image: ClusterImage, config: ControllerConfig, found: Callable[[str], None]
    ) -> None:
        self._image = image
        self._config = config
        self._found = found
        self.term = 0
        self.seen = {broker: Seen() for broker in image.brokers}
        self._asked: dict[int, Asked] = {}
        self.open: list[c.Command[object]] = []
        """Its own commands of this term that may still become entries."""
        self.wanted: dict[int, set[int]] = {}
        """By set id, whom operators have named in this term."""
        self.left: set[int] = set()
        """Brokers that were asked to leave their sets since this was cleared."""

    # --- what it is told -----------------------------------------------------------------------

    def leads(self, term: int) -> None:
        """Begin a term; silences of brokers that it never heard of begin now."""
        self.term = term
        self._asked.clear()
        self.wanted.clear()
        self.open.clear()
        for one in self.seen.values():
            if not one.is_known and not one.is_awaited:
                one.is_awaited, one.silent_ms = True, 0

    def opened(self, broker_id: BrokerId) -> None:
        """Note a new session."""
        self._lost(broker_id)
        self.seen[broker_id] = Seen(is_open=True, is_known=True)

    def closed(self, broker_id: BrokerId) -> None:
        """Note the end of the newest session."""
        self.seen[broker_id].is_open = False
        self._lost(broker_id)

    def heard(self, broker_id: BrokerId, incarnation: str, reports: Iterable[SetReport]) -> None:
        """Note a heartbeat."""
        one = self.seen[broker_id]
        one.silent_ms = one.forgiven_ms = 0
        one.incarnation = incarnation
        one.reports |= {report.replica_set_id: report for report in reports}

    def passes(self, awake_ms: int) -> None:
        """Let time pass for a controller that is awake."""
        for one in self.seen.values():
            one.silent_ms += awake_ms

    def slept(self, slack_ms: int) -> None:
        """Note a pause of the controller, of which so much may count as silence."""
        for one in self.seen.values():
            one.forgiven_ms += slack_ms

    def answered(self, request_id: int, broker_id: BrokerId, reports: Iterable[SetReport]) -> None:
        """Note an answer to a question of this term."""
        if (asked := self._asked.get(request_id)) is not None:
            asked.answers[broker_id] = {report.replica_set_id: report for report in reports}

    def ready(self, request_id: int) -> None:
        """Note that a master is ready to hand over."""
        if (asked := self._asked.get(request_id)) is not None:
            asked.is_ready = True

    def _lost(self, broker_id: BrokerId) -> None:
        for asked in self._asked.values():
            asked.answers.pop(broker_id, None)

    # --- what it says --------------------------------------------------------------------------

    def sends(self, message: object) -> None:
        """Look at a message to a broker."""
        sets = self._image.replica_sets
        match message:
            case ProbeSets():
                known = self._asked.setdefault(message.request_id, Asked(self.term, {}))
                asked_of = {replica_set.replica_set_id for replica_set in message.sets}
                states = {one: state_of(sets[one]) for one in asked_of}
                known.states = {**states, **known.states}
            case PrepareTransfer():
                set_id = message.replica_set_id
                state = {set_id: state_of(sets[set_id])}
                self._asked[message.request_id] = Asked(self.term, state, message.target)
            case ReleasePromises():
                for replica_set in message.sets:
                    if replica_set.replica_set_id in self._rested_on():
                        self._found(
                            f"releases promises for set {replica_set.replica_set_id}, and what"
                            f" rests on them may still be recorded: {self.open}"
                        )
            case _:
                pass

    def _rested_on(self) -> set[int]:
        return {
            one.replica_set_id
            for command in self.open
            for one in getattr(command, "masterships", ())
        }

    def submits(self, command: c.Command[object]) -> None:
        """Look at a command to the log."""
        if isinstance(command, c.LeaveSyncStateSets):
            self.left.add(command.broker_id)
        dead = dict(command.brokers) if isinstance(command, c.FenceBrokers) else {}
        for broker_id in dead:
            self._fences(broker_id)
        for one in getattr(command, "masterships", ()):
            for text in self._wrong_mastership(one, dead):
                self._found(f"{text}: {one}")
        self.open.append(command)

    def may_fence(self, broker_id: BrokerId) -> bool:
        """Whether it is gone, another process by now, or was silent for long enough."""
        one, known = self.seen[broker_id], self._image.brokers[broker_id]
        if one.is_known and not one.is_open:
            return True
        if one.incarnation and one.incarnation != known.incarnation:
            return True
        return one.silent_ms + one.forgiven_ms >= self._config.session_timeout_ms

    def _fences(self, broker_id: BrokerId) -> None:
        if not self.may_fence(broker_id):
            one = self.seen[broker_id]
            self._found(f"fences broker {broker_id}, silent for {one.silent_ms} ms: {one}")

    def _wrong_mastership(
        self, new_mastership: c.NewMastership, dead: Mapping[BrokerId, BrokerEpoch]
    ) -> Iterator[str]:
        known = self._image.replica_sets[new_mastership.replica_set_id]
        is_led = known.master != NO_MASTER and known.master not in dead
        if new_mastership.sync_state_set is None and new_mastership.master != NO_MASTER:
            yield from self._wrong_transfer(new_mastership, known)
            return
        if is_led and not self._has_failed(known):
            yield f"broker {known.master} is replaced, and leads well"
        if new_mastership.master != NO_MASTER:
            yield from self._wrong_election(new_mastership, known)

    def _has_failed(self, known: ReplicaSetImage) -> bool:
        told = self.seen[known.master].reports.get(known.replica_set_id)
        is_failed = told is not None and told.role == FAILED
        return is_failed and told is not None and told.leader_epoch == known.leader_epoch

    def _wrong_transfer(
        self, new_mastership: c.NewMastership, known: ReplicaSetImage
    ) -> Iterator[str]:
        set_id, (epoch, _, policy) = new_mastership.replica_set_id, state_of(known)
        asked = [
            each.states[set_id]
            for each in self._asked.values()
            if each.is_ready and each.target == new_mastership.master and set_id in each.states
        ]
        if not any(state[0] == epoch and state[2] == policy for state in asked):
            yield f"is moved, and its master was asked in {asked}, not {(epoch, policy)}"

    def _wrong_election(
        self, new_mastership: c.NewMastership, known: ReplicaSetImage
    ) -> Iterator[str]:
        set_id = new_mastership.replica_set_id
        rounds = [
            {broker: told[set_id] for broker, told in each.answers.items() if set_id in told}
            for each in self._asked.values()
            if each.target == NO_MASTER and each.states.get(set_id) == state_of(known)
        ]
        valid = [told for told in rounds if new_mastership.master in told]
        if not valid:
            yield f"is elected by {rounds}, and not by its word for {state_of(known)}"
            return
        wanted = self.wanted.get(set_id, set())
        is_named = new_mastership.cause is Cause.OPERATOR or (
            new_mastership.cause is Cause.FIRST and bool(wanted)
        )
        is_free = not wanted or NO_MASTER in wanted or new_mastership.cause is Cause.FIRST
        if is_named and not is_free and new_mastership.master not in wanted:
            yield f"is elected, and operators have named {sorted(wanted)}"
        if not is_named and self._image.is_failover_enabled:
            yield from self._shorter(new_mastership, known, valid)

    def _shorter(
        self,
        new_mastership: c.NewMastership,
        known: ReplicaSetImage,
        valid: list[dict[BrokerId, SetReport]],
    ) -> Iterator[str]:
        """Name longer logs, where every round that it may rest on has one."""
        longer = [
            [
                broker
                for broker, report in told.items()
                if _length(report) > _length(told[new_mastership.master])
                and report.role != FAILED
                and self._is_able(broker, known)
            ]
            for told in valid
        ]
        if all(longer):
            yield f"is elected, and brokers {longer[0]} have told of longer logs: {valid[0]}"

    def _is_able(self, broker_id: BrokerId, known: ReplicaSetImage) -> bool:
        is_fenced = self._image.brokers[broker_id].is_fenced or self.may_fence(broker_id)
        return not is_fenced and broker_id in known.candidates


def _length(report: SetReport) -> tuple[int, int]:
    return report.last_log_epoch, report.log_end_position
