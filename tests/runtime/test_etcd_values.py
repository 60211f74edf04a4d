"""What stands in etcd and in the local copy, byte for byte, and the settings. No etcd is needed."""

import asyncio
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConfigError
from penstock.controller.errors import (
    CorruptMetadata,
    MetadataError,
    MetadataLogFenced,
    MetadataLogFull,
    UnsupportedMetadata,
)
from penstock.runtime.etcd import EtcdConfig, LocalFiles
from penstock.runtime.etcd.client import EtcdClient
from penstock.runtime.etcd.entry import (
    PART_BYTES,
    Entry,
    EntryId,
    SnapshotHead,
    decode_entry,
    decode_snapshot_head,
    encode_entry,
    encode_snapshot_head,
    part_count,
    split_parts,
    whole_entry,
)
from penstock.runtime.etcd.feed import Feed
from penstock.runtime.etcd.local_copy import LocalCopy
from penstock.runtime.etcd.store import Store
from penstock.runtime.etcd.wire import TxnAnswer, decode
from tests.controller.replicated_log_contract import Machine
from tests.runtime.crash_disk import CrashDisk, StepLoop

_IDS = st.builds(
    EntryId, term=st.integers(0, 2**63 - 1), proposal_id=st.binary(min_size=16, max_size=16)
)
_ENTRIES = st.builds(Entry, entry_id=_IDS, payload=st.binary(max_size=200))


@given(entry=_ENTRIES)
def test_entries_come_back_as_they_were(entry: Entry) -> None:
    assert whole_entry(encode_entry(entry)) == entry
    in_parts = decode_entry(encode_entry(entry, in_parts=True))
    assert in_parts.payload is None
    assert (in_parts.entry_id, in_parts.length) == (entry.entry_id, len(entry.payload))


@given(entry=_ENTRIES, position=st.integers(0, 1000), data=st.data())
def test_damaged_entry_is_refused_or_differs_only_in_its_id(
    entry: Entry, position: int, data: st.DataObject
) -> None:
    whole = bytearray(encode_entry(entry))
    at = position % len(whole)
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        read = decode_entry(whole)
    except (CorruptMetadata, UnsupportedMetadata):
        return
    assert at < 28  # flags and id; the payload is covered by its checksum
    assert read.payload in (None, entry.payload)


@given(
    head=st.builds(
        SnapshotHead,
        last_index=st.integers(0, 2**63 - 1),
        entry_id=_IDS,
        snapshot_id=st.binary(min_size=16, max_size=16),
        crc=st.integers(0, 2**32 - 1),
        length=st.integers(0, 2**63 - 1),
    )
)
def test_snapshot_heads_come_back_as_they_were(head: SnapshotHead) -> None:
    assert decode_snapshot_head(encode_snapshot_head(head)) == head


@pytest.mark.parametrize("length", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1])
def test_parts_are_as_many_as_the_length_says(length: int) -> None:
    parts = split_parts(bytes(length))
    assert len(parts) == part_count(length)
    assert sum(map(len, parts)) == length


def test_short_values_are_refused() -> None:
    with pytest.raises(CorruptMetadata, match="3 bytes are no metadata entry"):
        decode_entry(b"abc")
    with pytest.raises(CorruptMetadata, match="3 bytes are no metadata snapshot"):
        decode_snapshot_head(b"abc")


def test_values_of_a_newer_release_are_refused() -> None:
    value = bytearray(encode_entry(Entry(EntryId(1, bytes(16)), b"a")))
    value[0] = 2
    with pytest.raises(UnsupportedMetadata, match="start the release that wrote it"):
        decode_entry(value)


def test_gateway_answers_are_read_with_numbers_as_text_and_defaults_left_out() -> None:
    answer = decode(
        b'{"header":{"revision":"7","raft_term":"2"},"responses":[{"response_range":'
        b'{"kvs":[{"key":"eA==","create_revision":"2","mod_revision":"3","value":"MQ=="}]}}]}',
        TxnAnswer,
    )
    assert answer.header.revision == 7
    assert not answer.succeeded
    found = answer.responses[0].first()
    assert found is not None
    assert (found.key, found.value, found.mod_revision) == (b"x", b"1", 3)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"endpoints": ()}, "name 1 to 16"),
        ({"endpoints": ("localhost:2379",)}, "is no address"),
        ({"endpoints": ("http://localhost",)}, "is no address"),
        ({"endpoints": ("ftp://localhost:1",)}, "is no address"),
        ({"key_prefix": "penstock"}, "must begin with /"),
        ({"user": "me"}, "needs etcd.password_file"),
        ({"tls_key_file": "key"}, "or neither"),
    ],
)
def test_settings_that_can_not_be_say_what_to_change(
    settings: dict[str, object], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        EtcdConfig(**settings)  # type: ignore[arg-type]


def test_password_and_tls_files_that_are_missing_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(ConfigError, match=r"password_file .*missing can not be read"):
        EtcdClient(EtcdConfig(user="me", password_file=missing))
    with pytest.raises(ConfigError, match="TLS file can not be used"):
        EtcdClient(EtcdConfig(endpoints=("https://h:1",), tls_authority_file=missing))


def test_missing_aiohttp_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ConfigError, match=r"pip install 'penstock\[etcd\]'"):
        EtcdClient(EtcdConfig())


def test_cluster_id_that_could_reach_other_keys_is_refused() -> None:
    client = EtcdClient(EtcdConfig())
    for cluster_id in ("", "a/b", "a b"):
        with pytest.raises(ConfigError, match="can not name keys"):
            Store(client, "/penstock", cluster_id)


# --- the local copy -------------------------------------------------------------------------------


class Copy:
    """A local copy on a disk that forgets what was not synced."""

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.loop = StepLoop()
        self.outcomes: list[MetadataError | None] = []

    def open(self) -> LocalCopy:
        return LocalCopy(LocalFiles(self.disk, "metadata", self.loop))

    def append(self, copy: LocalCopy, first_index: int, *payloads: bytes) -> None:
        entries = [entry(index, one) for index, one in enumerate(payloads, first_index)]
        copy.append(first_index, entries, self.outcomes.append)
        self.loop.run()

    def crash(self) -> LocalCopy:
        self.loop.forget()
        self.disk.crash()
        return self.open()


def entry(index: int, payload: bytes) -> Entry:
    return Entry(EntryId(1, index.to_bytes(16)), payload)


def test_copy_has_after_a_crash_what_was_appended() -> None:
    one = Copy()
    copy = one.open()
    one.append(copy, 1, b"a", b"b")
    one.append(copy, 3, b"c")
    found = one.crash().found
    assert found.entries == [entry(1, b"a"), entry(2, b"b"), entry(3, b"c")]
    assert found.snapshot_index == 0


def test_copy_cut_at_any_byte_has_the_entries_in_front_of_the_cut() -> None:
    one = Copy()
    copy = one.open()
    ends = []
    for index, payload in enumerate((b"a", b"bb", b"ccc"), 1):
        one.append(copy, index, payload)
        ends.append(len(one.disk.files["metadata/copy"].data))
    whole = bytes(one.disk.files["metadata/copy"].data)
    start = ends[0] - (ends[1] - ends[0] - 1)  # where the first frame begins
    for length in range(start, len(whole) + 1):
        one.disk.files["metadata/copy"].data = bytearray(whole[:length])
        assert len(one.open().found.entries) == sum(end <= length for end in ends)


def test_compaction_keeps_the_id_of_its_last_entry_and_what_follows() -> None:
    one = Copy()
    copy = one.open()
    one.append(copy, 1, b"a", b"b", b"c")
    ids: list[EntryId | None] = []
    copy.compact(2, b"ab", ids.append)
    one.loop.run()
    one.append(copy, 4, b"d")
    found = one.crash().found
    assert ids == [found.snapshot_id] == [entry(2, b"b").entry_id]
    assert (found.snapshot_index, bytes(found.snapshot)) == (2, b"ab")
    assert found.entries == [entry(3, b"c"), entry(4, b"d")]


def test_snapshot_from_elsewhere_replaces_everything() -> None:
    one = Copy()
    copy = one.open()
    one.append(copy, 1, b"a")
    copy.replace(9, entry(9, b"").entry_id, b"state", one.outcomes.append)
    copy.compact(1, b"older", one.outcomes.append)  # type: ignore[arg-type]
    one.loop.run()
    one.append(copy, 10, b"j")
    found = one.crash().found
    assert one.outcomes == [None, None, None, None]
    assert (found.snapshot_index, found.entries) == (9, [entry(10, b"j")])


def test_full_disk_changes_nothing_and_later_takes_the_entry() -> None:
    one = Copy()
    copy = one.open()
    one.append(copy, 1, b"a")
    one.disk.room = len(one.disk.files["metadata/copy"].data) + 10
    one.append(copy, 2, b"b")
    assert isinstance(one.outcomes[-1], MetadataLogFull)
    one.disk.room = 1 << 40
    one.append(copy, 2, b"b")
    assert one.crash().found.entries == [entry(1, b"a"), entry(2, b"b")]


def test_failed_fsync_is_final() -> None:
    one = Copy()
    copy = one.open()
    one.disk.fail_sync = True
    one.append(copy, 1, b"a")
    one.disk.fail_sync = False
    one.append(copy, 1, b"a")
    assert [type(outcome) for outcome in one.outcomes] == [MetadataLogFenced, MetadataLogFenced]


def test_damaged_copy_says_where_and_what_to_do() -> None:
    one = Copy()
    copy = one.open()
    one.append(copy, 1, b"a" * 50)
    one.append(copy, 2, b"b")
    one.disk.files["metadata/copy"].data[60] ^= 1
    with pytest.raises(CorruptMetadata, match=r"metadata/copy: .*move the file away and start"):
        one.open()


# --- the feed -------------------------------------------------------------------------------------


class _Loop(StepLoop):
    """The few calls of an event loop that a feed makes."""

    def call_soon(self, callback, *args):
        return super().call_soon(lambda: callback(*args))


@given(offers=st.lists(st.integers(1, 12), max_size=60), runs=st.sets(st.integers(0, 60)))
def test_feed_applies_each_entry_once_and_in_order_whoever_offers_it(
    offers: list[int], runs: set[int]
) -> None:
    disk, loop, machine = CrashDisk(), _Loop(), Machine()
    feed = Feed(LocalCopy(LocalFiles(disk, "metadata", loop)), loop)  # type: ignore[arg-type]
    feed.start(machine)
    expected = 0
    for number, index in enumerate(offers):
        is_taken = feed.offer(index, entry(index, b"%d" % index))
        assert is_taken == (index <= expected + 1)
        expected = max(expected, index) if is_taken else expected
        if number in runs:
            loop.run()
    loop.run()
    assert machine.state == [b"%d" % index for index in range(1, expected + 1)]
    again = LocalCopy(LocalFiles(disk, "metadata", loop))
    assert len(again.found.entries) == expected


def test_feed_goes_on_where_the_disk_has_room_again() -> None:
    disk, loop, machine = CrashDisk(), _Loop(), Machine()
    feed = Feed(LocalCopy(LocalFiles(disk, "metadata", loop)), Retrying(loop, disk))  # type: ignore[arg-type]
    feed.start(machine)
    disk.room = 0
    heard: list[bool] = []
    feed.on_applied = lambda: heard.append(feed.is_stalled)
    feed.offer(1, entry(1, b"a"))
    loop.run()
    assert heard == [True, False]
    assert machine.state == [b"a"]


class Retrying:
    """A loop on which time passes at once, and with it the disk gets room."""

    def __init__(self, loop: _Loop, disk: CrashDisk) -> None:
        self._loop = loop
        self._disk = disk
        self.call_soon = loop.call_soon

    def call_later(self, delay: float, callback, *args) -> None:
        self._disk.room = 1 << 40
        self._loop.call_soon(callback, *args)


def test_failed_disk_ends_the_feed() -> None:
    disk, loop, machine = CrashDisk(), _Loop(), Machine()
    feed = Feed(LocalCopy(LocalFiles(disk, "metadata", loop)), loop)  # type: ignore[arg-type]
    failures: list[Exception] = []
    feed.on_failed = failures.append
    feed.start(machine)
    disk.fail_sync = True
    feed.offer(1, entry(1, b"a"))
    loop.run()
    assert [type(one) for one in failures] == [MetadataLogFenced]
    assert machine.state == []


def test_closed_feed_applies_nothing_more() -> None:
    disk, loop, machine = CrashDisk(), _Loop(), Machine()
    feed = Feed(LocalCopy(LocalFiles(disk, "metadata", loop)), loop)  # type: ignore[arg-type]
    feed.start(machine)
    outcomes: list[int | MetadataError] = []
    first = entry(1, b"a")
    feed.when_applied(first.entry_id, outcomes.append)
    feed.offer(1, first)
    feed.close(MetadataLogFull("closed"))
    loop.run()
    assert machine.state == []
    assert [type(one) for one in outcomes] == [MetadataLogFull]


def test_feed_waits_for_nothing_when_nothing_is_offered() -> None:
    disk, loop = CrashDisk(), _Loop()
    feed = Feed(LocalCopy(LocalFiles(disk, "metadata", loop)), loop)  # type: ignore[arg-type]
    asyncio.run(feed.drained())
    assert feed.is_idle
