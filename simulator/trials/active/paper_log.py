"""The controllers' log in a walk of an active controller: quick, late, or with an open outcome.

submit ─► queue ─► an entry at once, and the answer
└─► late: answered, the outcome open ─► an entry after all, or never one
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from penstock.base.ids import PeerId
from penstock.controller.commands import command as c
from penstock.controller.controller import Controller
from penstock.controller.errors import MetadataError, MetadataTimeout, NotActiveController
from penstock.controller.metadata.record_codec import decode_records, encode_records
from simulator.trials.active.judged import Judge

OWN, OTHER = PeerId(1), PeerId(2)
"""Peer ids: the controller of the walk, and another one."""


@dataclass(slots=True)
class Proposal:
    """A command on its way to the log."""

    command: c.Command[Any]
    done: Callable[[Any], None]
    is_own: bool


class PaperLog:
    """See the module."""

    def __init__(self, controller: Controller, draw: Random, judge: Judge) -> None:
        self._controller = controller
        self._random = draw
        self._judge = judge
        self._queue: list[Proposal] = []
        self._late: list[Proposal] = []
        """Answered with an open outcome; nothing is committed before they are settled."""
        self.is_stuck = False
        self.term_of_own: int | None = None
        """Term of the walk's controller, None while another one leads."""

    @property
    def is_quick(self) -> bool:
        """Whether what is submitted becomes an entry at once."""
        return not self.is_stuck and not self._late

    def submit(self, command: c.Command[Any], done: Callable[[Any], None]) -> None:
        """Take a command of the active controller."""
        self._judge.submits(command)
        self._queue.append(Proposal(command, done, is_own=True))

    def ask(self, command: c.Command[Any]) -> None:
        """Take a command of brokers or operators."""
        self._queue.append(Proposal(command, lambda _: None, is_own=False))

    def commit(self) -> None:
        """Process what was submitted."""
        proposals, self._queue = self._queue, []
        for proposal in proposals:
            if self.term_of_own is None:
                proposal.done(NotActiveController(OTHER))
            elif self.is_quick:
                answer = self.apply(proposal.command)
                self._settled(proposal)
                proposal.done(answer)
            else:
                self._late.append(proposal)
                proposal.done(self._random.choice((MetadataTimeout(1), NotActiveController(OWN))))

    def settle_late(self) -> None:
        """Let the log be quick again. What was late is committed, or never was an entry."""
        self.is_stuck = False
        late, self._late = self._late, []
        is_kept = self._random.random() < 0.6
        for one in late:
            if is_kept:
                self.apply(one.command)
            self._settled(one)

    def settle(self) -> None:
        """Let nothing be open."""
        self.commit()
        self.settle_late()

    def _settled(self, proposal: Proposal) -> None:
        if proposal.is_own:
            self._judge.open = [each for each in self._judge.open if each is not proposal.command]

    def apply(self, command: c.Command[Any]) -> Any:
        """Process a command; return its answer, or the error that it is refused with."""
        try:
            result = self._controller.handle(command)
        except MetadataError as error:
            return error
        if result.records:
            entry = encode_records(result.records, self._controller.image.metadata_level)
            self._controller.replay(decode_records(entry))
        return result.response
