"""Byte formats: against written-out bytes, kafka's version range, and any bytes at all."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import LeaderEpoch
from penstock.coordinator.errors import MalformedRecord
from penstock.groups import records
from penstock.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    MemberRecord,
    OffsetKey,
    TopicKey,
)

text = st.text(max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
offsets = st.builds(
    CommittedOffset,
    int64,
    int32,
    text,
    int64,
    st.none() | st.binary(min_size=16, max_size=16),
    unread=st.none(),
)
members = st.builds(
    MemberRecord,
    text,
    st.none() | text,
    text,
    text,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.binary(max_size=30),
    st.binary(max_size=30),
)
groups = st.builds(
    GroupRecord,
    text,
    int32,
    st.none() | text,
    st.none() | text,
    int64,
    st.lists(members, max_size=3).map(tuple),
)


def test_offset_key_bytes() -> None:
    data = records.encode_offset_key("g", TopicKey("tt", 3))
    assert data == b"\x00\x01\x00\x01g\x00\x02tt\x00\x00\x00\x03"
    assert records.decode_key(data) == OffsetKey("g", "tt", 3)


def test_offset_value_bytes_without_and_with_topic_id() -> None:
    value = CommittedOffset(7, LeaderEpoch(2), "m", 9)
    plain = struct.pack(">hqi", 3, 7, 2) + b"\x00\x01m" + struct.pack(">q", 9)
    assert records.encode_offset_value(value) == plain
    with_id = value._replace(topic_id=bytes(range(16)))
    flexible = struct.pack(">hqi", 4, 7, 2) + b"\x02m" + struct.pack(">q", 9)
    assert records.encode_offset_value(with_id) == flexible + b"\x01\x00\x10" + bytes(range(16))


def test_group_bytes() -> None:
    group = GroupRecord("consumer", 5, "range", None, 8, ())
    assert records.encode_group_key("g") == b"\x00\x02\x00\x01g"
    assert records.encode_group_value(group) == (
        b"\x00\x03\x00\x08consumer\x00\x00\x00\x05\x00\x05range\xff\xff"
        b"\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00"
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (struct.pack(">hq", 0, 7) + b"\x00\x00" + struct.pack(">q", 9), (7, -1, "", 9)),
        (struct.pack(">hq", 1, 7) + b"\x00\x00" + struct.pack(">qq", 9, 5), (7, -1, "", 9)),
        (struct.pack(">hq", 2, 7) + b"\x00\x01x" + struct.pack(">q", 9), (7, -1, "x", 9)),
        (struct.pack(">hqi", 4, 7, 1) + b"\x01" + struct.pack(">q", 9) + b"\x00", (7, 1, "", 9)),
        (
            struct.pack(">hqi", 4, 7, 1) + b"\x01" + struct.pack(">q", 9) + b"\x01\x09\x02zz",
            (7, 1, "", 9),
        ),
    ],
)
def test_older_and_newer_offset_values_are_read(
    data: bytes, expected: tuple[int, int, str, int]
) -> None:
    assert records.decode_offset_value(data)[:4] == expected


def test_older_group_values_are_read() -> None:
    member = b"\x00\x01m\x00\x01c\x00\x01h" + struct.pack(">i", 6_000) + b"\x00\x00\x00\x01s" * 2
    version_0 = b"\x00\x00\x00\x01t\x00\x00\x00\x05\xff\xff\xff\xff\x00\x00\x00\x01" + member
    found = records.decode_group_value(version_0)
    assert found.members == (MemberRecord("m", None, "c", "h", 6_000, 6_000, b"s", b"s"),)


def test_flexible_group_values_are_read() -> None:
    member = b"\x02m\x00\x02c\x02h" + struct.pack(">ii", 9, 6_000) + b"\x02s\x02a\x00"
    head = b"\x00\x04\x02t\x00\x00\x00\x05\x02p\x02m" + struct.pack(">q", 4)
    found = records.decode_group_value(head + b"\x02" + member + b"\x00")
    assert found == GroupRecord(
        "t", 5, "p", "m", 4, (MemberRecord("m", None, "c", "h", 9, 6_000, b"s", b"a"),)
    )


def test_keys_of_other_group_types_are_told_apart() -> None:
    assert records.decode_key(b"\x00\x03\x00\x01g") is None
    assert records.decode_key(records.encode_group_key("g")) == GroupKey("g")


@given(offsets)
def test_offset_values_round_trip(value: CommittedOffset) -> None:
    assert records.decode_offset_value(records.encode_offset_value(value)) == value


@given(groups)
def test_group_values_round_trip(group: GroupRecord) -> None:
    assert records.decode_group_value(records.encode_group_value(group)) == group


@given(st.binary(max_size=200), st.integers(0, 4))
def test_any_bytes_are_read_or_refused_by_name(data: bytes, version: int) -> None:
    for decode in (records.decode_key, records.decode_offset_value, records.decode_group_value):
        for candidate in (data, struct.pack(">h", version) + data):
            try:
                decode(candidate)
            except MalformedRecord:
                continue


@given(groups, st.data())
def test_a_truncated_group_value_is_refused(group: GroupRecord, data: st.DataObject) -> None:
    encoded = records.encode_group_value(group)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MalformedRecord):
        records.decode_group_value(encoded[:cut])
