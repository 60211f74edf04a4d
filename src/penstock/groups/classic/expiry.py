"""Groups go away: by DeleteGroups, or when nothing has happened for the retention time.

Offsets are never expired while a group has members, and never one by one: a group goes as a whole
when it has been empty, and nothing was committed, for the retention time. A consumer that was down
over a long weekend finds its position; lag that somebody still cares about is never forgotten
while they are connected.

While the tombstones are under way the group is Dead: requests for it are told to come back, and a
new group of that name begins after the old one's last record.

Source: KIP-211, with its per-partition expiry of subscribed groups left out on purpose
(librdkafka#1442, pykafka#504: committed offsets that expired while a consumer was down); Kafka,
GroupMetadataManager.cleanupGroupMetadata.
"""

from collections.abc import Callable

from penstock.groups.classic.group import METADATA, Group, GroupState
from penstock.groups.config import NEVER_EXPIRE_MS
from penstock.groups.context import Context
from penstock.groups.journal import GroupChanges, WriteDone
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.protocol.error_codes import ErrorCode


def delete_group(
    context: Context, group: Group, forget: Callable[[Group], None], done: WriteDone
) -> None:
    """Write tombstones for all a group has, then `forget` it, then `done`. It must be empty."""
    group.transition(GroupState.DEAD, context.clock.wall_ms())
    offsets: dict[TopicKey, CommittedOffset | None] = dict.fromkeys(group.offsets.latest())
    metadata: dict[str, bytes | None] = (
        {METADATA: None} if METADATA in group.metadata.latest() else {}
    )

    def written(error: ErrorCode | None) -> None:
        if error is None:
            forget(group)
        elif group.state is GroupState.DEAD:
            group.transition(GroupState.EMPTY, context.clock.wall_ms())
        done(error)

    context.writer.write(group, GroupChanges(offsets=offsets, metadata=metadata), written)


def is_expired(group: Group, *, wall_ms: int, retention_ms: int) -> bool:
    """Tell whether an idle group may go: nothing to keep, or nothing new for the retention time.

    One with records that this version can not read stays: they may say why it is to be kept.
    """
    if not group.is_idle or group.has_unread:
        return False
    offsets = group.offsets.values
    if not offsets:
        return True
    if retention_ms == NEVER_EXPIRE_MS:
        return False
    last_commit_ms = max(offset.commit_timestamp_ms for offset in offsets.values())
    return wall_ms - max(last_commit_ms, group.state_since_ms) > retention_ms
