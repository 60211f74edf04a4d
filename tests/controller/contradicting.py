"""Whether a record that hypothesis draws contradicts an image: no command would have given it."""

from dataclasses import replace

from penstock.controller.metadata import config_records as cr
from penstock.controller.metadata import records as r
from penstock.controller.metadata.broker_epoch_records import BrokerEpochReached
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import FEATURES_LEVEL, METADATA
from penstock.controller.metadata.token_records import (
    DelegationTokenChanged,
    DelegationTokenRemoved,
)
from tests.controller.giving_up import may_follow


def contradicts(image: ClusterImage, record: r.MetadataRecord) -> bool:
    """Whether no command would have given this record."""
    kept = image.configuration
    match record:
        case r.FeatureLevelChanged():
            others = image.features.keys() - {METADATA} if record.level < FEATURES_LEVEL else ()
            return record.feature == METADATA and bool(others or kept.above(record.level))
        case cr.ScramCredentialRemoved():
            return (record.user, record.mechanism) not in kept.credentials
        case cr.AclAdded() | cr.AclRemoved():
            return _is_contradicting_acl(image, record)
        case BrokerEpochReached():
            known = kept.reached_epochs.get(record.key)
            return known is not None and record.broker_epoch <= known.broker_epoch
        case DelegationTokenChanged() | DelegationTokenRemoved():
            return _is_contradicting_token(image, record)
        case _:
            return not may_follow(image, record)


def _is_contradicting_acl(image: ClusterImage, record: cr.AclAdded | cr.AclRemoved) -> bool:
    kept = image.configuration
    if isinstance(record, cr.AclRemoved):
        return record.acl_id not in kept.acls
    return record.acl_id in kept.acls or record.rule in kept.acl_ids


def _is_contradicting_token(
    image: ClusterImage, record: DelegationTokenChanged | DelegationTokenRemoved
) -> bool:
    known = image.configuration.tokens.get(record.token_id)
    if isinstance(record, DelegationTokenRemoved):
        return known is None
    is_same = known is None or replace(known, expires_ms=record.expires_ms) == record
    return not is_same or record.expires_ms > record.ends_ms
