"""What the image holds of configuration beside topics, and of records that are only carried.

Source: KRaft's ConfigurationsImage, ClientQuotasImage, ScramImage and AclsImage. Replay alone
changes it, in place; it says nothing about who acts by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from penstock.controller.metadata.config_records import (
    CONFIGURATION_LEVEL,
    AclAdded,
    CarriedRecord,
    QuotaEntity,
    ScramCredentialChanged,
    ScramMechanism,
)
from penstock.controller.metadata.kinds import ResourceType


@dataclass(slots=True, kw_only=True)
class Configuration:
    """All of it; an entry without values does not stand here."""

    resources: dict[tuple[ResourceType, str], Mapping[str, str]] = field(default_factory=dict)
    """Overrides by (type, name) of brokers, groups and client metrics; "" is all brokers."""
    quotas: dict[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    credentials: dict[tuple[str, ScramMechanism], ScramCredentialChanged] = field(
        default_factory=dict
    )
    acls: dict[bytes, AclAdded] = field(default_factory=dict)
    """By id."""
    carried: dict[tuple[int, str], CarriedRecord] = field(default_factory=dict)
    """By kind and key, in the order in which they were last written."""

    def above(self, level: int) -> list[str]:
        """Return the contents that a metadata level can not hold, as text for people."""
        counted = (
            (CONFIGURATION_LEVEL, self.resources, "brokers, groups or client metrics configured"),
            (CONFIGURATION_LEVEL, self.quotas, "clients with quotas"),
            (CONFIGURATION_LEVEL, self.credentials, "SCRAM credentials"),
            (CONFIGURATION_LEVEL, self.acls, "ACLs"),
            (CONFIGURATION_LEVEL, self.carried, "records that a newer release wrote"),
        )
        return [f"{len(kept)} {what}" for needed, kept, what in counted if kept and needed > level]

    def take_over(self, newer: "Configuration") -> None:
        """Hold what `newer` does; readers keep the dictionaries that they have."""
        for one in fields(self):
            kept: dict[object, object] = getattr(self, one.name)
            kept.clear()
            kept.update(getattr(newer, one.name))
