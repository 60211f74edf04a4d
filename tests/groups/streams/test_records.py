"""The records of streams groups: Kafka's bytes, and whatever else is there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import MemberEpoch, TopologyEpoch
from penstock.coordinator.errors import MalformedRecord
from penstock.groups.assigned.currents import Current, MemberState
from penstock.groups.assigned.names import (
    STREAMS_KINDS,
    Kind,
    RecordName,
    decode_name,
    encode_name,
    is_of_share_group,
    is_of_streams_group,
)
from penstock.groups.assigned.targets import Target, TargetEpoch
from penstock.groups.streams.records import (
    Endpoint,
    MemberFacts,
    Said,
    StreamsEpoch,
    decode_said,
    encode_said,
)
from penstock.groups.streams.tasks import Role, key_of
from penstock.groups.streams.topology import CopartitionGroup
from tests.groups.streams.troupe import STATELESS, WORD_COUNT, part

MEMBER = MemberFacts(
    None, "r", "c", "h", 300, TopologyEpoch(1), "p", Endpoint("e", 65_535), (("k", "v"),)
)
TASKS = {
    key_of(Role.ACTIVE, "0"): frozenset((0, 2)),
    key_of(Role.STANDBY, "1"): frozenset((1,)),
    key_of(Role.WARMUP, "1"): frozenset((3,)),
}
JOINED = (part("0", "a", "b", regexes=("c.*",), together=(CopartitionGroup((0, 1), (0,), ()),)),)
SAID: list[tuple[Kind, Said, str]] = [
    (Kind.STREAMS_GROUP, StreamsEpoch(MemberEpoch(3), 5), "0000 00000003 0000000000000005 00"),
    (
        Kind.STREAMS_GROUP,
        StreamsEpoch(MemberEpoch(3), 5, TopologyEpoch(1), (("k", "v"),)),
        "0000 00000003 0000000000000005 02 00 04 00000001 01 06 02 026b 0276 00",
    ),
    (
        Kind.STREAMS_MEMBER,
        MEMBER,
        "0000 00 0272 0263 0268 0000012c 00000001 0270 01 0265 ffff 00 02 026b 0276 00 00",
    ),
    (
        Kind.STREAMS_MEMBER,
        MEMBER._replace(endpoint=None, tags=()),
        "0000 00 0272 0263 0268 0000012c 00000001 0270 ff 01 00",
    ),
    (Kind.STREAMS_TARGET_EPOCH, TargetEpoch(MemberEpoch(7)), "0000 00000007 00"),
    (
        Kind.STREAMS_TARGET,
        Target(TASKS),
        "0000 02 0230 03 00000000 00000002 00 02 0231 02 00000001 00 02 0231 02 00000003 00 00",
    ),
    (
        Kind.STREAMS_CURRENT,
        Current(
            MemberEpoch(4),
            MemberEpoch(3),
            MemberState.UNREVOKED,
            {},
            {key_of(Role.ACTIVE, "0"): frozenset((1,))},
        ),
        "0000 00000004 00000003 02 01 01 01 02 0230 02 00000001 00 01 01 00",
    ),
    (
        Kind.STREAMS_TOPOLOGY,
        STATELESS,
        "0000 00000001 02 0230 02 066c696e6573 01 01 01 01 01 00 00",
    ),
]


@pytest.mark.parametrize(("kind", "said", "told"), SAID)
def test_values_are_those_of_kafka(kind: Kind, said: Said, told: str) -> None:
    assert encode_said(said) == bytes.fromhex(told)
    assert decode_said(kind, bytes.fromhex(told)) == said


@pytest.mark.parametrize("topology", [WORD_COUNT, STATELESS._replace(subtopologies=JOINED)])
def test_a_topology_is_read_as_it_was_written(topology: Said) -> None:
    assert decode_said(Kind.STREAMS_TOPOLOGY, encode_said(topology)) == topology


@pytest.mark.parametrize("kind", sorted(STREAMS_KINDS))
def test_keys_have_kafkas_numbers(kind: Kind) -> None:
    has_member = kind in {Kind.STREAMS_MEMBER, Kind.STREAMS_TARGET, Kind.STREAMS_CURRENT}
    name = RecordName(kind, "g", "m" if has_member else "")
    key = encode_name(name)
    assert key[:2] == bytes((0, kind.value))
    assert decode_name(key) == name
    assert is_of_streams_group(key)
    assert not is_of_share_group(key)
    assert not is_of_streams_group(encode_name(RecordName(Kind.GROUP, "g")))


@given(kind=st.sampled_from(sorted(STREAMS_KINDS)), raw=st.binary(max_size=60))
def test_any_bytes_are_read_or_malformed(kind: Kind, raw: bytes) -> None:
    try:
        said = decode_said(kind, b"\0\0" + raw)
    except MalformedRecord:
        return
    assert decode_said(kind, encode_said(said)) == said
