"""Records of features, and of configuration other than of topics: quotas, SCRAM, ACLs.

All but the first need level 2. Their content is kept in the image and in snapshots; what uses it is
not defined here (ACLs: penstock.access, quotas: penstock.quotas). Configuration of brokers, groups
and client metrics is `records.ConfigChanged`.

Source: Kafka's FeatureLevelRecord, ClientQuotaRecord, UserScramCredentialRecord and
AccessControlEntryRecord (KIP-584, KIP-546, KIP-554, KIP-11, KIP-290), with their numbers.
"""

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.controller.metadata.broker_epoch_records import BrokerEpochReached
from penstock.controller.metadata.kinds import RecordKind
from penstock.controller.metadata.levels import FEATURES_LEVEL, FIRST_LEVEL, METADATA
from penstock.controller.metadata.login_records import LoginSecretChosen
from penstock.controller.metadata.reassignment_records import ReassignmentChanged
from penstock.controller.metadata.tier_records import CopiesGivenUp
from penstock.controller.metadata.token_records import (
    DelegationTokenChanged,
    DelegationTokenRemoved,
)
from penstock.quotas.entities import QuotaPart

CONFIGURATION_LEVEL = 2
"""Lowest metadata level at which these records may be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelChanged:
    """The cluster runs with `feature` at `level` from here on.

    Levels of other features than the metadata's are written from metadata level 3 on. `epoch` never
    falls and grows with each change, also over a stay at the first level.
    """

    KIND: ClassVar = RecordKind.FEATURE_LEVEL_CHANGED
    feature: str
    level: int
    epoch: int

    @property
    def needs(self) -> int:
        """The metadata level at which such a record may be written."""
        return FIRST_LEVEL if self.feature == METADATA else FEATURES_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaChanged:
    """A quota of an entity is set, or taken away where `value` is None."""

    KIND: ClassVar = RecordKind.CLIENT_QUOTA_CHANGED
    LEVEL: ClassVar = CONFIGURATION_LEVEL
    entity: tuple[QuotaPart, ...]
    key: str
    value: float | None


class ScramMechanism(IntEnum):
    """The numbers are Kafka's."""

    SHA_256 = 1
    SHA_512 = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialChanged:
    """A user can prove a password by this mechanism; RFC 5802 says what the keys are."""

    KIND: ClassVar = RecordKind.SCRAM_CREDENTIAL_CHANGED
    LEVEL: ClassVar = CONFIGURATION_LEVEL
    user: str
    mechanism: ScramMechanism
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Leave out what a password could be guessed from: logs show records."""
        return f"ScramCredentialChanged(user={self.user!r}, mechanism={self.mechanism!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialRemoved:
    """The user has no credential of this mechanism any more."""

    KIND: ClassVar = RecordKind.SCRAM_CREDENTIAL_REMOVED
    LEVEL: ClassVar = CONFIGURATION_LEVEL
    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class AclAdded:
    """An ACL is there under an id of 16 bytes; the same rule has one id only."""

    KIND: ClassVar = RecordKind.ACL_ADDED
    LEVEL: ClassVar = CONFIGURATION_LEVEL
    acl_id: bytes
    resource_type: AclResource
    resource_name: str
    pattern: AclPattern
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    @property
    def rule(self) -> Rule:
        """The rule without its id."""
        return Rule(
            resource_type=self.resource_type,
            resource_name=self.resource_name,
            pattern=self.pattern,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission=self.permission,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRemoved:
    """The ACL with this id is gone."""

    KIND: ClassVar = RecordKind.ACL_REMOVED
    LEVEL: ClassVar = CONFIGURATION_LEVEL
    acl_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedRecord:
    """A record of a kind, or a version, that this release does not know and may carry: bytes as
    they came.

    The newest of a kind and key counts. `is_removal`: its body has the key alone, and what was kept
    under it is gone; so it is written of known kinds too.
    """

    kind: int
    version: int
    key: str
    body: bytes
    is_removal: bool = False


def removal_of(kind: RecordKind, key: str) -> CarriedRecord:
    """Return the record after which nothing is kept under a key of a kind that may be carried."""
    body = json.dumps({"key": key}, separators=(",", ":"), ensure_ascii=False).encode()
    return CarriedRecord(kind=kind, version=1, key=key, body=body, is_removal=True)


ConfigurationRecord = (
    FeatureLevelChanged
    | ClientQuotaChanged
    | ScramCredentialChanged
    | ScramCredentialRemoved
    | AclAdded
    | AclRemoved
    | DelegationTokenChanged
    | DelegationTokenRemoved
    | ReassignmentChanged
    | LoginSecretChosen
    | BrokerEpochReached
    | CopiesGivenUp
    | CarriedRecord
)
