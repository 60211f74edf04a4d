"""A follower puts a snapshot together, chunk by chunk.

Chunks that arrive twice or too early change nothing: the answer says where to go on. A snapshot
that holds nothing new is answered like an append of known entries.

Source: Raft paper 7, figure 13. Unlike there, the chunks stay in memory until the last one arrives,
so that only whole snapshots reach the disk.
"""

from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.errors import InvalidMessage
from penstock.raft.ids import NO_INDEX, NO_TERM, RaftIndex
from penstock.raft.messages import (
    AppendResponse,
    InstallSnapshot,
    SnapshotResponse,
    configuration_of,
)
from penstock.raft.ready import Snapshot


class SnapshotReceiver:
    """At most one snapshot is under way; a newer one replaces it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._name = (0, 0)
        """Index and term of the snapshot that `_parts` belongs to."""
        self._parts = bytearray()

    def on_chunk(self, chunk: InstallSnapshot) -> None:
        """Take one chunk of the leader of the current term."""
        if self._is_known(chunk):
            return
        name = (chunk.snapshot_index, chunk.snapshot_term)
        if name != self._name:
            self._name = name
            self._parts.clear()
        if chunk.position == len(self._parts):
            self._check_size(chunk)
            self._parts += chunk.data
            if chunk.is_last:
                self._install(chunk)
                return
        self._core.send(chunk.sender, self._response(chunk))

    def _is_known(self, chunk: InstallSnapshot) -> bool:
        """Whether our log has all that the snapshot covers; then answer at once.

        An entry that is equal to the last one covered stays, with those behind it (paper 7).
        """
        log = self._core.log
        if chunk.snapshot_index > log.commit_index:
            if log.term(chunk.snapshot_index) != chunk.snapshot_term:
                return False
            log.commit_to(chunk.snapshot_index)
        self._core.send_persisted(chunk.sender, self._success(log.commit_index))
        return True

    def _install(self, chunk: InstallSnapshot) -> None:
        configuration = _configuration(chunk)
        snapshot = Snapshot(
            index=chunk.snapshot_index,
            term=chunk.snapshot_term,
            configuration=configuration,
            data=bytes(self._parts),
        )
        self._parts = bytearray()
        self._name = (0, 0)
        self._core.log.install(snapshot)
        self._core.send_persisted(chunk.sender, self._success(snapshot.index))

    def _check_size(self, chunk: InstallSnapshot) -> None:
        limit = self._core.config.snapshot_bytes_max
        if len(self._parts) + len(chunk.data) > limit:
            self._parts.clear()
            raise InvalidMessage(f"a snapshot of more than {limit} bytes from {chunk.sender}")

    def _response(self, chunk: InstallSnapshot) -> SnapshotResponse:
        return SnapshotResponse(
            sender=self._core.own_id,
            term=self._core.term,
            snapshot_index=chunk.snapshot_index,
            position=len(self._parts),
            directory_id=self._core.own_directory,
        )

    def _success(self, match_index: RaftIndex) -> AppendResponse:
        return AppendResponse(
            sender=self._core.own_id,
            term=self._core.term,
            round=0,
            is_success=True,
            match_index=match_index,
            rejected_index=NO_INDEX,
            hint_index=NO_INDEX,
            hint_term=NO_TERM,
            directory_id=self._core.own_directory,
        )


def _configuration(chunk: InstallSnapshot) -> Configuration:
    if not chunk.voters:
        raise InvalidMessage(f"a snapshot from {chunk.sender} without voters")
    return configuration_of(chunk)
