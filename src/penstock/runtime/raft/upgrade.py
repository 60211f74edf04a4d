"""The log of a node alone, as earlier releases wrote it, becomes a Raft log with one voter.

    metadata/log  ─►  raft.snapshot, then raft.log (term 1)  ─►  metadata/log.before-raft

What was in it is agreed, and entries keep their numbers. A crash on the way leaves the old file in
place and no Raft log, and the next start does it again.

Source: controller/metadata/metadata_file.py (what is read), docs/formats/raft-log.md (what is
written).
"""

import logging
from typing import NamedTuple

from penstock.base.errors import ConfigError
from penstock.base.ports import Disk
from penstock.controller.errors import CorruptMetadata
from penstock.controller.metadata.metadata_file import MetadataFile, read_file
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ready import HardState, Snapshot
from penstock.runtime.raft.numbering import wrap_state

OLD_FILE = "log"
KEPT_FILE = "log.before-raft"
_TERM = 1

log = logging.getLogger(__name__)


class OldLog(NamedTuple):
    """What an old file holds, in Raft's terms."""

    state: HardState
    snapshot: Snapshot
    entries: list[Entry]


def read_old_log(
    disk: Disk, directory: str, *, own_id: int, members: Configuration
) -> OldLog | None:
    """Return what an earlier release has left here, None if nothing.

    Raises:
        CorruptMetadata, UnsupportedMetadata: it can not be read.
        ConfigError: this process is to be one of several voters, who know nothing of it.
    """
    path = f"{directory}/{OLD_FILE}"
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        found = read_file(file.read(0, file.size()))
    except CorruptMetadata as error:
        raise CorruptMetadata(f"{path}: {error}") from error
    finally:
        file.close()
    if members.voter_ids != (own_id,):
        raise ConfigError(
            f"{path} is the metadata of a node alone: start it once without cluster.voters, then"
            " add controllers one by one with `penstock controller add`"
        )
    return _converted(found, members)


def put_aside(disk: Disk, directory: str) -> None:
    """Keep the old file under another name, where nobody reads it."""
    disk.rename(f"{directory}/{OLD_FILE}", f"{directory}/{KEPT_FILE}")
    log.info("metadata log converted; the old file is kept as %s/%s", directory, KEPT_FILE)


def _converted(found: MetadataFile, members: Configuration) -> OldLog:
    snapshot = Snapshot(configuration=members)
    if found.snapshot_index:
        data = wrap_state(found.snapshot_index, bytes(found.snapshot))
        snapshot = Snapshot(
            index=found.snapshot_index, term=_TERM, configuration=members, data=data
        )
    entries = [
        Entry(index=frame.first_index + at, term=_TERM, payload=bytes(payload))
        for frame in found.frames
        for at, payload in enumerate(frame.entries)
        if frame.first_index + at > found.snapshot_index
    ]
    state = HardState(term=_TERM, commit_index=found.last_index)
    return OldLog(state, snapshot, entries)
