"""Chooses the disk operations of a run at which a crash is tried on a copy.

    operation of a disk ─► the one before it ─► a rare pair, or tried rarely so far? ─► trial

A trial tests a crash of the node between two operations: see logs.py and raft.py. Some trials test
damage there, or retention: damage.py, retention.py. Operations are distinguished by name, kind of
file, and whether a change of the whole log is under way. The first ones of each kind are the most
likely to be tried, so that a step that occurs once in a run has about the same chance as one that
occurs ten thousand times.

The run is not affected: copies and random numbers are separate. Disks that fail, lie or were
damaged are left out.

Source: docs/adr/0055. ALICE (Pillai et al., OSDI 2014) tries every order of operations of a short
program; here they are drawn from long ones.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from random import Random

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId
from penstock.node.layout import METADATA_DIRECTORY
from penstock.node.node import Node
from penstock.raft.configuration import Configuration
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.commit_log.pending_change import ChangeKind, PendingChange, read_change
from simulator.kernel.disk import SimDisk
from simulator.kernel.process import End
from simulator.run.server import Server
from simulator.trials.damage import LogDamage, RaftDamage
from simulator.trials.logs import Known, LogTrial
from simulator.trials.raft import RaftTrial
from simulator.trials.retention import RetentionTrial

SHARE = 2.0
"""The n-th operation of a kind is tried with this share of 1/n."""
DAMAGE_SHARE = 0.25
"""Of the trials: how many try damage, and not a node that stops."""
RETENTION_SHARE = 0.08
"""How many let retention take something; they read all of the log."""
PASSED_OVER = frozenset({"read", "read_cached", "make_directory"})
"""Operations after which nothing is other than before."""

Found = Callable[[str], None]
ConfirmedOf = Callable[[int], int]

_SET = re.compile(r"set-([0-9]+)(?:/|$)")
_DIGITS = re.compile(r"[0-9]+")


class DiskTrials:
    """See the module. `watch` each server once it has a process."""

    def __init__(
        self, confirmed_of: ConfirmedOf, found: Found, *, has_retention: bool = True
    ) -> None:
        """`confirmed_of`: what masters of a set have called confirmed so far."""
        self._confirmed_of = confirmed_of
        self._found = found
        self._has_retention = has_retention
        self._random = Random("disk trials")  # noqa: S311  reproducible on purpose
        self._before: dict[str, tuple[str, str]] = {}
        """Host -> operation and path of what its disk did last."""
        self._counts: Counter[tuple[str, str, bool]] = Counter()
        self._durable: dict[tuple[str, int], int] = {}
        """(host, set) -> position that was reported as durable and not cut since."""
        self._disks: dict[str, SimDisk] = {}
        """By host; another one holds nothing yet."""
        self._voters: dict[tuple[int, int], Configuration] = {}
        """(index, term) of a snapshot -> the voters in it, as they were seen first."""
        self.trials = 0
        self._dense: dict[str, int] = {}
        """Host -> of how many operations one is tried, whatever its kind."""
        self._seen: Counter[str] = Counter()
        """Host -> operations seen while it is among those."""

    @contextmanager
    def densely(self, hosts: Iterable[str], every: int = 1) -> Iterator[None]:
        """Try every n-th operation of these hosts' disks for as long as this lasts.

        For schedules that bring about the one moment that matters, and let it be the worst.
        """
        dense = dict.fromkeys(hosts, every)
        self._dense |= dense
        try:
            yield
        finally:
            for host in dense:
                del self._dense[host]

    def watch(self, server: Server) -> None:
        """Look at every operation of its disk from now on."""
        if self._disks.get(server.name) is not server.disk:
            self._disks[server.name] = server.disk
            for key in [key for key in self._durable if key[0] == server.name]:
                del self._durable[key]
        server.disk.on_operation = partial(self._operation, server)
        if server.process is not None:
            server.process.on_end.append(partial(self._ended, server, server.node))

    def _operation(self, server: Server, operation: str, path: str) -> None:
        if operation in PASSED_OVER:
            return
        before = self._before.get(server.name)
        self._before[server.name] = operation, path
        if path.endswith("pending-change"):
            self._note_change(server, path)
        if before is None:
            return
        kind = _kind(*before)
        if kind is None:
            return
        directory = before[1].partition("/")[0]
        is_changing = PendingChange.path(directory) in server.disk.names
        key = *kind, is_changing
        count = self._counts[key] = self._counts[key] + 1
        is_drawn = self._random.random() * count < SHARE
        if (is_drawn or self._is_turn(server.name)) and is_askable(server):
            after, set_id = f"{before[0]} {before[1]}", _set_of(directory)
            if set_id is not None:
                self._try(server, set_id, after, _member(server, set_id))
            else:
                self._try_raft(server, after)

    def _is_turn(self, host: str) -> bool:
        if host not in self._dense:
            return False
        self._seen[host] += 1
        return self._seen[host] % self._dense[host] == 0

    def _ended(self, server: Server, node: object, end: End) -> None:
        """Try what a process that has ended in good order leaves, were the power to go then."""
        if end is not End.EXITED or not isinstance(node, Node) or node.manager is None:
            return
        for member in list(node.manager.members.values()):
            if is_askable(server) and not (member.log.is_busy or member.log.is_fenced):
                self._try(server, member.replica_set_id, "its end in good order", member)

    def _try(
        self, server: Server, set_id: int, after: str, member: ReplicaSetMember | None
    ) -> None:
        self.trials += 1
        known = self._known(server, set_id, after, member)
        copy = server.disk.duplicate(f"{known.directory}/", self._random)
        for text in self._what()(known, copy, self._random).findings():
            self._found(text)

    def _what(self) -> type[LogTrial | LogDamage | RetentionTrial]:
        """Return what is tried of a commit log."""
        drawn = self._random.random()
        if drawn < DAMAGE_SHARE:
            return LogDamage
        return RetentionTrial if drawn < DAMAGE_SHARE + RETENTION_SHARE else LogTrial

    def _try_raft(self, server: Server, after: str) -> None:
        self.trials += 1
        copy = server.disk.duplicate(f"{METADATA_DIRECTORY}/", self._random)
        name = f"{server.name}: metadata log, just after {after}"
        own_id = PeerId(server.host.process_id)
        if self._random.random() < DAMAGE_SHARE:
            for text in RaftDamage(name, own_id, copy, self._random).findings():
                self._found(text)
            return
        trial = RaftTrial(name, own_id, copy, self._random)
        for text in trial.findings():
            self._found(text)
        for index, term, configuration in trial.configurations:
            first = self._voters.setdefault((index, term), configuration)
            if first != configuration:
                self._found(f"{name}: the snapshot at {index} has {configuration}, not {first}")

    # --- what is known -------------------------------------------------------------------------

    def _known(
        self, server: Server, set_id: int, after: str, member: ReplicaSetMember | None
    ) -> Known:
        directory, key = f"set-{set_id}", (server.name, set_id)
        is_calm = member is not None and not (member.log.is_busy or member.log.is_fenced)
        if member is not None and is_calm:
            self._durable[key] = member.log.durable_position
        elif server.is_disk_lost:
            self._durable.pop(key, None)
        change = _change(server.disk, directory)
        durable = self._durable.get(key, 0) if server.is_durable_at_once else 0
        is_sole = member is not None and member.log.is_sole_member
        return Known(
            name=f"{server.name}: set {set_id}, just after {after}",
            directory=directory,
            config=server.log_config,
            live=server.disk,
            durable=durable if change is None else min(durable, change.position),
            confirmed=self._confirmed_of(set_id) if is_calm and not is_sole else None,
            is_same_log=change is None or change.kind is ChangeKind.TRUNCATE,
            log=member.log if member is not None and is_calm else None,
            has_retention=self._has_retention,
            has_ended=member is not None and server.node is None,
        )

    def _note_change(self, server: Server, path: str) -> None:
        """A change that has begun may cut what was durable."""
        directory = path.partition("/")[0]
        change, set_id = _change(server.disk, directory), _set_of(directory)
        if change is None or set_id is None:
            return
        key = server.name, set_id
        self._durable[key] = min(self._durable.get(key, 0), change.position)


def is_askable(server: Server) -> bool:
    """Whether anything follows from what the disk holds."""
    disk = server.disk
    is_sound = not (server.is_disk_damaged or server.has_disk_faults or disk.faults)
    return is_sound and not (disk.is_cut or disk.is_lying)


@lru_cache(maxsize=4096)
def _kind(operation: str, path: str) -> tuple[str, str] | None:
    """Return what sort of step it is; None for one within an atomic replacement, or of no log."""
    if path.endswith((".tmp", "replica.json", "raft.commit", "raft.end")):
        return None
    if _set_of(path) is None and not path.startswith(f"{METADATA_DIRECTORY}/raft."):
        return None
    return operation, _DIGITS.sub("#", path)


def _set_of(path: str) -> int | None:
    found = _SET.match(path)
    return None if found is None else int(found.group(1))


def _member(server: Server, set_id: int) -> ReplicaSetMember | None:
    node = server.node
    if not isinstance(node, Node) or node.manager is None:
        return None
    return {int(key): member for key, member in node.manager.members.items()}.get(set_id)


def _change(disk: SimDisk, directory: str) -> PendingChange | None:
    """Return the change that a process has begun; looking is no operation of its disk."""
    inode = disk.names.get(PendingChange.path(directory))
    if inode is None:
        return None
    copy = disk.duplicate(PendingChange.path(directory), disk.rng)
    try:
        return read_change(copy, directory)
    except PlatformError:
        return None
