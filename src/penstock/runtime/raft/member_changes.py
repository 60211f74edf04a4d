"""Pending changes of voters and transfers of leadership.

Each is answered exactly once: a change when its entry is applied, a transfer when the other member
leads or the time-out has passed. Which changes are allowed is decided by the core.
Source: raft/raft.py (add_voter, remove_voter, transfer).
"""

from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId
from penstock.base.ports import Scheduler
from penstock.controller.errors import LeadershipLost, NotActiveController
from penstock.controller.replicated_log import NO_LEADER
from penstock.raft.errors import ProposalDropped, RaftError, TransferRefused
from penstock.raft.ids import RaftIndex

MemberDone = Callable[[PlatformError | None], None]
"""Called with None when the change is in force, or with the reason why it is not."""


class MemberChanges:
    """See the module."""

    def __init__(self, scheduler: Scheduler, transfer_timeout_ms: int) -> None:
        self._scheduler = scheduler
        self._transfer_timeout_ms = transfer_timeout_ms
        self._changes: dict[RaftIndex, MemberDone] = {}
        self._transfer: tuple[PeerId, MemberDone] | None = None
        self._leader_id = NO_LEADER

    def change(
        self, change: Callable[[], RaftIndex], refusal: PlatformError | None, done: MemberDone
    ) -> None:
        """Propose a configuration entry unless `refusal` is given."""
        if refusal is None:
            try:
                self._changes[change()] = done
                return
            except RaftError as error:
                refusal = _told(error)
        self._tell_later(done, refusal)

    def transfer(
        self, ask: Callable[[], None], to: PeerId, refusal: PlatformError | None, done: MemberDone
    ) -> None:
        """Start a transfer of leadership unless `refusal` is given or one is in progress."""
        if self._transfer is not None:
            refusal = TransferRefused(f"A transfer to {self._transfer[0]} is under way already.")
        if refusal is None:
            try:
                ask()
            except RaftError as error:
                refusal = _told(error)
        if refusal is not None:
            self._tell_later(done, refusal)
            return
        self._transfer = (to, done)
        self._scheduler.call_later(self._transfer_timeout_ms, lambda: self._on_timeout(done))

    def on_configured(self, index: RaftIndex) -> None:
        """Answer the change whose entry was applied, if it was proposed here."""
        done = self._changes.pop(index, None)
        if done is not None:
            done(None)

    def on_leader(self, leader_id: PeerId) -> None:
        """Answer the transfer if its target leads now."""
        self._leader_id = leader_id
        if self._transfer is not None and leader_id == self._transfer[0]:
            self._end_transfer(None)

    def fail_changes(self, error: PlatformError) -> None:
        """Answer all changes with `error`; one that is committed all the same comes into force.

        So who lost the lead does not say that it is not active, after which others would be asked.
        """
        if isinstance(error, NotActiveController):
            error = LeadershipLost(error.controller_id)
        changes, self._changes = self._changes, {}
        for done in changes.values():
            self._tell_later(done, error)

    def fail_all(self, error: PlatformError) -> None:
        """Answer everything with `error`: this member is stopping."""
        self.fail_changes(error)
        self._end_transfer(error)

    def _on_timeout(self, done: MemberDone) -> None:
        if self._transfer is not None and self._transfer[1] is done:
            to, _ = self._transfer
            self._end_transfer(
                TransferRefused(
                    f"{to} did not take over in {self._transfer_timeout_ms} ms; the leader is"
                    f" {self._leader_id} (-1: none known)."
                )
            )

    def _end_transfer(self, outcome: PlatformError | None) -> None:
        if self._transfer is not None:
            _, done = self._transfer
            self._transfer = None
            self._tell_later(done, outcome)

    def _tell_later(self, done: MemberDone, outcome: PlatformError | None) -> None:
        self._scheduler.call_soon(lambda: done(outcome))


def _told(error: RaftError) -> PlatformError:
    return NotActiveController(error.leader_id) if isinstance(error, ProposalDropped) else error
