"""Offsets of which only the tier knows that there are no records: consumers go on behind them."""

from typing import Any

import pytest

from penstock.base.ids import Offset
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.read import iter_batches
from simulator.kernel.object_store import Bucket
from tests.broker.cluster import Asked, fetch_fields, fetched
from tests.broker.test_role_changes import LONG_MS, events
from tests.broker.tier_reads import TierOfTest
from tests.extents.files import Part, batch
from tests.tier.objects import name, put

LOCAL_START = 6


class Partition:
    """`events` with offsets up to 9 on the disk, from 6 on, and what the tier has below."""

    def __init__(self, *bases: int, cut: int = LOCAL_START, records: int = 9) -> None:
        self.cluster = events(1)
        self.node = self.cluster.nodes[0]
        for number in range(records):
            self.node.produce(b"%d" % number)
        self.cluster.world.run()
        self.bucket = bucket = Bucket()
        self.tier = TierOfTest(self.node, bucket)
        assert self.tier.hosted is not None
        self.log = self.tier.hosted.log
        self.log.raise_log_start(Offset(LOCAL_START))
        (run,) = put(bucket, name(1), [Part(self.tier.key, [batch(base) for base in bases])])
        self.manifest = self.tier.has([run._replace(end_offset=cut)])

    def fetch(self, offset: int) -> Any:
        """Return the answer to a fetch that waits for the tier."""
        asked: Asked = self.node.fetch(offset, wait_ms=LONG_MS)
        while fetched(asked) is None and self.tier.read():
            pass
        return fetched(asked)


def bases(answer: Any) -> list[int]:
    return [header.base_offset for header, _ in iter_batches(memoryview(answer.records))]


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_behind_a_gap_within_a_run_the_next_batch_of_it_is_given(offset: int) -> None:
    partition = Partition(0, 4, 5)
    answer = partition.fetch(offset)
    assert (answer.error_code, bases(answer)) == (0, [4, 5])
    assert answer.log_start_offset == 0


@pytest.mark.parametrize("offset", [2, 3, 5])
def test_behind_a_gap_at_the_end_of_the_tier_the_log_is_read(offset: int) -> None:
    partition = Partition(0, 1, 8)
    answer = partition.fetch(offset)
    assert (answer.error_code, bases(answer)) == (0, [6, 7, 8])


def test_a_consumer_of_committed_records_goes_on_in_the_log_too() -> None:
    partition = Partition(0, 1, 8)
    fields = fetch_fields("events", 3, LONG_MS, -1, -1) | {"isolation_level": 1, "rack_id": ""}
    asked = partition.node.send(ApiKey.FETCH, 12, fields)
    partition.tier.read()
    answer = fetched(asked)
    assert (answer.error_code, bases(answer)) == (0, [6, 7, 8])


def test_who_waits_in_a_gap_up_to_the_end_of_the_log_gets_what_is_written_then() -> None:
    partition = Partition(0, 1, 8, records=LOCAL_START)
    asked = partition.node.fetch(3, wait_ms=LONG_MS)
    partition.tier.read()
    assert fetched(asked) is None
    partition.node.produce(b"new")
    partition.cluster.world.run()
    partition.tier.read()
    assert bases(fetched(asked)) == [LOCAL_START]


def test_an_offset_that_neither_the_tier_nor_the_log_has_is_out_of_range() -> None:
    partition = Partition(0, 1, 2, 3, 4, 5, cut=5)  # the log begins behind the tier's end
    assert partition.fetch(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    joined = Partition(0, 1, 2, 3, 4, 5)
    joined.manifest.start_offset = 2
    assert joined.fetch(1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert bases(joined.fetch(2)) == [2, 3, 4, 5]


def test_who_has_passed_a_gap_before_the_disk_was_freed_further_goes_on_in_the_tier() -> None:
    partition = Partition(0, 1, 8)
    assert bases(partition.fetch(3)) == [6, 7, 8]
    (more,) = put(partition.bucket, name(2), [Part(partition.tier.key, [batch(6), batch(7)])])
    partition.tier.has([*partition.manifest.runs, more])
    partition.log.raise_log_start(Offset(8))
    assert bases(partition.fetch(3)) == [6, 7]
