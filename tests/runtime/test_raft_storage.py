"""The files of a Raft member: cut and damaged at every byte, full and failing disks."""

import errno
import struct

import pytest
from crc32c import crc32c

from harness.first_start import first_start
from penstock.base.errors import ConfigError
from penstock.base.ids import PeerId
from penstock.controller.errors import (
    CorruptMetadata,
    MetadataLogFenced,
    MetadataLogFull,
    UnsupportedMetadata,
)
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import HardState, Snapshot
from penstock.runtime.raft.log_file import HEADER_BYTES, encode_frame, read_file
from penstock.runtime.raft.snapshot_file import encode_snapshot, read_snapshot
from penstock.runtime.raft.storage import RaftStorage
from tests.runtime.raft_harness import ReservingDisk

MEMBERS = Configuration.of({PeerId(1): "one:9093", PeerId(2): "two:9093"})
LOG, SNAPSHOT, COMMIT = "metadata/raft.log", "metadata/raft.snapshot", "metadata/raft.commit"
END = "metadata/raft.end"


def entry(index: int, term: int = 1, payload: bytes = b"payload") -> Entry:
    return Entry(index=RaftIndex(index), term=Term(term), payload=payload)


def state(term: int = 1, commit: int = 0, vote: int = 1) -> HardState:
    return HardState(term=Term(term), voted_for=PeerId(vote), commit_index=RaftIndex(commit))


def snapshot(index: int, term: int = 1, data: bytes = b"state") -> Snapshot:
    return Snapshot(index=RaftIndex(index), term=Term(term), configuration=MEMBERS, data=data)


@pytest.fixture
def disk() -> ReservingDisk:
    return ReservingDisk()


def opened(disk: ReservingDisk, own_id: int = 1) -> RaftStorage:
    return RaftStorage(disk, "metadata", own_id=PeerId(own_id), first=first_start(MEMBERS))


def indexes(storage: RaftStorage) -> list[tuple[int, int]]:
    return [(one.index, one.term) for one in storage.found.entries]


def test_new_log_of_one_of_several_first_voters_names_none(disk: ReservingDisk) -> None:
    opened(disk)
    disk.crash()
    again = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(Configuration()))
    assert again.found.snapshot == Snapshot(configuration=Configuration())
    assert again.found.state == HardState()
    assert again.found.entries == []


def test_new_log_of_the_only_first_voter_names_it_with_its_directory(disk: ReservingDisk) -> None:
    alone = Configuration.of({PeerId(1): "one:9093"})
    storage = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(alone))
    disk.crash()
    again = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(alone))
    assert again.directory_id == storage.directory_id != ""
    assert again.found.snapshot.configuration.is_voter(PeerId(1), storage.directory_id)


def test_a_directory_keeps_its_id_over_rewritings_and_an_empty_one_gets_another(
    disk: ReservingDisk,
) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(1), entry(2)])
    storage.compact(
        Snapshot(index=RaftIndex(1), term=Term(1), configuration=MEMBERS, data=b"8 bytes!")
    )
    disk.crash()
    assert opened(disk).directory_id == storage.directory_id
    for name in list(disk.files):
        disk.remove(name)
    assert opened(disk).directory_id not in {"", storage.directory_id}


def test_log_of_version_1_is_rewritten_and_has_no_directory_id(disk: ReservingDisk) -> None:
    opened(disk).write(state(term=2), [entry(1), entry(2)])
    file = disk.open(LOG)
    head = struct.pack(">IHHIQQ", 0x50_53_52_4C, 1, 0, 1, 0, 0)
    frames = bytes(file.read(HEADER_BYTES, file.size())).rstrip(b"\0")
    file.truncate(0)
    file.write(0, [head + struct.pack(">I", crc32c(head)) + frames])
    file.sync()
    disk.remove("metadata/raft.end")
    for _ in range(2):
        storage = opened(disk)
        assert storage.directory_id == ""
        assert indexes(storage) == [(1, 1), (2, 1)]
        assert storage.found.state.term == 2
        file = disk.open(LOG)
        assert read_file(file.read(0, file.size())).head.version == 2


def test_hard_state_and_entries_are_there_after_a_crash(disk: ReservingDisk) -> None:
    storage = opened(disk)
    entries = [
        Entry(index=RaftIndex(1), term=Term(1), kind=EntryKind.NOOP),
        entry(2, payload=b""),
        Entry(
            index=RaftIndex(3), term=Term(1), kind=EntryKind.CONFIGURATION, payload=MEMBERS.encode()
        ),
    ]
    storage.write(state(1), entries)
    storage.write(state(2, commit=2, vote=-1), [])
    disk.crash()
    found = opened(disk).found
    assert found.entries == entries
    assert found.state == state(2, commit=2, vote=-1)


def test_later_entries_replace_a_suffix(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(one) for one in range(1, 6)])
    storage.write(state(2), [entry(3, 2), entry(4, 2)])
    disk.crash()
    assert indexes(opened(disk)) == [(1, 1), (2, 1), (3, 2), (4, 2)]


def test_log_cut_at_any_byte_keeps_every_whole_write(disk: ReservingDisk) -> None:
    storage = opened(disk)
    ends = [disk.files[LOG].size()]
    for number in (1, 2, 3):
        storage.write(state(number), [entry(number, number)])
        ends.append(disk.files[LOG].size())
    whole = bytes(disk.files[LOG].data)
    for length in range(ends[0], len(whole) + 1):
        disk.files[LOG].data = bytearray(whole[:length])
        disk.files[END].data = bytearray()  # power was lost before any of it was synced
        again = opened(disk)
        kept = sum(end <= length for end in ends[1:])
        assert indexes(again) == [(one, one) for one in range(1, kept + 1)], length
        assert again.found.state.term == kept
        again.write(state(9), [entry(kept + 1, 9)])
        assert indexes(opened(disk))[-1] == (kept + 1, 9)


def test_damage_in_front_of_whole_writes_is_refused(disk: ReservingDisk) -> None:
    storage = opened(disk)
    for number in (1, 2):
        storage.write(state(), [entry(number)])
    whole = bytes(disk.files[LOG].data)
    middle = HEADER_BYTES + len(encode_frame(state(), [entry(1)]))
    for at in range(middle):
        disk.files[LOG].data = bytearray(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises((CorruptMetadata, UnsupportedMetadata)):
            opened(disk)
    disk.files[LOG].data = bytearray(whole[:-1] + b"\0")
    disk.files[END].data = bytearray()
    assert indexes(opened(disk)) == [(1, 1)]


def test_last_write_damaged_after_its_sync_is_refused_and_not_cut(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(1)])
    before = disk.files[LOG].size()
    storage.write(state(7, vote=2), [])
    whole = bytes(disk.files[LOG].data)
    for at in range(before, len(whole)):
        disk.files[LOG].data = bytearray(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptMetadata):
            opened(disk)
        disk.files[LOG].data = bytearray(whole[:at])
        with pytest.raises(CorruptMetadata, match="must not vote"):
            opened(disk)
        assert disk.files[LOG].data == bytearray(whole[:at])


def test_a_rewritten_log_damaged_after_its_sync_is_refused_and_not_cut(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(1)])
    storage.write(state(7, vote=2), [])
    storage.compact(snapshot(1))
    whole = bytes(disk.files[LOG].data)
    for at in range(HEADER_BYTES, len(whole)):
        disk.files[LOG].data = bytearray(whole[:at])
        with pytest.raises(CorruptMetadata, match="must not vote"):
            opened(disk)
    disk.files[LOG].data = bytearray(whole)
    assert (opened(disk).found.state.term, opened(disk).found.state.voted_for) == (7, 2)


def test_damaged_note_of_the_end_counts_as_none(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(1)])
    whole = bytes(disk.files[END].data)
    for at in range(len(whole)):
        disk.files[END].data = bytearray(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert indexes(opened(disk)) == [(1, 1)]
        assert bytes(disk.files[END].data) == whole


def test_shorter_log_after_a_rewriting_is_no_damage_also_when_power_is_lost(
    disk: ReservingDisk,
) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(one) for one in range(1, 40)])
    disk.files[END].sync()
    storage.compact(snapshot(39))
    disk.crash()
    assert opened(disk).found.snapshot == snapshot(39)


def test_damaged_snapshot_is_refused_and_named(disk: ReservingDisk) -> None:
    opened(disk)
    whole = bytes(disk.files[SNAPSHOT].data)
    for at in range(len(whole)):
        disk.files[SNAPSHOT].data = bytearray(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises((CorruptMetadata, UnsupportedMetadata)):
            opened(disk)
    disk.files[SNAPSHOT].data = bytearray(whole[:-1])
    with pytest.raises(CorruptMetadata, match=r"metadata/raft\.snapshot"):
        opened(disk)


def test_missing_half_is_refused(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(1)])
    kept = dict(disk.files)
    del disk.files[SNAPSHOT]
    with pytest.raises(CorruptMetadata, match="snapshot"):
        opened(disk)
    disk.files = kept
    del disk.files[LOG]
    with pytest.raises(CorruptMetadata, match=r"metadata/raft\.log is gone"):
        opened(disk)


def test_log_whose_making_was_cut_short_is_made_again(disk: ReservingDisk) -> None:
    opened(disk)
    del disk.files[SNAPSHOT]
    assert opened(disk).found.snapshot.configuration == Configuration()


def test_entries_with_a_gap_are_refused(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(1)])
    storage.write(state(), [entry(3)])
    with pytest.raises(CorruptMetadata, match="does not follow"):
        opened(disk)


def test_another_members_files_are_refused(disk: ReservingDisk) -> None:
    opened(disk)
    with pytest.raises(ConfigError, match="belongs to"):
        opened(disk, own_id=2)


def test_newer_releases_files_are_refused(disk: ReservingDisk) -> None:
    opened(disk)
    disk.files[LOG].data[5] = 9
    with pytest.raises(UnsupportedMetadata, match="version 9"):
        opened(disk)


def test_compaction_drops_the_prefix_and_keeps_the_rest(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(one) for one in range(1, 11)])
    storage.write(state(2), [entry(9, 2)])
    before = disk.files[LOG].size()
    storage.compact(snapshot(6))
    assert disk.files[LOG].size() < before
    disk.crash()
    again = opened(disk)
    assert again.found.snapshot == snapshot(6)
    assert indexes(again) == [(7, 1), (8, 1), (9, 2)]
    assert again.found.state == HardState(
        term=Term(2), voted_for=PeerId(1), commit_index=RaftIndex(6)
    )
    again.write(state(2), [entry(10, 2)])
    assert indexes(opened(disk))[-1] == (10, 2)


def test_compaction_cut_short_between_its_steps_loses_nothing(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(one) for one in range(1, 6)])
    log_before = disk.files[LOG]
    storage.compact(snapshot(3))
    disk.files[LOG] = log_before
    again = opened(disk)
    assert again.found.snapshot == snapshot(3)
    assert indexes(again) == [(4, 1), (5, 1)]
    again.compact(snapshot(4))
    assert indexes(opened(disk)) == [(5, 1)]


def test_leaders_snapshot_replaces_everything(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(one) for one in range(1, 6)])
    log_before = disk.files[LOG]
    storage.install(snapshot(9, 3), state(3), [entry(10, 3)])
    disk.crash()
    assert indexes(opened(disk)) == [(10, 3)]
    assert opened(disk).found.snapshot == snapshot(9, 3)
    disk.files[LOG] = log_before  # a crash between the two steps
    again = opened(disk)
    assert indexes(again) == []
    assert again.found.state == HardState(
        term=Term(3), voted_for=PeerId(-1), commit_index=RaftIndex(9)
    )


def test_vote_that_came_with_a_leaders_snapshot_outlives_the_next_rewriting(
    disk: ReservingDisk,
) -> None:
    storage = opened(disk)
    storage.write(state(1), [entry(1)])
    storage.install(snapshot(9, 3), state(4, vote=2), [entry(10, 3), entry(11, 3)])
    storage.compact(snapshot(10, 3))
    disk.crash()
    found = opened(disk).found
    assert found.state == state(4, vote=2, commit=10)
    assert [one.index for one in found.entries] == [11]


def test_older_snapshot_changes_nothing(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.install(snapshot(9, 3), state(3), [])
    storage.compact(snapshot(4))
    assert opened(disk).found.snapshot == snapshot(9, 3)


def test_commit_mark_outlives_the_process_and_not_the_machine(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(commit=1), [entry(one) for one in range(1, 6)])
    storage.mark_commit(RaftIndex(4), Term(1))
    assert opened(disk).found.state.commit_index == 4
    disk.crash()
    assert opened(disk).found.state.commit_index == 1


@pytest.mark.parametrize("mark", [(6, 1), (4, 2), (0, 0)])
def test_commit_mark_of_another_history_is_passed_over(
    disk: ReservingDisk, mark: tuple[int, int]
) -> None:
    storage = opened(disk)
    storage.write(state(commit=2), [entry(one) for one in range(1, 6)])
    storage.mark_commit(RaftIndex(mark[0]), Term(mark[1]))
    assert opened(disk).found.state.commit_index == 2


def test_torn_commit_mark_is_passed_over(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(one) for one in range(1, 6)])
    storage.mark_commit(RaftIndex(4), Term(1))
    whole = bytes(disk.files[COMMIT].data)
    for at in range(len(whole)):
        disk.files[COMMIT].data = bytearray(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert opened(disk).found.state.commit_index == 0
        disk.files[COMMIT].data = bytearray(whole[:at])
        assert opened(disk).found.state.commit_index == 0


def test_full_disk_changes_nothing_and_takes_again_when_there_is_room(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(1)])
    disk.room = disk.files[LOG].size() + 20
    with pytest.raises(MetadataLogFull):
        storage.write(state(), [entry(2)])
    with pytest.raises(MetadataLogFull):
        storage.reserve(1000)
    with pytest.raises(MetadataLogFull):
        storage.compact(snapshot(1, data=b"x" * 1000))
    disk.room = 1 << 40
    storage.write(state(), [entry(2, payload=b"again")])
    disk.crash()
    assert [one.payload for one in opened(disk).found.entries] == [b"payload", b"again"]


def test_reserved_space_is_used_and_does_not_show(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.reserve(5000)
    assert storage.room_bytes >= 5000
    disk.room = disk.files[LOG].size()
    storage.write(state(), [entry(1, payload=b"x" * 5000)])
    assert indexes(opened(disk)) == [(1, 1)]
    disk.crash()
    assert indexes(opened(disk)) == [(1, 1)]


def test_what_was_set_aside_does_not_count_behind_a_write_that_failed_for_want_of_room(
    disk: ReservingDisk,
) -> None:
    # The failed write is cut off, and what was set aside behind it with it.
    storage = opened(disk)
    storage.reserve(5000)
    disk.room = disk.files[LOG].size()
    with pytest.raises(MetadataLogFull):
        storage.write(state(), [entry(1, payload=b"x" * (disk.room + 1))])
    disk.room = disk.files[LOG].size()
    with pytest.raises(MetadataLogFull):
        storage.reserve(5000)
    disk.room = 1 << 40
    storage.reserve(5000)
    disk.room = disk.files[LOG].size()
    storage.write(state(), [entry(1, payload=b"x" * 5000)])
    assert indexes(opened(disk)) == [(1, 1)]


@pytest.mark.parametrize("fault", ["fail_write", "fail_sync"])
def test_failing_disk_fences(disk: ReservingDisk, fault: str) -> None:
    storage = opened(disk)
    setattr(disk, fault, True)
    with pytest.raises(MetadataLogFenced):
        storage.write(state(), [entry(1)])
    setattr(disk, fault, False)
    disk.crash()
    assert indexes(opened(disk)) == []


def test_failed_rename_fences_and_loses_nothing(disk: ReservingDisk) -> None:
    storage = opened(disk)
    storage.write(state(), [entry(1), entry(2)])
    disk.fail_rename = True
    with pytest.raises(MetadataLogFenced):
        storage.compact(snapshot(1))
    disk.fail_rename = False
    disk.crash()
    assert indexes(opened(disk)) == [(1, 1), (2, 1)]
    assert disk.list("metadata") == ["raft.commit", "raft.end", "raft.log", "raft.snapshot"]


def test_frames_and_snapshots_come_out_as_they_went_in() -> None:
    one = Snapshot(index=RaftIndex(7), term=Term(3), configuration=MEMBERS, data=b"\0" * 100)
    assert read_snapshot(encode_snapshot(one)) == one
    with pytest.raises(CorruptMetadata):
        read_file(b"PSRL")


@pytest.mark.parametrize(
    ("error", "kind"), [(errno.ENOSPC, MetadataLogFull), (errno.EIO, MetadataLogFenced)]
)
def test_a_snapshot_whose_file_can_not_be_made_is_put_off_only_for_want_of_room(
    disk: ReservingDisk, monkeypatch: pytest.MonkeyPatch, error: int, kind: type[Exception]
) -> None:
    """A directory that can not grow, or a quota of files: the first thing to fail is the name."""
    storage = opened(disk)
    storage.write(state(), [entry(1), entry(2)])

    def refuse(path: str, *, create: bool = False) -> None:
        raise OSError(error, "refused", path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "open", refuse)
        with pytest.raises(kind):
            storage.compact(snapshot(1))
    assert indexes(opened(disk)) == [(1, 1), (2, 1)]
