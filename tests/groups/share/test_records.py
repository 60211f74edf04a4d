"""Records of share groups, byte for byte as in Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import MemberEpoch
from penstock.coordinator.errors import MalformedRecord
from penstock.groups.assigned.names import (
    SHARE_KINDS,
    Kind,
    RecordName,
    decode_name,
    encode_name,
    is_of_share_group,
)
from penstock.groups.assigned.targets import Target, TargetEpoch
from penstock.groups.share.records import (
    ShareCurrent,
    Shared,
    SharedTopic,
    ShareEpoch,
    ShareFacts,
    ShareSaid,
    decode_said,
    encode_said,
)

TOPIC = bytes(range(16))
T = TOPIC.hex()
PARTITIONS = {TOPIC: frozenset({0, 2})}
EXAMPLES: list[tuple[Kind, ShareSaid, str]] = [
    (
        Kind.SHARE_MEMBER,
        ShareFacts("r", "c", "h", ("a", "b")),
        "0000 0272 0263 0268 03 0261 0262 00",
    ),
    (Kind.SHARE_MEMBER, ShareFacts(None, "", "", ()), "0000 00 01 01 01 00"),
    (Kind.SHARE_GROUP, ShareEpoch(MemberEpoch(7), 258), "0000 00000007 0000000000000102 00"),
    (Kind.SHARE_TARGET_EPOCH, TargetEpoch(MemberEpoch(9)), "0000 00000009 00"),
    (
        Kind.SHARE_TARGET,
        Target(PARTITIONS),
        f"0000 02 {T} 03 00000000 00000002 00 00",
    ),
    (
        Kind.SHARE_CURRENT,
        ShareCurrent(MemberEpoch(3), MemberEpoch(2), PARTITIONS),
        f"0000 00000003 00000002 00 02 {T} 03 00000000 00000002 00 00",
    ),
    (
        Kind.SHARED,
        Shared({TOPIC: SharedTopic("t", frozenset({1}))}),
        f"0000 01 02 {T} 0274 02 00000001 00 01 00",
    ),
]


@pytest.mark.parametrize(("kind", "said", "bytes_"), EXAMPLES)
def test_values_are_those_of_kafka(kind: Kind, said: ShareSaid, bytes_: str) -> None:
    assert encode_said(said) == bytes.fromhex(bytes_)
    assert decode_said(kind, bytes.fromhex(bytes_)) == said


@pytest.mark.parametrize(
    ("name", "bytes_"),
    [
        (RecordName(Kind.SHARE_MEMBER, "g", "m"), "000a 0001 67 0001 6d"),
        (RecordName(Kind.SHARE_GROUP, "g"), "000b 0001 67"),
        (RecordName(Kind.SHARE_TARGET_EPOCH, "g"), "000c 0001 67"),
        (RecordName(Kind.SHARE_TARGET, "g", "m"), "000d 0001 67 0001 6d"),
        (RecordName(Kind.SHARE_CURRENT, "g", "m"), "000e 0001 67 0001 6d"),
        (RecordName(Kind.SHARED, "g"), "000f 0001 67"),
    ],
)
def test_keys_are_those_of_kafka(name: RecordName, bytes_: str) -> None:
    key = bytes.fromhex(bytes_)
    assert encode_name(name) == key
    assert decode_name(key) == name
    assert is_of_share_group(key)
    assert not is_of_share_group(encode_name(RecordName(Kind.GROUP, "g")))


def test_what_kafka_is_making_counts_and_what_it_deletes_does_not() -> None:
    other = bytes(16).hex()
    making = f"02 {T} 0274 02 00000000 00"
    there = f"03 {T} 0274 02 00000001 00 {other} 0275 02 00000005 00"
    deleting = f"02 {'ff' * 16} 0276 00"
    said = decode_said(Kind.SHARED, bytes.fromhex(f"0000 {making} {there} {deleting} 00"))
    assert isinstance(said, Shared)
    assert said.partitions == {TOPIC: frozenset({0, 1}), bytes(16): frozenset({5})}


@pytest.mark.parametrize(("kind", "said", "bytes_"), EXAMPLES)
def test_a_value_that_was_cut_is_malformed(kind: Kind, said: ShareSaid, bytes_: str) -> None:
    whole = bytes.fromhex(bytes_)
    for end in range(len(whole)):
        with pytest.raises(MalformedRecord):
            decode_said(kind, whole[:end])


@pytest.mark.parametrize("kind", sorted(SHARE_KINDS))
def test_a_value_of_another_version_is_malformed(kind: Kind) -> None:
    with pytest.raises(MalformedRecord, match="version 1"):
        decode_said(kind, b"\x00\x01" + bytes(40))


@given(kind=st.sampled_from(sorted(SHARE_KINDS)), raw=st.binary(max_size=80))
def test_any_bytes_are_read_or_malformed(kind: Kind, raw: bytes) -> None:
    try:
        said = decode_said(kind, b"\x00\x00" + raw)
    except MalformedRecord:
        return
    assert decode_said(kind, encode_said(said)) == said
