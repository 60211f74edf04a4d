"""Check: what members of a replica set state in messages is true when they send it.

    statement                         must hold
    slave: I hold all below P         its disk does, and the master of that epoch has the same bytes
    member, probed for an election:   its disk holds all below the end that it names
    master: this is epoch E           the set's image names it as the master of E
    master: you may follow            the slave's log is the one that it has registered
    master: I lead again in epoch E   each other member has said that its log fits
    master: ready to hand over        the target's disk has all, and nothing is written behind it
    controllers: this one leads now   it was probed, with as many others as the policy needs
    member that has promised          acknowledges and confirms nothing more for that mastership

Frames are read from the simulated disks. A disk that was damaged or replaced is not checked, nor is
one under the flush policy `async`.

Source: docs/adr/0016 (promises); ADR 0009.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.controller.session import (
    PrepareTransfer,
    ProbeAnswer,
    ProbeSets,
    ReleasePromises,
    TransferReady,
)
from penstock.node.layout import ReplicaSetPlace
from penstock.node.node import Node
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.messages import Acknowledge, Begin, Hello, HelloAnswer, LogRun
from simulator.checks.confirmed import SegmentFiles
from simulator.checks.raft.disks import is_unreadable, may_hold_anything
from simulator.kernel.disk import SimDisk
from simulator.run.server import Server
from simulator.run.topology import data_path

Found = Callable[[str], None]

FIRST_EPOCH = 0
"""Epoch of a set's first mastership, for which no member is probed."""


class _Handed(NamedTuple):
    """How a master was ready to hand over: it, its process, to whom, at which end, how long."""

    master: Server
    starts: int
    target: int
    end: int
    until_s: float


class ReplicaTalk:
    """See the module. One for all sets of a run."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        masters: Mapping[tuple[int, int], int],
        now_s: Callable[[], float],
        found: Found,
    ) -> None:
        """`masters`: (set, leader epoch) -> broker id, as the metadata has said so far."""
        self._servers = servers
        self._masters = masters
        self._now_s = now_s
        self._found = found
        self._looks: dict[type, Callable[[Server, int, Any], None]] = {
            Acknowledge: self._acknowledges,
            Begin: self._acknowledges,
            LogRun: self._leads,
            Hello: self._begins,
            HelloAnswer: self._greets,
            ProbeSets: self._probes_for,
            ProbeAnswer: self._reports,
            ReleasePromises: self._releases,
            PrepareTransfer: self._prepares,
            TransferReady: self._hands_over,
        }
        self._held: dict[tuple[str, int, ReplicaSetId], int] = {}
        """(host, number of its process, set) -> up to where its disk was looked at."""
        self._files: dict[tuple[SimDisk, ReplicaSetId], SegmentFiles] = {}
        self._probes: dict[tuple[int, int, int], ProbeSets] = {}
        """(controller, broker, request) -> the probe."""
        self._released: dict[ReplicaSetId, tuple[int, int]] = {}
        """Set -> the last (controller epoch, request) whose promises are over: who answers such a
        request late finds the release behind it."""
        self._transfers: dict[tuple[int, int, int], PrepareTransfer] = {}
        """(controller, broker, request) -> what it is to prepare."""
        self._hellos: dict[tuple[int, int, int], Hello] = {}
        """(slave, master, set) -> how it has begun."""
        self._begun: dict[tuple[int, int, int], tuple[int, int]] = {}
        """(slave, master, set) -> (leader epoch, number of the master's process)."""
        self._answered: dict[tuple[int, int], set[int]] = {}
        """(set, last leader epoch) -> who has said what its log holds."""
        self._handed: dict[tuple[int, int], _Handed] = {}
        """(set, leader epoch) -> how its master was ready to hand over."""
        self._promised: dict[ReplicaSetId, dict[tuple[str, int], int]] = {}
        """Set -> process -> the newest mastership that it has promised to confirm no more for."""

    def heard(self, host: str, to: int, message: object) -> None:
        """Look at one message."""
        look = self._looks.get(type(message))
        if look is not None:
            look(self._servers[host], to, message)

    def confirmed(self, server: Server, member: ReplicaSetMember) -> None:
        """Look at a master that has just confirmed more."""
        epoch = self._promise(server, member.replica_set_id)
        if member.role is Role.MASTER and member.leader_epoch <= epoch:
            self._found(
                f"{server.name}: set {member.replica_set_id} confirms for epoch"
                f" {member.leader_epoch}, and has promised not to"
            )

    def leads_again(self, server: Server, member: ReplicaSetMember) -> None:
        """Look at a master that had started anew since its mastership began: all others agree."""
        set_id, epoch = member.replica_set_id, member.leader_epoch
        node, own_id = server.node, server.host.process_id
        replica_set = node.image.replica_sets.get(set_id) if isinstance(node, Node) else None
        for broker_id in () if replica_set is None else replica_set.replicas:
            begun = self._begun.get((broker_id, own_id, set_id))
            if broker_id != own_id and begun != (epoch, server.starts):
                self._found(
                    f"{server.name}: process {server.starts} leads set {set_id} again in epoch"
                    f" {epoch}, and {broker_id} has not said that it agrees"
                )

    def _promise(self, server: Server, set_id: ReplicaSetId) -> int:
        return self._promised.get(set_id, {}).get((server.name, server.starts), -1)

    def _probes_for(self, controller: Server, to: int, message: ProbeSets) -> None:
        self._probes[controller.host.process_id, to, message.request_id] = message

    def _releases(self, controller: Server, to: int, message: ReleasePromises) -> None:
        del controller, to
        asker = (message.controller_epoch, message.request_id)
        for probed in message.sets:
            set_id = ReplicaSetId(probed.replica_set_id)
            self._promised.pop(set_id, None)
            self._released[set_id] = max(asker, self._released.get(set_id, asker))

    def _begins(self, slave: Server, to: int, message: Hello) -> None:
        self._hellos[slave.host.process_id, to, message.replica_set_id] = message

    def _prepares(self, controller: Server, to: int, message: PrepareTransfer) -> None:
        self._transfers[controller.host.process_id, to, message.request_id] = message

    def elected(self, replica_set: ReplicaSetImage) -> None:
        """Check a new mastership when it is first announced."""
        key = (replica_set.replica_set_id, replica_set.leader_epoch - 1)
        is_unclean = replica_set.unclean_epoch == replica_set.leader_epoch
        if len(replica_set.replicas) == 1 or is_unclean or replica_set.leader_epoch <= FIRST_EPOCH:
            return
        name = f"set {key[0]}: {replica_set.master} is elected for epoch {replica_set.leader_epoch}"
        handed = self._handed.get(key)
        if handed is not None and handed.target == replica_set.master:
            self._stood_still(replica_set, handed)
            return
        answered = self._who_answered(replica_set)
        if replica_set.master not in answered:
            self._found(f"{name}, and was not asked: {sorted(answered)} were")
        n, policy = len(replica_set.replicas), replica_set.policy
        needed = n - policy.copies_needed(n, n) + 1 if policy.counts_replicas else 1
        if len(answered) < needed:
            self._found(f"{name} by answers of {sorted(answered)} alone, under {policy.kind}")

    def _who_answered(self, replica_set: ReplicaSetImage) -> set[int]:
        """Return the members probed since the last master; there may be epochs without one."""
        set_id, found = replica_set.replica_set_id, set[int]()
        for epoch in range(replica_set.leader_epoch - 1, -1, -1):
            found |= self._answered.get((set_id, epoch), set())
            if (set_id, epoch) in self._masters:
                break
        return found

    def _stood_still(self, replica_set: ReplicaSetImage, handed: "_Handed") -> None:
        """Who was ready to hand over has written nothing since, if that is not long ago."""
        member = _member(handed.master, ReplicaSetId(replica_set.replica_set_id))
        is_it = member is not None and handed.master.starts == handed.starts
        if not is_it or member is None or self._now_s() >= handed.until_s or member.log.is_busy:
            return
        if member.log.end_position > handed.end and member.leader_epoch < replica_set.leader_epoch:
            self._found(
                f"{handed.master.name}: set {replica_set.replica_set_id} was ready to hand over at"
                f" {handed.end}, and has written up to {member.log.end_position}"
            )

    # --- slaves --------------------------------------------------------------------------------

    def _acknowledges(self, slave: Server, to: int, message: Acknowledge | Begin) -> None:
        set_id, epoch = ReplicaSetId(message.replica_set_id), message.leader_epoch
        if epoch <= self._promise(slave, set_id):
            self._found(
                f"{slave.name}: set {set_id} acknowledges to {to} for epoch {epoch}, and has"
                " promised not to"
            )
        if isinstance(message, Begin):  # its log may have been cut, and copied anew
            starts = next(
                broker.starts for broker in self._brokers() if broker.host.process_id == to
            )
            self._begun[slave.host.process_id, to, set_id] = epoch, starts
            self._held.pop((slave.name, slave.starts, set_id), None)
        self._holds(slave, set_id, message.position, self._leader(to, set_id, epoch))

    def _brokers(self) -> Iterable[Server]:
        return (server for server in self._servers.values() if server.host.is_broker)

    def _leader(self, broker_id: int, set_id: ReplicaSetId, epoch: int) -> Server | None:
        """Return the broker if it leads the set in that epoch now."""
        for server in self._brokers():
            if server.host.process_id == broker_id:
                member = _member(server, set_id)
                is_it = member is not None and member.role is Role.MASTER
                return server if is_it and member and member.leader_epoch == epoch else None
        return None

    def _holds(
        self, server: Server, set_id: ReplicaSetId, position: int, master: Server | None
    ) -> None:
        """Look whether its disk holds everything up to there, as the master has it."""
        member, key = _member(server, set_id), (server.name, server.starts, set_id)
        if member is None or is_unreadable(server) or not server.is_durable_at_once:
            return
        own = self._files_of(server, set_id)
        at = max(self._held.get(key, 0), member.log.start_position)
        # What a failed sync has lost is not there any more, on whichever side.
        is_comparable = master is not None and not (
            may_hold_anything(master) or master.has_disk_faults or server.has_disk_faults
        )
        theirs = self._files_of(master, set_id) if master and is_comparable else None
        while at < position:
            frame = own.frame_at(at)
            if frame is None or not own.is_durable(frame.position, frame.data):
                self._found(
                    f"{server.name}: set {set_id} says that it holds all below {position}, and its"
                    f" disk has nothing durable at {at}"
                )
                return
            other = theirs.frame_at(at) if theirs is not None and theirs.has(at) else None
            if other is not None and other.data != frame.data:
                self._found(
                    f"{server.name}: set {set_id} says that it holds all below {position}, and at"
                    f" {at} its master has another frame"
                )
                return
            at = frame.end
        self._held[key] = max(at, self._held.get(key, 0))

    def _files_of(self, server: Server, set_id: ReplicaSetId) -> SegmentFiles:
        key = (server.disk, set_id)
        if key not in self._files:
            place = ReplicaSetPlace(set_id, data_path(server.host)).name
            self._files[key] = SegmentFiles(server.disk, place)
        return self._files[key]

    # --- masters, elections --------------------------------------------------------------------

    def _leads(self, master: Server, to: int, message: LogRun) -> None:
        del to
        key = (message.replica_set_id, message.leader_epoch)
        known = self._masters.get(key)
        if known != master.host.process_id:
            self._found(f"{master.name} sends as the master of (set, epoch) {key}: that is {known}")

    def _greets(self, master: Server, to: int, message: HelloAnswer) -> None:
        set_id = message.replica_set_id
        hello = self._hellos.get((to, master.host.process_id, set_id))
        node = master.node
        if hello is None or not isinstance(node, Node):
            return
        replica_set = node.image.replica_sets.get(set_id)
        if replica_set is None or replica_set.replica_ids.get(BrokerId(to)) != hello.replica_id:
            self._found(
                f"{master.name}: set {set_id} greets {to} with log {hello.replica_id}, which is"
                " not the one that it has registered"
            )

    def _hands_over(self, master: Server, to: int, message: TransferReady) -> None:
        asked = self._transfers.pop((to, master.host.process_id, message.request_id), None)
        if asked is None or not message.is_ready:
            return
        set_id, end = ReplicaSetId(asked.replica_set_id), message.log_end_position
        for server in self._brokers():
            if server.host.process_id == asked.target:
                self._holds(server, set_id, end, master)
        until_s = self._now_s() + asked.timeout_ms / 1_000
        self._handed[set_id, asked.leader_epoch] = _Handed(
            master, master.starts, asked.target, end, until_s
        )

    def _reports(self, broker: Server, to: int, message: ProbeAnswer) -> None:
        asked = self._probes.pop((to, broker.host.process_id, message.request_id), None)
        probed = (
            {}
            if asked is None
            else {replica_set.replica_set_id: replica_set for replica_set in asked.sets}
        )
        for report in message.reports:
            set_id = ReplicaSetId(report.replica_set_id)
            self._holds(broker, set_id, report.log_end_position, None)
            one = probed.get(report.replica_set_id)
            if asked is None or one is None:
                continue
            answered = self._answered.setdefault((one.replica_set_id, one.leader_epoch), set())
            answered.add(broker.host.process_id)
            asker = (asked.controller_epoch, asked.request_id)
            if one.is_promise_wanted and asker > self._released.get(set_id, (-1, -1)):
                promised = self._promised.setdefault(set_id, {})
                process = (broker.name, broker.starts)
                promised[process] = max(one.leader_epoch, promised.get(process, -1))


def _member(server: Server, set_id: ReplicaSetId) -> ReplicaSetMember | None:
    manager = server.node.manager if isinstance(server.node, Node) else None
    return None if manager is None else manager.members.get(set_id)
