"""The leader's writes: proposals in groups, and snapshots, one transaction after another.

    propose ─► waiting ─► group ─► transaction ─► feed ─► applied ─► done

A transaction whose answer was lost is repeated: it changes nothing if the first one was carried
out, and then the proposal id at that index tells whose entry it is. So a group's outcome is known
as long as this process leads; if it stops leading in between, the outcome is open and the proposal
fails.

Source: controller/replicated_log.py, rules 3 and 5.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable

from penstock.base.invariant import invariant
from penstock.controller.errors import (
    MetadataError,
    MetadataLogFull,
    MetadataQueueFull,
)
from penstock.controller.replicated_log import ProposalDone
from penstock.runtime.etcd.backoff import Backoff
from penstock.runtime.etcd.client import EtcdRefused, EtcdUnavailable
from penstock.runtime.etcd.election import Lead
from penstock.runtime.etcd.entry import (
    INLINE_BYTES_MAX,
    PROPOSAL_ID_BYTES,
    Entry,
    EntryId,
)
from penstock.runtime.etcd.feed import Feed
from penstock.runtime.etcd.store import Store

PROPOSALS_MAX = 10_000
"""Proposals that may wait; further ones are refused rather than queued."""

GROUP_ENTRIES_MAX = 100
"""Below etcd's default limit of 128 operations in a transaction."""

GROUP_BYTES_MAX = 1 << 20
"""Below etcd's default limit of 1.5 MiB for a request."""

log = logging.getLogger(__name__)


class _Proposal:
    """A payload and its callback; `done` is None once it was called."""

    __slots__ = ("done", "payload")

    def __init__(self, payload: bytes, done: ProposalDone) -> None:
        self.payload = payload
        self.done: ProposalDone | None = done

    def tell(self, outcome: int | MetadataError) -> None:
        done, self.done = self.done, None
        if done is not None:
            done(outcome)


class _Trim:
    __slots__ = ("data", "entry_id", "index")

    def __init__(self, index: int, entry_id: EntryId, data: bytes) -> None:
        self.index = index
        self.entry_id = entry_id
        self.data = data


class Writer:
    """See the module."""

    def __init__(self, store: Store, feed: Feed, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._feed = feed
        self._loop = loop
        self._waiting: deque[_Proposal] = deque()
        self._in_flight: list[_Proposal] = []
        self._trim: _Trim | None = None
        self._lead: Lead | None = None
        self._head = 0
        self._work = asyncio.Event()
        self.on_deposed: Callable[[Lead, str], None] = lambda lead, reason: None
        """Called if another process leads, or etcd does not hold what this leader wrote."""

    @property
    def is_idle(self) -> bool:
        """Whether no proposal and no snapshot is waiting or in progress."""
        return not (self._waiting or self._in_flight or self._trim)

    def begin(self, lead: Lead) -> None:
        """Start leading: everything up to the last entry of earlier leaders is applied here."""
        invariant(self._feed.applied_index >= lead.head, "a leader has applied everything")
        self._lead = lead
        self._head = lead.head
        self._work.set()

    def stop(self, error: MetadataError) -> None:
        """Stop leading: fail waiting proposals, and those sent, which may still be committed."""
        self._lead = None
        self._trim = None
        waiting, self._waiting = self._waiting, deque()
        in_flight, self._in_flight = self._in_flight, []
        for proposal in (*in_flight, *waiting):
            self._loop.call_soon(proposal.tell, error)

    def propose(self, payload: bytes, done: ProposalDone) -> None:
        """Queue an entry. Only while leading."""
        if len(self._waiting) >= PROPOSALS_MAX:
            self._loop.call_soon(done, MetadataQueueFull(PROPOSALS_MAX))
        else:
            self._waiting.append(_Proposal(payload, done))
            self._work.set()

    def trim(self, index: int, entry_id: EntryId, data: bytes) -> None:
        """Queue a snapshot for etcd; a newer one replaces it. Only while leading."""
        self._trim = _Trim(index, entry_id, data)
        self._work.set()

    async def run(self) -> None:
        """Write until cancelled."""
        backoff = Backoff()
        while True:
            await self._work.wait()
            lead = self._lead
            if lead is None or not (self._waiting or self._trim):
                self._work.clear()
            elif self._trim is not None:
                await self._write_snapshot(lead, self._trim, backoff)
            else:
                await self._write_group(lead, backoff)

    async def _write_snapshot(self, lead: Lead, trim: _Trim, backoff: Backoff) -> None:
        try:
            is_written = await self._store.trim(
                lead.leader,
                trim.index,
                trim.entry_id,
                snapshot_id=secrets.token_bytes(PROPOSAL_ID_BYTES),
                data=trim.data,
            )
        except EtcdUnavailable:
            await backoff.wait()
            return
        except EtcdRefused as error:
            log.warning("metadata snapshot put off: %s", error)
        else:
            if not is_written:
                self.on_deposed(lead, "another controller leads")
            backoff.reset()
        if self._trim is trim:
            self._trim = None

    async def _write_group(self, lead: Lead, backoff: Backoff) -> None:
        group = self._in_flight = self._take_group()
        term = lead.leader.term
        entries = [
            Entry(EntryId(term, secrets.token_bytes(PROPOSAL_ID_BYTES)), one.payload)
            for one in group
        ]
        # Register before sending: the watch can be faster than the answer.
        for proposal, entry in zip(group, entries, strict=True):
            self._feed.when_applied(entry.entry_id, proposal.tell)
        try:
            await self._settle(lead, group, entries, backoff)
        finally:
            for entry in entries:
                self._feed.forget(entry.entry_id)

    async def _settle(
        self, lead: Lead, group: list[_Proposal], entries: list[Entry], backoff: Backoff
    ) -> None:
        outcome = await self._append(lead, entries, backoff)
        if self._lead is not lead:
            return  # reported as open already; entries that were written come by the watch
        if outcome is True:
            self._commit(entries)
            await self._feed.drained()
        elif isinstance(outcome, MetadataError):
            for proposal in group:
                proposal.tell(outcome)
            if self._in_flight is group:
                self._in_flight = []
        elif not lead.ended.is_set():
            self.on_deposed(lead, "another controller leads")

    def _take_group(self) -> list[_Proposal]:
        group = [self._waiting.popleft()]
        size = _request_bytes(group[0])
        while self._waiting and len(group) < GROUP_ENTRIES_MAX:
            size += _request_bytes(self._waiting[0])
            if size > GROUP_BYTES_MAX:
                break
            group.append(self._waiting.popleft())
        return group

    async def _append(
        self, lead: Lead, entries: list[Entry], backoff: Backoff
    ) -> bool | MetadataError:
        """Return True: in the log; False: never, or unknown and no longer leader; or the error."""
        is_open = False
        while not lead.ended.is_set():
            try:
                is_there = await self._store.append(lead.leader, self._head, entries)
            except EtcdUnavailable:
                is_open = True
                await backoff.wait()
                continue
            except EtcdRefused as error:
                stands = None if is_open else await self._stands(entries[0])
                if not stands:
                    return self._refused(lead, error, is_open=stands is None)
                is_there = True
            backoff.reset()
            return is_there
        return False

    async def _stands(self, first: Entry) -> bool | None:
        """Whether a change that was refused is in the log; None if etcd does not say.

        The write that fills etcd's database is kept, and refused in the same answer.
        """
        try:
            return await self._store.entry_id(self._head + 1) == first.entry_id
        except (EtcdUnavailable, EtcdRefused):
            return None

    def _refused(self, lead: Lead, error: EtcdRefused, *, is_open: bool) -> bool | MetadataError:
        if not is_open:
            return MetadataLogFull(str(error))
        # This or an earlier attempt may have been carried out: read everything again.
        self.on_deposed(lead, f"the fate of a change is unknown ({error})")
        return False

    def _commit(self, entries: list[Entry]) -> None:
        first_index = self._head + 1
        self._head += len(entries)
        self._in_flight = []
        for index, entry in enumerate(entries, first_index):
            self._feed.offer(index, entry)


def _request_bytes(proposal: _Proposal) -> int:
    """Return the bytes it adds to the request; a large payload is written ahead in parts."""
    size = len(proposal.payload)
    return size if size <= INLINE_BYTES_MAX else 0
