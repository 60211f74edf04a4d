"""A crash between the steps of a snapshot: the log behind it may be of another history."""

import pytest

from harness.first_start import first_start
from penstock.base.ids import PeerId
from penstock.controller.errors import CorruptMetadata
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import HardState, Snapshot
from penstock.runtime.raft.log_file import HEADER_BYTES
from penstock.runtime.raft.storage import Found, RaftStorage
from tests.runtime.raft_harness import ReservingDisk

MEMBERS = Configuration.of({PeerId(1): "one:9093", PeerId(2): "two:9093"})


def opened(disk: ReservingDisk) -> RaftStorage:
    return RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))


def interrupted(snapshot: Snapshot, last_index: int) -> Found:
    """Crash when a leader's snapshot is durable and the log, of term 1, still is the old one."""
    disk = ReservingDisk()
    storage = opened(disk)
    entries = [
        Entry(index=RaftIndex(at), term=Term(1), payload=b"old") for at in range(1, last_index + 1)
    ]
    storage.write(HardState(term=Term(1), voted_for=PeerId(1)), entries)
    before = dict(disk.files)
    storage.install(snapshot, HardState(term=snapshot.term, voted_for=PeerId(-1)), [])
    disk.files = {**disk.files, "metadata/raft.log": before["metadata/raft.log"]}
    disk.crash()
    return opened(disk).found


@pytest.mark.parametrize("last_index", [3, 5, 8])
def test_entries_of_another_history_do_not_follow_a_snapshot(last_index: int) -> None:
    newer = Snapshot(index=RaftIndex(5), term=Term(3), configuration=MEMBERS, data=b"state")
    found = interrupted(newer, last_index)
    assert found.snapshot == newer
    assert found.entries == []
    assert found.state.term == 3


def test_entries_of_the_same_history_do() -> None:
    same = Snapshot(index=RaftIndex(5), term=Term(1), configuration=MEMBERS, data=b"state")
    assert [entry.index for entry in interrupted(same, last_index=8).entries] == [6, 7, 8]


@pytest.mark.parametrize("at", [0, 3, 10, 30])
def test_damage_in_front_of_whole_writes_is_refused_also_without_the_end_mark(at: int) -> None:
    # The mark is written without a sync: a power cut may take it, and the log is all there is.
    disk = ReservingDisk()
    storage = opened(disk)
    for number in (1, 2):
        storage.write(
            HardState(term=Term(1), voted_for=PeerId(1)),
            [Entry(index=RaftIndex(number), term=Term(1), payload=b"x")],
        )
    disk.files["metadata/raft.log"].data[HEADER_BYTES + at] ^= 1
    for name in [name for name in disk.files if name.endswith(".end")]:
        disk.files[name].data = bytearray()
    with pytest.raises(CorruptMetadata):
        opened(disk)
