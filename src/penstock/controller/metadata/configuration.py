"""The image's configuration other than of topics, and the records that are only carried.

Source: KRaft's ConfigurationsImage, ClientQuotasImage, ScramImage and AclsImage. Only
replay changes it, in place; what uses it is not defined here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from penstock.access.rules import Rule
from penstock.base.ids import ReplicaSetId, TopicId
from penstock.controller.metadata.broker_epoch_records import BrokerEpochReached
from penstock.controller.metadata.config_records import (
    CONFIGURATION_LEVEL,
    AclAdded,
    CarriedRecord,
    ScramCredentialChanged,
    ScramMechanism,
)
from penstock.controller.metadata.kinds import ResourceType
from penstock.controller.metadata.levels import GIVE_UPS_LEVEL, TOKENS_LEVEL
from penstock.controller.metadata.login_records import LoginSecretChosen
from penstock.controller.metadata.reassignment_records import ReassignmentChanged
from penstock.controller.metadata.token_records import DelegationTokenChanged
from penstock.quotas.entities import QuotaEntity


@dataclass(slots=True, kw_only=True)
class Configuration:
    """All of this configuration; an entry without values is left out."""

    resources: dict[tuple[ResourceType, str], Mapping[str, str]] = field(default_factory=dict)
    """Overrides by (type, name) of brokers, groups and client metrics; "" is all brokers."""
    quotas: dict[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    credentials: dict[tuple[str, ScramMechanism], ScramCredentialChanged] = field(
        default_factory=dict
    )
    acls: dict[bytes, AclAdded] = field(default_factory=dict)
    """By id."""
    acl_ids: dict[Rule, bytes] = field(default_factory=dict)
    """The ids of the same, by rule: there are 20,000, and each is looked for when it is added."""
    tokens: dict[str, DelegationTokenChanged] = field(default_factory=dict)
    """Delegation tokens by id, those that are over until the active controller removes them."""
    reassignments: dict[ReplicaSetId, ReassignmentChanged] = field(default_factory=dict)
    """The replica sets whose members are to change."""
    login_secrets: dict[str, LoginSecretChosen] = field(default_factory=dict)
    """What unknown users are answered follows from it; one, by its key, or none yet."""
    reached_epochs: dict[str, BrokerEpochReached] = field(default_factory=dict)
    """The highest broker epoch of removed brokers, by its key, or none yet."""
    give_ups: dict[TopicId, int] = field(default_factory=dict)
    """How often topics gave up what the object store had of them; 0 is left out."""
    carried: dict[tuple[int, str], CarriedRecord] = field(default_factory=dict)
    """By kind and key, in the order in which they were last written."""

    def above(self, level: int) -> list[str]:
        """Return, for people, the contents that a metadata level cannot hold.

        The login secret and the epoch of removed brokers are none: they are forgotten where the
        level cannot hold them.
        """
        counted = (
            (CONFIGURATION_LEVEL, self.resources, "brokers, groups or client metrics configured"),
            (CONFIGURATION_LEVEL, self.quotas, "clients with quotas"),
            (CONFIGURATION_LEVEL, self.credentials, "SCRAM credentials"),
            (CONFIGURATION_LEVEL, self.acls, "ACLs"),
            (TOKENS_LEVEL, self.tokens, "delegation tokens"),
            (CONFIGURATION_LEVEL, self.reassignments, "replica sets whose members change"),
            (GIVE_UPS_LEVEL, self.give_ups, "topics that gave up what the object store had"),
            (CONFIGURATION_LEVEL, self.carried, "records that a newer release wrote"),
        )
        return [f"{len(kept)} {what}" for needed, kept, what in counted if kept and needed > level]

    def take_over(self, newer: "Configuration") -> None:
        """Take the content of `newer`, in place: readers keep references to the dictionaries."""
        for one in fields(self):
            kept: dict[object, object] = getattr(self, one.name)
            kept.clear()
            kept.update(getattr(newer, one.name))
