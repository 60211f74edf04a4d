"""The records of consumer groups, byte for byte as Kafka writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import MemberEpoch
from penstock.coordinator.errors import MalformedRecord
from penstock.groups.assigned.currents import Current, MemberState
from penstock.groups.assigned.names import (
    SHARE_KINDS,
    STREAMS_KINDS,
    Kind,
    RecordName,
    decode_name,
    encode_name,
)
from penstock.groups.assigned.targets import GroupEpoch, Target, TargetEpoch
from penstock.groups.consumer.records import MemberFacts, Resolved, Said, decode_said, encode_said

KINDS = sorted(set(Kind) - SHARE_KINDS - STREAMS_KINDS)
TOPIC = bytes(range(16))
MEMBER = MemberFacts("i", None, "c", "h", ("a", "bc"), None, 300_000, "uniform")
EXAMPLES: list[tuple[Kind, Said, str]] = [
    (Kind.GROUP, GroupEpoch(MemberEpoch(7)), "0000 00000007 00"),
    (Kind.GROUP, GroupEpoch(MemberEpoch(7), 258), "0000 00000007 01 00 08 0000000000000102"),
    (
        Kind.MEMBER,
        MEMBER,
        "0000 0269 00 0263 0268 03 0261 036263 00 000493e0 08756e69666f726d 00",
    ),
    (Kind.TARGET_EPOCH, TargetEpoch(MemberEpoch(9)), "0000 00000009 00"),
    (
        Kind.TARGET,
        Target({TOPIC: frozenset({2, 1})}),
        f"0000 02 {TOPIC.hex()} 03 00000001 00000002 00 00",
    ),
    (
        Kind.CURRENT,
        Current(MemberEpoch(5), MemberEpoch(4), MemberState.UNREVOKED, {}, {TOPIC: frozenset({0})}),
        f"0000 00000005 00000004 01 01 02 {TOPIC.hex()} 02 00000000 00 00",
    ),
    (Kind.REGEX, Resolved(("a",), 3, 4), "0000 02 0261 0000000000000003 0000000000000004 00"),
]


@pytest.mark.parametrize(("kind", "said", "bytes_"), EXAMPLES, ids=lambda one: str(one)[:30])
def test_values_are_those_of_kafka(kind: Kind, said: Said, bytes_: str) -> None:
    raw = bytes.fromhex(bytes_.replace(" ", ""))
    assert encode_said(said) == raw
    assert decode_said(kind, raw) == said


@pytest.mark.parametrize(
    ("name", "bytes_"),
    [
        (RecordName(Kind.GROUP, "g"), "0003 0001 67"),
        (RecordName(Kind.MEMBER, "g", "m"), "0005 0001 67 0001 6d"),
        (RecordName(Kind.TARGET_EPOCH, "g"), "0006 0001 67"),
        (RecordName(Kind.TARGET, "g", "m"), "0007 0001 67 0001 6d"),
        (RecordName(Kind.CURRENT, "g", "m"), "0008 0001 67 0001 6d"),
        (RecordName(Kind.REGEX, "g", "a.*"), "0010 0001 67 0003 612e2a"),
    ],
)
def test_keys_are_those_of_kafka(name: RecordName, bytes_: str) -> None:
    raw = bytes.fromhex(bytes_.replace(" ", ""))
    assert encode_name(name) == raw
    assert decode_name(raw) == name
    assert decode_name(raw + b"\0") is None


def test_keys_of_other_kinds_are_unknown() -> None:
    assert decode_name(b"\x00\x02\x00\x01g") is None
    assert decode_name(b"\x00\x04\x00\x01g") is None


def test_unknown_tags_are_left_out() -> None:
    later = bytes.fromhex("0000000000070200080000000000000102010100")
    assert decode_said(Kind.GROUP, later) == GroupEpoch(MemberEpoch(7), 258)


@pytest.mark.parametrize(("kind", "_said", "bytes_"), EXAMPLES, ids=lambda one: str(one)[:30])
def test_a_value_that_was_cut_is_malformed(kind: Kind, _said: Said, bytes_: str) -> None:
    raw = bytes.fromhex(bytes_.replace(" ", ""))
    for end in range(len(raw)):
        with pytest.raises(MalformedRecord):
            decode_said(kind, raw[:end])
    with pytest.raises(MalformedRecord):
        decode_said(kind, b"\x00\x01" + raw[2:])


@given(
    kind=st.sampled_from(sorted(set(Kind) - SHARE_KINDS - STREAMS_KINDS)),
    raw=st.binary(max_size=60),
)
def test_any_bytes_are_read_or_malformed(kind: Kind, raw: bytes) -> None:
    try:
        said = decode_said(kind, b"\x00\x00" + raw)
    except MalformedRecord:
        return
    assert decode_said(kind, encode_said(said)) == said
