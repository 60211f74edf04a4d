"""Rows of the message trace: their bytes, their names, and of which messages there are any."""

import pytest

from penstock.finding.errors import MalformedTrace
from penstock.finding.traces import (
    EVERY,
    OFFSETS_MAX,
    Row,
    decode_row,
    encode_row,
    limit_of,
    name_of,
    names_of,
    pieces,
    sampled,
)

ROW = Row(3, 1_800_000_000_123, "delivered", "orders", 2, [(5, 7), (9, 10)], "g", "ü@1")
IDS = [bytes([number]) * 16 for number in range(4)]


def test_a_row_is_read_as_it_was_written() -> None:
    assert decode_row(encode_row(ROW)) == ROW


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"v":1}',
        encode_row(ROW).replace(b'"v":1', b'"v":2'),
        encode_row(ROW).replace(b"[5,7]", b"[5]"),
        encode_row(ROW).replace(b"[5,7]", b'["x",7]'),
    ],
)
def test_what_is_no_row_is_said(value: bytes) -> None:
    with pytest.raises(MalformedTrace):
        decode_row(value)


def test_a_row_has_the_name_of_each_of_its_messages_and_no_other() -> None:
    assert names_of(ROW) == b"orders/2/5 orders/2/6 orders/2/9"
    assert name_of("orders", 2, 5) == "orders/2/5"
    assert [offset for offset in range(12) if ROW.has(2, offset)] == [5, 6, 9]
    assert not ROW.has(1, 5)


def test_rows_have_a_bound_of_messages_and_lack_none() -> None:
    runs = [(0, 1), (10, 10 + 2 * OFFSETS_MAX), (1_000, 1_001)]
    found = list(pieces(runs))
    sizes = [sum(end - first for first, end in piece) for piece in found]
    assert sizes == [OFFSETS_MAX, OFFSETS_MAX, 2]
    every = [offset for first, end in runs for offset in range(first, end)]
    assert [
        offset for piece in found for first, end in piece for offset in range(first, end)
    ] == every
    assert list(pieces([])) == []
    assert list(pieces([(7, 8)])) == [[(7, 8)]]
    assert list(pieces([(0, OFFSETS_MAX)])) == [[(0, OFFSETS_MAX)]]


@pytest.mark.parametrize("percent", [1, 10, 50])
def test_about_so_many_messages_are_traced_of_each_partition(percent: int) -> None:
    for topic_id in IDS:
        for partition in (0, 7):
            runs = sampled(topic_id, partition, [(0, 20_000)], limit_of(percent))
            share = sum(end - first for first, end in runs) / 200
            assert percent * 0.8 < share < percent * 1.2


def test_which_messages_are_traced_is_the_same_however_they_come() -> None:
    limit = limit_of(30)
    whole = {
        offset
        for first, end in sampled(IDS[1], 1, [(0, 500)], limit)
        for offset in range(first, end)
    }
    alone = {offset for offset in range(500) if sampled(IDS[1], 1, [(offset, offset + 1)], limit)}
    assert whole == alone
    more = {
        offset
        for first, end in sampled(IDS[1], 1, [(0, 500)], limit_of(60))
        for offset in range(first, end)
    }
    assert whole < more, "a message that is traced stays so with a larger share"
    others = [sampled(IDS[2], 1, [(0, 500)], limit), sampled(IDS[1], 2, [(0, 500)], limit)]
    assert sampled(IDS[1], 1, [(0, 500)], limit) not in others


def test_all_or_none_are_traced_at_the_ends() -> None:
    runs = [(0, 3), (8, 9)]
    assert sampled(IDS[0], 0, runs, limit_of(100)) == runs
    assert limit_of(100) == EVERY
    assert sampled(IDS[0], 0, [(0, 1_000)], limit_of(0)) == []
