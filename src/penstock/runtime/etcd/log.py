"""EtcdLog: the consensus port over an existing etcd.

    Follower   reads and watches etcd ─┐
    Writer     appends, while leading ─┴─► Feed ─► local copy ─► state machine
    Candidate  campaigns whenever there is no leader, renews its lease

Every process has one. Brokers that are not controllers follow and never campaign. While etcd cannot
be reached, every process keeps what it has applied, also across a restart, and nobody leads for
longer than the lease.

Source: controller/replicated_log.py (the port and its rules), docs/adr/0011.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from penstock.base.ports import Clock
from penstock.controller.errors import (
    CorruptMetadata,
    MetadataError,
    MetadataLogFenced,
    MetadataUnavailable,
    NotActiveController,
    UnsupportedMetadata,
)
from penstock.controller.replicated_log import (
    NO_LEADER,
    Leadership,
    OnLeadership,
    ProposalDone,
    StateMachine,
)
from penstock.runtime.etcd.client import EtcdClient
from penstock.runtime.etcd.config import EtcdConfig
from penstock.runtime.etcd.election import Candidate, Lead, OwnLease
from penstock.runtime.etcd.entry import EntryId
from penstock.runtime.etcd.feed import Feed
from penstock.runtime.etcd.follow import Follower
from penstock.runtime.etcd.local_copy import LocalCopy, LocalFiles
from penstock.runtime.etcd.store import LeaderKey, Store
from penstock.runtime.etcd.writer import Writer
from penstock.runtime.io.clock import SystemClock

SNAPSHOT_AFTER_BYTES = 4 << 20
"""Entries since the last snapshot after which a new one is taken, as on a single node."""

SNAPSHOT_AFTER_ENTRIES = 10_000
"""Entries in etcd at which the leader writes a snapshot, however small they are."""

IDLE_MS = 1_000
"""Silence of a watch after which it is verified by a read."""

log = logging.getLogger(__name__)


class EtcdPeer(NamedTuple):
    """The cluster, and this process's part in it."""

    cluster_id: str
    peer_id: int
    is_controller: bool
    """Whether it may lead."""


class EtcdLog:
    """See the module. All methods and callbacks run on `loop`."""

    def __init__(
        self,
        config: EtcdConfig,
        peer: EtcdPeer,
        files: LocalFiles,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock | None = None,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> None:
        """Read the local copy. Blocking: call while the process starts.

        Raises:
            ConfigError: aiohttp is missing, or a setting cannot be used.
            CorruptMetadata, UnsupportedMetadata: the copy cannot be read.
            OSError: an operation of the disk failed.
        """
        self._peer = peer
        self._loop = loop
        self._clock = clock or SystemClock()
        self._lease_ttl_ms = config.lease_ttl_s * 1000
        self._snapshot_after_bytes = snapshot_after_bytes
        self._client = EtcdClient(config)
        store = Store(self._client, config.key_prefix, peer.cluster_id)
        self._copy = LocalCopy(files)
        self._feed = Feed(self._copy, loop)
        self._follower = Follower(store, self._feed, idle_ms=IDLE_MS)
        self._writer = Writer(store, self._feed, loop)
        self._candidate = Candidate(
            store,
            self._clock,
            peer_id=peer.peer_id,
            lease_ttl_s=config.lease_ttl_s,
            own_lease=OwnLease(files, loop),
        )
        self._lead: Lead | None = None
        self._is_writing = False
        self._seen: LeaderKey | None = None
        self._term = self._feed.last_known_id.term
        self._last_contact_ms = 0
        self._has_contact = False
        self._refusal: MetadataError | None = None
        self._next_trim: tuple[int, bytes] | None = None
        self._is_trimming = False
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.Task[None] | None = None
        self.on_leadership: OnLeadership | None = None
        """Called after every change of `leadership`."""
        self.on_fenced: Callable[[Exception], None] | None = None
        """Called once when this log has failed: the disk failed, or etcd has another history."""
        self._connect()
        self._published = self.leadership

    def _connect(self) -> None:
        self._feed.on_applied = self._on_applied
        self._feed.on_failed = self._fence
        self._follower.on_leader = self._on_leader
        self._follower.on_unreachable = self._on_unreachable
        self._candidate.may_lead = lambda: self._has_contact and not self._feed.is_stalled
        self._candidate.on_won = self._on_won
        self._candidate.on_ended = self._on_ended
        self._writer.on_deposed = self._candidate.end

    @property
    def leadership(self) -> Leadership:
        """The leader and term as far as known here; the own lease is checked at each call."""
        lead = self._lead
        if lead is not None:
            return Leadership(self._peer.peer_id, lead.leader.term, self._leads(lead))
        if self._seen is None or self._seen.peer_id == self._peer.peer_id:
            return Leadership(NO_LEADER, self._term, is_leader=False)
        return Leadership(self._seen.peer_id, self._term, is_leader=False)

    @property
    def applied_index(self) -> int:
        """Index of the last entry applied, 0 for none."""
        return self._feed.applied_index

    @property
    def is_fenced(self) -> bool:
        """Whether this log has ended for good."""
        return self._refusal is not None

    @property
    def wants_snapshot(self) -> bool:
        """Whether enough was appended to the own copy, or as leader to etcd."""
        if self._is_trimming or self._refusal is not None:
            return False
        limit = max(self._snapshot_after_bytes, self._copy.snapshot_bytes)
        in_etcd = self._feed.applied_index - self._follower.snapshot_index
        return self._copy.appended_bytes > limit or (
            self._is_writing and in_etcd > SNAPSHOT_AFTER_ENTRIES
        )

    @property
    def is_idle(self) -> bool:
        """Whether no operation of this process is in progress."""
        return self._writer.is_idle and self._feed.is_idle and not self._is_trimming

    def start(self, machine: StateMachine) -> None:
        """Restore the machine from the local copy, then follow etcd."""
        self._feed.start(machine)
        self._run("etcd-follow", self._follower.run())
        if self._peer.is_controller:
            self._run("etcd-candidate", self._candidate.run())
            self._run("etcd-write", self._writer.run())

    def propose(self, payload: bytes, done: ProposalDone) -> None:
        """Propose an entry; refused unless this process leads."""
        if self._refusal is not None:
            self._loop.call_soon(done, self._refusal)
        elif not self._is_writing or not self.leadership.is_leader:
            self._loop.call_soon(done, NotActiveController(self._other_leader()))
        else:
            self._writer.propose(payload, done)

    def confirm(self, done: ProposalDone) -> None:
        """Report whether the own lease still holds: no other process can win before it ends."""
        if self._refusal is not None:
            self._loop.call_soon(done, self._refusal)
        elif not self._is_writing or not self.leadership.is_leader:
            self._loop.call_soon(done, NotActiveController(self._other_leader()))
        else:
            self._loop.call_soon(done, self.applied_index)

    def trim(self, index: int, snapshot: bytes) -> None:
        """Compact the own copy; if this process leads, then the log in etcd."""
        assert 0 < index <= self._feed.applied_index, "a snapshot covers applied entries only"
        if self._refusal is None:
            self._next_trim = (index, snapshot)
            self._trim_next()

    def forget(self, index: int, snapshot: bytes) -> None:
        """Trim: etcd keeps no entry that a snapshot covers."""
        self.trim(index, snapshot)

    def resign(self) -> None:
        """Let another controller lead, if there is one; campaign again after a lease."""
        self._candidate.resign()

    def close(self) -> None:
        """Refuse new proposals and fail those that wait; connections close soon after."""
        if self._closing is None:
            self._refuse(MetadataUnavailable("the metadata log is closed: the node is stopping"))
            self._closing = self._loop.create_task(self._shut_down(), name="etcd-close")

    async def wait_closed(self) -> None:
        """Wait until the lease is ended, for a request's time at most, and all is closed."""
        assert self._closing is not None, "close it first"
        await self._closing

    def _leads(self, lead: Lead) -> bool:
        return (
            not lead.ended.is_set()
            and self._clock.monotonic_ms() < lead.deadline_ms
            and self._feed.applied_index >= lead.head
        )

    def _other_leader(self) -> int:
        leader_id = self.leadership.leader_id
        return NO_LEADER if leader_id == self._peer.peer_id else leader_id

    def _on_won(self, lead: Lead) -> None:
        log.info("won the controller election term=%d head=%d", lead.leader.term, lead.head)
        self._lead = lead
        self._seen = lead.leader
        self._term = max(self._term, lead.leader.term)
        self._on_applied()

    def _on_ended(self, lead: Lead, reason: str) -> None:
        log.warning("no longer the active controller term=%d: %s", lead.leader.term, reason)
        self._lead = None
        self._is_writing = False
        self._publish()
        self._writer.stop(NotActiveController(self._other_leader()))

    def _on_applied(self) -> None:
        lead = self._lead
        if lead is not None and self._feed.is_stalled:
            self._candidate.end(lead, "the local disk is full")
        elif lead is not None and not self._is_writing and self._leads(lead):
            self._is_writing = True
            self._writer.begin(lead)
        self._publish()

    def _on_leader(self, leader: LeaderKey | None, revision: int) -> None:
        self._last_contact_ms = self._clock.monotonic_ms()
        self._has_contact = True
        self._seen = leader
        if leader is not None:
            self._term = max(self._term, leader.term)
        self._candidate.note_leader(leader, revision)
        self._publish()

    def _on_unreachable(self) -> None:
        """Publish that no leader is known, after the length of a lease."""
        if self._clock.monotonic_ms() - self._last_contact_ms > self._lease_ttl_ms:
            self._seen = None
            self._publish()

    def _publish(self) -> None:
        now = self.leadership
        if now != self._published:
            self._published = now
            if self.on_leadership is not None:
                self.on_leadership(now)

    def _trim_next(self) -> None:
        if self._is_trimming or self._next_trim is None:
            return
        index, snapshot = self._next_trim
        self._next_trim = None
        self._is_trimming = True
        self._copy.compact(
            index, snapshot, lambda entry_id: self._on_compacted(index, entry_id, snapshot)
        )

    def _on_compacted(self, index: int, entry_id: EntryId | None, snapshot: bytes) -> None:
        self._is_trimming = False
        is_newer = index > self._follower.snapshot_index
        if entry_id is not None and self._is_writing and is_newer:
            self._follower.snapshot_index = index
            self._writer.trim(index, entry_id, snapshot)
        self._trim_next()

    def _fence(self, cause: Exception) -> None:
        """Stop for good; the image keeps what was applied."""
        if self._refusal is not None:
            return
        log.critical("metadata log fenced: %s", cause)
        self._refuse(MetadataLogFenced(f"metadata log takes no more changes: {cause}"))
        for task in self._tasks:
            task.cancel()
        if self.on_fenced is not None:
            self.on_fenced(cause)

    def _refuse(self, error: MetadataError) -> None:
        if self._refusal is not None:
            return
        self._refusal = error
        self._seen = None
        self._writer.stop(error)
        if self._lead is not None:
            self._candidate.end(self._lead, str(error))
        self._feed.close(error)
        self._copy.close()
        self._publish()

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name=name)
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CorruptMetadata | UnsupportedMetadata):
            self._fence(error)
        elif error is not None:
            self._loop.call_exception_handler(
                {"message": f"{task.get_name()} failed", "exception": error, "task": task}
            )

    async def _shut_down(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._candidate.give_back()
        await self._client.close()
