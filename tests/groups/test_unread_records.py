"""What this version can not read of the internal topic outlives its rewrites, byte for byte."""

from typing import Any

import pytest

from penstock.base.invariant import InvariantViolation
from penstock.broker.coordinators.rewrite import SLICE_BYTES
from penstock.coordinator.records import JournalRecord, UnreadRecord, records_bytes
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.unwritten import Unwritten
from penstock.groups.classic.group import Group
from penstock.groups.counters import GroupCounters
from penstock.groups.loading import GroupLoader
from penstock.groups.pinned import PinnedBytes
from penstock.groups.records import (
    CommittedOffset,
    GroupRecord,
    TopicKey,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from penstock.protocol.error_codes import ErrorCode
from tests.groups.test_loading import rewrite
from tests.groups.world import GROUP, HandClock, World, only

KEY = encode_offset_key(GROUP, TopicKey("t", 0))
NEWER_OFFSET = b"\x00\x63 as a later version writes it"
UNKNOWN = UnreadRecord(b"\x00\x09future", b"x", (("h", b"1"), ("null", None)), 1_234)
TRUNCATED = UnreadRecord(b"\x00\x01\x7f", b"y", (), 5)


def log_of(world: World) -> list[JournalRecord]:
    return world.journal.logs[world.coordinator.partition_of(GROUP)]


def with_records(*records: JournalRecord, **settings: Any) -> World:
    """A world with a position, then these records, loaded."""
    world = World(**settings)
    world.commit({("t", 0): 1})
    log_of(world).extend(records)
    world.restart()
    return world


def rewritten(world: World, times: int = 2) -> list[JournalRecord]:
    """The partition's records after rewrites, with a restart behind each."""
    for _ in range(times):
        rewrite(world)
        world.restart()
    return log_of(world)


def test_keys_of_unknown_kinds_are_kept_whole_by_every_rewrite() -> None:
    world = with_records(UNKNOWN, TRUNCATED)
    assert world.coordinator.counters.records_unread == 2
    log = rewritten(world)
    assert log[1:] == [UNKNOWN, TRUNCATED]
    assert world.committed() == 1


@pytest.mark.parametrize("known", [KEY, b"\x00\x00" + KEY[2:], encode_group_key(GROUP)])
def test_a_known_key_with_more_behind_it_is_an_unknown_one(known: bytes) -> None:
    # A newer form that begins like one of ours: it names something else than what we read of it.
    newer = UnreadRecord(known + b"\x00\x07", encode_offset_value(CommittedOffset(9)), (), 4)
    world = with_records(newer, newer._replace(value=None, key=known + b"\x01"))
    assert world.committed() == 1
    assert world.coordinator.counters.records_unread == 2
    assert rewritten(world)[1:] == [newer]


def test_of_an_unknown_key_the_newest_record_is_kept_and_a_tombstone_ends_it() -> None:
    newest = UNKNOWN._replace(value=b"newest", timestamp_ms=9)
    world = with_records(UNKNOWN, TRUNCATED, newest, TRUNCATED._replace(value=None))
    log = rewritten(world)
    assert log[1:] == [newest]


def test_records_without_a_key_are_kept_in_their_order() -> None:
    keyless = [UnreadRecord(None, value, (), 7) for value in (b"a", None, b"a")]
    assert rewritten(with_records(*keyless))[1:] == keyless


def test_a_position_of_a_later_version_stays_and_readers_go_on_from_the_one_before() -> None:
    newer = UnreadRecord(KEY, NEWER_OFFSET, (("h", b""),), 77)
    world = with_records(newer)
    before = decode_offset_value(log_of(world)[0][1] or b"")
    assert world.committed() == 1
    assert rewritten(world) == [(KEY, encode_offset_value(before)), newer]
    assert world.committed() == 1


def test_a_position_of_a_later_version_alone_is_kept_and_tells_no_position() -> None:
    newer = UnreadRecord(KEY, NEWER_OFFSET, (), 77)
    world = with_records((KEY, None), newer)
    assert rewritten(world) == [newer]
    assert world.committed() == -1


def test_a_commit_takes_the_place_of_a_position_of_a_later_version() -> None:
    world = with_records(UnreadRecord(KEY, NEWER_OFFSET))
    world.commit({("t", 0): 5})
    log = rewritten(world)
    assert [record[0] for record in log] == [KEY]
    assert world.committed() == 5


def test_a_commit_that_is_refused_does_not_take_its_place() -> None:
    newer = UnreadRecord(KEY, NEWER_OFFSET)
    world = with_records(newer)
    world.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    world.commit({("t", 0): 5})
    world.journal.refuses = None
    assert rewritten(world)[1:] == [newer]


def test_a_tombstone_ends_a_position_of_a_later_version() -> None:
    world = with_records(UnreadRecord(KEY, NEWER_OFFSET), (KEY, None))
    assert rewritten(world) == []
    assert world.committed() is None


def test_a_known_position_that_says_more_than_this_version_reads_is_used_and_kept() -> None:
    plain = encode_offset_value(CommittedOffset(8, topic_id=bytes(16)))
    # One tagged field more than this version knows: number 9, one byte.
    value = plain[: -len(b"\x01\x00\x10") - 16] + b"\x02" + plain[-18:] + b"\x09\x01!"
    record = UnreadRecord(KEY, value, (), 3)
    world = with_records(record)
    assert world.committed() == 8
    assert rewritten(world) == [record]
    assert world.committed() == 8


def test_headers_of_known_records_are_kept_until_the_next_record_of_the_key() -> None:
    value = encode_offset_value(CommittedOffset(8))
    world = with_records(UnreadRecord(KEY, value, (("by", b"newer"),), 3))
    assert rewritten(world) == [UnreadRecord(KEY, value, (("by", b"newer"),), 3)]
    world.commit({("t", 0): 9})
    assert [len(record) for record in rewritten(world)] == [2]


def test_a_group_of_a_later_version_is_kept_until_it_comes_together_again() -> None:
    world = World()
    member = world.stable()[0].member_id
    newer = UnreadRecord(encode_group_key(GROUP), b"\x00\x07 members", (), 3)
    log_of(world).append(newer)
    world.restart()
    assert world.beat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rewritten(world) == [newer]
    world.pass_ms(world.config.offsets_retention_ms + world.config.expiry_check_interval_ms)
    assert rewritten(world) == [newer], "nobody can tell whether it is over"
    world.stable()
    assert newer not in rewritten(world)
    assert world.state() == "Stable"


def test_an_operator_can_delete_a_group_of_a_later_version() -> None:
    world = with_records(
        UnreadRecord(KEY, NEWER_OFFSET), UnreadRecord(encode_group_key(GROUP), b"\x00\x07")
    )
    answers: list[object] = []
    world.coordinator.delete_groups([GROUP], answers.append)
    assert only(answers) == {GROUP: ErrorCode.NONE}
    assert rewritten(world) == []


@pytest.mark.parametrize("count", [1, 40])
def test_more_than_the_bound_stays_in_the_log_which_is_not_rewritten(count: int) -> None:
    records = [UNKNOWN._replace(key=b"\x00\x09%d" % n, value=bytes(2_000)) for n in range(count)]
    world = with_records(*records, unread_bytes_max=20_000, rewrite_after_bytes=1)
    partition = world.coordinator.partition_of(GROUP)
    world.commit({("t", 0): 2})
    if count == 1:
        assert world.coordinator.runtime.base.rewrites.due() == (partition,)
        assert 2_000 < world.coordinator.runtime.unread_bytes < 3_000
        return
    assert world.coordinator.runtime.base.rewrites.due() == ()
    assert world.coordinator.runtime.base.rewrites.held == (partition,)
    assert world.coordinator.runtime.unread_bytes == 0
    with pytest.raises(InvariantViolation):
        world.coordinator.runtime.snapshot(partition)
    assert world.committed() == 2
    world.coordinator.runtime.unload(partition)
    assert not world.coordinator.runtime.base.rewrites.held


def test_above_the_bound_positions_and_groups_of_a_later_version_still_do_not_expire() -> None:
    group = UnreadRecord(encode_group_key(GROUP), b"\x00\x07" + bytes(500))
    world = with_records(UnreadRecord(KEY, NEWER_OFFSET), group, unread_bytes_max=300)
    before = list(log_of(world))
    world.pass_ms(world.config.offsets_retention_ms + world.config.expiry_check_interval_ms)
    assert log_of(world) == before
    assert world.committed() == 1


def test_superseded_records_do_not_count_against_the_bound() -> None:
    records = [UNKNOWN._replace(value=bytes(900))] * 30 + [UnreadRecord(KEY, NEWER_OFFSET)] * 30
    world = with_records(*records, unread_bytes_max=2_000)
    assert world.coordinator.runtime.base.rewrites.held == ()
    assert log_of(world)[-1] in rewritten(world, 1)


def test_batches_of_transactions_hold_their_partition_as_it_is() -> None:
    world = World(rewrite_after_bytes=1)
    world.commit({("t", 0): 1})
    partition = world.coordinator.partition_of(GROUP)
    world.coordinator.runtime.unload(partition)
    world.coordinator.runtime.begin_loading(partition)
    for record in world.journal.logs[partition]:
        world.coordinator.runtime.load(partition, record)
    world.coordinator.runtime.load_unread_batch(partition, "a transaction")
    world.coordinator.runtime.finish_loading(partition)
    assert world.committed() == 1
    assert world.coordinator.runtime.base.rewrites.due() == ()
    assert world.coordinator.runtime.base.rewrites.held == (partition,)


def test_a_large_group_is_rewritten_in_several_batches() -> None:
    world = World()
    for number in range(300):
        world.commit({("t", number): 1}, metadata="m" * 4_000)
    partition = world.coordinator.partition_of(GROUP)
    batches = [*filter(None, world.coordinator.runtime.snapshot(partition))]
    assert [len(batch) for batch in batches] == [64, 64, 64, 64, 44]
    assert max(map(records_bytes, batches)) <= SLICE_BYTES + 16_384


def test_a_commit_between_two_batches_of_one_group_is_not_undone() -> None:
    world = World()
    for number in range(200):
        world.commit({("t", number): 1})
    partition = world.coordinator.partition_of(GROUP)
    log = log_of(world)
    start = len(log)
    for batch in world.coordinator.runtime.snapshot(partition):
        log.extend(batch)
        world.commit({("t", 0): 2, ("t", 199): 2, ("new", 0): 2})
    del log[:start]
    world.restart()
    found = world.all_committed()
    assert [found["t", 0], found["t", 100], found["t", 199], found["new", 0]] == [2, 1, 2, 2]
    assert len(found) == 201


def test_a_group_deleted_between_two_batches_stays_deleted() -> None:
    world = World()
    for number in range(200):
        world.commit({("t", number): 1})
    log = log_of(world)
    start = len(log)
    for batch in world.coordinator.runtime.snapshot(world.coordinator.partition_of(GROUP)):
        log.extend(batch)
        if GROUP in world.coordinator._table.groups:
            world.coordinator.delete_groups([GROUP], lambda _: None)
    del log[:start]
    world.restart()
    assert world.coordinator.group_count == 0


def a_loader() -> GroupLoader:
    unread = UnreadRecords(0, bytes_max=1_000)
    return GroupLoader(0, unread, GroupCounters(), PinnedBytes(), HandClock())


def made(loader: GroupLoader) -> dict[str, Group]:
    making = loader.make()
    while True:
        try:
            next(making)
        except StopIteration as end:
            return dict(end.value)


def test_metadata_that_can_not_be_read_counts_until_its_tombstone() -> None:
    key = encode_group_key("another")
    records = UnreadRecords(0, bytes_max=1_000)
    newest = UnreadRecord(key, b"\x00\x63" + bytes(200))
    records.keep(newest)
    for tombstones in (0, 1):
        loader = a_loader()
        for record in (newest._replace(value=b"\x00\x63" + bytes(300)), newest):
            loader.load(record)
        for _ in range(tombstones):
            loader.load(newest._replace(value=None))
        groups = made(loader)
        assert loader.unread.size_bytes == (0 if tombstones else records.size_bytes)
        assert len(groups) == 1 - tombstones


def test_readable_metadata_and_its_tombstone_count_nothing() -> None:
    loader = a_loader()
    value = encode_group_value(GroupRecord("consumer", 3, None, None, 0, ()))
    for one in (value, None, value):
        loader.load(UnreadRecord(encode_group_key(GROUP), one))
        assert loader.unread.size_bytes == 0
