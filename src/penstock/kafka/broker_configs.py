"""What a front asks its node about configuration that is told to clients.

The settings and what stands over them at run time belong to the node (node/dynamic_config.py).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.configs.entry import ConfigEntry
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.topic_config.describe import broker_defaults


class BrokerConfigs(Protocol):
    """The node's configuration as clients see it."""

    def entries(self) -> Sequence[ConfigEntry]:
        """Return all settings of the node, read-only ones included."""

    def read_only(self) -> Mapping[str, str]:
        """Return the names of all settings that can not be changed, each with the key under which
        the same setting can; empty where it is read at start alone.
        """

    def topic_defaults(self) -> Sequence[ConfigEntry]:
        """Return every topic key as topics have it that say nothing."""


class NoSettings:
    """A front without a node: nothing is told of the broker."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def entries(self) -> Sequence[ConfigEntry]:
        """Return nothing."""
        return ()

    def read_only(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def topic_defaults(self) -> Sequence[ConfigEntry]:
        """Return every topic key as the image's defaults have it."""
        return broker_defaults(self._image.defaults)
