"""Confirmations of leadership (ReadIndex), each answered once.

    ask ─► next round of heartbeats ─► answered by a majority ─► done(index)

Source: controller/replicated_log.py, rule 6; raft/roles/rounds.py.
"""

from itertools import count

from penstock.base.ports import Scheduler
from penstock.controller.errors import MetadataError, MetadataQueueFull
from penstock.controller.replicated_log import MachineIndex, ProposalDone
from penstock.raft.errors import ReadRefused
from penstock.raft.raft import Raft
from penstock.raft.ready import ReadState


class Reads:
    """See the module."""

    def __init__(self, core: Raft, scheduler: Scheduler) -> None:
        self._core = core
        self._scheduler = scheduler
        self._numbers = count()
        self._open: dict[int, ProposalDone] = {}

    def ask(self, done: ProposalDone, refusal: MetadataError | None) -> None:
        """Start a confirmation; it fails with `refusal`, or MetadataQueueFull if there are many."""
        number = next(self._numbers)
        try:
            if refusal is None:
                self._core.read_index(number)
        except ReadRefused:
            refusal = MetadataQueueFull(len(self._open))
        if refusal is None:
            self._open[number] = done
        else:
            self._refuse(done, refusal)

    def answer(self, reads: tuple[ReadState, ...], applied_index: MachineIndex) -> None:
        """Answer those that a majority has confirmed."""
        for read in reads:
            done = self._open.pop(read.context, None)
            if done is not None:
                done(applied_index)

    def fail_all(self, error: MetadataError) -> None:
        """Answer all with `error`: this member no longer leads."""
        opened, self._open = self._open, {}
        for done in opened.values():
            self._refuse(done, error)

    def _refuse(self, done: ProposalDone, error: MetadataError) -> None:
        self._scheduler.call_soon(lambda: done(error))
