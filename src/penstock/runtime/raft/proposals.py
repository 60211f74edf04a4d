"""Proposals of one member: those waiting for the disk, and those in flight.

    propose ─► waiting ─► one group into the core ─► open ─► applied, or leadership lost

Each is answered exactly once and never within the call that made it.

Source: controller/replicated_log.py, rules 2, 3 and 5.
"""

from collections import deque
from typing import NamedTuple

from penstock.base.ports import Scheduler
from penstock.controller.errors import MetadataError, NotActiveController
from penstock.controller.replicated_log import NO_LEADER, MachineIndex, ProposalDone
from penstock.raft.ids import RaftIndex, Term

PROPOSAL_OVERHEAD_BYTES = 64
"""Overhead for each entry on top of its payload: its header, and its share of the frame's."""


class _Open(NamedTuple):
    """A proposal in the log as an entry of this term; it succeeds if that entry is applied."""

    term: Term
    done: ProposalDone


class Proposals:
    """See the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[tuple[bytes, ProposalDone]] = deque()
        self._open: dict[RaftIndex, _Open] = {}

    @property
    def count(self) -> int:
        """Number of proposals not yet answered."""
        return len(self._waiting) + len(self._open)

    @property
    def has_waiting(self) -> bool:
        """Whether any proposal has not been handed to the core yet."""
        return bool(self._waiting)

    def add(self, payload: bytes, done: ProposalDone) -> None:
        """Queue a proposal."""
        self._waiting.append((payload, done))

    def waiting_group(self, bytes_max: int) -> tuple[int, int]:
        """Return (count, bytes) of the next group; at least one proposal, however large."""
        size = count = 0
        for payload, _ in self._waiting:
            size += len(payload) + PROPOSAL_OVERHEAD_BYTES
            if count and size > bytes_max:
                return count, size - len(payload) - PROPOSAL_OVERHEAD_BYTES
            count += 1
        return count, size

    def take(self, count: int) -> list[tuple[bytes, ProposalDone]]:
        """Dequeue and return up to `count` waiting proposals."""
        return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]

    def opened(self, index: RaftIndex, term: Term, done: ProposalDone) -> None:
        """Note that a proposal is now the entry (index, term)."""
        self._open[index] = _Open(term, done)

    def on_applied(self, index: RaftIndex, term: Term, outcome: MachineIndex) -> None:
        """Answer the proposal of this entry, if it was made here."""
        known = self._open.pop(index, None)
        if known is None:
            return
        if known.term == term:
            known.done(outcome)
        else:  # an entry of another leader has taken that index
            self.fail_later(known.done, NotActiveController(NO_LEADER))

    def fail_waiting(self, error: MetadataError) -> None:
        """Answer the proposals that were never handed to the core."""
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            self.fail_later(done, error)

    def fail_all(self, error: MetadataError) -> None:
        """Answer all; the entries of those in flight may still be applied."""
        opened, self._open = self._open, {}
        for one in opened.values():
            self.fail_later(one.done, error)
        self.fail_waiting(error)

    def fail_later(self, done: ProposalDone, error: MetadataError) -> None:
        """Answer in the next iteration of the event loop."""
        self._scheduler.call_soon(lambda: done(error))
