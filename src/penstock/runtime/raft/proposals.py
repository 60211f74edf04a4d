"""Proposals of one member: those that wait for the disk, and those whose fate is open.

    propose ─► waiting ─► one group into the core ─► open ─► applied, or leadership lost

Each is answered exactly once and never within the call that brought it.

Source: controller/replicated_log.py, rules 2, 3 and 5.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from penstock.base.ports import Scheduler
from penstock.controller.errors import MetadataError, NotActiveController
from penstock.controller.replicated_log import ProposalDone

PROPOSAL_OVERHEAD_BYTES = 64
"""Counted on top of a payload: the entry's head, and its share of the frame's."""

Propose = Callable[[bytes], int]


class _Open(NamedTuple):
    """A proposal that became an entry of this term; it is applied if that entry is."""

    term: int
    done: ProposalDone


class Proposals:
    """See the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[tuple[bytes, ProposalDone]] = deque()
        self._open: dict[int, _Open] = {}

    @property
    def count(self) -> int:
        """Proposals that are not answered."""
        return len(self._waiting) + len(self._open)

    @property
    def has_waiting(self) -> bool:
        """Whether any is not in the core yet."""
        return bool(self._waiting)

    def add(self, payload: bytes, done: ProposalDone) -> None:
        """Queue one behind those that wait."""
        self._waiting.append((payload, done))

    def waiting_group(self, bytes_max: int) -> tuple[int, int]:
        """Return (count, bytes) of the group at the front; one always goes, however large."""
        size = count = 0
        for payload, _ in self._waiting:
            size += len(payload) + PROPOSAL_OVERHEAD_BYTES
            if count and size > bytes_max:
                return count, size - len(payload) - PROPOSAL_OVERHEAD_BYTES
            count += 1
        return count, size

    def take(self, count: int) -> list[tuple[bytes, ProposalDone]]:
        """Return the first `count` of those that wait, or as many as there still are."""
        return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]

    def opened(self, index: int, term: int, done: ProposalDone) -> None:
        """Note that a proposal became the entry (index, term)."""
        self._open[index] = _Open(term, done)

    def on_applied(self, index: int, term: int, outcome: int) -> None:
        """Answer the proposal of this entry, if it is from here."""
        known = self._open.pop(index, None)
        if known is None:
            return
        if known.term == term:
            known.done(outcome)
        else:  # another leader's entry came to stand there
            self.fail_later(known.done, NotActiveController(-1))

    def fail_waiting(self, error: MetadataError) -> None:
        """Answer those that never got into the core."""
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            self.fail_later(done, error)

    def fail_all(self, error: MetadataError) -> None:
        """Answer all; those that are open may still be applied."""
        opened, self._open = self._open, {}
        for one in opened.values():
            self.fail_later(one.done, error)
        self.fail_waiting(error)

    def fail_later(self, done: ProposalDone, error: MetadataError) -> None:
        """Answer on the next turn of the loop."""
        self._scheduler.call_soon(lambda: done(error))
