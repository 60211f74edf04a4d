"""The files of one Raft member: log, snapshot and commit mark, in one directory of one disk.

    raft.log        hard state and entries; each write is one frame and one fsync (log_file)
    raft.snapshot   covers the entries that were dropped from the log (snapshot_file)
    raft.commit     commit index as last known: written without fsync, so it survives a crash of the
                    process and not of the machine; it is never too high
    raft.end        how far the log was synced (end_mark); a log that ends before it is damaged

Every call blocks on the disk and is made by one caller at a time: on a worker, or while the node
starts. An error that leaves the disk's content unknown is MetadataLogFenced and final. A full disk
is MetadataLogFull, and nothing has changed; space for entries is preallocated by `reserve` before
they are proposed, so that a full disk refuses proposals rather than halting the log.

Order of a compaction: first the new snapshot is made durable, then the log is rewritten without the
entries it covers. In between, the log holds entries from before the snapshot, which are skipped. If
they do not lead up to the snapshot, as with a leader's, the next start rewrites the log before use.

Source: docs/formats/raft-log.md; Raft paper 5.3 and 7. It knows nothing of Raft's rules.
"""

import errno
import logging
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.errors import ConfigError
from penstock.base.ids import PeerId
from penstock.base.ports import Buffer, Disk, DiskFile
from penstock.controller.errors import CorruptMetadata, MetadataLogFenced, MetadataLogFull
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ids import NO_DIRECTORY, NO_INDEX, NO_TERM, DirectoryId, RaftIndex, Term
from penstock.raft.ready import HardState, Snapshot
from penstock.runtime.raft.end_mark import EndMark
from penstock.runtime.raft.log_file import (
    FILE_VERSION,
    HEADER_BYTES,
    FileHead,
    LogFile,
    encode_frame,
    encode_head,
    read_file,
)
from penstock.runtime.raft.snapshot_file import encode_snapshot, read_snapshot

RESERVE_STEP_BYTES = 256 << 10
"""Step of preallocation: few allocations, and small logs stay small."""

RESERVE_SLACK_BYTES = 16 << 10
"""Preallocated beyond the size asked for: frames of hard states and no-op entries need space
too."""

_LOG = "raft.log"
_SNAPSHOT = "raft.snapshot"
_COMMIT = "raft.commit"
_END = "raft.end"
_NEW = ".new"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_MARK = struct.Struct(">QQ")
_CRC = struct.Struct(">I")

log = logging.getLogger(__name__)


class Found(NamedTuple):
    """What the files held at start; entries follow the snapshot without a gap."""

    state: HardState
    """`commit_index` is the highest known, and not above the last entry."""
    snapshot: Snapshot
    entries: list[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStart:
    """What a member without files begins with."""

    members: Configuration
    """The first voters. A member that is the only one votes at once. Several found a group
    together; until then, or if there is a group already, the log begins without voters."""
    new_directory_id: Callable[[], DirectoryId]
    """Draws the id of a new log: unique, ASCII, at most 24 characters."""


class RaftStorage:
    """See the module. Blocking, one call at a time.

    Between calls, unless one has raised MetadataLogFenced:
    - The log is its header and whole frames up to `_end_position`, all of it durable. What was
      preallocated ends there or later; `raft.end` names that position or an earlier one.
    - `_state` has the term and vote of the last frame, if there is one.
    - `raft.snapshot` covers the entries up to `snapshot_index` or further, and the log has all
      entries behind what it covers. Only after an `install` that found no room may the log not lead
      up to it; the caller repeats that install before it writes.
    """

    def __init__(self, disk: Disk, directory: str, *, own_id: PeerId, first: FirstStart) -> None:
        """Read the files, or create a log.

        Raises:
            CorruptMetadata, UnsupportedMetadata: they cannot be read; the message says where.
            ConfigError: they belong to another member.
            MetadataLogFull, MetadataLogFenced: the rewrite that a crash interrupted failed again.
            OSError: an operation of the disk failed.
        """
        self._disk = disk
        self._directory = directory
        self._own_id = own_id
        self.directory_id = NO_DIRECTORY
        """Id of this log and the votes in it; a log that was created anew has another one."""
        self.first_voters = first.members.voters
        """The voters that found the group if there is none."""
        self._is_old_version = False
        self._end_position = self._allocated = 0
        self._is_install_unfinished = False
        disk.make_directory(directory)
        self._end_mark = EndMark(disk, self._path(_END))
        for name in (_LOG, _SNAPSHOT):
            disk.remove(self._path(name + _NEW))
        # A killed process may have renamed a file in the page cache only. After a power loss the
        # old file would reappear, and what is written from here on would be lost, votes included.
        disk.sync_directory(directory)
        self._file, self.found = self._open(first)
        self._commit_file = disk.open(self._path(_COMMIT), create=True)
        self._end_mark.write(self._end_position)
        self.found = self._with_mark(self.found)
        self._state = self.found.state
        self._snapshot_index = self.found.snapshot.index
        if self._is_install_unfinished or self._is_old_version:
            self._rewrite(*self.found)

    @property
    def entry_bytes(self) -> int:
        """Bytes written to the log since it was created or last rewritten."""
        return self._end_position - HEADER_BYTES

    @property
    def room_bytes(self) -> int:
        """Bytes of entries that fit into the preallocated space."""
        return self._allocated - self._end_position - RESERVE_SLACK_BYTES

    @property
    def snapshot_index(self) -> RaftIndex:
        """Last index that a snapshot covers and the log on disk no longer holds."""
        return self._snapshot_index

    def forget_found(self) -> None:
        """Free what was read at start; the caller has it now."""
        empty = Snapshot(configuration=self.found.snapshot.configuration)
        self.found = Found(self.found.state, empty, [])

    def reserve(self, size: int) -> None:
        """Preallocate space for `size` more bytes.

        Raises:
            MetadataLogFull: there is not enough.
            MetadataLogFenced: the disk has failed.
        """
        needed = self._end_position + size + RESERVE_SLACK_BYTES
        if needed <= self._allocated:
            return
        try:
            self._allocate(needed)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise MetadataLogFull(f"no room for a metadata entry: {error.strerror}") from error
            raise MetadataLogFenced(f"no space could be set aside: {error}") from error

    def _allocate(self, needed: int) -> None:
        rounded = -(-needed // RESERVE_STEP_BYTES) * RESERVE_STEP_BYTES
        try:
            self._file.allocate(rounded)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._file.allocate(needed)
            rounded = needed
        self._allocated = rounded

    def write(self, state: HardState, entries: Sequence[Entry]) -> None:
        """Make hard state and entries durable; entries replace those at their indexes and all
        after.

        Raises:
            MetadataLogFull: no space; nothing has changed, and the write may be retried.
            MetadataLogFenced: the disk has failed.
        """
        frame = encode_frame(state, entries)
        start = self._end_position
        try:
            self._file.write(start, [frame])
        except OSError as error:
            self._cut(start, error)
            raise MetadataLogFull(f"no room for a metadata entry: {error.strerror}") from error
        self._sync(self._file)
        self._state = state
        self._end_position = start + len(frame)
        self._end_mark.write(self._end_position)
        self._allocated = max(self._allocated, self._end_position)

    def mark_commit(self, index: RaftIndex, term: Term) -> None:
        """Note that the log is committed up to entry (index, term). The note may be lost."""
        mark = _MARK.pack(index, term)
        try:
            self._commit_file.write(0, [mark + _CRC.pack(crc32c(mark))])
        except OSError as error:
            log.warning("commit mark not written, a restart may begin further back: %s", error)

    def compact(self, snapshot: Snapshot) -> None:
        """Replace the entries up to the snapshot's index, inclusive, which the log holds.

        Raises:
            MetadataLogFull: no space; at most the snapshot file has been replaced.
            MetadataLogFenced: the disk has failed.
        """
        if snapshot.index <= self._snapshot_index:
            return  # a newer one of a leader was installed in between
        self._replace_snapshot(snapshot)
        found = read_file(self._file.read(0, self._end_position))
        kept = [entry for entry in found.entries if entry.index > snapshot.index]
        self._rewrite(self._state, snapshot, kept)

    def install(self, snapshot: Snapshot, state: HardState, entries: Sequence[Entry]) -> None:
        """Replace everything by a leader's snapshot, followed by `entries`.

        Raises:
            MetadataLogFull: no space; the install may be retried.
            MetadataLogFenced: the disk has failed.
        """
        self._replace_snapshot(snapshot)
        self._rewrite(state, snapshot, entries)
        self._state = state

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._commit_file.close()
        self._end_mark.close()

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _open(self, first: FirstStart) -> tuple[DiskFile, Found]:
        """Read the files; set end position and allocated size."""
        try:
            file = self._disk.open(self._path(_LOG))
        except FileNotFoundError:
            file = self._make_first(first)
        snapshot = self._read_snapshot()
        size = file.size()
        try:
            found = read_file(file.read(0, size))
            self.directory_id = found.head.directory_id
            self._is_old_version = found.head.version < FILE_VERSION
            if snapshot is None and found.is_new:
                snapshot = Snapshot(configuration=self._begun_with(first.members))
                self._replace_snapshot(snapshot)
            return file, self._check(found, snapshot, file, size)
        except CorruptMetadata as error:
            file.close()
            raise CorruptMetadata(f"{self._path(_LOG)}: {error}") from error
        except ConfigError:
            file.close()
            raise

    def _begun_with(self, members: Configuration) -> Configuration:
        """Return the voters of a new log: this member if it is the only one, else none."""
        if members.voter_ids != (self._own_id,):
            return Configuration()
        return Configuration.of(members.addresses, {self._own_id: self.directory_id})

    def _make_first(self, first: FirstStart) -> DiskFile:
        """Create an empty log.

        The snapshot of an empty log, which names the voters, is made after it. A log that is not
        empty thus has one, and a snapshot without a log is a loss.
        """
        self.directory_id = first.new_directory_id()
        if self._read_snapshot() is not None:
            raise CorruptMetadata(f"{self._path(_LOG)} is gone, its snapshot is there")
        return self._make_log(encode_head(self._head(NO_INDEX, NO_TERM)))

    def _head(self, base_index: RaftIndex, base_term: Term) -> FileHead:
        return FileHead(self._own_id, base_index, base_term, self.directory_id)

    def _read_snapshot(self) -> Snapshot | None:
        path = self._path(_SNAPSHOT)
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return None
        try:
            return read_snapshot(file.read(0, file.size()))
        except CorruptMetadata as error:
            raise CorruptMetadata(f"{path}: {error}") from error
        finally:
            file.close()

    def _check(self, found: LogFile, snapshot: Snapshot | None, file: DiskFile, size: int) -> Found:
        """Join log and snapshot, and cut the torn write that a crash left."""
        head = found.head
        if head.own_id != self._own_id:
            raise ConfigError(
                f"{self._path(_LOG)} belongs to controller member {head.own_id}, this process is"
                f" {self._own_id}: give it its own data directory, or set node.id to {head.own_id}"
            )
        if snapshot is None or snapshot.index < head.base_index:
            raise CorruptMetadata(
                f"it begins after entry {head.base_index} and the snapshot up to it is gone"
            )
        self._make_certain(found.end_position, file)
        tail = bytes(file.read(found.end_position, size - found.end_position)).rstrip(b"\0")
        if tail:
            log.warning("Raft log: cut %d bytes of an unfinished write", len(tail))
            file.truncate(found.end_position)
            file.sync()
            size = found.end_position
        self._end_position, self._allocated = found.end_position, size
        self._is_install_unfinished = not _leads_to(found, snapshot)
        entries = [] if self._is_install_unfinished else _behind(found, snapshot)
        last_term = entries[-1].term if entries else snapshot.term
        state = found.state
        if last_term > state.term:  # a crash between the two steps of `install`
            state = HardState(term=last_term, commit_index=state.commit_index)
        return Found(state, snapshot, entries)

    def _make_certain(self, end: int, file: DiskFile) -> None:
        """Refuse a log that ends before the synced end, and make the unsynced rest durable.

        After kill -9 the rest is in the page cache only. If an earlier sync of it failed, the
        kernel marks the pages clean and a new sync would do nothing, so the rest is written again
        first. Raises CorruptMetadata, MetadataLogFenced.
        """
        synced = self._end_mark.read()
        if end < synced:
            raise CorruptMetadata(
                f"damaged at position {end}, and was durable up to {synced}: entries"
                " or a vote are lost, so this member must not vote with it"
            )
        if end == synced:
            return
        try:
            file.write(synced, [file.read(synced, end - synced)])
        except OSError as error:
            raise MetadataLogFenced(f"the log read at start is not durable: {error}") from error
        self._sync(file)

    def _with_mark(self, found: Found) -> Found:
        """Raise the commit index to the commit mark, if that is whole and belongs to this log."""
        commit_index = max(found.state.commit_index, found.snapshot.index)
        last_index = RaftIndex(found.snapshot.index + len(found.entries))
        raw = bytes(self._commit_file.read(0, _MARK.size + _CRC.size))
        if len(raw) == _MARK.size + _CRC.size:
            index: RaftIndex
            term: Term
            index, term = _MARK.unpack_from(raw)
            is_whole = _CRC.unpack_from(raw, _MARK.size)[0] == crc32c(raw[: _MARK.size])
            if is_whole and commit_index < index <= last_index:
                entry = found.entries[index - found.snapshot.index - 1]
                commit_index = index if entry.term == term else commit_index
        state = replace(found.state, commit_index=min(commit_index, last_index))
        return found._replace(state=state)

    def _cut(self, position: int, cause: OSError) -> None:
        """Undo a failed write. Raises MetadataLogFenced unless the disk was full."""
        try:
            self._file.truncate(position)
        except OSError as error:
            raise MetadataLogFenced(f"a failed write could not be undone: {error}") from error
        if cause.errno not in _NO_ROOM:
            raise MetadataLogFenced(f"write failed: {cause}") from cause
        self._allocated = position
        self._sync(self._file)

    def _sync(self, file: DiskFile) -> None:
        try:
            file.sync()
        except OSError as error:
            raise MetadataLogFenced(f"fsync failed: {error}") from error

    def _replace_snapshot(self, snapshot: Snapshot) -> None:
        self._make_file(_SNAPSHOT, encode_snapshot(snapshot)).close()

    def _rewrite(self, state: HardState, snapshot: Snapshot, entries: Sequence[Entry]) -> None:
        head = encode_head(self._head(snapshot.index, snapshot.term))
        frame = encode_frame(state, entries)
        try:
            self._end_mark.forget()
        except OSError as error:
            raise MetadataLogFenced(f"the mark of its end was not written: {error}") from error
        file = self._make_log(head, frame)
        self._file.close()
        self._file = file
        self._end_position = self._allocated = len(head) + len(frame)
        self._end_mark.write(self._end_position)
        self._snapshot_index = snapshot.index

    def _make_log(self, *parts: Buffer) -> DiskFile:
        return self._make_file(_LOG, *parts)

    def _make_file(self, name: str, *parts: Buffer) -> DiskFile:
        """Put a new file in place durably, and return it open."""
        path = self._path(name)
        file: DiskFile | None = None
        try:
            file = self._disk.open(path + _NEW, create=True)
            file.truncate(0)
            file.write(0, parts)
            file.sync()
        except OSError as error:
            if file is not None:
                file.close()
            if error.errno in _NO_ROOM:
                raise MetadataLogFull(f"no room for {path}: {error.strerror}") from error
            raise MetadataLogFenced(f"the new {path} is not durable: {error}") from error
        try:
            self._disk.rename(path + _NEW, path)
        except OSError as error:
            file.close()
            raise MetadataLogFenced(f"{path} was not replaced: {error}") from error
        return file


def _behind(found: LogFile, snapshot: Snapshot) -> list[Entry]:
    """Return the entries after the snapshot."""
    return found.entries[snapshot.index - found.head.base_index :]


def _leads_to(found: LogFile, snapshot: Snapshot) -> bool:
    """Whether the log reaches up to the snapshot, so that entries can be appended after it.

    After a crash between the two steps of `install` the log does not lead to the snapshot.
    """
    at = snapshot.index - found.head.base_index
    return at == 0 or (at <= len(found.entries) and found.entries[at - 1].term == snapshot.term)
