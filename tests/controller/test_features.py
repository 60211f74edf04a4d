"""Levels of features: who may raise and lower them, and what they let be written."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.access import rules
from penstock.base.ids import BrokerEpoch, BrokerId
from penstock.base.invariant import InvariantViolation
from penstock.controller.commands.command import (
    ChangeFeatureLevel,
    NewTopic,
    RegisterBroker,
)
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.features import check_level
from penstock.controller.errors import (
    FeatureLevelRefused,
    FeatureLevelTooLow,
    UnsupportedMetadata,
)
from penstock.controller.metadata import config_records as cr
from penstock.controller.metadata import records as r
from penstock.controller.metadata.broker_epoch_records import REMOVED_BROKERS, BrokerEpochReached
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.install import install
from penstock.controller.metadata.levels import (
    FEATURES_LEVEL,
    METADATA,
    METADATA_LEVELS,
    TRANSACTIONS,
    LevelRange,
    unpack_levels,
)
from penstock.controller.metadata.login_records import UNKNOWN_USERS, LoginSecretChosen
from penstock.controller.metadata.record_codec import decode_records, encode_records, level_of
from penstock.controller.metadata.replay import replay
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.controller.metadata.token_records import (
    DelegationTokenChanged,
    DelegationTokenRemoved,
)
from penstock.quotas.entities import QuotaKind, QuotaPart
from tests.controller.cluster import Cluster
from tests.controller.contradicting import contradicts
from tests.controller.giving_up import A_TOPIC, of_give_ups
from tests.controller.reassigning import of_reassignments

_LEVEL_2 = r.FeatureLevelChanged(feature=METADATA, level=2, epoch=1)
_NEWEST = METADATA_LEVELS.highest
_BROKER_CONFIG = r.ConfigChanged(resource_type=4, resource_name="", key="k", value="v")


def _lower(cluster: Cluster, **fields: object) -> int:
    wanted = {"level": 1, "is_lowering": True, "checked_brokers": _checked(cluster)}
    asked = ChangeFeatureLevel(**{"feature": METADATA, **wanted, **fields})  # type: ignore[arg-type]
    return cluster.submit(asked)


def _raise(
    cluster: Cluster,
    level: int = 2,
    checked: tuple[tuple[BrokerId, BrokerEpoch], ...] | None = None,
) -> int:
    checked = _checked(cluster) if checked is None else checked
    return cluster.submit(
        ChangeFeatureLevel(feature=METADATA, level=level, checked_brokers=checked)
    )


def _checked(cluster: Cluster) -> tuple[tuple[BrokerId, BrokerEpoch], ...]:
    return tuple((key, one.broker_epoch) for key, one in cluster.image.brokers.items())


def _change(cluster: Cluster, *records: r.MetadataRecord) -> None:
    entry = encode_records(records, cluster.image.metadata_level)
    cluster.log.append(entry)
    cluster.controller.replay(decode_records(entry))


def test_a_new_cluster_begins_with_the_newest_level_and_a_log_without_one_is_at_the_first() -> None:
    assert Cluster().image.metadata_level == _NEWEST
    before = ClusterImage()
    replay(before, [r.ClusterCreated(cluster_id="of an earlier release")])
    assert before.metadata_level == 1
    assert before.features_epoch == 0


def test_the_level_goes_down_and_up_with_an_epoch_that_grows_beyond_all_there_were() -> None:
    cluster = Cluster()
    clock = iter((5, 7, 8))
    cluster.controller._context = _with_clock(cluster, clock)
    assert _lower(cluster) == 1
    assert cluster.image.features == {}
    assert cluster.image.features_epoch == 0
    assert _lower(cluster) == 1, "what it is already"
    assert _raise(cluster) == 2
    assert cluster.image.features == {METADATA: 2}
    assert cluster.image.features_epoch == 7


def _with_clock(cluster: Cluster, clock: Iterator[int]) -> CommandContext:
    context = cluster.controller._context
    return CommandContext(
        config=context.config,
        image=context.image,
        new_topic_id=context.new_topic_id,
        wall_ms=lambda: next(clock),
    )


def test_a_snapshot_at_the_first_level_is_one_that_an_earlier_release_reads() -> None:
    cluster = Cluster()
    _lower(cluster)
    records = snapshot_records(cluster.image)
    assert {level_of(record) for record in records} == {1}
    kinds = {record.KIND for record in records if not isinstance(record, r.CarriedRecord)}
    assert max(kinds) <= r.RecordKind.COPIES_FLOOR_CHANGED


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"feature": "penstock.weather"}, "knows penstock.metadata"),
        ({"level": _NEWEST + 1, "is_lowering": False}, f"reads 1 to {_NEWEST}"),
        ({"level": 0}, f"reads 1 to {_NEWEST}"),
        ({"is_lowering": False}, "ask for a downgrade"),
        ({"checked_brokers": ()}, r"brokers \[0\] have registered"),
    ],
)
def test_a_change_that_can_not_be_is_refused(fields: dict[str, object], reason: str) -> None:
    cluster = Cluster()
    wanted = {
        "feature": METADATA,
        "level": 1,
        "is_lowering": True,
        "checked_brokers": _checked(cluster),
    }
    with pytest.raises(FeatureLevelRefused, match=reason):
        cluster.submit(ChangeFeatureLevel(**{**wanted, **fields}))  # type: ignore[arg-type]


def test_a_feature_waits_for_the_metadata_level_that_it_needs_and_falls_with_it() -> None:
    cluster = Cluster()
    assert cluster.image.features == {METADATA: _NEWEST, TRANSACTIONS: 2}
    assert _lower(cluster, level=FEATURES_LEVEL - 1) == FEATURES_LEVEL - 1
    assert cluster.image.features == {METADATA: FEATURES_LEVEL - 1}
    raised = ChangeFeatureLevel(feature=TRANSACTIONS, level=2, checked_brokers=_checked(cluster))
    with pytest.raises(FeatureLevelRefused, match=f"{METADATA} at level {FEATURES_LEVEL}"):
        cluster.submit(raised)
    _raise(cluster, FEATURES_LEVEL)
    assert cluster.image.features == {METADATA: FEATURES_LEVEL}
    assert cluster.submit(raised) == 2
    assert cluster.image.features == {METADATA: FEATURES_LEVEL, TRANSACTIONS: 2}


def test_what_the_metadata_holds_does_not_keep_another_feature_up() -> None:
    cluster = Cluster()
    _change(cluster, *_OF_LEVEL_2)
    cluster.create(NewTopic(name="t", configs={"segment.ms": "1000"}))
    assert _lower(cluster, feature=TRANSACTIONS) == 1
    assert cluster.image.features == {METADATA: _NEWEST}


def test_the_epoch_grows_with_each_level_of_each_feature_and_stays_in_a_snapshot() -> None:
    """Clients keep what they were told with the highest epoch."""
    cluster = Cluster()
    epochs = [cluster.image.features_epoch]
    raised = ChangeFeatureLevel(feature=TRANSACTIONS, level=2, checked_brokers=_checked(cluster))
    for change in (lambda: _lower(cluster, feature=TRANSACTIONS), lambda: cluster.submit(raised)):
        change()
        epochs.append(cluster.image.features_epoch)
        again = ClusterImage()
        replay(again, snapshot_records(cluster.image))
        assert (again.features, again.features_epoch) == (cluster.image.features, epochs[-1])
    assert epochs == sorted(set(epochs))


def test_the_metadata_level_does_not_fall_below_what_another_feature_stands_on() -> None:
    cluster = Cluster()
    with pytest.raises(InvariantViolation, match="no other feature"):
        _change(
            cluster,
            r.FeatureLevelChanged(feature=METADATA, level=2, epoch=cluster.image.features_epoch),
        )


def test_raising_is_not_asked_for_as_lowering() -> None:
    cluster = Cluster()
    _lower(cluster)
    with pytest.raises(FeatureLevelRefused, match="it is at 1: ask for an upgrade"):
        _lower(cluster, level=2)


def test_a_broker_that_registers_between_look_and_change_stops_it() -> None:
    cluster = Cluster()
    _lower(cluster)
    checked = _checked(cluster)
    cluster.submit(RegisterBroker(broker_id=BrokerId(7), host="late", port=1))
    with pytest.raises(FeatureLevelRefused, match=r"brokers \[7\]"):
        _raise(cluster, checked=checked)
    assert _raise(cluster) == 2


def test_a_broker_that_starts_anew_between_look_and_change_may_be_of_an_earlier_release() -> None:
    cluster = Cluster()
    _lower(cluster)
    cluster.submit(
        RegisterBroker(broker_id=BrokerId(7), host="h", port=1, incarnation="newer release")
    )
    checked = _checked(cluster)
    cluster.submit(
        RegisterBroker(broker_id=BrokerId(7), host="h", port=1, incarnation="earlier release")
    )
    with pytest.raises(FeatureLevelRefused, match=r"brokers \[7\] have registered meanwhile"):
        _raise(cluster, checked=checked)
    assert cluster.image.metadata_level == 1
    assert _raise(cluster) == 2


_OF_LEVEL_2: list[r.MetadataRecord] = [
    _BROKER_CONFIG,
    cr.ClientQuotaChanged(
        entity=(QuotaPart(QuotaKind.USER, "u"),), key="consumer_byte_rate", value=1.0
    ),
    cr.ScramCredentialChanged(
        user="u",
        mechanism=cr.ScramMechanism.SHA_256,
        salt=b"s",
        stored_key=b"k",
        server_key=b"k",
        iterations=1,
    ),
    cr.AclAdded(
        acl_id=bytes(16),
        resource_type=rules.AclResource.GROUP,
        resource_name="g",
        pattern=rules.AclPattern.LITERAL,
        principal="User:u",
        host="*",
        operation=rules.AclOperation.ALL,
        permission=rules.AclPermission.DENY,
    ),
    r.CarriedRecord(kind=0x8101, version=9, key="k", body=b'{"key":"k","more":1}'),
]


@pytest.mark.parametrize("record", _OF_LEVEL_2)
def test_what_needs_the_higher_level_is_refused_below_it_and_keeps_it_up(
    record: r.MetadataRecord,
) -> None:
    cluster = Cluster()
    _change(cluster, record)
    with pytest.raises(FeatureLevelRefused, match=r"it can not hold 1 .*: take .* away first"):
        _lower(cluster)
    low = ClusterImage()
    with pytest.raises(FeatureLevelTooLow, match="penstock cluster upgrade"):
        check_level(low, [record])
    with pytest.raises((InvariantViolation, UnsupportedMetadata)):
        replay(low, [record])
    check_level(low, [_LEVEL_2, record])


def test_a_command_whose_records_the_level_does_not_allow_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    _lower(cluster)
    handlers = {RegisterBroker: lambda context, command: Result(1, (_BROKER_CONFIG,))}
    monkeypatch.setattr("penstock.controller.controller._HANDLERS", handlers)
    with pytest.raises(FeatureLevelTooLow, match="raise the level"):
        cluster.submit(RegisterBroker(broker_id=BrokerId(0), host="h", port=1))


def test_what_was_taken_away_does_not_keep_the_level_up() -> None:
    cluster = Cluster()
    _change(cluster, *_OF_LEVEL_2)
    _change(
        cluster,
        r.ConfigChanged(resource_type=4, resource_name="", key="k", value=None),
        cr.ClientQuotaChanged(
            entity=(QuotaPart(QuotaKind.USER, "u"),), key="consumer_byte_rate", value=None
        ),
        cr.ScramCredentialRemoved(user="u", mechanism=cr.ScramMechanism.SHA_256),
        cr.AclRemoved(acl_id=bytes(16)),
        r.CarriedRecord(kind=0x8101, version=9, key="k", body=b'{"key":"k"}', is_removal=True),
    )
    assert _lower(cluster) == 1


def test_carried_records_are_kept_byte_for_byte_the_newest_of_a_key_in_the_order_of_writing() -> (
    None
):
    def carried(kind: int, key: str, more: int) -> r.CarriedRecord:
        body = b'{ "key":"%b", "more":%d }' % (key.encode(), more)
        return r.CarriedRecord(kind=kind, version=5, key=key, body=body)

    image = ClusterImage()
    first, other, second = carried(0x8101, "a", 1), carried(0x8102, "a", 1), carried(0x8101, "a", 2)
    replay(image, [_LEVEL_2, first, carried(0x8101, "b", 1), other, second])
    kept = snapshot_records(image)[1:]
    assert kept == [carried(0x8101, "b", 1), other, second]
    assert second.body in encode_records([_LEVEL_2, *kept])


@pytest.mark.parametrize(
    "records",
    [
        [cr.ScramCredentialRemoved(user="u", mechanism=cr.ScramMechanism.SHA_256)],
        [cr.AclRemoved(acl_id=bytes(16))],
        [_OF_LEVEL_2[3], _OF_LEVEL_2[3]],
        [cr.ClientQuotaChanged(entity=(), key="k", value=1.0)],
        [
            cr.ClientQuotaChanged(
                entity=(
                    QuotaPart(QuotaKind.USER, "u"),
                    QuotaPart(QuotaKind.CLIENT_ID, "c"),
                ),
                key="k",
                value=1.0,
            )
        ],
        [_OF_LEVEL_2[0], r.FeatureLevelChanged(feature=METADATA, level=1, epoch=2)],
        [r.FeatureLevelChanged(feature=METADATA, level=2, epoch=0)],
    ],
)
def test_records_that_contradict_the_past_are_corrupt_state(
    records: list[r.MetadataRecord],
) -> None:
    image = ClusterImage()
    replay(image, [_LEVEL_2])
    with pytest.raises(InvariantViolation):
        replay(image, records)


def test_a_feature_of_a_newer_release_stops_the_process() -> None:
    for feature, level in (("eligible.leader.replicas.version", 1), (TRANSACTIONS, 3)):
        changed = r.FeatureLevelChanged(feature=feature, level=level, epoch=1)
        with pytest.raises(UnsupportedMetadata, match=rf"{feature} at level {level}"):
            replay(ClusterImage(), [changed])


@pytest.mark.parametrize(
    ("packed", "found"),
    [(0, (1, 1)), (1, (1, 1)), (1 << 16 | 2, (1, 2)), (3 << 16 | 2, (1, 1)), (-1, (1, 1))],
)
def test_a_peer_that_says_no_levels_or_nonsense_reads_the_first_one(
    packed: int, found: tuple[int, int]
) -> None:
    assert unpack_levels(packed) == LevelRange(*found)
    assert unpack_levels(LevelRange(2, 9).packed()) == LevelRange(2, 9)


_names = st.sampled_from(["", "a", "b"])
_kept = st.one_of(
    st.builds(
        r.ConfigChanged,
        resource_type=st.sampled_from([4, 16, 32]),
        resource_name=_names,
        key=_names,
        value=st.one_of(st.none(), _names),
    ),
    st.builds(
        cr.ClientQuotaChanged,
        entity=st.sampled_from(
            [
                (QuotaPart(QuotaKind.IP, None),),
                (QuotaPart(QuotaKind.USER, "u"),),
                (QuotaPart(QuotaKind.CLIENT_ID, None), QuotaPart(QuotaKind.USER, "u")),
            ]
        ),
        key=_names,
        value=st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    ),
    st.builds(
        cr.ScramCredentialChanged,
        user=_names,
        mechanism=st.sampled_from(cr.ScramMechanism),
        salt=st.binary(max_size=3),
        stored_key=st.binary(max_size=3),
        server_key=st.binary(max_size=3),
        iterations=st.integers(1, 9),
    ),
    st.builds(
        cr.ScramCredentialRemoved, user=_names, mechanism=st.sampled_from(cr.ScramMechanism)
    ),
    st.builds(
        cr.AclAdded,
        acl_id=st.integers(0, 3).map(lambda one: bytes(15) + bytes([one])),
        resource_type=st.sampled_from(rules.AclResource),
        resource_name=_names,
        pattern=st.sampled_from(rules.AclPattern),
        principal=_names,
        host=_names,
        operation=st.sampled_from(rules.AclOperation),
        permission=st.sampled_from(rules.AclPermission),
    ),
    st.builds(cr.AclRemoved, acl_id=st.integers(0, 3).map(lambda one: bytes(15) + bytes([one]))),
    st.builds(
        DelegationTokenChanged,
        token_id=_names,
        owner=_names,
        requester=_names,
        renewers=st.lists(_names, max_size=2).map(tuple),
        issued_ms=st.just(1),
        ends_ms=st.integers(2, 3),
        expires_ms=st.integers(1, 3),
    ),
    st.builds(DelegationTokenRemoved, token_id=_names),
    of_reassignments,
    of_give_ups,
    st.just(LoginSecretChosen(key=UNKNOWN_USERS, secret=bytes(32))),
    st.just(cr.removal_of(r.RecordKind.LOGIN_SECRET_CHOSEN, UNKNOWN_USERS)),
    st.builds(
        BrokerEpochReached,
        key=st.just(REMOVED_BROKERS),
        broker_epoch=st.integers(1, 3).map(BrokerEpoch),
    ),
    st.just(cr.removal_of(r.RecordKind.BROKER_EPOCH_REACHED, REMOVED_BROKERS)),
    st.builds(
        lambda kind, key, more: r.CarriedRecord(
            kind=kind,
            version=1,
            key=key,
            body=b'{"key":"%b"}' % key.encode() if more is None
            else b'{"more":%d,"key":"%b"}' % (more, key.encode()),
            is_removal=more is None,
        ),
        st.sampled_from([0x8101, 0xFFFF]),
        _names,
        st.one_of(st.none(), st.integers(0, 9)),
    ),
    st.builds(
        lambda level: r.FeatureLevelChanged(feature=METADATA, level=level, epoch=1),
        st.sampled_from([*range(1, _NEWEST + 1), _NEWEST]),
    ),
    st.builds(
        lambda level: r.FeatureLevelChanged(feature=TRANSACTIONS, level=level, epoch=1),
        st.integers(1, 2),
    ),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_kept, max_size=40))
def test_a_snapshot_gives_the_image_again_at_each_level(records: list[r.MetadataRecord]) -> None:
    image, entries = ClusterImage(), []
    newest = r.FeatureLevelChanged(feature=METADATA, level=_NEWEST, epoch=1)
    for record in [newest, *A_TOPIC, *records]:
        if level_of(record) > image.metadata_level or contradicts(image, record):
            continue
        entries.append(encode_records([record], image.metadata_level))
        replay(image, decode_records(entries[-1]))
    again, short, behind = ClusterImage(), ClusterImage(), ClusterImage()
    for entry in entries:
        replay(again, decode_records(entry))
    assert again == image
    snapshot = encode_records(snapshot_records(image))
    replay(short, decode_records(snapshot))
    assert short == image
    assert encode_records(snapshot_records(short)) == snapshot
    for entry in entries[: len(entries) // 2]:
        replay(behind, decode_records(entry))
    tables = behind.configuration.acls
    install(behind, decode_records(snapshot))
    assert behind == image
    assert behind.configuration.acls is tables
