"""Which batches are prepared on the loop, and which are left to a worker."""

import pytest

from penstock.broker.append.batch_rules import rules_of
from penstock.broker.append.preparation import (
    RECORDS_HERE_MAX,
    WALKED_HERE_MAX,
    prepare,
    prepare_here,
)
from penstock.controller.topic_config.table import TopicSettings
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch

NOW_MS = 1_700_000_000_000
RULES = rules_of(TopicSettings())


def plain(size: int) -> memoryview:
    return memoryview(bytearray(build_batch([Record(None, bytes(size), timestamp_ms=NOW_MS)])))


@pytest.mark.parametrize(("size", "is_here"), [(100, True), (WALKED_HERE_MAX, False)])
def test_a_plain_batch_is_looked_at_here_up_to_a_size(size: int, is_here: bool) -> None:
    records = plain(size)
    header = read_header(records)
    found = prepare_here(records, header, RULES, NOW_MS)
    assert (found is not None) is is_here
    assert found is None or found == prepare(records, RULES, NOW_MS)


def test_a_plain_batch_of_too_many_records_is_left_to_a_worker() -> None:
    records = plain(100)
    many = read_header(records)._replace(record_count=RECORDS_HERE_MAX + 1)
    assert prepare_here(records, many, RULES, NOW_MS) is None


@pytest.mark.parametrize(
    ("settings", "takes_plain"),
    [
        (TopicSettings(), True),
        (TopicSettings(compression_type="uncompressed"), True),
        (TopicSettings(compression_type="lz4"), False),
        (TopicSettings(message_timestamp_type="LogAppendTime"), False),
        (TopicSettings(cleanup_policy="compact"), False),
        (TopicSettings(record_validation="header"), False),
    ],
)
def test_a_topic_that_wants_more_of_a_batch_takes_none_as_plain(
    settings: TopicSettings, takes_plain: bool
) -> None:
    assert rules_of(settings).takes_plain is takes_plain
