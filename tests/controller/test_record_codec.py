"""Bytes of metadata records."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.ids import as_brokers
from penstock.access import rules
from penstock.base.endpoints import NamedEndpoint
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    ProducerId,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
    TopicId,
)
from penstock.base.invariant import InvariantViolation
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.controller.metadata import config_records as cr
from penstock.controller.metadata import records as r
from penstock.controller.metadata.broker_epoch_records import BrokerEpochReached
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.declare import Shape, since
from penstock.controller.metadata.levels import METADATA_LEVELS
from penstock.controller.metadata.login_records import LoginSecretChosen
from penstock.controller.metadata.reassignment_records import ReassignmentChanged
from penstock.controller.metadata.record_codec import decode_records, encode_records, level_of
from penstock.controller.metadata.tier_records import CopiesGivenUp
from penstock.controller.metadata.token_records import (
    DelegationTokenChanged,
    DelegationTokenRemoved,
)
from penstock.quotas.entities import QuotaKind, QuotaPart

_ID = TopicId(bytes(range(16)))
_ALL: list[r.MetadataRecord] = [
    r.ClusterCreated(cluster_id="abc"),
    r.BrokerRegistered(broker_id=BrokerId(1), host="hä", port=9, rack=None),
    r.BrokerRegistered(broker_id=BrokerId(1), host="h", port=9, rack="r"),
    r.BrokerRegistered(
        broker_id=BrokerId(1),
        host="h",
        port=9,
        rack="r",
        ha_host="i",
        ha_port=9094,
        identity="d",
        incarnation="p",
        broker_epoch=BrokerEpoch(7),
        directory_count=2,
        is_draining=True,
    ),
    r.BrokerRegistered(
        broker_id=BrokerId(1),
        host="h",
        port=9,
        rack=None,
        listeners=(NamedEndpoint("inside", "fd00::1", 9095), NamedEndpoint("outside", "o", 9096)),
    ),
    r.BrokerFenced(broker_id=BrokerId(1)),
    r.BrokerDrained(broker_id=BrokerId(1), is_draining=True),
    r.BrokerRemoved(broker_id=BrokerId(1)),
    r.ReplicaSetCreated(replica_set_id=ReplicaSetId(1), replicas=as_brokers(1, 2)),
    r.ReplicaSetCreated(
        replica_set_id=ReplicaSetId(1),
        replicas=as_brokers(1, 2),
        policy_kind="adaptive",
        policy_required=3,
        policy_minimum=2,
        next_replica_id=ReplicaId(9),
    ),
    r.ReplicaRegistered(
        replica_set_id=ReplicaSetId(1), broker_id=BrokerId(2), replica_id=ReplicaId(5), log_id="abc"
    ),
    r.ReplicasChanged(replica_set_id=ReplicaSetId(1), replicas=as_brokers(2, 3)),
    r.AckPolicyChanged(
        replica_set_id=ReplicaSetId(1), policy_kind="k-of-n", policy_required=2, policy_minimum=1
    ),
    r.CopiesFloorChanged(replica_set_id=ReplicaSetId(1), copies_floor=-1),
    r.UncleanElectionChanged(replica_set_id=ReplicaSetId(1), is_allowed=True),
    r.DefaultPolicyChanged(policy_kind="all", policy_required=1, policy_minimum=2),
    r.FailoverChanged(is_enabled=False),
    r.MastershipBegun(
        replica_set_id=ReplicaSetId(1), master=BrokerId(2), leader_epoch=LeaderEpoch(3)
    ),
    r.MastershipBegun(
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(-1),
        leader_epoch=LeaderEpoch(4),
        cause=Cause.EVICTION,
        at_ms=9,
        last_master=BrokerId(2),
    ),
    r.MastershipBegun(
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(1),
        leader_epoch=LeaderEpoch(5),
        cause=Cause.UNCLEAN,
        at_ms=9,
        last_master=BrokerId(1),
        detail="broker 1 ends at 3",
        unclean_epoch=LeaderEpoch(5),
    ),
    r.SyncStateSetChanged(
        replica_set_id=ReplicaSetId(1),
        sync_state_set=as_brokers(2),
        sync_state_set_epoch=SyncStateSetEpoch(4),
    ),
    r.TopicCreated(
        name="t", topic_id=_ID, replica_set_ids=(ReplicaSetId(1), ReplicaSetId(1)), internal=True
    ),
    r.PartitionsAdded(
        topic_id=_ID, first_partition=PartitionId(2), replica_set_ids=(ReplicaSetId(1),)
    ),
    r.TopicDeleted(topic_id=_ID),
    r.ConfigChanged(resource_type=2, resource_name="t", key="k", value=None),
    r.ProducerIdBlockAllocated(
        broker_id=BrokerId(1), first_producer_id=ProducerId(0), next_producer_id=ProducerId(2**62)
    ),
    r.FeatureLevelChanged(feature="penstock.metadata", level=METADATA_LEVELS.highest, epoch=7),
    r.FeatureLevelChanged(feature="transaction.version", level=2, epoch=7),
    r.ConfigChanged(resource_type=4, resource_name="", key="k", value="v"),
    cr.ClientQuotaChanged(
        entity=(QuotaPart(QuotaKind.CLIENT_ID, None), QuotaPart(QuotaKind.USER, "u")),
        key="producer_byte_rate",
        value=1024.5,
    ),
    cr.ClientQuotaChanged(
        entity=(QuotaPart(QuotaKind.IP, "::1"),), key="connection_creation_rate", value=None
    ),
    cr.ScramCredentialChanged(
        user="ü",
        mechanism=cr.ScramMechanism.SHA_512,
        salt=b"\0s",
        stored_key=b"k",
        server_key=b"",
        iterations=4096,
    ),
    cr.ScramCredentialRemoved(user="u", mechanism=cr.ScramMechanism.SHA_256),
    cr.AclAdded(
        acl_id=_ID,
        resource_type=rules.AclResource.TOPIC,
        resource_name="orders-",
        pattern=rules.AclPattern.PREFIXED,
        principal="User:alice",
        host="*",
        operation=rules.AclOperation.READ,
        permission=rules.AclPermission.ALLOW,
    ),
    cr.AclRemoved(acl_id=_ID),
    DelegationTokenChanged(
        token_id="t",
        owner="User:ü",
        requester="User:b",
        renewers=("User:c", "User:d"),
        issued_ms=1,
        ends_ms=3,
        expires_ms=2,
    ),
    DelegationTokenRemoved(token_id="t"),
    ReassignmentChanged(key="3", target=as_brokers(4, 1), before=as_brokers(1, 2)),
    cr.removal_of(r.RecordKind.REASSIGNMENT_CHANGED, "3"),
    LoginSecretChosen(key="unknown-users", secret=bytes(range(32))),
    BrokerEpochReached(key="removed-brokers", broker_epoch=BrokerEpoch(7)),
    CopiesGivenUp(topic_id=_ID, count=3),
    r.CarriedRecord(kind=0x8101, version=3, key="k", body=b'{ "key": "k", "more": [1] }'),
    r.CarriedRecord(kind=0xFFFF, version=1, key="k", body=b'{"key":"k"}', is_removal=True),
]
_FIRST_OF_LEVEL_2 = [type(one) for one in _ALL].index(r.FeatureLevelChanged)


def test_every_kind_survives_the_way_to_bytes_and_back() -> None:
    assert {getattr(one, "KIND", 1) for one in _ALL} == set(r.RecordKind)
    assert decode_records(encode_records(_ALL)) == _ALL


def _golden() -> Iterator[tuple[bytes, bytes]]:
    """Bytes from before feature levels, and what they become when they are written again."""
    text = (Path(__file__).parent / "metadata_records.txt").read_text()
    for line in text.splitlines():
        if not line.startswith("#"):
            before, _, after = line.partition(" -> ")
            yield _bytes(before), _bytes(after or before)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[:16]) + text[16:].encode()


def test_what_was_written_before_there_were_levels_is_read_and_written_as_it_was() -> None:
    kinds = set()
    for before, after in _golden():
        assert encode_records(decode_records(before)) == after
        kinds.add((before[1], before[3]))
    assert len({kind for kind, _ in kinds}) == 20
    assert {version for kind, version in kinds if kind == r.RecordKind.MASTERSHIP_BEGUN} == {
        1,
        2,
        3,
    }


def test_the_level_decides_what_may_be_written() -> None:
    assert {level_of(one) for one in _ALL[: _FIRST_OF_LEVEL_2 + 1]} == {1}
    above = _ALL[_FIRST_OF_LEVEL_2 + 1 :]
    assert {level_of(one) for one in above} == set(range(2, METADATA_LEVELS.highest + 1))
    for record in above:
        level = level_of(record)
        assert decode_records(encode_records([record], level)) == [record]
        with pytest.raises(InvariantViolation):
            encode_records([record], level - 1)


def test_a_record_of_a_level_that_is_lowered_in_front_of_it_is_not_written() -> None:
    lowered = r.FeatureLevelChanged(feature="penstock.metadata", level=1, epoch=8)
    with pytest.raises(InvariantViolation):
        encode_records([lowered, cr.AclRemoved(acl_id=_ID)], 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grown:
    """A kind of four versions; the third needs a level, the fourth is sparse."""

    KIND: ClassVar = 99
    first: int
    second: str = since(2, "")
    third: tuple[int, ...] = since(3, (), level=2)
    fourth: bool | None = since(4, None, level=3, is_sparse=True)


def test_any_number_of_versions_is_declared_at_the_fields() -> None:
    shape = Shape(_Grown)
    assert [list(version) for version in shape.versions] == [
        ["first"],
        ["first", "second"],
        ["first", "second", "third"],
        ["first", "second", "third", "fourth"],
    ]
    assert shape.make(1, {"first": 1}) == _Grown(first=1)
    assert shape.make(3, {"first": 1, "second": "s", "third": [2]}) == _Grown(
        first=1, second="s", third=(2,)
    )


@pytest.mark.parametrize(
    ("fields", "needs", "versions"),
    [
        ({}, 1, (2, 3, 3)),
        ({"third": (1,)}, 2, (2, 3, 3)),
        ({"fourth": True}, 3, (2, 3, 4)),
    ],
)
def test_the_version_follows_from_the_level_and_from_what_is_said(
    fields: dict[str, object], needs: int, versions: tuple[int, ...]
) -> None:
    shape, record = Shape(_Grown), _Grown(first=1, **fields)  # type: ignore[arg-type]
    assert shape.level_of(record) == needs
    assert tuple(shape.version_of(record, level) for level in (1, 2, 3)) == versions


def test_a_default_without_a_version_and_a_version_without_fields_are_mistakes() -> None:
    @dataclass
    class Undeclared:
        KIND: ClassVar = 99
        first: int = 1

    @dataclass
    class Gap:
        KIND: ClassVar = 99
        first: int
        third: int = since(3, 0)

    for mistaken in (Undeclared, Gap):
        with pytest.raises(AssertionError):
            Shape(mistaken)


@pytest.mark.parametrize("level", [0, METADATA_LEVELS.highest + 1, 900])
def test_a_level_that_this_release_does_not_read_is_refused_before_what_follows(level: int) -> None:
    changed = r.FeatureLevelChanged(feature="penstock.metadata", level=level, epoch=7)
    unknown = bytes.fromhex("0063 0001 00000002 7b7d")
    with pytest.raises(UnsupportedMetadata, match=rf"at level {level} .* reads {METADATA_LEVELS}"):
        decode_records(encode_records([changed]) + unknown)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"no", b'{"key":1}', b'{"key":"\\ud97e","more":1}'])
def test_a_carried_record_without_a_key_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptMetadata):
        decode_records(struct.pack(">HHI", 0x8101, 1, len(body)) + body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (22, b'{"entity":[["user"]],"key":"k","value":1}'),
        (22, b'{"entity":[["user","u"]],"key":"k","value":true}'),
        (22, b'{"entity":[["user","u"]],"key":"k","value":NaN}'),
        (22, b'{"entity":[["user","u"]],"key":"k","value":9007199254740993}'),
        (26, b'{"acl_id":"0"}'),
        (26, b'{"acl_id":"AA"}'),
    ],
)
def test_configuration_that_can_not_be_is_refused(kind: int, body: bytes) -> None:
    with pytest.raises(CorruptMetadata):
        decode_records(struct.pack(">HHI", kind, 1, len(body)) + body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (22, b'{"entity":[["galaxy","u"]],"key":"k","value":1}'),
        (24, b'{"mechanism":9,"user":"u"}'),
    ],
)
def test_a_number_or_name_of_a_newer_release_is_refused(kind: int, body: bytes) -> None:
    with pytest.raises(UnsupportedMetadata):
        decode_records(struct.pack(">HHI", kind, 1, len(body)) + body)


def test_what_a_password_could_be_guessed_from_is_not_shown() -> None:
    (credential,) = [one for one in _ALL if isinstance(one, cr.ScramCredentialChanged)]
    assert "4096" not in repr(credential)
    assert "salt" not in repr(credential)


def test_bytes_of_a_record_are_those_of_the_format_page() -> None:
    assert encode_records([r.ClusterCreated(cluster_id="abc")]).hex(" ", 4) == (
        "00010001 00000014 7b22636c 75737465 725f6964 223a2261 6263227d"
    )


def test_entry_cut_at_any_byte_is_refused() -> None:
    entry = encode_records(_ALL[:2])
    first = len(encode_records(_ALL[:1]))
    for length in set(range(1, len(entry))) - {first}:
        with pytest.raises(CorruptMetadata):
            decode_records(entry[:length])


@pytest.mark.parametrize(
    ("kind", "body", "record"),
    [
        (
            2,
            b'{"broker_id":1,"host":"h","port":9,"rack":null}',
            r.BrokerRegistered(broker_id=BrokerId(1), host="h", port=9, rack=None),
        ),
        (
            3,
            b'{"replica_set_id":1,"replicas":[1]}',
            r.ReplicaSetCreated(replica_set_id=ReplicaSetId(1), replicas=as_brokers(1)),
        ),
        (
            4,
            b'{"leader_epoch":3,"master":1,"replica_set_id":1}',
            r.MastershipBegun(
                replica_set_id=ReplicaSetId(1), master=BrokerId(1), leader_epoch=LeaderEpoch(3)
            ),
        ),
    ],
)
def test_records_of_the_first_release_are_read_with_the_defaults_of_what_came_later(
    kind: int, body: bytes, record: r.MetadataRecord
) -> None:
    head = kind.to_bytes(2, "big") + b"\x00\x01" + len(body).to_bytes(4, "big")
    assert decode_records(head + body) == [record]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("eviction", {"cause": Cause.EVICTION}),
        ("", {}),
        ("as it was called once", {"detail": "as it was called once"}),
        (
            "unclean: broker 2 ends at 10",
            {"cause": Cause.UNCLEAN, "detail": "broker 2 ends at 10", "unclean_epoch": 3},
        ),
        ("unclean", {"cause": Cause.UNCLEAN, "unclean_epoch": 3}),
    ],
)
def test_the_text_of_a_masterships_cause_in_version_2_is_read(
    text: str, fields: dict[str, Any]
) -> None:
    body = (
        b'{"at_ms":9,"cause":"%b","last_master":1,"leader_epoch":3,"master":1,"replica_set_id":1}'
        % text.encode()
    )
    head = b"\x00\x04\x00\x02" + len(body).to_bytes(4, "big")
    begun = r.MastershipBegun(
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(1),
        leader_epoch=LeaderEpoch(3),
        at_ms=9,
        last_master=BrokerId(1),
        **fields,
    )
    assert decode_records(head + body) == [begun]


def test_a_broker_with_one_listener_is_written_as_earlier_releases_read_it() -> None:
    plain = r.BrokerRegistered(broker_id=BrokerId(1), host="h", port=9, rack=None)
    (kind, version) = struct.unpack_from(">HH", encode_records([plain]))
    assert (kind, version) == (r.RecordKind.BROKER_REGISTERED, 2)
    named = replace(plain, listeners=(NamedEndpoint("inside", "i", 9095),))
    assert struct.unpack_from(">HH", encode_records([named]))[1] == 3


@pytest.mark.parametrize(
    "listeners", ['"inside"', "[1]", '[["a","b"]]', '[["a","b","c"]]', "[[1,2,3]]"]
)
def test_listeners_that_can_not_be_are_refused(listeners: str) -> None:
    named = r.BrokerRegistered(
        broker_id=BrokerId(1), host="h", port=9, rack=None, listeners=(NamedEndpoint("a", "b", 1),)
    )
    good = encode_records([named])
    body = good[8:].replace(b'[["a","b",1]]', listeners.encode())
    with pytest.raises(CorruptMetadata):
        decode_records(struct.pack(">HHI", named.KIND, 3, len(body)) + body)


def test_a_cause_of_a_newer_release_is_refused() -> None:
    (entry,) = [encode_records([one]) for one in _ALL if getattr(one, "unclean_epoch", -1) == 5]
    assert decode_records(entry)
    with pytest.raises(UnsupportedMetadata):
        decode_records(entry.replace(b'"unclean"', b'"uncleam"'))


@pytest.mark.parametrize("envelope", ["0063 0001 00000002 7b7d", "0001 0002 00000002 7b7d"])
def test_kind_or_version_of_a_newer_release_is_refused(envelope: str) -> None:
    with pytest.raises(UnsupportedMetadata):
        decode_records(bytes.fromhex(envelope))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (1, b"not json"),
        (1, b"\xff"),
        (1, b"[]"),
        (1, b"{}"),
        (1, b'{"cluster_id":1}'),
        (1, b'{"cluster_id":"a","more":1}'),
        (3, b'{"replica_set_id":1,"replicas":1}'),
        (3, b'{"replica_set_id":true,"replicas":[1]}'),
        (3, b'{"replica_set_id":1,"replicas":["1"]}'),
        (8, b'{"topic_id":"zz"}'),
        (8, b'{"topic_id":"00"}'),
        (6, b'{"internal":1,"name":"t","replica_set_ids":[],"topic_id":"00"}'),
        (1, b'{"cluster_id":"half a character: \\ud97e"}'),
        (1, b'{"cluster_id":' + b"[" * 100_000),
    ],
)
def test_body_that_can_not_be_is_refused(kind: int, body: bytes) -> None:
    head = kind.to_bytes(2, "big") + b"\x00\x01" + len(body).to_bytes(4, "big")
    with pytest.raises(CorruptMetadata):
        decode_records(head + body)
