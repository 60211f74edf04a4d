"""The metadata log on one disk: the contract, crashes at every byte, and disks that fail."""

from pathlib import Path

import pytest

from penstock.controller.errors import (
    CorruptMetadata,
    MetadataError,
    MetadataLogFenced,
    MetadataLogFull,
    UnsupportedMetadata,
)
from penstock.controller.metadata_file import HEADER_BYTES, encode_frame, encode_head
from penstock.runtime.disk import FileDisk
from penstock.runtime.metadata_log import MetadataLog
from tests.controller.replicated_log_contract import LogHarness, Machine, ReplicatedLogContract
from tests.runtime.crash_disk import CrashDisk, StepLoop

_PATH = "metadata/log"


class DiskHarness(LogHarness):
    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.loop = StepLoop()

    def open(self, snapshot_after_bytes: int = 1 << 20) -> MetadataLog:
        return MetadataLog(
            self.disk,
            "metadata",
            self.loop,
            self.loop,
            snapshot_after_bytes=snapshot_after_bytes,
        )

    def run(self) -> None:
        self.loop.run()

    def crash(self) -> None:
        self.loop.forget()
        self.disk.crash()

    def started(self) -> tuple[MetadataLog, Machine]:
        log, machine = self.open(), Machine()
        log.start(machine)
        return log, machine

    def add(self, log: MetadataLog, *payloads: bytes) -> list[int | MetadataError]:
        """Propose one after another, each durable before the next."""
        outcomes: list[int | MetadataError] = []
        for payload in payloads:
            log.propose(payload, outcomes.append)
            self.run()
        return outcomes

    @property
    def content(self) -> bytes:
        return bytes(self.disk.files[_PATH].data)

    @content.setter
    def content(self, data: bytes) -> None:
        self.disk.files[_PATH].data = bytearray(data)


class TestMetadataLog(ReplicatedLogContract):
    def make(self) -> LogHarness:
        return DiskHarness()


class FilesHarness(LogHarness):
    """Real files; a crash of the process alone loses nothing that was written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loop = StepLoop()

    def open(self) -> MetadataLog:
        return MetadataLog(FileDisk(self._directory), "metadata", self._loop, self._loop)

    def run(self) -> None:
        self._loop.run()

    def crash(self) -> None:
        self._loop.forget()


class TestMetadataLogOnFiles(ReplicatedLogContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self._directory = tmp_path

    def make(self) -> LogHarness:
        return FilesHarness(self._directory)


@pytest.fixture
def on_disk() -> DiskHarness:
    return DiskHarness()


def test_log_cut_at_any_byte_keeps_every_whole_group(on_disk: DiskHarness) -> None:
    log, _ = on_disk.started()
    ends = [len(on_disk.content)]
    for payload in (b"first", b"second", b"third"):
        on_disk.add(log, payload)
        ends.append(len(on_disk.content))
    whole = on_disk.content
    for length in range(ends[0], len(whole) + 1):
        on_disk.content = whole[:length]
        again, machine = on_disk.started()
        expected = sum(end <= length for end in ends[1:])
        assert machine.state == [b"first", b"second", b"third"][:expected], length
        assert len(on_disk.content) == ends[expected]
        assert on_disk.add(again, b"next") == [expected + 1]


def test_damaged_last_group_is_cut(on_disk: DiskHarness) -> None:
    log, _ = on_disk.started()
    on_disk.add(log, b"a")
    end = len(on_disk.content)
    on_disk.add(log, b"b")
    for at in range(end, len(on_disk.content)):
        whole = on_disk.content
        on_disk.content = whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :]
        assert on_disk.started()[1].state == [b"a"], at
        on_disk.content = whole


def test_damage_in_front_of_whole_groups_is_refused(on_disk: DiskHarness) -> None:
    log, _ = on_disk.started()
    start = len(on_disk.content)
    on_disk.add(log, b"a", b"b")
    whole = on_disk.content
    for at in range(start):
        on_disk.content = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        with pytest.raises((CorruptMetadata, UnsupportedMetadata)):
            on_disk.open()
    middle = start + len(encode_frame(1, [b"a"]))
    for at in range(start, middle):
        on_disk.content = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        with pytest.raises(CorruptMetadata, match="metadata/log"):
            on_disk.open()


def test_gaps_in_the_numbers_are_refused(on_disk: DiskHarness) -> None:
    on_disk.started()
    head = encode_head(4, b"s")
    for frames in (encode_frame(6, [b"a"]), encode_frame(5, [b"a"]) + encode_frame(7, [b"b"])):
        on_disk.content = head + frames
        with pytest.raises(CorruptMetadata):
            on_disk.open()
    on_disk.content = head[: HEADER_BYTES - 1]
    with pytest.raises(CorruptMetadata):
        on_disk.open()


def test_proposals_of_one_turn_share_one_sync(on_disk: DiskHarness) -> None:
    log, machine = on_disk.started()
    before = on_disk.disk.syncs
    for number in range(100):
        log.propose(b"%d" % number, lambda _: None)
    on_disk.run()
    assert len(machine.state) == 100
    assert on_disk.disk.syncs == before + 1


def test_unsynced_group_is_not_applied_when_sync_fails_and_the_log_is_fenced(
    on_disk: DiskHarness,
) -> None:
    log, machine = on_disk.started()
    told: list[Exception] = []
    log.on_fenced = told.append
    on_disk.add(log, b"a")
    on_disk.disk.fail_sync = True
    assert isinstance(on_disk.add(log, b"b")[0], MetadataLogFenced)
    on_disk.disk.fail_sync = False
    assert isinstance(on_disk.add(log, b"c")[0], MetadataLogFenced)
    assert machine.state == [b"a"]
    assert [type(one) for one in told] == [MetadataLogFenced]
    on_disk.crash()
    assert on_disk.started()[1].state == [b"a"]


def test_full_disk_refuses_and_takes_again_when_there_is_room(on_disk: DiskHarness) -> None:
    log, machine = on_disk.started()
    on_disk.add(log, b"a")
    on_disk.disk.room = len(on_disk.content) + 10
    assert isinstance(on_disk.add(log, b"b")[0], MetadataLogFull)
    on_disk.disk.room = 1 << 40
    assert on_disk.add(log, b"c") == [2]
    assert machine.state == [b"a", b"c"]
    on_disk.crash()
    assert on_disk.started()[1].state == [b"a", b"c"]


def test_write_error_fences(on_disk: DiskHarness) -> None:
    log, _ = on_disk.started()
    on_disk.disk.fail_write = True
    assert isinstance(on_disk.add(log, b"b")[0], MetadataLogFenced)


def test_compaction_shortens_the_file_and_leaves_nothing_behind(on_disk: DiskHarness) -> None:
    log, machine = on_disk.started()
    on_disk.add(log, *[b"x" * 1000] * 20)
    log.trim(20, b"state")
    on_disk.run()
    assert on_disk.content == encode_head(20, b"state")
    assert on_disk.disk.list("metadata") == ["log"]
    assert on_disk.add(log, b"y") == [21]
    assert len(machine.state) == 21


def test_compaction_on_a_full_disk_is_put_off(on_disk: DiskHarness) -> None:
    log, _ = on_disk.started()
    on_disk.add(log, b"a", b"b")
    on_disk.disk.room = 50
    log.trim(2, b"x" * 100)
    on_disk.run()
    on_disk.disk.room = 1 << 40
    assert on_disk.add(log, b"c") == [3]
    on_disk.crash()
    assert on_disk.started()[1].events == ["apply 1", "apply 2", "apply 3"]


def test_failed_rename_fences_and_loses_nothing(on_disk: DiskHarness) -> None:
    log, _ = on_disk.started()
    on_disk.add(log, b"a")
    on_disk.disk.fail_rename = True
    log.trim(1, b"a")
    on_disk.run()
    assert isinstance(on_disk.add(log, b"b")[0], MetadataLogFenced)
    on_disk.disk.fail_rename = False
    on_disk.crash()
    assert on_disk.started()[1].state == [b"a"]


def test_log_wants_a_snapshot_after_enough_bytes(on_disk: DiskHarness) -> None:
    log = on_disk.open(snapshot_after_bytes=100)
    log.start(Machine())
    on_disk.add(log, b"x" * 50)
    assert not log.wants_snapshot
    on_disk.add(log, b"x" * 50)
    assert log.wants_snapshot
    log.trim(2, b"y" * 300)
    on_disk.run()
    on_disk.add(log, b"x" * 200)
    assert not log.wants_snapshot, "not before as much is appended as the snapshot takes"
    on_disk.add(log, b"x" * 200)
    assert log.wants_snapshot
