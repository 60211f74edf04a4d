"""The bytes of a share's records: what is written is read, and nothing else is."""

import zlib
from array import array
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.wire import varint
from penstock.shares.cells import CELLS
from penstock.shares.hand_out import hand_out
from penstock.shares.reading import OFFSET_MAX, RUNS_MAX, VERSION, UnknownVersion
from penstock.shares.records import (
    SLOTS,
    chunk_key,
    decode_key,
    decode_update,
    encode_update,
    head_key,
    update_key,
)
from penstock.shares.runs import SPAN_MAX, Run
from penstock.shares.snapshot import decode_chunk, decode_head, encode_chunk, encode_head
from penstock.shares.state import (
    Acquired,
    Began,
    Freed,
    Given,
    Moved,
    Renewed,
    Scanned,
    Settled,
    ShareKey,
    Update,
)
from penstock.shares.updates.handed import Wanted
from tests.shares.bench import KEY, POLICY, flush, new_ledger

OFFSETS = st.integers(0, OFFSET_MAX - SPAN_MAX)
U32 = st.integers(0, 0xFFFF_FFFF)
MEMBERS = st.integers(1, 0xFFFF)


@st.composite
def some_runs(draw: st.DrawFn) -> list[Run]:
    end = draw(OFFSETS)
    found = []
    for _ in range(draw(st.integers(1, 5))):
        first = end + draw(st.integers(1, 300))
        end = first + draw(st.integers(1, 300))
        found.append((first, end))
    return found


RUNS = some_runs()
UPDATES = st.one_of(
    st.builds(Began, st.integers(0, 0x7FFF_FFFF), U32),
    st.builds(Moved, OFFSETS, st.booleans(), st.booleans(), U32),
    st.builds(Scanned, OFFSETS, st.lists(U32, min_size=1).map(lambda all_: array("I", all_))),
    st.builds(Acquired, U32, MEMBERS, st.text(max_size=9), U32, RUNS),
    st.builds(Settled, st.sampled_from((2, 3)), RUNS),
    st.builds(Freed, U32, RUNS),
    st.builds(Given, RUNS),
    st.builds(Renewed, U32, U32, RUNS),
)


@given(seq=st.integers(1, 1 << 60), update=UPDATES)
def test_an_update_is_read_as_it_was_written(seq: int, update: Update) -> None:
    assert decode_update(encode_update(seq, update)) == (seq, update)


@given(update=UPDATES, data=st.data())
def test_an_update_that_is_cut_or_longer_is_refused(update: Update, data: st.DataObject) -> None:
    whole = encode_update(7, update)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for bad in (cut, whole + b"\0"):
        with pytest.raises(MalformedRecord):
            decode_update(bad)


@given(raw=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for decode in (decode_update, decode_key, decode_chunk, decode_head):
        for bad in (raw, bytes((VERSION,)) + raw):
            with suppress(MalformedRecord):
                decode(bad)


@given(
    group=st.text(min_size=1, max_size=9),
    topic_id=st.binary(min_size=16, max_size=16),
    partition=st.integers(0, 1 << 30),
    seq=st.integers(0, 1 << 60),
    number=st.integers(0, OFFSET_MAX // CELLS),
)
def test_a_key_is_read_as_it_was_written(
    group: str, topic_id: bytes, partition: int, seq: int, number: int
) -> None:
    key = ShareKey(group, topic_id, partition)
    assert decode_key(update_key(key, seq)) == (0, key, seq % SLOTS)
    assert decode_key(chunk_key(key, number)) == (1, key, number)
    assert decode_key(head_key(key)) == (2, key, 0)


@pytest.mark.parametrize(
    "bad",
    [
        b"\x02" + head_key(KEY)[1:],
        head_key(KEY)[:1] + b"\x03" + head_key(KEY)[2:],
        b"\x01\x63" + head_key(KEY)[2:],
    ],
)
def test_keys_of_later_releases_are_told_apart(bad: bytes) -> None:
    with pytest.raises(UnknownVersion):
        decode_key(bad)


def update_bytes(kind: int, fields: bytes) -> bytes:
    return bytes((VERSION, 1, kind)) + fields


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(update_bytes(4, b"\x02\x00"), id="no runs"),
        pytest.param(update_bytes(4, b"\x02\x01\x05\x00"), id="empty run"),
        pytest.param(update_bytes(4, b"\x02\x01" + varint(1 << 47) + b"\x01"), id="far offset"),
        pytest.param(update_bytes(4, b"\x02\x01\x00" + varint(SPAN_MAX + 1)), id="long run"),
        pytest.param(update_bytes(4, b"\x02" + varint(RUNS_MAX + 1)), id="too many runs"),
        pytest.param(update_bytes(3, b"\x01\x00\x00\x01\x01\x00\x01"), id="held by nobody"),
        pytest.param(update_bytes(3, varint(1 << 32) + b"\x01\x01\x01\x01\x00\x01"), id="number"),
        pytest.param(update_bytes(5, varint(1 << 32) + b"\x01\x00\x01"), id="tick"),
        pytest.param(update_bytes(1, b"\x00\x02\x00\x00"), id="flag"),
        pytest.param(update_bytes(2, b"\x00\x00"), id="no hashes"),
        pytest.param(update_bytes(2, b"\x00" + varint(4_097) + bytes(4 * 4_097)), id="hashes"),
        pytest.param(b"\x01" + b"\x80" * 11, id="long number"),
    ],
)
def test_values_out_of_bounds_are_refused(bad: bytes) -> None:
    with pytest.raises(MalformedRecord) as refused:
        decode_update(bad)
    assert not isinstance(refused.value, UnknownVersion)


@pytest.mark.parametrize(
    "bad", [b"\x02\x01\x04\x02\x01\x00\x01", update_bytes(8, b""), update_bytes(4, b"\x01\x01\0\1")]
)
def test_updates_of_later_releases_are_told_apart(bad: bytes) -> None:
    with pytest.raises(UnknownVersion):
        decode_update(bad)


def chunk_value(
    first: int, end: int, plain: bytes, *, behind: bytes = b"", ordered: int = 0
) -> bytes:
    packed = zlib.compress(plain) + behind
    out = bytes((VERSION,)) + varint(first) + varint(end) + bytes((ordered,))
    return out + varint(len(packed)) + packed


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(chunk_value(3, 3, b""), id="no cells"),
        pytest.param(chunk_value(0, CELLS + 1, bytes(12 * (CELLS + 1))), id="too many cells"),
        pytest.param(chunk_value(0, 2, bytes(23)), id="too short"),
        pytest.param(chunk_value(0, 2, bytes(25)), id="too long"),
        pytest.param(chunk_value(0, 2, bytes(24), ordered=1), id="no hashes"),
        pytest.param(chunk_value(0, 2, bytes(24), behind=b"x"), id="bytes behind"),
        pytest.param(chunk_value(0, 2, b"\x07" + bytes(23)), id="unknown state"),
        pytest.param(chunk_value(0, 2, bytes(1 << 22)), id="bomb"),
        pytest.param(b"\x01\x00\x02\x00\x03abc", id="not packed"),
    ],
)
def test_chunks_that_can_not_be_are_refused(bad: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_chunk(bad)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_snapshot_is_read_as_it_was_written(*, is_ordered: bool) -> None:
    ledger = new_ledger(CELLS - 3, is_ordered=is_ordered)
    hashes = array("I", range(9)) if is_ordered else None
    hand_out(ledger, Wanted("member", 6, 1 << 40, 1, hashes=hashes), 77, POLICY)
    flush(ledger)
    number = (CELLS - 3) // CELLS
    cells = decode_chunk(encode_chunk(ledger.share, number))
    assert cells[:3] == (CELLS - 3, CELLS, is_ordered)
    assert cells.plain[:6] == b"\x01\x01\x01" + b"\x01\x01\x01"
    head = decode_head(encode_head(ledger.share))
    share = ledger.share
    assert head[:3] == (share.base, share.end, share.seq)
    assert head[4:] == (1, share.nonce, share.forgiven_from, is_ordered, ["member"])


@pytest.mark.parametrize(
    "bad",
    [
        b"\x01\x05\x04\x01\x00\x01\x00\x00\x00\x00",
        b"\x01\x00" + varint(SPAN_MAX + 1) + b"\x01\x00\x01\x00\x00\x00\x00",
        b"\x01\x00\x04\x01\x00\x01\x00\x00\x00\x01",
        b"\x01\x00\x04\x01\x00\x01\x00\x00\x02\x00",
    ],
)
def test_heads_that_can_not_be_are_refused(bad: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_head(bad)


def test_bytes_of_this_release_are_read_by_the_next() -> None:
    """These stand in logs: a change of the form needs another version."""
    update = Acquired(0x20001, 1, "m", 300, [(5, 7), (9, 10)])
    raw = bytes.fromhex("01 03 03 81 80 08 01 02 6d ac 02 02 05 02 02 01")
    assert encode_update(3, update) == raw
    assert decode_update(raw) == (3, update)
    place = bytes.fromhex("00000003 00000007")
    key = bytes.fromhex("01 00 06") + b"group" + bytes(range(16)) + place
    assert update_key(KEY, 7) == key
