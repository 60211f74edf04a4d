"""What a heartbeat must say, and whether its member may say it.

Source: Kafka, GroupMetadataManager (throwIfConsumerGroupHeartbeatRequestIsInvalid,
throwIfConsumerGroupMemberEpochIsInvalid); KIP-848; KAFKA-19233 (a known member may join again with
epoch 0 at any time).
"""

from penstock.assignors.consumer import ASSIGNORS
from penstock.groups.assigned.currents import Current
from penstock.groups.assigned.messages import JOIN_EPOCH, LEFT_EPOCH, HeartbeatReply, refused
from penstock.groups.assigned.reconcile import is_within
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import LEFT_STATIC_EPOCH, ConsumerGroup
from penstock.groups.consumer.messages import UNCHANGED_MS, ConsumerHeartbeat
from penstock.groups.consumer.topics import InvalidRegex, compiled
from penstock.protocol.error_codes import ErrorCode

REGEXES_MAX = 64
"""Regular expressions of one group: each is matched with the names of all topics."""
_CHARACTERS_MAX = 249
"""Longest instance id, rack id or member id. Kafka has this bound for instance ids alone."""


def invalid(request: ConsumerHeartbeat, *, metadata_bytes_max: int) -> HeartbeatReply | None:
    """Return why a request is refused whatever the group is like, or None."""
    reason = _reason(request) or _too_long(request, metadata_bytes_max)
    if reason is not None:
        return refused(ErrorCode.INVALID_REQUEST, reason)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        offered = ", ".join(sorted(ASSIGNORS))
        return refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor[:99]} is not known; there are: {offered}",
        )
    return None


def regex_refusal(group: ConsumerGroup, draft: Draft, regex: str) -> HeartbeatReply | None:
    """Return why a member may not subscribe by an expression that is new to the group, or None.

    Compiling one takes up to some milliseconds.
    """
    others = {facts.regex for _, facts in draft.members() if facts.regex}
    if len(others - {regex}) >= REGEXES_MAX:
        text = f"Group {group.group_id} has {REGEXES_MAX} regular expressions, which is the limit"
        return refused(ErrorCode.INVALID_REGULAR_EXPRESSION, text)
    return invalid_regex(regex)


def invalid_regex(regex: str) -> HeartbeatReply | None:
    """Return why a text is no expression, or None."""
    try:
        compiled(regex)
    except InvalidRegex as error:
        text = f"SubscribedTopicRegex is not an RE2 expression: {error}"
        return refused(ErrorCode.INVALID_REGULAR_EXPRESSION, text)
    return None


def _reason(request: ConsumerHeartbeat) -> str | None:
    if request.member_epoch < LEFT_STATIC_EPOCH:
        return f"MemberEpoch {request.member_epoch} is invalid"
    if not request.member_id:
        return "MemberId must not be empty"
    if request.instance_id is not None and not request.instance_id:
        return "InstanceId must not be empty"
    if request.rack_id is not None and not request.rack_id:
        return "RackId must not be empty"
    if request.member_epoch == LEFT_STATIC_EPOCH and request.instance_id is None:
        return "InstanceId is needed to leave as a static member"
    return _join_reason(request) if request.member_epoch == JOIN_EPOCH else None


def _join_reason(request: ConsumerHeartbeat) -> str | None:
    if request.rebalance_timeout_ms == UNCHANGED_MS:
        return "RebalanceTimeoutMs is needed to join"
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty to join"
    if request.topics is None and request.regex is None:
        return "SubscribedTopicNames or SubscribedTopicRegex is needed to join"
    return None


def _too_long(request: ConsumerHeartbeat, metadata_bytes_max: int) -> str | None:
    for name in ("member_id", "instance_id", "rack_id"):
        if len(getattr(request, name) or "") > _CHARACTERS_MAX:
            return f"{name} has more than {_CHARACTERS_MAX} characters"
    size = sum(map(len, request.topics or ())) + len(request.regex or "")
    if size > metadata_bytes_max:
        return f"topics of {size} bytes, at most {metadata_bytes_max} are taken"
    return None


def member_refusal(draft: Draft, request: ConsumerHeartbeat) -> HeartbeatReply | None:
    """Return why a request may not act for its member, or None. A join may create the member."""
    if request.instance_id is not None:
        owner = draft.member_of(request.instance_id)
        if owner is not None and owner != request.member_id:
            return _other_owner(draft, owner, request)
    if draft.facts(request.member_id) is None:
        if request.member_epoch == JOIN_EPOCH and not _is_known(request):
            return None
        return refused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {request.member_id} is not a member of group {request.group_id}",
        )
    return _epoch_refusal(draft.current(request.member_id), request)


def _is_known(request: ConsumerHeartbeat) -> bool:
    """Whether a static member of the classic protocol says that it has been here before."""
    is_static = request.instance_id is not None
    return is_static and request.classic is not None and request.classic.is_known


def _other_owner(draft: Draft, owner: str, request: ConsumerHeartbeat) -> HeartbeatReply | None:
    if request.member_epoch != JOIN_EPOCH or _is_known(request):
        return refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance {request.instance_id} belongs to member {owner} by now",
        )
    current, facts = draft.current(owner), draft.facts(owner)
    is_classic = request.classic is not None or (facts is not None and facts.classic is not None)
    # By the classic protocol the newer one of an instance counts: it can not say that it is away.
    if current is not None and current.epoch != LEFT_STATIC_EPOCH and not is_classic:
        return refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance {request.instance_id} belongs to member {owner}, which has not left",
        )
    return None


def _epoch_refusal(current: Current | None, request: ConsumerHeartbeat) -> HeartbeatReply | None:
    epoch = request.member_epoch
    if current is None or epoch in (JOIN_EPOCH, LEFT_EPOCH, LEFT_STATIC_EPOCH):
        return None
    if epoch == current.epoch:
        return None
    is_answer_lost = (
        epoch == current.previous_epoch
        and current.epoch > 0  # who is away has left
        and request.owned is not None
        and is_within(request.owned, current.assigned)
    )
    if is_answer_lost:
        return None
    return refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"Member {request.member_id} is in epoch {current.epoch}, not {epoch}: it must join again",
    )
