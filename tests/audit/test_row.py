"""The bytes of a row."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.audit.compiled import Counts
from penstock.audit.counts import NUMBERS as NAMES
from penstock.audit.errors import MalformedRow
from penstock.audit.row import RowKey, Who, decode_row, encode_row

TEXTS = st.text(max_size=20)
NUMBERS = st.integers(0, 1 << 62)
KEYS = st.builds(
    RowKey, st.builds(Who, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS), TEXTS, TEXTS, st.integers(-1, 99)
)


@given(KEYS, st.lists(NUMBERS, min_size=len(NAMES), max_size=len(NAMES)), NUMBERS)
def test_a_row_is_read_as_it_was_written(key: RowKey, numbers: list[int], began_ms: int) -> None:
    counts = Counts()
    for name, number in zip(NAMES, numbers, strict=True):
        setattr(counts, name, number)
    read = decode_row(encode_row(3, began_ms, 60_000, key, counts))
    assert (read.node, read.began_ms, read.ended_ms, read.key) == (3, began_ms, 60_000, key)
    assert read.counts == dict(zip(NAMES, numbers, strict=True))


def test_a_row_has_the_names_that_its_page_tells() -> None:
    key = RowKey(Who("User:a", "c", "librdkafka", "2.6", "10.0.0.1"), "Produce", "t", 4)
    counts = Counts()
    counts.requests, counts.bytes_in = 2, 300
    assert json.loads(encode_row(1, 60_000, 61_000, key, counts)) == {
        "v": 1, "node": 1, "began_ms": 60_000, "ended_ms": 61_000, "principal": "User:a",
        "client_id": "c", "software": "librdkafka", "version": "2.6", "host": "10.0.0.1",
        "operation": "Produce", "topic": "t", "partition": 4, "requests": 2, "records": 0,
        "bytes_in": 300,
        "bytes_out": 0, "bytes_cold": 0, "errors": 0, "throttle_ms": 0, "timed": 0, "latency_us": 0,
        "latency_us_max": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"3", b"\xff", b"{}", b'{"v":2}', b'{"v":1,"node":1}', b"null"]
)
def test_what_is_no_row_is_refused(value: bytes) -> None:
    with pytest.raises(MalformedRow):
        decode_row(value)
