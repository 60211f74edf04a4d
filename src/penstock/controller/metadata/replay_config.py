"""Replay of feature levels, of configuration beside topics, and of carried records.

Source: KRaft's FeaturesDelta, ConfigurationsDelta, ClientQuotasDelta, ScramDelta and AclsDelta;
ADR 0067. See `replay`, whose table takes these functions in.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from penstock.base.ids import ReplicaSetId
from penstock.base.invariant import invariant
from penstock.controller.errors import UnsupportedMetadata
from penstock.controller.metadata import config_records as r
from penstock.controller.metadata import token_records as t
from penstock.controller.metadata.broker_epoch_records import BrokerEpochReached
from penstock.controller.metadata.image import UNREGISTERED, ClusterImage
from penstock.controller.metadata.kinds import KEPT_RESOURCES, RecordKind, ResourceType
from penstock.controller.metadata.levels import FEATURES_LEVEL, FIRST_LEVEL, METADATA, SUPPORTED
from penstock.controller.metadata.login_records import LOGIN_SECRET_BYTES, LoginSecretChosen
from penstock.controller.metadata.reassignment_records import ReassignmentChanged
from penstock.controller.metadata.tier_records import CopiesGivenUp
from penstock.controller.metadata.touched import Touched

V = TypeVar("V")

ACL_ID_BYTES = 16


def _feature_level_changed(
    image: ClusterImage, record: r.FeatureLevelChanged, touched: Touched
) -> None:
    supported = SUPPORTED.get(record.feature)
    if supported is None or not supported.has(record.level):
        raise UnsupportedMetadata(
            f"the cluster runs with {record.feature} at level {record.level}, which this release"
            " does not know: start the release that raised it"
        )
    invariant(
        record.epoch >= image.features_epoch,
        "the epoch of features never falls",
        before=image.features_epoch,
        after=record.epoch,
    )
    if record.feature == METADATA:
        above = image.configuration.above(record.level)
        invariant(not above, "nothing stands above the level", above=above)
        if record.level < FEATURES_LEVEL:
            others = sorted(image.features.keys() - {METADATA})
            invariant(not others, "no other feature stands above its first level", above=others)
    else:
        _check_level(image, FEATURES_LEVEL)
    image.features_epoch = record.epoch
    if record.level > FIRST_LEVEL:
        image.features[record.feature] = record.level
        return
    image.features.pop(record.feature, None)
    if record.feature == METADATA:
        image.features_epoch = 0
        _forget_machines(image, touched)
        image.configuration.login_secrets.clear()
        image.configuration.reached_epochs.clear()


def _forget_machines(image: ClusterImage, touched: Touched) -> None:
    """Make the image what a snapshot of this level holds; brokers say it when they register."""
    for broker_id, broker in image.brokers.items():
        if broker.machine:
            image.brokers[broker_id] = replace(broker, machine="")
            touched.brokers[broker_id] = None


def keep_config(
    image: ClusterImage, resource_type: int, name: str, key: str, value: str | None
) -> None:
    """Set an override of a broker, a group or client metrics, or take it away (None)."""
    invariant(resource_type in KEPT_RESOURCES, "such a resource is kept", kind=resource_type)
    _check_level(image)
    _change(image.configuration.resources, (ResourceType(resource_type), name), key, value)


def _quota_changed(image: ClusterImage, record: r.ClientQuotaChanged, touched: Touched) -> None:
    _check_level(image)
    kinds = [part.kind for part in record.entity]
    is_one = bool(kinds) and kinds == sorted(set(kinds))
    invariant(is_one, "an entity names each kind once, in order", kinds=kinds)
    _change(image.configuration.quotas, record.entity, record.key, record.value)
    touched.quotas[record.entity] = None


def _credential_changed(image: ClusterImage, record: r.ScramCredentialChanged, _: Touched) -> None:
    _check_level(image)
    invariant(record.iterations > 0, "a password is hashed", user=record.user)
    image.configuration.credentials[record.user, record.mechanism] = record


def _credential_removed(image: ClusterImage, record: r.ScramCredentialRemoved, _: Touched) -> None:
    _check_level(image)
    identity = (record.user, record.mechanism)
    invariant(identity in image.configuration.credentials, "the credential is there", is_=identity)
    del image.configuration.credentials[identity]


def _acl_added(image: ClusterImage, record: r.AclAdded, touched: Touched) -> None:
    _check_level(image)
    configuration, rule = image.configuration, record.rule
    invariant(len(record.acl_id) == ACL_ID_BYTES, "an ACL's id has 16 bytes", id=record.acl_id)
    is_new = record.acl_id not in configuration.acls and rule not in configuration.acl_ids
    invariant(is_new, "an ACL is added once", id=record.acl_id.hex())
    configuration.acls[record.acl_id] = record
    configuration.acl_ids[rule] = record.acl_id
    touched.added_acls[record.acl_id] = record


def _acl_removed(image: ClusterImage, record: r.AclRemoved, touched: Touched) -> None:
    _check_level(image)
    known = image.configuration.acls.pop(record.acl_id, None)
    invariant(known is not None, "the ACL is there", id=record.acl_id.hex())
    assert known is not None
    del image.configuration.acl_ids[known.rule]
    if touched.added_acls.pop(record.acl_id, None) is None:
        touched.removed_acls[record.acl_id] = known


def _token_changed(image: ClusterImage, record: t.DelegationTokenChanged, _: Touched) -> None:
    _check_level(image, record.LEVEL)
    known = image.configuration.tokens.get(record.token_id)
    is_same = known is None or replace(known, expires_ms=record.expires_ms) == record
    invariant(is_same, "only the expiry of a token changes", id=record.token_id)
    invariant(record.expires_ms <= record.ends_ms, "a token has an end", id=record.token_id)
    image.configuration.tokens[record.token_id] = record


def _token_removed(image: ClusterImage, record: t.DelegationTokenRemoved, _: Touched) -> None:
    _check_level(image, record.LEVEL)
    known = image.configuration.tokens.pop(record.token_id, None)
    invariant(known is not None, "the token is there", id=record.token_id)


def _reassignment_changed(image: ClusterImage, record: ReassignmentChanged, _: Touched) -> None:
    _check_level(image, record.LEVEL)
    is_id = record.key.isdecimal() and record.key == str(int(record.key))
    invariant(is_id, "the key is the id of a set", key=record.key)
    for members in (record.target, record.before):
        invariant(len(set(members)) == len(members), "a member is there once", members=members)
    invariant(bool(record.target), "a set has a member", key=record.key)
    image.configuration.carried.pop((record.KIND, record.key), None)
    image.configuration.reassignments[record.replica_set_id] = record


def _login_secret_chosen(image: ClusterImage, record: LoginSecretChosen, _: Touched) -> None:
    _check_level(image, record.LEVEL)
    length = len(record.secret)
    invariant(length == LOGIN_SECRET_BYTES, "a login secret has its size", length=length)
    known = image.configuration.login_secrets
    invariant(known.keys() <= {record.key}, "there is one login secret", keys=[*known])
    image.configuration.carried.pop((record.KIND, record.key), None)
    known[record.key] = record


def _broker_epoch_reached(image: ClusterImage, record: BrokerEpochReached, _: Touched) -> None:
    _check_level(image, record.LEVEL)
    known = image.configuration.reached_epochs
    invariant(known.keys() <= {record.key}, "there is one such epoch", keys=[*known])
    before = known[record.key].broker_epoch if known else UNREGISTERED
    invariant(record.broker_epoch > before, "it rises", before=before, after=record.broker_epoch)
    image.configuration.carried.pop((record.KIND, record.key), None)
    known[record.key] = record


def _copies_given_up(image: ClusterImage, record: CopiesGivenUp, _: Touched) -> None:
    _check_level(image, record.LEVEL)
    invariant(record.topic_id in image.topics_by_id, "the topic is there", id=record.topic_id)
    before = image.configuration.give_ups.get(record.topic_id, 0)
    invariant(record.count > before, "a count of give-ups rises", before=before, to=record.count)
    image.configuration.give_ups[record.topic_id] = record.count


def _carried(image: ClusterImage, record: r.CarriedRecord, _: Touched) -> None:
    if image.metadata_level == FIRST_LEVEL:
        raise UnsupportedMetadata(
            f"metadata record of kind {record.kind}, version {record.version}: a newer release"
            " wrote it; start that release again"
        )
    if record.kind == RecordKind.REASSIGNMENT_CHANGED and record.key.isdecimal():
        image.configuration.reassignments.pop(ReplicaSetId(int(record.key)), None)
    if record.kind == RecordKind.LOGIN_SECRET_CHOSEN:
        image.configuration.login_secrets.pop(record.key, None)
    if record.kind == RecordKind.BROKER_EPOCH_REACHED:
        image.configuration.reached_epochs.pop(record.key, None)
    carried = image.configuration.carried
    carried.pop((record.kind, record.key), None)  # the order is that of the last writing
    if not record.is_removal:
        carried[record.kind, record.key] = record


def _check_level(image: ClusterImage, needed: int = r.CONFIGURATION_LEVEL) -> None:
    level = image.metadata_level
    invariant(level >= needed, "the level allows the record", level=level, needed=needed)


def _change(table: dict[Any, Mapping[str, V]], owner: object, key: str, value: V | None) -> None:
    """Set or take away one value of an owner's; whoever has none left is not there."""
    values = dict(table.get(owner, {}))
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
    if values:
        table[owner] = MappingProxyType(values)
    else:
        table.pop(owner, None)


REPLAY_CONFIG: Mapping[type[Any], Callable[[ClusterImage, Any, Touched], None]] = {
    r.FeatureLevelChanged: _feature_level_changed,
    r.ClientQuotaChanged: _quota_changed,
    r.ScramCredentialChanged: _credential_changed,
    r.ScramCredentialRemoved: _credential_removed,
    r.AclAdded: _acl_added,
    r.AclRemoved: _acl_removed,
    t.DelegationTokenChanged: _token_changed,
    t.DelegationTokenRemoved: _token_removed,
    ReassignmentChanged: _reassignment_changed,
    LoginSecretChosen: _login_secret_chosen,
    BrokerEpochReached: _broker_epoch_reached,
    CopiesGivenUp: _copies_given_up,
    r.CarriedRecord: _carried,
}
