"""Consumers of committed records: what they get, when they are woken, and what they never see."""

from typing import Any

import pytest

from penstock.base.ids import BrokerId, Offset, Position
from penstock.broker.config import SlaveReads
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.storage.config import Retention
from tests.broker.cluster import Asked, Cluster, fetch_fields
from tests.broker.transactional import (
    ABORT,
    COMMIT,
    ask_fetch,
    ask_latest,
    bases,
    committed,
    end,
    events,
    fetch,
    fetched,
    forget_indexes,
    hosted,
    list_offset,
    told_aborted,
    write,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
LONG_MS = 20_000
RACKS: dict[str, Any] = {"slave_reads": SlaveReads.RACK}


def values(answer: Any, position: int = 0) -> list[bytes | None]:
    return [value for _, value in committed(answer, position)[0]]


def two_transactions(count: int = 2, **config: Any) -> Cluster:
    """Plain 0; producer 1 aborts 1 (marker 3); producer 2 has 2 and is open; plain 4."""
    cluster = events(count, **config)
    node = cluster.nodes[0]
    write(node, -1, b"plain")
    write(node, 1, b"aborted")
    write(node, 2, b"open")
    end(node, 1, ABORT)
    write(node, -1, b"after")
    cluster.replicate()
    return cluster


@pytest.mark.parametrize("version", range(4, 19))
def test_each_version_tells_of_what_is_stable_and_what_was_aborted(version: int) -> None:
    cluster = two_transactions()
    node = cluster.nodes[0]
    answer = ask_fetch(node, 0, version=version)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 5, 2)
    assert bases(answer) == [0, 1]
    assert told_aborted(answer) == [(1, 1)]
    assert values(answer) == [b"plain"]
    end(node, 2, COMMIT)
    cluster.replicate()
    answer = ask_fetch(node, 0, version=version)
    assert (answer.high_watermark, answer.last_stable_offset) == (6, 6)
    assert values(answer) == [b"plain", b"open", b"after"]


@pytest.mark.parametrize("version", [4, 12, 17])
def test_who_reads_all_records_is_told_of_no_aborted_ones(version: int) -> None:
    cluster = two_transactions()
    answer = ask_fetch(cluster.nodes[0], 0, version=version, isolation=0)
    assert bases(answer) == [0, 1, 2, 3, 4]
    assert told_aborted(answer) is None
    assert (answer.high_watermark, answer.last_stable_offset) == (5, 2)


def test_a_marker_counts_once_it_is_confirmed() -> None:
    cluster = two_transactions()
    node = cluster.nodes[0]
    end(node, 2, ABORT)
    cluster.world.run()
    answer = ask_fetch(node, 2)
    assert (answer.last_stable_offset, bases(answer)) == (2, [])
    assert list_offset(node, LATEST).offset == 2
    cluster.replicate()
    answer = ask_fetch(node, 2)
    assert (answer.last_stable_offset, values(answer)) == (6, [b"after"])
    assert told_aborted(answer) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("min_bytes", [1, 90, 30_000])
@pytest.mark.parametrize("version", [4, 12])
def test_a_fetch_that_waits_at_the_stable_end_is_woken_by_the_confirmed_marker(
    min_bytes: int, version: int
) -> None:
    cluster = two_transactions()
    node = cluster.nodes[0]
    asked = fetch(node, 2, wait_ms=LONG_MS, min_bytes=min_bytes, version=version)
    write(node, -1, b"more")
    cluster.replicate()
    assert asked.answer is None
    end(node, 2, COMMIT)
    cluster.world.run()
    assert asked.answer is None, "the marker is not confirmed"
    cluster.replicate()
    expected = [b"open", b"after", b"more"]
    if min_bytes > 1000:
        assert asked.answer is None, "there is too little"
        expected.append(b"x" * min_bytes)
        write(node, -1, expected[-1])
        cluster.replicate()
    assert values(fetched(asked), 2) == expected


def test_a_fetch_that_waits_for_much_is_not_answered_for_what_is_not_stable() -> None:
    cluster = two_transactions()
    node = cluster.nodes[0]
    write(node, -1, b"x" * 3000)
    cluster.replicate()
    asked = fetch(node, 0, wait_ms=LONG_MS, min_bytes=2000)
    write(node, -1, b"x" * 3000)
    cluster.replicate()
    assert asked.answer is None
    cluster.world.advance(LONG_MS)
    assert bases(fetched(asked)) == [0, 1]
    assert told_aborted(fetched(asked)) == [(1, 1)]


@pytest.mark.parametrize("offset", [2, 0])  # from 0 there is something, and too little
def test_a_fetch_that_waits_for_much_is_woken_by_a_marker_if_that_makes_enough_stable(
    offset: int,
) -> None:
    cluster = two_transactions()
    node = cluster.nodes[0]
    write(node, -1, b"x" * 3000)
    cluster.replicate()
    asked = fetch(node, offset, wait_ms=LONG_MS, min_bytes=2000)
    assert asked.answer is None
    end(node, 2, COMMIT)
    cluster.replicate()
    expected = [b"open", b"after", b"x" * 3000]
    assert values(fetched(asked), offset) == [*([b"plain"] if offset == 0 else []), *expected]


def test_a_marker_that_is_not_confirmed_counts_less_than_a_newer_open_transaction() -> None:
    cluster = events()
    node = cluster.nodes[0]
    write(node, 1, b"first")
    write(node, 2, b"second")
    cluster.replicate()
    end(node, 1, COMMIT)
    cluster.world.run()
    assert ask_fetch(node, 0).last_stable_offset == 0
    cluster.replicate()
    assert ask_fetch(node, 0).last_stable_offset == 1


def test_aborted_transactions_are_named_by_their_first_offsets() -> None:
    cluster = events()
    node = cluster.nodes[0]
    for producer in (1, 2, 3):
        write(node, producer, b"x")
    for producer in (3, 1, 2):
        end(node, producer, ABORT)
    cluster.replicate()
    assert told_aborted(ask_fetch(node, 0)) == [(1, 0), (2, 1), (3, 2)]


def test_a_fetch_at_the_deadline_is_told_of_the_stable_end_of_then() -> None:
    cluster = two_transactions()
    asked = fetch(cluster.nodes[0], 2, wait_ms=LONG_MS)
    cluster.world.advance(LONG_MS)
    answer = fetched(asked)
    assert (bases(answer), answer.last_stable_offset, told_aborted(answer)) == ([], 2, [])


def test_a_session_tells_of_the_partition_when_the_marker_is_confirmed() -> None:
    cluster = two_transactions()
    node = cluster.nodes[0]
    first = fetch(node, 0, session_epoch=0)
    cluster.world.run()
    session = first.answer.session_id
    assert session
    nothing = fetch(node, 2, session_id=session, session_epoch=1)
    cluster.world.run()
    assert not nothing.answer.responses
    end(node, 2, ABORT)
    cluster.replicate()
    third = fetch(node, 2, session_id=session, session_epoch=2)
    cluster.world.run()
    assert values(fetched(third), 2) == [b"after"]
    assert told_aborted(fetched(third)) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("version", [2, 4, 6, 7, 11])
def test_the_latest_offset_is_the_stable_one(version: int) -> None:
    cluster = two_transactions()
    node = cluster.nodes[0]
    assert list_offset(node, LATEST, version=version).offset == 2
    assert list_offset(node, LATEST, version=version, isolation=0).offset == 5
    assert list_offset(node, EARLIEST, version=version).offset == 0
    end(node, 2, COMMIT)
    cluster.world.run()
    assert list_offset(node, LATEST, version=version).offset == 2
    cluster.replicate()
    assert list_offset(node, LATEST, version=version).offset == 6


def test_no_record_behind_the_stable_end_is_found_by_its_time() -> None:
    cluster = events()
    node = cluster.nodes[0]
    write(node, 2, b"open")
    cluster.replicate()
    assert list_offset(node, 0).offset == -1
    assert list_offset(node, MAX_TIMESTAMP).offset == -1
    assert list_offset(node, 0, isolation=0).offset == 0
    end(node, 2, COMMIT)
    cluster.world.run()
    assert list_offset(node, 0).offset == -1
    cluster.replicate()
    assert list_offset(node, 0).offset == 0


def test_slaves_serve_up_to_what_they_know_to_be_stable() -> None:
    cluster = two_transactions(3, **RACKS)
    master, slave = cluster.nodes[0], cluster.nodes[1]
    answer = ask_fetch(slave, 0, rack="rack-1")
    assert (answer.last_stable_offset, values(answer)) == (2, [b"plain"])
    assert told_aborted(answer) == [(1, 1)]
    asked = fetch(slave, 2, rack="rack-1", wait_ms=LONG_MS)
    end(master, 2, ABORT)
    cluster.replicate(1)
    assert asked.answer is None, "the other slave lacks the marker"
    assert ask_fetch(slave, 2, rack="rack-1").last_stable_offset == 2
    cluster.replicate()
    assert values(fetched(asked), 2) == [b"after"]
    assert told_aborted(fetched(asked)) == [(1, 1), (2, 2)]


def test_a_marker_that_is_cut_off_leaves_the_transaction_open() -> None:
    """The master fails with a marker that nobody else has."""
    cluster = two_transactions(3, **RACKS)
    end(cluster.nodes[0], 2, COMMIT)
    cluster.world.run()
    cluster.lead(1)
    cluster.align()
    cluster.replicate()
    for node, rack in ((cluster.nodes[1], ""), (cluster.nodes[0], "rack-0")):
        answer = ask_fetch(node, 0, rack=rack)
        assert (answer.last_stable_offset, values(answer)) == (2, [b"plain"])
    end(cluster.nodes[1], 2, ABORT)
    cluster.replicate()
    for node, rack in ((cluster.nodes[1], ""), (cluster.nodes[0], "rack-0")):
        answer = ask_fetch(node, 2, rack=rack)
        assert (told_aborted(answer), values(answer, 2)) == ([(1, 1), (2, 2)], [b"after"])


def test_a_marker_that_a_new_master_has_counts_once_its_epoch_is_confirmed() -> None:
    cluster = two_transactions(3)
    end(cluster.nodes[0], 2, COMMIT)
    cluster.replicate(1)
    asked = fetch(cluster.nodes[0], 2, wait_ms=LONG_MS)
    cluster.lead(1)
    assert fetched(asked).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node = cluster.nodes[1]
    assert list_offset(node, LATEST).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask_fetch(node, 2).last_stable_offset == 2
    cluster.align()
    cluster.replicate()
    assert list_offset(node, LATEST).offset == 6
    assert values(ask_fetch(node, 2), 2) == [b"open", b"after"]


def test_what_was_read_ahead_is_not_served_beyond_the_stable_end() -> None:
    cluster = events()
    node = cluster.nodes[0]
    for number in range(12):
        write(node, -1, b"x" * 900 + b"%d" % number)
    write(node, 1, b"open")
    for number in range(12):
        write(node, -1, b"x" * 900 + b"%d" % number)
    cluster.replicate()
    position, seen = 0, []
    for _ in range(8):
        answer = ask_fetch(node, position, partition_max=4000)
        found, position = committed(answer, position)
        seen += found
    assert position == 12
    end(node, 1, ABORT)
    cluster.replicate()
    for _ in range(8):
        answer = ask_fetch(node, position, partition_max=4000)
        found, position = committed(answer, position)
        seen += found
    assert [offset for offset, _ in seen] == [*range(12), *range(13, 25)]
    assert node.broker.stats.reads_ahead_used


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_what_is_read_ahead_of_one_who_reads_all_is_not_for_one_who_does_not(
    is_on_disk: bool,
) -> None:
    cluster = events()
    node = cluster.nodes[0]
    fill(cluster, -1, 12)
    fill(cluster, 1, 1)
    fill(cluster, -1, 100)
    cluster.replicate()
    for offset in (0, 5):
        asked = fetch(node, offset, isolation=0, partition_max=5500)
        assert bases(fetched(asked)) == list(range(offset, offset + 5))
    if is_on_disk:
        forget_indexes(node)
        cluster.world.turn()
    else:
        cluster.world.run()
        assert node.broker.read_ahead.kept_bytes
    answer = fetch(node, 10, partition_max=5500)
    cluster.world.run()
    assert bases(fetched(answer)) == [10, 11]


def over_many_segments(*, is_commit: bool = ABORT, **config: Any) -> Cluster:
    """Producer 1 has 0 and 1, then 200 plain ones follow in some segments, then its marker."""
    cluster = events(**config)
    node = cluster.nodes[0]
    write(node, 1, b"first")
    write(node, 1, b"second")
    for number in range(200):
        write(node, -1, b"x" * 1000 + b"%d" % number)
        cluster.world.run()
    end(node, 1, is_commit)
    cluster.world.run()
    cluster.replicate()
    assert len(node.member.log.parts.store.segments) > 3
    return cluster


@pytest.mark.parametrize("is_forgotten", [False, True])
@pytest.mark.parametrize("is_commit", [False, True])
def test_a_marker_in_a_later_segment_is_found(is_forgotten: bool, is_commit: bool) -> None:
    cluster = over_many_segments(is_commit=is_commit)
    node = cluster.nodes[0]
    if is_forgotten:
        forget_indexes(node)
    for start in (0, 1):
        answer = ask_fetch(node, start, partition_max=3000)
        assert told_aborted(answer) == ([] if is_commit else [(1, 0)])
        expected = [b"first", b"second"][start:] if is_commit else []
        assert values(answer, start)[: len(expected)] == expected
        assert values(answer, start)[len(expected)].startswith(b"x")  # type: ignore[union-attr]


def test_a_disk_error_in_the_search_is_answered_without_records() -> None:
    cluster = over_many_segments()
    node = cluster.nodes[0]
    ask_fetch(node, 0, partition_max=3000)  # the file is open, the batches are in the page cache
    forget_indexes(node)
    asked = fetch(node, 0, partition_max=3000)
    world = cluster.world
    world.turn()
    world.work_one()  # the batches
    world.turn()
    node.disk.fail("read", ".idx", 5)
    world.run()
    answer = fetched(asked)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not answer.records
    assert told_aborted(answer) in (None, [])
    answer = ask_fetch(node, 0, partition_max=3000)
    assert (answer.error_code, told_aborted(answer)) == (0, [(1, 0)])


def loading(cluster: Cluster) -> tuple[Asked, Any]:
    """A fetch of a transaction that was aborted, and its read of the disk, which is held back."""
    node = cluster.nodes[0]
    write(node, 1, b"aborted")
    end(node, 1, ABORT)
    for _ in range(200):
        write(node, -1, b"x" * 1000)
        cluster.world.run()
    cluster.replicate()
    forget_indexes(node)
    asked = fetch(node, 0, partition_max=300)
    cluster.world.turn()
    return asked, cluster.world.work.pop()


def test_records_that_go_while_they_are_read_are_not_served() -> None:
    """With their segment goes what says that they were aborted."""
    cluster = events()
    asked, read = loading(cluster)
    log = cluster.nodes[0].member.log
    log.checkpoint()
    log.apply_retention(4000, lambda _: Retention(1000, -1))
    cluster.world.run()
    assert log.start_position > 0
    cluster.world.work.append(read)
    cluster.world.run()
    answer = fetched(asked)
    assert (answer.error_code, values(answer)) == (ErrorCode.OFFSET_OUT_OF_RANGE, [])


def test_records_of_a_log_that_begins_anew_while_another_is_read_are_not_served() -> None:
    """One log's batches are in memory; while the disk reads another log, that one is reset."""
    cluster = Cluster(2, set_count=2, **RACKS)
    cluster.create("events")
    cluster.create("other")
    node, other = cluster.nodes[0], hosted(cluster.nodes[0], "other").member
    set_id, log = hosted(node).member.replica_set_id, hosted(node).member.log
    assert set_id != other.replica_set_id
    for _ in range(200):
        write(node, -1, b"x" * 1000, topic="other")
        cluster.world.run()
    write(node, 1, b"aborted")
    end(node, 1, ABORT)
    for each in (0, 1):
        cluster.replicate(set_id=each)
    for segment in other.log.parts.store.segments[:-1]:
        other.log.parts.reader.cache.drop_segment(segment.base)
    cluster.lead(1, set_id=set_id)
    cluster.replicate(set_id=set_id)
    fields = fetch_fields("events", 0, 0, -1, -1)
    second = fetch_fields("other", 0, 0, -1, -1)["topics"]
    both = fields | {"isolation_level": 1, "rack_id": "rack-0", "topics": fields["topics"] + second}
    asked = node.send(ApiKey.FETCH, 12, both)
    read = cluster.world.work.pop()
    log.reset_to(log.end_position, Position(log.end_position + 100_000), lambda _: None)
    cluster.world.run()
    assert fetched(asked) is None
    cluster.world.work.append(read)
    cluster.world.run()
    answer = fetched(asked)
    assert (answer.error_code, values(answer)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
    told: Any = asked.answer
    assert bases(told.responses[1].partitions[0])


@pytest.mark.parametrize("second", [-1, 2])
def test_no_more_is_served_than_the_disk_has_told_of(second: int) -> None:
    """More is confirmed while the disk is asked for the high watermark."""
    cluster = events()
    node, slave = cluster.nodes[0], cluster.nodes[1].member.log
    fill(cluster, -1, 100)
    cluster.replicate()
    fill(cluster, 1, 10)
    end(node, 1, ABORT)
    fill(cluster, second, 10)
    later = node.member.log.end_position
    fill(cluster, -1, 200)
    cluster._copy(node.member.log, slave)
    forget_indexes(node)
    asked, latest = fetch(node, 95), ask_latest(node)
    cluster.world.turn()
    node.member.acknowledge(BrokerId(1), later)
    cluster.world.run()
    answer = fetched(asked)
    assert (answer.high_watermark, answer.last_stable_offset) == (100, 100)
    assert bases(answer) == [95, 96, 97, 98, 99]
    answer = ask_fetch(node, 95)
    assert latest.answer.topics[0].partitions[0].offset in {100, answer.last_stable_offset}
    assert answer.last_stable_offset == answer.high_watermark - (10 if second > 0 else 0)
    assert told_aborted(answer) == [(1, 100)]


def fill(cluster: Cluster, producer: int, count: int) -> None:
    for _ in range(count):
        write(cluster.nodes[0], producer, b"x" * 1000)
        cluster.world.run()


def test_the_stable_end_is_not_below_a_log_start_that_deletes_a_part_of_a_transaction() -> None:
    cluster = events()
    node = cluster.nodes[0]
    for producer in (1, -1, 1, -1):
        write(node, producer, b"x")
    cluster.replicate()
    place = hosted(node)
    place.member.log.delete_records(place.log, Offset(2))
    cluster.replicate()
    answer = ask_fetch(node, 2)
    assert (answer.last_stable_offset, answer.log_start_offset, bases(answer)) == (2, 2, [])
    assert list_offset(node, LATEST).offset == 2
    assert list_offset(node, 0).offset == -1
    end(node, 1, ABORT)
    cluster.replicate()
    answer = ask_fetch(node, 2)
    assert answer.last_stable_offset == 5
    assert [offset for offset, _ in committed(answer, 2)[0]] == [3]
