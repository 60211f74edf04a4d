"""Records of groups beside the bytes that the classes of Kafka 4.4.0 write for the same fields.

Values with tagged fields that are not used here are read past them: they are Kafka's alone.
"""

import pytest

from penstock.base.ids import LeaderEpoch, MemberEpoch, TopologyEpoch
from penstock.groups import records
from penstock.groups.assigned.currents import Current, MemberState
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.targets import TargetEpoch
from penstock.groups.consumer import records as consumer
from penstock.groups.messages import OfferedProtocol
from penstock.groups.records import CommittedOffset, GroupRecord, MemberRecord
from penstock.groups.share import records as share
from penstock.groups.streams import records as streams
from penstock.groups.streams.tasks import Role, key_of
from penstock.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
)

TOPIC = bytes(range(16))
T = TOPIC.hex()
ASSIGNED = {TOPIC: frozenset({0, 2})}
TASKS = {key_of(Role.ACTIVE, "0"): frozenset({0, 2})}

CLASSIC_MEMBER = consumer.MemberFacts(
    "i",
    "r",
    "c",
    "h",
    ("a", "bc"),
    "x.*",
    300_000,
    None,
    consumer.ClassicFacts(45_000, (OfferedProtocol("range", b"\1\2"), OfferedProtocol("q", b""))),
)
CLASSIC_MEMBER_BYTES = (
    "0000 0269 0272 0263 0268 03 0261 036263 04782e2a 000493e0 00"
    "01 00 15 01 0000afc8 03 0672616e6765 03 0102 00 0271 01 00 00"
)
TOPOLOGY = Topology(
    TopologyEpoch(1),
    (
        Subtopology(
            "0",
            ("a", "b"),
            ("c.*",),
            (InternalTopic("counts", 0, 0, ()),),
            ("out",),
            (InternalTopic("words", 4, 3, (("k", "v"),)),),
            (CopartitionGroup((0, 1), (0,), ()),),
        ),
    ),
)
TOPOLOGY_BYTES = (
    "0000 00000001 02 0230 03 0261 0262 02 04632e2a"
    "02 07636f756e7473 00000000 0000 01 00"
    "02 046f7574"
    "02 06776f726473 00000004 0003 02 026b 0276 00 00"
    "02 03 0000 0001 02 0000 01 00 00 00"
)
GROUP = GroupRecord(
    "consumer", 5, "range", "m", 8, (MemberRecord("m", "i", "c", "h", 9, 6_000, b"\1", b"\2"),)
)
GROUP_BYTES = (
    "0003 0008636f6e73756d6572 00000005 000572616e6765 00016d 0000000000000008 00000001"
    "00016d 000169 000163 000168 00000009 00001770 00000001 01 00000001 02"
)


def test_a_member_of_the_classic_protocol_is_written_as_by_kafka() -> None:
    raw = bytes.fromhex(CLASSIC_MEMBER_BYTES)
    assert consumer.encode_said(CLASSIC_MEMBER) == raw
    assert consumer.decode_said(Kind.MEMBER, raw) == CLASSIC_MEMBER


def test_a_topology_is_written_as_by_kafka() -> None:
    raw = bytes.fromhex(TOPOLOGY_BYTES)
    assert streams.encode_said(TOPOLOGY) == raw
    assert streams.decode_said(Kind.STREAMS_TOPOLOGY, raw) == TOPOLOGY


def test_a_classic_group_is_written_as_by_kafka() -> None:
    raw = bytes.fromhex(GROUP_BYTES)
    assert records.encode_group_value(GROUP) == raw
    assert records.decode_group_value(raw) == GROUP


@pytest.mark.parametrize(
    ("topic_id", "told"),
    [
        (None, "0003 0000000000000007 00000002 00016d 0000000000000009"),
        (TOPIC, f"0004 0000000000000007 00000002 026d 0000000000000009 01 00 10 {T}"),
    ],
)
def test_a_position_is_written_as_by_kafka(topic_id: bytes | None, told: str) -> None:
    value = CommittedOffset(7, LeaderEpoch(2), "m", 9, topic_id)
    assert records.encode_offset_value(value) == bytes.fromhex(told)
    assert records.decode_offset_value(bytes.fromhex(told)) == value


@pytest.mark.parametrize("state", MemberState)
def test_states_of_members_have_the_numbers_of_kafka(state: MemberState) -> None:
    """Those of streams groups begin with 1, those of consumer groups with 0."""
    current = Current(MemberEpoch(1), MemberEpoch(0), state, {}, {})
    names = [MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED]
    assert consumer.encode_said(current)[10] == names.index(state)
    assert streams.encode_said(current)[10] == names.index(state) + 1


EPOCHS_OF_PARTITIONS = f"0000 00000005 00000004 02 02 {T} 03 00000000 00000002"
EPOCHS_OF_TASKS = "0000 00000004 00000003 03 02 0230 03 00000000 00000002"
TARGET_AT_A_TIME = "0000 00000009 01 00 08 0000000000000005"
"""The time is the tagged field 0 (KIP-1263); the epochs of single partitions are another one."""


def test_epochs_of_single_partitions_are_read_past() -> None:
    raw = bytes.fromhex(EPOCHS_OF_PARTITIONS + "01 00 09 03 00000003 00000005 01 00")
    said = Current(MemberEpoch(5), MemberEpoch(4), MemberState.UNRELEASED, ASSIGNED, {})
    assert consumer.decode_said(Kind.CURRENT, raw) == said
    plain = bytes.fromhex(EPOCHS_OF_PARTITIONS + "00 01 00")
    assert consumer.encode_said(said) == plain


def test_epochs_of_single_tasks_are_read_past() -> None:
    raw = bytes.fromhex(EPOCHS_OF_TASKS + "01 00 09 03 00000003 00000004 01 01 01 01 01 00")
    said = Current(MemberEpoch(4), MemberEpoch(3), MemberState.UNRELEASED, TASKS, {})
    assert streams.decode_said(Kind.STREAMS_CURRENT, raw) == said
    assert streams.encode_said(said) == bytes.fromhex(EPOCHS_OF_TASKS + "00 01 01 01 01 01 00")


def test_the_time_of_a_target_is_read_past() -> None:
    raw, said = bytes.fromhex(TARGET_AT_A_TIME), TargetEpoch(MemberEpoch(9))
    assert consumer.decode_said(Kind.TARGET_EPOCH, raw) == said
    assert share.decode_said(Kind.SHARE_TARGET_EPOCH, raw) == said
    assert streams.decode_said(Kind.STREAMS_TARGET_EPOCH, raw) == said


def test_the_topology_that_was_described_is_read_past() -> None:
    raw = "0000 00000003 0000000000000005 03 00 04 00000001 01 06 02 026b 0276 00 02 04 00000001"
    said = streams.StreamsEpoch(MemberEpoch(3), 5, TopologyEpoch(1), (("k", "v"),))
    assert streams.decode_said(Kind.STREAMS_GROUP, bytes.fromhex(raw)) == said


def test_the_settings_of_an_assignment_may_be_null() -> None:
    raw = bytes.fromhex("0000 00000003 0000000000000005 01 01 01 00")
    assert streams.decode_said(Kind.STREAMS_GROUP, raw) == streams.StreamsEpoch(MemberEpoch(3), 5)
