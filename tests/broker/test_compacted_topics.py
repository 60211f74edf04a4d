"""What a topic's settings say of retention, cleaning, and time in open files."""

import pytest

from penstock.broker.sets.compacted_topics import retention_of
from penstock.controller.topic_config.table import TopicSettings
from penstock.storage.config import Retention

INT64_MAX = (1 << 63) - 1


@pytest.mark.parametrize(
    ("policy", "retention_ms", "lag_ms", "wanted"),
    [
        ("delete", 5_000, 70, Retention(9, 5_000, close_ms=5_000)),
        ("delete", -1, 70, Retention(9, -1)),
        ("compact", 5_000, 70, Retention(-1, -1, is_compacted=True, close_ms=70)),
        ("compact", 5_000, INT64_MAX, Retention(-1, -1, is_compacted=True, close_ms=INT64_MAX)),
        ("compact,delete", 5_000, 70, Retention(9, 5_000, is_compacted=True, close_ms=70)),
        ("compact,delete", 50, 70, Retention(9, 50, is_compacted=True, close_ms=50)),
        ("compact,delete", -1, 70, Retention(9, -1, is_compacted=True, close_ms=70)),
        ("", 5_000, 70, Retention(-1, -1)),
    ],
)
def test_records_stay_in_an_open_file_as_long_as_the_topic_s_shortest_promise_allows(
    policy: str, retention_ms: int, lag_ms: int, wanted: Retention
) -> None:
    settings = TopicSettings(
        cleanup_policy=policy,  # type: ignore[arg-type]
        retention_bytes=9,
        retention_ms=retention_ms,
        max_compaction_lag_ms=lag_ms,
    )
    assert retention_of(settings) == wanted
