"""Changes of the configuration of brokers, groups and client metrics.

Source: Kafka `ConfigAdminManager` and `ConfigurationControlManager`; KIP-226, KIP-714, KIP-932,
KIP-1142. Which broker may be asked, and which of its settings are read-only, its front says.
"""

from collections.abc import Mapping

from penstock.base.ids import BrokerId
from penstock.configs.entry import ConfigType
from penstock.configs.resource_keys import ResourceKey
from penstock.controller.commands.command import ResourceEdits
from penstock.controller.commands.config_edits import KeyRules, edited
from penstock.controller.errors import (
    FeatureLevelTooLow,
    InvalidConfig,
    InvalidMetadataRequest,
    MetadataPolicyViolation,
    UnknownBroker,
)
from penstock.controller.metadata.config_records import CONFIGURATION_LEVEL
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.kinds import ResourceType
from penstock.controller.metadata.levels import METADATA
from penstock.controller.metadata.records import ConfigChanged, MetadataRecord
from penstock.controller.resource_config.broker_keys import REFUSED_BROKER_KEYS, broker_key
from penstock.controller.resource_config.checked import checked
from penstock.controller.resource_config.layers import ALL_BROKERS, KEYS_OF
from penstock.controller.resource_config.listener_keys import (
    LISTENER_KEYS_MAX,
    count_of_listener_keys,
)

RESOURCES_MAX = 10_000
"""Brokers, groups and client metrics with configuration: all processes hold them in memory."""
NAME_CHARACTERS_MAX = 1_024

_KIND = {
    ResourceType.BROKER: "a broker",
    ResourceType.GROUP: "a group",
    ResourceType.CLIENT_METRICS: "client metrics",
}


def alter_resource(
    image: ClusterImage, resource: ResourceEdits, *, replace: bool
) -> list[MetadataRecord]:
    """Return the records of all edits of one resource. Raises RefusedCommand kinds."""
    kind, name = ResourceType(resource.resource_type), resource.resource_name
    if image.metadata_level < CONFIGURATION_LEVEL:
        raise FeatureLevelTooLow(METADATA, CONFIGURATION_LEVEL, image.metadata_level)
    _check_name(image, kind, name)
    now = image.configuration.resources.get((kind, name), {})
    wanted = edited(now, resource.edits, _rules(kind, now), replace=replace)
    if wanted and not now and len(image.configuration.resources) >= RESOURCES_MAX:
        raise MetadataPolicyViolation(
            f"{RESOURCES_MAX} brokers, groups and client metrics have configuration already: take"
            " away what is not needed."
        )
    if count_of_listener_keys(wanted) > max(LISTENER_KEYS_MAX, count_of_listener_keys(now)):
        raise MetadataPolicyViolation(
            f"Of one broker, or of all, {LISTENER_KEYS_MAX} keys of listeners can be set."
        )
    return [
        ConfigChanged(resource_type=kind, resource_name=name, key=key, value=wanted.get(key))
        for key in sorted({*now, *wanted})
        if now.get(key) != wanted.get(key)
    ]


def _check_name(image: ClusterImage, kind: ResourceType, name: str) -> None:
    if len(name) > NAME_CHARACTERS_MAX:
        raise InvalidMetadataRequest(
            f"The name of {_KIND[kind]} has {NAME_CHARACTERS_MAX} characters at most."
        )
    if kind is not ResourceType.BROKER:
        if not name:
            raise InvalidMetadataRequest(
                f"The name of {_KIND[kind]} must not be empty: there is no default of all."
            )
    elif name != ALL_BROKERS:
        broker_id = BrokerId(int(name) if name.isascii() and name.isdigit() else -1)
        if str(broker_id) != name:
            raise InvalidMetadataRequest(f"{name[:100]!r} is no broker id.")
        if broker_id not in image.brokers:
            raise UnknownBroker(broker_id)


def _rules(kind: ResourceType, now: Mapping[str, str]) -> KeyRules:
    def find(key: str) -> ResourceKey:
        row = broker_key(key) if kind is ResourceType.BROKER else KEYS_OF[kind].get(key)
        if row is None:
            reason = f"unknown configuration of {_KIND[kind]}"
            raise InvalidConfig(key, _refused(kind, key) or reason)
        return row

    def list_value(key: str) -> str | None:
        row = find(key)
        return now.get(key, row.default) if row.config_type is ConfigType.LIST else None

    return KeyRules(find, lambda key, value: checked(find(key), value), list_value)


def _refused(kind: ResourceType, key: str) -> str:
    return REFUSED_BROKER_KEYS.get(key, "") if kind is ResourceType.BROKER else ""
