"""What a group coordinator knows of the cluster: topics, racks, keys of groups, the time.

Source: Kafka, MetadataImage as GroupMetadataManager uses it; KIP-881 (racks).
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from penstock.assignors.topic_facts import TopicFacts
from penstock.groups.share.masters import ShareMasters


class Cluster(Protocol):
    """The cluster as this node knows it now."""

    @property
    def version(self) -> int:
        """Another number after every change of topics, partitions or racks."""

    @property
    def share_masters(self) -> ShareMasters:
        """The brokers where shares of groups are."""

    def find(self, name: str) -> TopicFacts | None:
        """Return a topic by name; None if there is none."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""

    def names_of_users(self) -> Iterable[str]:
        """Return the names of all topics that are not internal."""

    def group_keys(self, group_id: str) -> Mapping[str, str]:
        """Return the keys that are set for a group by AlterConfigs."""

    def retention_now_ms(self) -> int:
        """Return the wall time that positions expire by."""
