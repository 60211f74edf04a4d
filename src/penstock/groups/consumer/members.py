"""Members of a consumer group come, change and leave, in a draft.

A static member that leaves for a while keeps all that it has until its session ends. It comes back
under another member id, and nobody else notices.

Source: KIP-848, "Static Membership"; Kafka, GroupMetadataManager (consumerGroupLeave,
getOrMaybeSubscribeStaticConsumerMember, hasMemberSubscriptionChanged).
"""

from penstock.assignors.partitions import NOTHING
from penstock.groups.assigned.currents import MemberState
from penstock.groups.assigned.messages import JOIN_EPOCH
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import LEFT_STATIC_EPOCH
from penstock.groups.consumer.messages import UNCHANGED_MS, ConsumerHeartbeat
from penstock.groups.consumer.records import ClassicFacts, MemberFacts


def apply_request(draft: Draft, request: ConsumerHeartbeat) -> bool:
    """Note what a member says of itself; return whether that is news. It may be a new member."""
    owner = None if request.instance_id is None else draft.member_of(request.instance_id)
    is_back = owner is not None and owner != request.member_id
    before = draft.facts(owner if is_back and owner is not None else request.member_id)
    after = _merged(before, request)
    if before is None or _subscription(before) != _subscription(after):
        draft.is_bumped = True
    if is_back and owner is not None:
        _rename(draft, owner, request.member_id, after)
        return True
    if before == after:
        return False
    draft.put_facts(request.member_id, after)
    return True


def leave(draft: Draft, request: ConsumerHeartbeat) -> None:
    """Let a member go, or be away if it is a static one that will be back."""
    current = draft.current(request.member_id)
    if request.member_epoch != LEFT_STATIC_EPOCH or current is None:
        draft.remove(request.member_id)
        return
    away = current._replace(
        epoch=LEFT_STATIC_EPOCH,
        previous_epoch=current.epoch,
        state=MemberState.STABLE,
        revoking=NOTHING,
    )
    draft.put_current(request.member_id, away)


def _rename(draft: Draft, old_id: str, new_id: str, facts: MemberFacts) -> None:
    """Give a static member another id: what it has and is to have stays its own."""
    if draft.facts(new_id) is not None:
        draft.remove(new_id)  # the member was another instance before
    current, target = draft.current(old_id), draft.target(old_id)
    draft.put_current(old_id, None)
    draft.put_target(old_id, None)
    draft.put_facts(old_id, None)
    draft.put_facts(new_id, facts)
    if target is not None:
        draft.put_target(new_id, target)
    if current is not None:
        draft.put_current(new_id, current)


def _merged(before: MemberFacts | None, request: ConsumerHeartbeat) -> MemberFacts:
    topics = None if request.topics is None else tuple(sorted(set(request.topics)))
    if before is None:
        return MemberFacts(
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            topics=topics or (),
            regex=request.regex or None,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            assignor=request.assignor,
            classic=None if request.classic is None else request.classic.facts,
        )
    is_same_timeout = request.rebalance_timeout_ms == UNCHANGED_MS
    return MemberFacts(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=before.topics if topics is None else topics,
        regex=before.regex if request.regex is None else request.regex or None,
        rebalance_timeout_ms=before.rebalance_timeout_ms
        if is_same_timeout
        else request.rebalance_timeout_ms,
        assignor=before.assignor if request.assignor is None else request.assignor,
        classic=_classic(before, request),
    )


def _classic(before: MemberFacts, request: ConsumerHeartbeat) -> ClassicFacts | None:
    """Return by which protocol the member goes: it says so whenever it joins."""
    if request.member_epoch != JOIN_EPOCH:
        return before.classic
    return None if request.classic is None else request.classic.facts


def _subscription(facts: MemberFacts) -> tuple[tuple[str, ...], str | None]:
    return facts.topics, facts.regex
