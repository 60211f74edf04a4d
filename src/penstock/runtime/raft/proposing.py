"""Hands proposals of a member to its core, a group at a time.

    waiting, disk idle ─► space preallocated ─► core.propose each ─► open, or refused

A group enters the core only while the disk is idle, so that it is written at once, and after space
was preallocated for it, so that a full disk refuses proposals before anything has happened.

Source: controller/replicated_log.py, rule 3; raft/raft.py (`propose`).
"""

from penstock.base.ids import PeerId
from penstock.controller.errors import (
    MetadataError,
    MetadataPolicyViolation,
    MetadataQueueFull,
    NotActiveController,
)
from penstock.controller.replicated_log import NO_LEADER
from penstock.raft.errors import ProposalDropped, ProposalQueueFull, ProposalTooLarge
from penstock.raft.raft import Raft
from penstock.runtime.raft.disk_queue import DiskQueue
from penstock.runtime.raft.proposals import Proposals


class Proposing:
    """See the module. All methods and callbacks run on the event loop."""

    def __init__(
        self,
        own_id: PeerId,
        core: Raft,
        disk: DiskQueue,
        proposals: Proposals,
        group_bytes_max: int,
    ) -> None:
        self._own_id = own_id
        self._core = core
        self._disk = disk
        self._proposals = proposals
        self._group_bytes_max = group_bytes_max

    def propose_waiting(self) -> bool:
        """Hand the next group to the core if the disk can write it at once; return whether."""
        if not (self._proposals.has_waiting and self._disk.is_idle):
            return False
        count, size = self._proposals.waiting_group(self._group_bytes_max)
        if size > self._disk.room_bytes:
            self._disk.reserve(size, lambda error: self._on_reserved(count, error))
            return False
        self._propose_group(count)
        return True

    def not_active(self, leader_id: PeerId) -> NotActiveController:
        """Name the leader, unless it is this member: not ready yet, or handing leadership over."""
        return NotActiveController(NO_LEADER if leader_id == self._own_id else leader_id)

    def _on_reserved(self, count: int, error: BaseException | None) -> None:
        if isinstance(error, MetadataError):
            for _, done in self._proposals.take(count):
                self._proposals.fail_later(done, error)
        else:
            self._propose_group(count)

    def _propose_group(self, count: int) -> None:
        for payload, done in self._proposals.take(count):
            try:
                index = self._core.propose(payload)
            except ProposalDropped as error:
                self._proposals.fail_later(done, self.not_active(error.leader_id))
            except ProposalQueueFull:
                self._proposals.fail_later(done, MetadataQueueFull(self._proposals.count))
            except ProposalTooLarge as error:
                self._proposals.fail_later(done, MetadataPolicyViolation(str(error)))
            else:
                self._proposals.opened(index, self._core.term, done)
