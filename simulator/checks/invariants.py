"""The invariants that are checked at every moment, inside the running processes.

    when                          what
    a master was elected          its log has all confirmed bytes
    a metadata entry was applied  its changes of sets are allowed (set_changes.py)
                                  one master for each (set, leader epoch), in its sync-state set;
                                  the same image at the same index in every process, for ever
                                  random further commands, on a copy (trials/metadata.py)
    groups were loaded            random further requests, on a copy (trials/group/trials.py)
    a confirm position moved      it never falls; confirmed bytes never change (confirmed.py)
                                  a slave's is never above what a master has named before
                                  bytes below a master's are durable on enough disks
                                  (kept_copies.py)
    a log was cut                 not below what this member has called confirmed
    an entry was committed        it is durable on a majority's disks (kept_entries.py)
    a process sends a message     what it states is true (raft/talk.py, replica_talk.py)
    a Raft core was called        an independent count agrees (raft/recount.py)
    a member gets in step         its log has all confirmed bytes
    a master decides anything     an independent model allows it (masterships.py); at intervals
                                  random further messages, on a copy (trials/replicas.py)
    at intervals                  one live master for each epoch; queues within their bounds;
                                  replaced masters answer no reads (replaced_masters.py);
                                  level 0 keeps its bound (bounded_level0.py);
                                  a start from the present disk works (shadow_starts.py)
    a disk has done something     a crash at this operation is survived (trials/operations.py)

Findings are in `findings`, in order of time; the first one matters most. Checking draws no random
number, makes no task and changes nothing that a process can see.

What clients were answered is checked in history.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import blake2b

from penstock.base.ack_policy import PolicyKind
from penstock.base.ids import LeaderEpoch, PeerId, ReplicaSetId
from penstock.controller.metadata.image import (
    NO_MASTER,
    ClusterDelta,
    ClusterImage,
    ReplicaSetImage,
)
from penstock.controller.replicated_log import Leadership
from penstock.node.layout import ReplicaSetPlace
from penstock.node.node import Node
from penstock.replica.replica_set import ReplicaSetMember, Role
from simulator.checks.agreed_entries import AgreedEntries
from simulator.checks.bounded_level0 import BoundedLevel0
from simulator.checks.confirmed import ConfirmedLog, Walker
from simulator.checks.kafka_port import KafkaPort
from simulator.checks.kept_copies import KeptCopies
from simulator.checks.kept_entries import KeptEntries
from simulator.checks.masters.masterships import Masterships
from simulator.checks.masters.replaced_masters import ReplacedMasters
from simulator.checks.overheard import overheard
from simulator.checks.raft.disks import RaftDisks
from simulator.checks.raft.recount import RaftRecount
from simulator.checks.raft.talk import RaftTalk
from simulator.checks.replica_talk import ReplicaTalk
from simulator.checks.set_changes import SetChanges
from simulator.checks.topic_facts import configured, topic_facts
from simulator.run.server import Server
from simulator.run.topology import data_path
from simulator.trials.group.trials import GroupTrials
from simulator.trials.metadata import MetadataTrials
from simulator.trials.operations import DiskTrials
from simulator.trials.replicas import ReplicaTrials
from simulator.trials.shadow_starts import ShadowStarts

PARKED_MAX = 1_000
"""Requests waiting in one replica set: more than all clients of a run can have under way."""
FINDINGS_MAX = 50


class Watched:
    """One member of one incarnation."""

    def __init__(self, server: Server, member: ReplicaSetMember, walker: Walker) -> None:
        self.server = server
        self.member = member
        self.walker = walker
        self.confirmed = 0
        """The highest confirm position that it has named."""


class Invariants:
    """See the module. `attach` for each process that starts, `look` now and then."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.findings: list[str] = []
        self.checks = 0
        """How often something was looked at."""
        self._now_s = now_s
        self._masters: dict[tuple[int, int], int] = {}
        """(set, leader epoch) -> master, from any process."""
        self._leading: dict[tuple[int, int], int] = {}
        """(set, leader epoch) -> number of the master's process."""
        self._in_step: dict[int, tuple[int, frozenset[int]]] = {}
        """Set -> (sync-state set epoch, members in step), by the newest entry."""
        self._leaders: dict[int, str] = {}
        """Term -> active controller."""
        self._images: dict[int, tuple[bytes, str]] = {}
        """Index of the metadata log -> (digest of the image there, first host that had it)."""
        self._confirmed: dict[int, ConfirmedLog] = {}
        self._agreed = AgreedEntries()
        self._raft_disks = RaftDisks()
        self._kept_entries = KeptEntries(self._raft_disks)
        self._set_changes = SetChanges()
        self._shadows = ShadowStarts()
        self.trials = DiskTrials(self._confirmed_of, self._found)
        self.metadata_trials = MetadataTrials(self._found)
        self.group_trials = GroupTrials(self._found)
        self.replica_trials = ReplicaTrials(self._found)
        self._replaced = ReplacedMasters()
        self._kept_copies = KeptCopies()
        self._level0 = BoundedLevel0()
        self._watched: dict[int, Watched] = {}
        """By identity of the member."""
        self._servers: list[Server] = []
        self.raft_talk = RaftTalk(self._raft_disks, self._kept_entries, {}, self._found)
        self.replica_talk = ReplicaTalk({}, self._masters, now_s, self._found)
        self.masterships = Masterships({}, self._found)
        self.kafka_port = KafkaPort({}, self.masterships, self._found)

    def attach(self, server: Server) -> None:
        """Follow a process from its first moment on."""
        node = server.node
        assert node is not None
        node.image.subscribe(partial(self._on_delta, server))
        self.trials.watch(server)

    @contextmanager
    def hearing(self, servers: Mapping[str, Server]) -> Iterator[None]:
        """Look at what the processes of these hosts say to each other, for as long as it lasts."""
        self.raft_talk = RaftTalk(self._raft_disks, self._kept_entries, servers, self._found)
        self.replica_talk = ReplicaTalk(servers, self._masters, self._now_s, self._found)
        self.masterships = Masterships(servers, self._found)
        self.kafka_port = KafkaPort(servers, self.masterships, self._found)

        def said(host: str, to: int, message: object) -> None:
            self.checks += 1
            if host in servers:  # a connection that the world resets is closed in its name
                self.raft_talk.heard(host, PeerId(to), message)
                self.replica_talk.heard(host, to, message)
                self.masterships.said(host, to, message)

        recount = RaftRecount(self._raft_disks, servers, self._found)
        with (
            overheard(said),
            self.raft_talk.reads(),
            recount.at_work(),
            self.masterships.hearing(),
            self.kafka_port.hearing(),
            self.metadata_trials.hearing(),
            self.group_trials.hearing(),
        ):
            yield

    def look(self, servers: list[Server], *, is_final: bool = False) -> None:
        """Look at everything that no event tells of; in the end at damaged disks as well."""
        self._servers = servers
        for server in servers:
            node = server.node
            if node is not None and node.plane.is_open:
                self._leadership(server, node.plane.log.leadership)
                if wrong := self._agreed.look(server) or self._kept_entries.look(server, servers):
                    self._found(wrong)
                if self._shadows.is_due():
                    self._all_found(self._shadows.of_controller(server))
            if isinstance(node, Node) and node.manager is not None:
                for member in list(node.manager.members.values()):
                    self._look_at(server, member)
                    if self._shadows.is_due():
                        self._try_start(server, member)
                    if is_final and server.is_disk_damaged:
                        self._compare_anew(server, member)

    def tell(self, text: str) -> None:
        """Add a finding of another check."""
        self._found(text)

    def _found(self, text: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(f"{self._now_s():.3f} {text}")

    def _all_found(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._found(text)

    def _try_start(self, server: Server, member: ReplicaSetMember) -> None:
        confirmed = self._confirmed_of(member.replica_set_id)
        self._all_found(self._shadows.of_member(server, member, confirmed))

    def _confirmed_of(self, set_id: int) -> int:
        """Return what masters have called confirmed so far."""
        known = self._confirmed.get(set_id)
        return max(known.by_masters if known else 0, self._by_masters(set_id))

    # --- metadata ------------------------------------------------------------------------------

    def _on_delta(self, server: Server, delta: ClusterDelta) -> None:
        self.checks += 1
        node = server.node
        if node is None:
            return
        self._look_at_new(server)  # before it follows the change: a role may end with it
        index, process = node.plane.log.applied_index, (server.name, server.starts)
        for replica_set in delta.changed_replica_sets:
            for wrong in self._set_changes.changed(process, index, replica_set, node.image.brokers):
                self._found(f"{server.name}: entry {index}, {wrong}")
            self._look_at_joined(replica_set)
            if replica_set.master == NO_MASTER:
                continue
            if (replica_set.replica_set_id, replica_set.leader_epoch) not in self._masters:
                self._look_at_elected(replica_set)
                self.replica_talk.elected(replica_set)
            self._mastership(
                server, replica_set.replica_set_id, replica_set.leader_epoch, replica_set.master
            )
            if replica_set.master not in replica_set.sync_state_set:
                self._found(
                    f"{server.name}: set {replica_set.replica_set_id} has master"
                    f" {replica_set.master} outside of its sync-state set"
                    f" {replica_set.sync_state_set}"
                )
        self._compare_image(server, index, node.image)
        self.metadata_trials.applied(server.name, node.image)

    def _leadership(self, server: Server, leadership: Leadership) -> None:
        if not leadership.is_leader:
            return
        first = self._leaders.setdefault(leadership.term, server.name)
        if first != server.name:
            self._found(
                f"two active controllers in term {leadership.term}: {first} and {server.name}"
            )

    def _mastership(self, server: Server, set_id: int, leader_epoch: int, master: int) -> None:
        first = self._masters.setdefault((set_id, leader_epoch), master)
        if first != master:
            self._found(
                f"{server.name}: set {set_id} has two masters in epoch {leader_epoch}: "
                f"{first} and {master}"
            )

    def _one_process_leads(self, server: Server, member: ReplicaSetMember) -> None:
        """A process that started again does not know what the one before it has promised."""
        key = (member.replica_set_id, member.leader_epoch)
        first = self._leading.setdefault(key, server.starts)
        if first != server.starts and not member.log.is_sole_member:
            self._leading[key] = server.starts
            self.replica_talk.leads_again(server, member)

    def _look_at_elected(self, replica_set: ReplicaSetImage) -> None:
        """A new master has all that was confirmed, unless it was said that it may not."""
        known = self._confirmed.get(replica_set.replica_set_id)
        member = self._member_of(replica_set.master, replica_set.replica_set_id)
        if (
            known is None
            or member is None
            or replica_set.may_have_lost(LeaderEpoch(replica_set.leader_epoch - 1))
        ):
            return
        end = member.log.end_position
        if end < known.by_masters:
            self._found(
                f"set {replica_set.replica_set_id}: {replica_set.master} is elected for epoch"
                f" {replica_set.leader_epoch} with a log up to {end}, and {known.by_masters}"
                " was confirmed"
            )

    def _look_at_joined(self, one: ReplicaSetImage) -> None:
        """Who gets in step under `all` has what was confirmed until then, and what comes later."""
        epoch, before = self._in_step.get(one.replica_set_id, (-1, frozenset[int]()))
        if one.sync_state_set_epoch <= epoch:
            return
        self._in_step[one.replica_set_id] = one.sync_state_set_epoch, frozenset(one.sync_state_set)
        known = self._confirmed.get(one.replica_set_id)
        if known is None or epoch < 0 or one.policy.kind is not PolicyKind.ALL:
            return
        for broker_id in sorted({*one.sync_state_set} - before):
            member = self._member_of(broker_id, one.replica_set_id)
            if member is None or member.log.is_busy or one.may_have_lost(one.leader_epoch):
                continue
            if member.log.end_position < known.by_masters:
                self._found(
                    f"set {one.replica_set_id}: {broker_id} gets in step with a log up to"
                    f" {member.log.end_position}, and {known.by_masters} was confirmed"
                )

    def _member_of(self, broker_id: int, set_id: int) -> ReplicaSetMember | None:
        """Return a broker's open log of a set, unless its disk may hold anything."""
        for server in self._servers:
            node = server.node
            is_it = server.host.is_broker and server.host.process_id == broker_id
            if is_it and isinstance(node, Node) and node.manager and not server.is_disk_damaged:
                return node.manager.members.get(ReplicaSetId(set_id))
        return None

    def _compare_image(self, server: Server, index: int, image: ClusterImage) -> None:
        digest = _digest(image)
        first, who = self._images.setdefault(index, (digest, server.name))
        if first != digest:
            self._found(f"{server.name}: metadata at entry {index} differs from that of {who}")

    # --- members -------------------------------------------------------------------------------

    def _look_at_new(self, server: Server) -> None:
        """Look at members that were opened since the last look."""
        manager = server.node.manager if isinstance(server.node, Node) else None
        for member in [] if manager is None else list(manager.members.values()):
            if id(member) not in self._watched:
                self._look_at(server, member)

    def _look_at(self, server: Server, member: ReplicaSetMember) -> None:
        self.checks += 1
        watched = self._watched.get(id(member))
        if watched is None:
            watched = self._watch(server, member)
        if member.role is Role.MASTER:
            self._mastership(server, member.replica_set_id, member.leader_epoch, member.own_id)
            self._one_process_leads(server, member)
            self.masterships.look(server, member)
            self.replica_trials.look(server, member)
        parked = len(member.waiting_for_all) + len(member.waiting_for_master)
        if parked > PARKED_MAX:
            self._found(f"{server.name}: {parked} requests wait in set {member.replica_set_id}")
        if wrong := self._replaced.look(server, member, self._now_s()):
            self._found(wrong)
        if wrong := self._level0.look(server, member):
            self._found(wrong)
        self._on_confirmed(watched, member)

    def _compare_anew(self, server: Server, member: ReplicaSetMember) -> None:
        """What a disk lost must have come back from the others."""
        walker = self._walker(server, member)
        wrong = walker.advance(min(member.confirm_position, member.log.written_position))
        if wrong:
            self._found(f"{server.name}: set {member.replica_set_id}, not repaired: {wrong}")

    def _walker(self, server: Server, member: ReplicaSetMember) -> Walker:
        set_id = member.replica_set_id
        known = self._confirmed.setdefault(set_id, ConfirmedLog(set_id))
        place = ReplicaSetPlace(set_id, data_path(server.host))
        return Walker(known, server.disk, place.name, member.log.start_position)

    def _watch(self, server: Server, member: ReplicaSetMember) -> Watched:
        watched = Watched(server, member, self._walker(server, member))
        self._watched[id(member)] = watched
        member.on_confirmed.append(partial(self._on_confirmed, watched))
        member.on_reopened.append(partial(self._on_reopened, watched))
        return watched

    def _on_confirmed(self, watched: Watched, member: ReplicaSetMember) -> None:
        self.checks += 1
        is_from_a_master = self._is_from_a_master(member)
        if member.role is Role.MASTER:
            wrong = self._kept_copies.look(watched.server, member, self._servers)
            if wrong:
                self._found(wrong)
            self.replica_talk.confirmed(watched.server, member)
        if watched.server.is_disk_damaged:
            return
        name = f"{watched.server.name}: set {member.replica_set_id}"
        confirmed = member.confirm_position
        if confirmed < watched.confirmed:
            self._found(f"{name}: confirm position fell from {watched.confirmed} to {confirmed}")
        watched.confirmed = max(watched.confirmed, confirmed)
        if not is_from_a_master:
            self._found(f"{name}: {confirmed} is confirmed here, and no master has said so")
        if member.log.is_busy or member.log.is_fenced:
            return
        walker = watched.walker  # what it does not have any more, or never had, is not compared
        walker.position = max(walker.position, member.log.start_position)
        wrong = walker.advance(min(confirmed, member.log.written_position))
        if wrong:
            self._found(f"{name}: {wrong}")
            watched.walker.position = member.log.written_position

    def _is_from_a_master(self, member: ReplicaSetMember) -> bool:
        known = self._confirmed[member.replica_set_id]
        if member.role is Role.MASTER or member.log.is_sole_member:  # its disk confirms it
            known.by_masters = max(known.by_masters, member.confirm_position)
        elif member.confirm_position > known.by_masters:
            known.by_masters = max(known.by_masters, self._by_masters(member.replica_set_id))
        return member.confirm_position <= known.by_masters

    def _by_masters(self, set_id: int) -> int:
        """Ask the masters themselves: one that was opened just now is not watched yet."""
        managers = [
            server.node.manager for server in self._servers if isinstance(server.node, Node)
        ]
        members = [
            manager.members.get(ReplicaSetId(set_id)) for manager in managers if manager is not None
        ]
        return max(
            (
                member.confirm_position
                for member in members
                if member and member.role is Role.MASTER
            ),
            default=0,
        )

    def _on_reopened(self, watched: Watched, member: ReplicaSetMember) -> None:
        self._try_start(watched.server, member)
        if watched.server.is_disk_damaged:
            return
        if member.log.end_position < watched.confirmed:
            self._found(
                f"{watched.server.name}: set {member.replica_set_id} was cut to "
                f"{member.log.end_position}, below what it had called confirmed, "
                f"{watched.confirmed}"
            )
            watched.confirmed = member.log.end_position
            watched.walker.position = member.log.end_position


def _digest(image: ClusterImage) -> bytes:
    """Return a digest of what an image says, whatever order its tables are in."""
    sets = [_in_order(image.replica_sets[set_id]) for set_id in sorted(image.replica_sets)]
    topics, brokers = topic_facts(image), sorted(image.brokers.items())
    settings = image.default_policy, image.is_failover_enabled
    rest = (image.cluster_id, image.next_producer_id, *settings, configured(image))
    return blake2b(repr((topics, brokers, sets, rest)).encode(), digest_size=16).digest()


def _in_order(replica_set: ReplicaSetImage) -> ReplicaSetImage:
    """Return the set with its tables in order: a snapshot keeps them in another one."""
    replica_ids, log_ids = (
        dict(sorted(replica_set.replica_ids.items())),
        dict(sorted(replica_set.log_ids.items())),
    )
    return replace(replica_set, replica_ids=replica_ids, log_ids=log_ids)
