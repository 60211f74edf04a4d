"""The object store that the settings of a node name, for commands."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError

if TYPE_CHECKING:
    from penstock.node.settings.settings import NodeSettings
    from penstock.tier.port import ObjectStore


def settings_of(config: Path) -> "NodeSettings":
    """Return the settings of a node that has a store. Raises ConfigError."""
    from penstock.node.settings.settings import load_settings

    settings = load_settings(config, environment=os.environ)
    if not settings.tier.url:
        raise ConfigError(f"{config} names no object store: tier.url is empty")
    return settings


def store_of(settings: "NodeSettings") -> "ObjectStore":
    """Return the store. Raises ConfigError."""
    from penstock.node.object_store import open_store

    return open_store(settings.tier)
