"""Members of a streams group come and change, in a draft.

Source: Kafka, GroupMetadataManager (hasStreamsMemberMetadataChanged, maybeUpdateTopology).
"""

from penstock.base.ids import TopologyEpoch
from penstock.groups.streams.draft import StreamsDraft
from penstock.groups.streams.messages import UNCHANGED_MS, StreamsHeartbeat
from penstock.groups.streams.records import MemberFacts


def apply_request(draft: StreamsDraft, request: StreamsHeartbeat) -> bool:
    """Note what a member says of itself; return whether that is news. It may be a new member."""
    before = draft.facts(request.member_id)
    after = _merged(before, request)
    known, topology = draft.topology, request.topology
    is_newer = topology is not None and (known is None or known.epoch <= topology.epoch)
    is_other = is_newer and known != topology
    if is_other and topology is not None:
        draft.put_topology(topology)
    if before == after:
        return is_other
    draft.is_bumped |= before is None or _of_assignment(before) != _of_assignment(after)
    draft.put_facts(request.member_id, after)
    return True


def _merged(before: MemberFacts | None, request: StreamsHeartbeat) -> MemberFacts:
    is_same_timeout = before is not None and request.rebalance_timeout_ms == UNCHANGED_MS
    had = before or MemberFacts(None, None, "", "", UNCHANGED_MS, TopologyEpoch(0), "", None, ())
    return MemberFacts(
        instance_id=None,
        rack_id=had.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=had.rebalance_timeout_ms
        if is_same_timeout
        else request.rebalance_timeout_ms,
        topology_epoch=had.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=had.process_id if request.process_id is None else request.process_id,
        endpoint=had.endpoint if request.endpoint is None else request.endpoint,
        tags=had.tags if request.tags is None else request.tags,
    )


def _of_assignment(facts: MemberFacts) -> tuple[object, ...]:
    """Return what an assignment goes by, or may go by in a later version."""
    return facts.rack_id, facts.topology_epoch, facts.process_id, facts.endpoint, facts.tags
