"""What is read before a consumer asks for it: who is read ahead of, and what never is."""

import errno
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.log_world import ALL, World, append, open_log, partition_number
from penstock.base.ids import Offset, Position
from penstock.broker.append.append import append_batch
from penstock.broker.fetch.next_fetch import Upcoming
from penstock.broker.fetch.read_ahead import SWEEP_MS, ReadAhead
from penstock.broker.fetch.watermarks import confirm_position
from penstock.broker.stats import BrokerStats
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.runtime.io.disk import FileHandle
from penstock.storage.commit_log.set_log import Chunk
from tests.broker.fetches import BATCH, SIZE, counts, create, fetch_from, fill, offsets, request
from tests.live_node import ANSWER_SECONDS, LiveNode, RawClient, running_node
from tests.storage.faulty_disk import FaultyDisk


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    """One in which nobody reads files but those who fetch: the disk lets so many reads through."""
    with running_node(tmp_path, "log.scrub_bytes_per_second=0") as node:
        yield node


def read_in_order(client: RawClient) -> None:
    """Fetch twice, three batches each, so that the next three are read ahead."""
    for offset in (0, 3):
        client.ask(ApiKey.FETCH, 11, fetch_from(offset, partition_max=3 * SIZE))


def test_a_consumer_that_reads_in_order_finds_the_next_batches_read_already(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=1)
    fill(client, 12)
    stats = node.broker.stats
    seen = []
    for step in range(4):
        answer = client.ask(ApiKey.FETCH, 11, fetch_from(3 * step, partition_max=3 * SIZE))
        seen += offsets(answer)
        node.call(lambda: None)
    assert seen == list(range(12))
    assert stats.reads_ahead_used == 2  # it is in order from the second fetch on
    assert node.broker.read_ahead.kept_bytes == 0


def test_what_was_read_ahead_is_served_only_to_who_asks_for_it(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=1)
    fill(client, 12)
    read_in_order(client)
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 3 * SIZE
    elsewhere = client.ask(ApiKey.FETCH, 11, fetch_from(5, partition_max=3 * SIZE))
    assert offsets(elsewhere) == [5, 6, 7]
    smaller = client.ask(ApiKey.FETCH, 11, fetch_from(6, partition_max=2 * SIZE))
    assert offsets(smaller) == [6, 7]
    assert node.broker.stats.reads_ahead_used == 0


def test_what_was_read_ahead_of_deleted_records_is_not_served(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=1)
    fill(client, 12)
    read_in_order(client)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    node.call(lambda: hosted.member.log.delete_records(hosted.log, Offset(8)))
    answer = client.ask(ApiKey.FETCH, 11, fetch_from(6, partition_max=3 * SIZE))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_client_that_begins_with_the_same_partition_each_time_is_not_read_ahead_of(
    node: LiveNode, client: RawClient
) -> None:
    create(node)
    fill(client, 12, 12, 12)
    for offset in (0, 3, 6):
        wanted = request(max_bytes=4 * SIZE, partition_max=3 * SIZE)
        wanted["topics"][0]["partitions"][0]["fetch_offset"] = offset
        assert counts(client.ask(ApiKey.FETCH, 11, wanted)) == {0: 3, 1: 1, 2: 0}
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 0


def test_partitions_that_take_turns_are_read_ahead_as_the_next_answer_will_hold_them(
    node: LiveNode, client: RawClient
) -> None:
    create(node)
    fill(client, 12, 12, 12)
    where, order = [0, 0, 0], [0, 1, 2]
    for used in (0, 0, 2, 4, 6):
        wanted = request(max_bytes=4 * SIZE, partition_max=3 * SIZE)
        each = wanted["topics"][0]["partitions"]
        wanted["topics"][0]["partitions"] = [
            each[one] | {"fetch_offset": where[one]} for one in order
        ]
        found = counts(client.ask(ApiKey.FETCH, 11, wanted))
        assert [found[one] for one in order] == [3, 1, 0]
        assert node.broker.stats.reads_ahead_used == used
        where = [at + found[one] for one, at in enumerate(where)]
        order = [*order[1:], order[0]]
        node.call(lambda: None)


def test_a_partition_that_was_read_to_its_end_holds_back_no_other_one(
    node: LiveNode, client: RawClient
) -> None:
    create(node, partitions=2)
    fill(client, 0, 12)
    for step, used in enumerate((0, 0, 1, 2)):
        wanted = request(2, partition_max=3 * SIZE)
        wanted["topics"][0]["partitions"][1]["fetch_offset"] = 3 * step
        assert counts(client.ask(ApiKey.FETCH, 11, wanted)) == {0: 0, 1: 3}
        assert node.broker.stats.reads_ahead_used == used
        node.call(lambda: None)


def test_who_was_left_out_of_a_session_is_read_ahead_of(node: LiveNode, client: RawClient) -> None:
    create(node)
    fill(client, 5, 5, 5)
    opened = client.ask(ApiKey.FETCH, 11, request(max_bytes=SIZE, session_epoch=0))
    for epoch, used in ((1, 0), (2, 1)):
        fields = {"session_id": opened.session_id, "session_epoch": epoch, "topics": []}
        answer = client.ask(ApiKey.FETCH, 11, request(max_bytes=SIZE, **fields))
        assert counts(answer)[epoch] == 1
        assert node.broker.stats.reads_ahead_used == used
        node.call(lambda: None)


def test_what_nobody_asks_for_is_let_go(node: LiveNode, client: RawClient) -> None:
    create(node, partitions=1)
    fill(client, 12)
    read_in_order(client)
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 3 * SIZE
    node.call(node.broker.read_ahead._sweep)
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 3 * SIZE
    node.call(node.broker.read_ahead._sweep)
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 0
    assert node.broker.stats.reads_ahead_dropped == 1


def test_nothing_is_read_ahead_that_is_not_confirmed(node: LiveNode, client: RawClient) -> None:
    create(node, partitions=1)
    fill(client, 3)
    hosted = node.broker.partitions.find("events", 0)
    assert hosted is not None
    member, ahead = hosted.member, node.broker.read_ahead

    def kept_bytes() -> int:
        append_batch(hosted, memoryview(bytearray(BATCH)), -1, 1000, node.broker.stats)
        member.log.writer.write_staged()
        assert member.confirm_position < hosted.log.last_end_position
        ahead.expect(
            iter([Upcoming(hosted, Offset(3), 1 << 20)]), 1 << 20, confirm_position, is_likely=True
        )
        ahead._read_due()
        return ahead.kept_bytes

    assert node.call(kept_bytes) == 0


def test_one_timer_lets_go_of_all_that_was_read_ahead() -> None:
    world = World()
    log = open_log(world, FaultyDisk())
    partition = log.open_partition(partition_number(0))
    append(log, partition)
    world.run()
    before = len(world.later)
    ahead = ReadAhead(world, BrokerStats(), 1 << 20)
    for _ in range(5):
        chunk = log.read(partition, Offset(0), 1 << 20, ALL)
        assert isinstance(chunk, Chunk)
        ahead._keep(partition, chunk, Position(0))
        assert ahead.take(partition, Offset(0), 1 << 20, ALL) is chunk
    assert len(world.later) == before + 1
    assert isinstance(chunk, Chunk)
    ahead._keep(partition, chunk, Position(0))
    world.advance(2 * SWEEP_MS)
    assert ahead.kept_bytes == 0
    assert len(world.later) == before


class SlowDisk:
    """Real files whose pages are never in memory; each read waits until it is let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._let = threading.Semaphore(0)
        self.error: OSError | None = None
        read = FileHandle.read

        def wait_and_read(file: FileHandle, position: int, length: int) -> memoryview:
            assert self._let.acquire(timeout=ANSWER_SECONDS)
            if self.error is not None:
                raise self.error
            return read(file, position, length)

        monkeypatch.setattr(FileHandle, "gather_cached", lambda *_: [])
        monkeypatch.setattr(FileHandle, "read", wait_and_read)

    def let_through(self, reads: int) -> None:
        self._let.release(reads)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk(monkeypatch)
    yield disk
    disk.let_through(100)


def ask_for_what_is_being_read(node: LiveNode, client: RawClient, disk: SlowDisk) -> None:
    """Fetch twice in order, then ask for the next batches while the disk is busy with them."""
    disk.let_through(2)
    read_in_order(client)
    ahead = node.broker.read_ahead
    assert node.until(lambda: ahead._loading)
    client.send(ApiKey.FETCH, 11, fetch_from(6, partition_max=3 * SIZE))
    assert node.until(lambda: all(one.waiter for one in ahead._loading.values()))


def test_what_is_not_in_the_page_cache_is_read_ahead_from_the_disk(
    node: LiveNode, client: RawClient, disk: SlowDisk
) -> None:
    create(node, partitions=1)
    fill(client, 9)
    disk.let_through(3)
    read_in_order(client)
    assert node.until(lambda: node.broker.read_ahead.kept_bytes)
    answer = client.ask(ApiKey.FETCH, 11, fetch_from(6, partition_max=3 * SIZE))
    assert offsets(answer) == [6, 7, 8]
    assert node.broker.stats.reads_ahead_used == 1
    assert node.broker.stats.fetch_cold_reads == 3


def test_a_fetch_waits_for_the_disk_with_what_is_being_read_ahead(
    node: LiveNode, client: RawClient, disk: SlowDisk
) -> None:
    create(node, partitions=1)
    fill(client, 9)
    ask_for_what_is_being_read(node, client, disk)
    disk.let_through(1)
    assert offsets(client.receive(ApiKey.FETCH, 11)) == [6, 7, 8]
    assert node.broker.stats.fetch_cold_reads == 3
    assert node.call(lambda: node.broker.read_ahead.kept_bytes) == 0


def test_only_one_fetch_gets_what_is_being_read_ahead(
    node: LiveNode, client: RawClient, disk: SlowDisk
) -> None:
    create(node, partitions=1)
    fill(client, 9)
    ask_for_what_is_being_read(node, client, disk)
    with closing(node.connect()) as other:
        other.send(ApiKey.FETCH, 11, fetch_from(6, partition_max=3 * SIZE))
        assert node.until(lambda: node.broker.stats.fetch_cold_reads == 4)
        disk.let_through(2)
        assert offsets(other.receive(ApiKey.FETCH, 11)) == [6, 7, 8]
    assert offsets(client.receive(ApiKey.FETCH, 11)) == [6, 7, 8]


def test_a_fetch_of_another_place_does_not_get_what_is_being_read_ahead(
    node: LiveNode, client: RawClient, disk: SlowDisk
) -> None:
    create(node, partitions=1)
    fill(client, 9)
    disk.let_through(2)
    read_in_order(client)
    assert node.until(lambda: node.broker.read_ahead._loading)
    client.send(ApiKey.FETCH, 11, fetch_from(1, partition_max=3 * SIZE))
    assert node.until(lambda: node.broker.stats.fetch_cold_reads == 4)
    disk.let_through(2)
    assert offsets(client.receive(ApiKey.FETCH, 11)) == [1, 2, 3]


def test_who_waits_for_a_read_ahead_that_fails_hears_of_it(
    node: LiveNode, client: RawClient, disk: SlowDisk
) -> None:
    create(node, partitions=1)
    fill(client, 9)
    ask_for_what_is_being_read(node, client, disk)
    disk.error = OSError(errno.EIO, "bad sector")
    disk.let_through(1)
    answer = client.receive(ApiKey.FETCH, 11)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.error = None
    disk.let_through(1)
    again = client.ask(ApiKey.FETCH, 11, fetch_from(6, partition_max=3 * SIZE))
    assert offsets(again) == [6, 7, 8]


@pytest.mark.parametrize("batches", [9, 8])  # with 8 less comes than is asked for
def test_reads_under_way_count_as_memory_of_the_read_ahead(
    node: LiveNode, client: RawClient, disk: SlowDisk, batches: int
) -> None:
    create(node, partitions=1)
    fill(client, batches)
    ahead = node.broker.read_ahead
    disk.let_through(2)
    read_in_order(client)
    assert node.until(lambda: ahead._loading)
    assert ahead._left_bytes == node.broker.config.fetch_read_ahead_bytes - 3 * SIZE
    disk.let_through(1)
    assert node.until(lambda: ahead.kept_bytes)
    assert ahead.kept_bytes == (batches - 6) * SIZE
    assert ahead._left_bytes == node.broker.config.fetch_read_ahead_bytes - ahead.kept_bytes
