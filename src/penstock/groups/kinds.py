"""An empty group becomes one of another kind, and keeps its positions.

Source: Kafka, GroupMetadataManager (maybeDeleteEmptyClassicGroup, maybeDeleteEmptyConsumerGroup);
KIP-848, "Group Conversion". A group with members: migration/.
"""

from penstock.coordinator.records import UnreadRecord
from penstock.groups.context import Context
from penstock.groups.group import BaseGroup
from penstock.groups.journal import GroupChanges
from penstock.groups.table import GroupTable


def replace(table: GroupTable, group: BaseGroup, by: BaseGroup) -> None:
    """Put a group in the place of one of another kind, whose positions it goes on with."""
    table.forget(group)
    by.offsets = group.offsets
    table.adopt(by)


def change_kind(context: Context, table: GroupTable, group: BaseGroup, by: BaseGroup) -> None:
    """Put `by` in the place of an empty group, whose own records are deleted.

    The tombstones are before the first record of the new kind. If they are not written, the loader
    goes by the newer kind (loading.py).
    """
    assert group.is_empty, group.group_id
    gone: dict[bytes, bytes | UnreadRecord | None] = dict.fromkeys(group.metadata.keys())
    replace(table, group, by)
    context.writer.write(group, GroupChanges(metadata=gone), lambda _: None)
