"""A node's settings with what is set at run time over them.

Source: KIP-226; Kafka `DynamicBrokerConfig.processReconfiguration`. It applies nothing.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from penstock.base.errors import ConfigError
from penstock.configs.keys import split_list
from penstock.configs.resource_keys import ResourceKey
from penstock.controller.errors import InvalidConfig
from penstock.controller.resource_config.broker_keys import broker_key
from penstock.controller.resource_config.checked import checked
from penstock.controller.resource_config.listener_keys import listener_part
from penstock.net.admission.own_limits import with_listener_limit
from penstock.node.settings.settings import NodeSettings

log = logging.getLogger(__name__)


def overlaid(static: NodeSettings, overrides: Mapping[str, str]) -> NodeSettings:
    """Return the settings that are in force with these overrides by key.

    One that this release does not know, or can not combine with the others, is left out and said
    in the log: a newer release may have set it.
    """
    settings = static
    for key, text in sorted(overrides.items()):
        row = broker_key(key)
        if row is None:
            log.warning("configuration left out: %s: unknown to this release", key)
        if row is None or not row.setting:
            continue
        try:
            settings = _with(settings, row, text)
        except (InvalidConfig, ConfigError) as error:
            log.warning("configuration left out: %s", error)
    return settings


def _with(settings: NodeSettings, row: ResourceKey, text: str) -> NodeSettings:
    section_name, field = row.setting.split(".")
    section: Any = getattr(settings, section_name)
    now, text, part = getattr(section, field), checked(row, text), listener_part(row.key)
    value = (
        _as_type_of(now, text)
        if part is None
        else with_listener_limit(now, part.listener, part.field, int(text))
    )
    sections: dict[str, Any] = {section_name: replace(section, **{field: value})}
    return replace(settings, **sections)


def _as_type_of(now: object, text: str) -> object:
    if isinstance(now, bool):
        return text == "true"
    if isinstance(now, Enum):
        return type(now)(text)
    if isinstance(now, int | float):
        return type(now)(text)
    if isinstance(now, tuple):
        return tuple(split_list(text))
    return text
