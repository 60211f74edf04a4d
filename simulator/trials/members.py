"""Random walks of one member of a replica set, on a copy of its disk.

    copy ─► start ─► lead, append, sync, acknowledge, change members, pause, lose the lease,
                     follow, take a master's frames and confirm positions, be cut ...
        ─► are confirm position, high watermark and parked requests as they must be?

The confirm position is counted here independently: by each set that may have been recorded under
`all`, by a majority of the replicas under `quorum`; never by counting below the start of the
mastership, and never while a needed lease is missing.

Source: docs/adr/0062; the rules of the set are in ARCHITECTURE.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch, Position, ReplicaSetId
from penstock.frames.run import Run
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.confirm import Membership
from penstock.replication.errors import NotEnoughReplicas, ReplicationError
from penstock.storage.config import LogConfig
from simulator.kernel.disk import SimDisk
from simulator.trials.still_log import NEW_PARTITION, NOW_MS, StillLog

OWN, OTHERS = 1, (2, 3)
RUN_BYTES = 1 << 16


@dataclass(slots=True, eq=False)
class Parked:
    """A waiting write; it records its answer."""

    end: int
    deadline_ms: int = 1 << 60
    heard: list[str] = field(default_factory=list)
    least_told: int = 99

    def complete(self) -> None:
        self.heard.append("complete")

    def expire(self) -> bool:
        self.heard.append("expire")
        return False

    def fail(self) -> None:
        self.heard.append("fail")

    def refuse(self, error: ReplicationError) -> None:
        self.heard.append(f"refuse {type(error).__name__}")

    def shrunk(self, in_sync_count: int) -> None:
        self.least_told = min(self.least_told, in_sync_count)


class MemberWalk:
    """See the module. Iterate `run` once."""

    def __init__(self, disk: SimDisk, directory: str, config: LogConfig, draw: Random) -> None:
        """`disk`: the copy."""
        self._disk, self._directory, self._config, self._random = disk, directory, config, draw
        self._still = StillLog(disk, directory, config)
        self._log = self._still.log
        self._log.follow()
        self._member = ReplicaSetMember(
            ReplicaSetId(0), BrokerId(OWN), self._log, self._still.later
        )
        self._peer: StillLog | None = None
        self._members = Membership(replicas=as_brokers(OWN), committed=as_brokers(OWN))
        self._acks: dict[int, int] = {}
        self._reached = self._start = 0
        self._has_lease = True
        self._pause: list[int] = []
        self._parked: list[Parked] = []
        self._ends: list[tuple[int, int]] = []
        """Of the batches of one partition: where the frame ends, and the offset behind it."""
        self._trail: list[str] = []

    def run(self, steps: int) -> Iterator[str]:
        """Go; yield what is wrong, up to the first step that something is wrong with."""
        for _ in range(steps):
            do = self._random.choice(self._ways())
            self._trail.append(do.__name__[1:])
            before = self._member.confirm_position
            try:
                do()
                texts = list(self._wrong(before))
            except (AssertionError, PlatformError) as error:
                texts = [f"{type(error).__name__}: {error}"]
            if texts:
                yield from (f"{text}, after {self._trail[-10:]}" for text in texts)
                return

    def _ways(self) -> list[Callable[[], None]]:
        if self._member.role is Role.MASTER:
            grow = [self._append, self._append, self._sync, self._acknowledge, self._acknowledge]
            rest = [self._change_members, self._take_pause, self._resume, self._lease]
            return [*grow, *grow, *rest, *rest, self._follow]
        if self._member.role is Role.SLAVE:
            return [self._stream, self._stream, self._told, self._told, self._cut, self._lead]
        return [self._lead, self._follow]

    # A master

    def _lead(self) -> None:
        self._still.run()
        self._draw_members()
        self._peer, self._parked, self._pause, self._acks = None, [], [], {}
        self._reached = self._member.confirm_position
        epoch = max(self._log.leader_epoch, self._member.leader_epoch) + 1
        self._start = self._log.end_position
        if self._is_alone():
            self._reached = max(self._reached, min(self._start, self._log.durable_position))
        self._member.become_master(LeaderEpoch(epoch), self._members)
        self._has_lease = True
        self._member.may_confirm = lambda: self._has_lease

    def _draw_members(self) -> None:
        others = list(OTHERS[: self._random.randint(0, 2)])
        kind = self._random.choice((PolicyKind.ALL, PolicyKind.ALL, PolicyKind.QUORUM))
        some, more = (
            (OWN, *(other for other in others if self._random.random() < 0.5)) for _ in range(2)
        )
        self._members = Membership(
            replicas=as_brokers(OWN, *others),
            committed=as_brokers(*some),
            proposed=() if self._random.random() < 0.6 else (as_brokers(*more),),
            policy=AckPolicy(kind=kind, minimum=self._random.choice((1, 2))),
        )

    def _is_alone(self) -> bool:
        sets = [self._members.committed, *self._members.proposed]
        is_alone = all(in_step == (OWN,) for in_step in sets)
        return is_alone and (not self._is_quorum() or self._members.replicas == (OWN,))

    def _is_quorum(self) -> bool:
        return self._members.policy.kind is PolicyKind.QUORUM

    def _append(self) -> None:
        if not self._member.is_master:
            return
        batch = _batch()
        partition = self._log.open_partition(NEW_PARTITION)
        self._log.append(partition, batch, read_header(batch))
        end = self._log.end_position
        self._ends.append((end, partition.log_end_offset))
        parked = Parked(end)
        self._parked.append(parked)
        self._member.waiting_for_all.park(end, parked)

    def _sync(self) -> None:
        self._still.run()

    def _acknowledge(self) -> None:
        others = [replica for replica in self._members.replicas if replica != OWN]
        if others:
            one = self._random.choice(others)
            ends = [at for at, _ in self._ends if at >= self._acks.get(one, 0)]
            self._acks[one] = self._random.choice([*ends, self._log.end_position])
            self._member.acknowledge(one, Position(self._acks[one]))

    def _change_members(self) -> None:
        policy, earlier = self._members.policy, self._members
        self._draw_members()
        self._members = Membership(
            replicas=self._members.replicas,
            committed=self._members.committed,
            proposed=self._members.proposed,
            policy=policy,
        )
        for one in self._parked:
            one.least_told = 99
        waiting = [one for one in self._parked if not one.heard]
        self._member.change_members(self._members)
        now = len(self._members.committed)
        asks_more = len(self._members.replicas) > len(earlier.replicas)
        is_told = asks_more or now < len(earlier.committed)
        for one in waiting:
            assert one.least_told == (now if is_told else 99), "a write was not told who is left"

    def _take_pause(self) -> None:
        self._pause.append(self._member.pause_writes())

    def _resume(self) -> None:
        if self._pause:
            at = self._random.randrange(len(self._pause))
            is_newest = at == len(self._pause) - 1
            was = self._member.is_master
            self._member.resume_writes(self._pause[at])
            assert self._member.is_master == (is_newest or was), "an earlier pause has ended"

    def _lease(self) -> None:
        self._has_lease = not self._has_lease
        if self._has_lease:
            self._member.confirm_reached()

    # A slave

    def _follow(self) -> None:
        """Follow a master that has everything that this member has."""
        waiting = [one for one in self._parked if not one.heard]
        epoch = max(self._log.leader_epoch, self._member.leader_epoch) + 1
        self._member.become_slave(LeaderEpoch(epoch), BrokerId(OTHERS[0]))
        for one in waiting:
            assert one.heard == ["refuse NotMaster"], f"a write hears {one.heard} at the end"
        self._parked = []
        self._still.run()
        self._new_peer()

    def _new_peer(self) -> None:
        disk = self._disk.duplicate(f"{self._directory}/", self._random)
        self._peer = StillLog(disk, self._directory, self._config)
        self._peer.log.begin_epoch(
            LeaderEpoch(max(self._member.leader_epoch, self._log.leader_epoch) + 1)
        )
        self._peer.run()

    def _stream(self) -> None:
        peer = self._peer
        if peer is None:
            return
        if self._random.random() < 0.3:
            self._new_peer()
            peer = self._peer
            assert peer is not None
        batch = _batch()
        partition = peer.log.open_partition(NEW_PARTITION)
        peer.log.append(partition, batch, read_header(batch))
        peer.run()
        for _ in range(6):
            at = self._log.end_position
            run = peer.log.read_run(at, RUN_BYTES, peer.log.end_position)
            if isinstance(run, Run):
                self._log.append_run(run)
            self._still.run()
        if self._log.end_position == peer.log.end_position:
            self._ends.append((self._log.end_position, partition.log_end_offset))

    def _told(self) -> None:
        position = self._random.choice([at for at, _ in self._ends] or [0])
        self._member.note_master_confirmed(Position(position))
        end = min(position, self._log.end_position)
        assert self._member.confirm_position >= end, "is told, and does not know"
        assert self._member.epochs.latest == self._log.leader_epoch, "knows older epochs"

    def _cut(self) -> None:
        """Be cut, as after an unclean election."""
        if not self._ends or self._log.is_busy:
            return
        at = self._random.choice(self._ends)[0]
        done: list[object] = []
        self._log.truncate(Position(at), done.append)
        self._still.run()
        assert done == [None], f"can not be cut: {done}"
        self._ends = [end for end in self._ends if end[0] <= at]
        assert self._member.confirm_position <= self._log.end_position, "confirmed behind the end"
        self._new_peer()

    # What must hold

    def _wrong(self, before: int) -> Iterator[str]:
        member = self._member
        if member.role is Role.MASTER:
            yield from self._wrong_master(before)
        is_alone = member.role is Role.MASTER and self._members.replicas == (OWN,)
        if self._log.is_sole_member is not is_alone:
            yield f"claims to be alone: {self._log.is_sole_member}, of {self._members}"
        partition = self._log.partitions.get(NEW_PARTITION)
        if partition is not None and self._ends:
            behind = [offset for at, offset in self._ends if at <= member.confirm_position]
            first = min(offset for _, offset in self._ends)
            mark = member.high_watermark(partition)
            if mark is None:
                yield f"does not know what it shows at {member.confirm_position}"
            elif mark != max(behind, default=mark) or (not behind and mark >= first):
                yield f"shows {mark} at {member.confirm_position}, of {self._ends[-5:]}"

    def _wrong_master(self, before: int) -> Iterator[str]:
        member, members = self._member, self._members
        reach = self._reach()
        if reach > max(self._reached, self._start):
            self._reached = reach
        wanted = self._reached if self._has_lease else before
        if self._trail[-1] != "lead" and member.confirm_position != wanted:
            yield f"has confirmed {member.confirm_position}, not {wanted}: {members} {self._acks}"
        if self._trail[-1] == "lead" and member.confirm_position != self._reached:
            yield f"begins with {member.confirm_position} confirmed, not {self._reached}"
        for one in self._parked:
            if (one.heard == ["complete"]) != (one.end <= member.confirm_position):
                yield f"a write up to {one.end} hears {one.heard} at {member.confirm_position}"
        for asked in (1, 2, 3):
            least = max(min(asked, len(members.replicas)), members.policy.minimum)
            try:
                member.check_in_step(asked)
                is_taken = True
            except NotEnoughReplicas:
                is_taken = False
            if is_taken != (len(members.committed) >= least):
                yield f"takes a write that wants {asked} in step: {is_taken}, of {members}"

    def _reach(self) -> int:
        """Return what enough members hold, by every set that may have been recorded."""
        held = {**self._acks, OWN: self._log.durable_position}
        if self._is_quorum():
            ends = sorted(
                (held.get(replica, 0) for replica in self._members.replicas), reverse=True
            )
            return ends[len(ends) // 2]
        sets = [self._members.committed, *self._members.proposed]
        return min(held.get(one, 0) for some in sets for one in some)


def _batch() -> memoryview:
    return memoryview(bytearray(build_batch([Record(b"key", b"value", (), NOW_MS)])))
