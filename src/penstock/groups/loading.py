"""Rebuilding groups from a partition of the internal topic, record by record.

The log is read from its start to its end; the last record of each key counts. What can not be
understood is skipped, counted and logged: one record from a newer version must not keep every
other group of the partition away from its clients.

Source: Kafka, GroupMetadataManager.doLoadGroupsAndOffsets.
"""

import logging

from penstock.groups.counters import GroupCounters
from penstock.groups.errors import MalformedGroupRecord
from penstock.groups.group import METADATA, Group
from penstock.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    TopicKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from penstock.groups.snapshot import restore_group

_log = logging.getLogger("penstock.groups")


class PartitionLoader:
    """Collects the latest record of each key of one partition."""

    __slots__ = ("_counters", "_metadata", "_offsets", "loaded_bytes", "partition")

    def __init__(self, partition: int, counters: GroupCounters) -> None:
        self.partition = partition
        self.loaded_bytes = 0
        self._counters = counters
        self._offsets: dict[str, dict[TopicKey, CommittedOffset]] = {}
        self._metadata: dict[str, bytes] = {}

    def load(self, key: bytes, value: bytes | None) -> None:
        """Take the next record in log order; None is a tombstone."""
        try:
            name = decode_key(key)
            if isinstance(name, OffsetKey):
                self._load_offset(name, value)
            elif isinstance(name, GroupKey):
                self._load_metadata(name, value)
            else:
                self._skip("key of an unknown kind")
        except MalformedGroupRecord as error:
            self._skip(error.reason)

    def groups(self, *, wall_ms: int) -> list[Group]:
        """Return the groups, in the order of their ids."""
        ids = dict.fromkeys([*self._metadata, *self._offsets])
        return [self._group(group_id, wall_ms) for group_id in sorted(ids)]

    def _load_offset(self, name: OffsetKey, value: bytes | None) -> None:
        key = TopicKey(name.topic, name.partition)
        if value is not None:
            self._offsets.setdefault(name.group_id, {})[key] = decode_offset_value(value)
            return
        offsets = self._offsets.get(name.group_id, {})
        offsets.pop(key, None)
        if not offsets:
            self._offsets.pop(name.group_id, None)

    def _load_metadata(self, name: GroupKey, value: bytes | None) -> None:
        if value is None:
            self._metadata.pop(name.group_id, None)
            return
        decode_group_value(value)
        self._metadata[name.group_id] = value

    def _group(self, group_id: str, wall_ms: int) -> Group:
        group = Group(group_id, self.partition, wall_ms=wall_ms)
        group.offsets.values.update(self._offsets.get(group_id, {}))
        value = self._metadata.get(group_id)
        if value is None:
            # Only offsets were ever kept: their own times decide about expiry.
            group.state_since_ms = 0
        else:
            group.metadata.values[METADATA] = value
            restore_group(group, decode_group_value(value))
        return group

    def _skip(self, reason: str) -> None:
        self._counters.records_skipped += 1
        _log.warning("internal partition=%d record skipped: %s", self.partition, reason)
