"""What a heartbeat of a streams group must say, and whether its member may say it.

Source: Kafka 4.2, GroupCoordinatorService (throwIfStreamsGroupHeartbeatRequestIsInvalid,
throwIfInvalidTopology), GroupMetadataManager (throwIfStreamsGroupMemberEpochIsInvalid,
throwIfRequestContainsInvalidTasks, maybeUpdateTopology); KIP-1071. Static members are not
supported, as there.
"""

from collections.abc import Generator

from penstock.coordinator.portions import PORTION
from penstock.groups.assigned.currents import NEW, Current
from penstock.groups.assigned.messages import JOIN_EPOCH, LEFT_EPOCH, HeartbeatReply, refused
from penstock.groups.assigned.reconcile import is_within, together
from penstock.groups.consumer.topics import InvalidRegex, compiled
from penstock.groups.streams.configured import Configured
from penstock.groups.streams.draft import StreamsDraft
from penstock.groups.streams.messages import UNCHANGED_MS, StreamsHeartbeat
from penstock.groups.streams.tasks import subtopology_of
from penstock.groups.streams.topology import Subtopology, Topology
from penstock.protocol.error_codes import ErrorCode

REGEXES_MAX = 64
"""Regular expressions of one topology: each is matched with the names of all topics."""
SUBTOPOLOGIES_MAX = 500
_CHARACTERS_MAX = 249
"""Longest id, tag or host of a member."""
_TAGS_MAX = 32


def invalid(request: StreamsHeartbeat, *, topology_bytes_max: int) -> HeartbeatReply | None:
    """Return why a request is refused whatever the group is like, or None."""
    reason = _reason(request) or _too_long(request)
    if reason is not None:
        return refused(ErrorCode.INVALID_REQUEST, reason)
    if request.topology is None:
        return None
    reason = _topology_reason(request.topology, topology_bytes_max)
    return None if reason is None else refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)


def invalid_regexes(topology: Topology) -> Generator[int, None, HeartbeatReply | None]:
    """Return why an expression of a topology is none, or None; each takes a portion."""
    try:
        for regex in topology.regexes:
            yield PORTION
            compiled(regex)
    except InvalidRegex as error:
        text = f"A source topic regex is not an RE2 expression: {error}"
        return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return None


def _reason(request: StreamsHeartbeat) -> str | None:
    for name, text in (("MemberId", request.member_id), ("RackId", request.rack_id)):
        if text is not None and not text:
            return f"{name} can't be empty."
    if request.instance_id is not None:
        return "Static members are not supported by streams groups."
    if request.member_epoch < LEFT_EPOCH:
        return f"MemberEpoch is {request.member_epoch}, but must be at least {LEFT_EPOCH}."
    if request.member_epoch == JOIN_EPOCH:
        return _join_reason(request)
    if request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return None


def _join_reason(request: StreamsHeartbeat) -> str | None:
    if request.rebalance_timeout_ms == UNCHANGED_MS:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "Tasks must be empty when (re-)joining."
    if request.topology is None:
        return "Topology must be non-null when (re-)joining."
    return None


def _too_long(request: StreamsHeartbeat) -> str | None:
    for name in ("member_id", "rack_id", "process_id"):
        if len(getattr(request, name) or "") > _CHARACTERS_MAX:
            return f"{name} has more than {_CHARACTERS_MAX} characters"
    tags = request.tags or ()
    if len(tags) > _TAGS_MAX or any(len(text) > _CHARACTERS_MAX for pair in tags for text in pair):
        return f"client tags: at most {_TAGS_MAX} of {_CHARACTERS_MAX} characters are taken"
    if request.endpoint is not None and len(request.endpoint.host) > _CHARACTERS_MAX:
        return f"the host of the endpoint has more than {_CHARACTERS_MAX} characters"
    return None


def _topology_reason(topology: Topology, topology_bytes_max: int) -> str | None:
    count, size = len(topology.subtopologies), topology.size_bytes
    if count > SUBTOPOLOGIES_MAX or size > topology_bytes_max:
        return (
            f"A topology of {count} subtopologies and {size} bytes, at most {SUBTOPOLOGIES_MAX}"
            f" and {topology_bytes_max} are taken"
        )
    if len({one.subtopology_id for one in topology.subtopologies}) < count:
        return "Two subtopologies have the same id"
    if len(topology.regexes) > REGEXES_MAX:
        return f"At most {REGEXES_MAX} regular expressions are taken"
    reasons = (_subtopology_reason(one) for one in topology.subtopologies)
    return next((reason for reason in reasons if reason is not None), None)


def _subtopology_reason(one: Subtopology) -> str | None:
    for topic in one.changelogs:
        if topic.partitions:
            return (
                f"Changelog topic {topic.name} must have an undefined partition count, but it is"
                f" set to {topic.partitions}."
            )
    if not (one.source_topics or one.source_regexes or one.repartition_sources):
        return f"Subtopology {one.subtopology_id} has no source topics"
    if any(topic.partitions < 0 for topic in one.repartition_sources):
        return f"Subtopology {one.subtopology_id} has a topic of less than 0 partitions"
    for group in one.copartition_groups:
        arrays = (one.source_topics, one.source_regexes, one.repartition_sources)
        for places, array in zip(group, arrays, strict=True):
            if any(not 0 <= place < len(array) for place in places):
                return f"A copartition group of subtopology {one.subtopology_id} names no topic"
    return None


def member_refusal(draft: StreamsDraft, request: StreamsHeartbeat) -> HeartbeatReply | None:
    """Return why a request may not act for its member, or None. A join may create the member."""
    if draft.facts(request.member_id) is None:
        if request.member_epoch == JOIN_EPOCH:
            return None
        return refused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {request.member_id} is not a member of group {request.group_id}",
        )
    current = draft.current(request.member_id)
    refusal = _epoch_refusal(current, request)
    return refusal or _task_refusal(draft.configured, current or NEW, request)


def topology_refusal(draft: StreamsDraft, topology: Topology) -> HeartbeatReply | None:
    """Return why a topology does not fit to that of the group, or None.

    An older one is taken: its member hears that it is stale. A group without members takes any.
    """
    known = draft.topology
    if known is None or known.epoch > topology.epoch or known == topology:
        return None
    if not draft.member_count:
        return None
    return refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def _epoch_refusal(current: Current | None, request: StreamsHeartbeat) -> HeartbeatReply | None:
    epoch = request.member_epoch
    if current is None or epoch in (JOIN_EPOCH, LEFT_EPOCH, current.epoch):
        return None
    is_answer_lost = (
        epoch == current.previous_epoch
        and request.owned is not None
        and is_within(request.owned, current.assigned)
    )
    if is_answer_lost:
        return None
    return refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"Member {request.member_id} is in epoch {current.epoch}, not {epoch}: it must join again",
    )


def _task_refusal(
    configured: Configured | None, current: Current, request: StreamsHeartbeat
) -> HeartbeatReply | None:
    """Return an answer to who names tasks that there are not, and that it was not given before a
    topic was made anew with fewer partitions.
    """
    if configured is None or not configured.is_ready or not request.owned:
        return None
    held = together(current.assigned, current.revoking)
    counts = {one.subtopology_id: one.task_count for one in configured.subtopologies}
    for key, owned in request.owned.items():
        numbers = owned - held.get(key, frozenset())
        subtopology_id = subtopology_of(key)
        if not numbers:
            continue
        if subtopology_id not in counts:
            text = f"Subtopology {subtopology_id} does not exist in the topology."
            return refused(ErrorCode.INVALID_REQUEST, text)
        if not 0 <= min(numbers) <= max(numbers) < counts[subtopology_id]:
            text = (
                f"A task of subtopology {subtopology_id} is invalid. "
                f"Number of tasks for this subtopology: {counts[subtopology_id]}"
            )
            return refused(ErrorCode.INVALID_REQUEST, text)
    return None
