"""What a heartbeat of a share group must say, and whether its member may say it.

Source: Kafka, GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid,
GroupMetadataManager.throwIfShareGroupMemberEpochIsInvalid; KIP-932.
"""

from penstock.groups.assigned.messages import JOIN_EPOCH, LEFT_EPOCH, HeartbeatReply, refused
from penstock.groups.share.draft import ShareDraft
from penstock.groups.share.messages import ShareHeartbeat
from penstock.groups.share.records import ShareCurrent
from penstock.protocol.error_codes import ErrorCode

_CHARACTERS_MAX = 249
"""Longest member id or rack id: ours, since each record of the member carries them."""


def invalid(request: ShareHeartbeat, *, metadata_bytes_max: int) -> HeartbeatReply | None:
    """Return why a request is refused whatever the group is like, or None."""
    reason = _reason(request) or _too_long(request, metadata_bytes_max)
    return None if reason is None else refused(ErrorCode.INVALID_REQUEST, reason)


def _reason(request: ShareHeartbeat) -> str | None:
    if not request.member_id.strip():
        return "MemberId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch < LEFT_EPOCH:
        return "MemberEpoch is invalid."
    if request.member_epoch == JOIN_EPOCH and not request.topics:
        return "SubscribedTopicNames must be set in first request."
    return None


def _too_long(request: ShareHeartbeat, metadata_bytes_max: int) -> str | None:
    for name in ("member_id", "rack_id"):
        if len(getattr(request, name) or "") > _CHARACTERS_MAX:
            return f"{name} has more than {_CHARACTERS_MAX} characters"
    if request.said_bytes > metadata_bytes_max:
        return f"topics of {request.said_bytes} bytes, at most {metadata_bytes_max} are taken"
    return None


def member_refusal(draft: ShareDraft, request: ShareHeartbeat) -> HeartbeatReply | None:
    """Return why a request may not act for its member, or None. A join may create the member."""
    if draft.facts(request.member_id) is None:
        if request.member_epoch == JOIN_EPOCH:
            return None
        return refused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {request.member_id} is not a member of group {request.group_id}.",
        )
    return _epoch_refusal(draft.current(request.member_id), request)


def _epoch_refusal(current: ShareCurrent | None, request: ShareHeartbeat) -> HeartbeatReply | None:
    """The answer with a newer epoch may be lost: then the one before is taken, too."""
    epoch = request.member_epoch
    if current is None or epoch in (JOIN_EPOCH, LEFT_EPOCH):
        return None
    if epoch in (current.epoch, current.previous_epoch):
        return None
    return refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"Member {request.member_id} is in epoch {current.epoch}, not {epoch}: it must join again",
    )
