"""Which files make up a log, and why each of them is kept.

    segment     closed: the newest snapshot refers to it, or it lies behind that snapshot; the
                active one; allocated ahead. Which partitions keep a closed one: pins.py
    derived     index of an existing segment; side file of a kept snapshot; the snapshots
    extents     files that the manifest of the second level names; others are not taken over yet
    other       spares, unfinished files, a base that is being copied, notes, the log's name

Any other file was left behind by code that should have removed it: LEAKED. A start removes what a
crash has left, so a log that was just opened and is idle has no such file.

Source: the layout in docs/formats/commit-log.md. May wait for the disk.
"""

from enum import StrEnum

from penstock.base.ids import Position
from penstock.base.ports import Disk
from penstock.storage.commit_log.catching_up import note_path
from penstock.storage.commit_log.durable_mark import mark_path
from penstock.storage.commit_log.pending_change import PARTS, STAGING, PendingChange
from penstock.storage.commit_log.segments import index_path, segment_path
from penstock.storage.commit_log.snapshot import Snapshot
from penstock.storage.commit_log.truncation import read_snapshots
from penstock.storage.index.side_file import side_path
from penstock.storage.second_level.files import read_manifest
from penstock.storage.second_level.manifest import extent_path, manifest_path
from penstock.storage.second_level.reading import ExtentPlace

NAME = "replica.json"


class Reason(StrEnum):
    """Why a file of a log is kept."""

    NEEDED = "needed: the newest snapshot refers to it"
    BEHIND = "behind the newest snapshot, or allocated ahead"
    INDEX = "index of an existing segment"
    SIDE = "index entries that a kept snapshot refers to"
    SNAPSHOT = "one of the newest snapshots"
    SPARE = "deleted segment, kept for reuse"
    UNFINISHED = "unfinished; removed by the next start"
    STAGED = "part of a base that is being copied"
    NOTE = "a note about the log, or its name"
    EXTENTS = "extent file of the second level, or its manifest"
    LEAKED = "not needed"


def has_log(disk: Disk, directory: str) -> bool:
    """Return whether the directory has any file of a log.

    A directory with nothing but the file that names the log (node/replica_file.py) has lost it.
    """
    if any(disk.list(f"{directory}/{part}") for part in PARTS):
        return True
    names = {f"{directory}/{name}" for name in disk.list(directory)}
    return not names.isdisjoint({mark_path(directory), PendingChange.path(directory)})


def explain_files(disk: Disk, directory: str) -> dict[str, Reason]:
    """Return why each file of a log is kept, by path. Reads only snapshots and file names."""
    snapshots = list(read_snapshots(disk, directory))
    found: dict[str, Reason] = {}
    notes = {mark_path(directory), note_path(directory), PendingChange.path(directory)}
    notes.add(f"{directory}/{NAME}")
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        if path in notes:
            found[path] = Reason.NOTE
        elif "." in name:
            found[path] = _unfinished(name)
    for name in disk.list(f"{directory}/log"):
        found[f"{directory}/log/{name}"] = _of_segment(name, snapshots)
    _explain_derived(disk, directory, snapshots, found)
    _explain_extents(disk, directory, found)
    for part in ("", *(f"/{part}" for part in PARTS)):
        for name in disk.list(f"{directory}/{STAGING}{part}"):
            if name not in PARTS:
                found[f"{directory}/{STAGING}{part}/{name}"] = Reason.STAGED
    return found


def _unfinished(name: str) -> Reason:
    return Reason.UNFINISHED if name.endswith((".tmp", ".new")) else Reason.LEAKED


def _of_segment(name: str, snapshots: list[Snapshot]) -> Reason:
    if name.endswith(".spare"):
        return Reason.SPARE
    if not name.endswith(".log"):
        return _unfinished(name)
    if not snapshots:
        return Reason.BEHIND
    base, newest = int(name[:20]), snapshots[0]
    if base in newest.segments:
        return Reason.NEEDED
    return Reason.BEHIND if base > newest.active_base else Reason.LEAKED


def _explain_extents(disk: Disk, directory: str, found: dict[str, Reason]) -> None:
    """Explain the files of the second level: the manifest names those that count."""
    place = ExtentPlace(disk, directory)
    kept = {extent_path(directory, file.number) for file in read_manifest(place).files}
    kept.add(manifest_path(directory))
    for name in disk.list(f"{directory}/second"):
        path = f"{directory}/second/{name}"
        is_whole = name.endswith(".extents")
        other = Reason.UNFINISHED if is_whole else _unfinished(name)
        found[path] = Reason.EXTENTS if path in kept else other


def _explain_derived(
    disk: Disk, directory: str, snapshots: list[Snapshot], found: dict[str, Reason]
) -> None:
    """Explain indexes, side files and snapshots; the segments are in `found` already."""
    sides = {
        side_path(directory, snapshot.active_base, snapshot.side_number) for snapshot in snapshots
    }
    newest_side = max((snapshot.side_number for snapshot in snapshots), default=0)
    for name in disk.list(f"{directory}/index"):
        path = f"{directory}/index/{name}"
        reason = _unfinished(name)
        if name.endswith(".idx"):
            base = Position(int(name[:20]))
            has_segment = segment_path(directory, base) in found
            reason = Reason.INDEX if has_segment else Reason.LEAKED
            assert path == index_path(directory, base)
        elif name.endswith(".side"):
            is_kept = path in sides or int(name[21:-5]) > newest_side
            reason = Reason.SIDE if is_kept else Reason.LEAKED
        found[path] = reason
    for name in disk.list(f"{directory}/snapshot"):
        is_snapshot = name.endswith(".snap")
        path = f"{directory}/snapshot/{name}"
        found[path] = Reason.SNAPSHOT if is_snapshot else _unfinished(name)
