"""Heartbeats of streams groups: who comes, goes and is lost, and who has which tasks.

What is common to groups whose members give up before others get is in assigned/reconciling.py.

Source: KIP-1071; Kafka 4.2, GroupMetadataManager.streamsGroupHeartbeat (order of the steps).
"""

from penstock.base.ids import MemberEpoch, TopologyEpoch
from penstock.configs.group_keys import STREAMS_DELAY, STREAMS_STANDBYS
from penstock.coordinator.portions import Steps
from penstock.groups.assigned.currents import Current, MemberState
from penstock.groups.assigned.messages import JOIN_EPOCH, LEFT_EPOCH, HeartbeatReply, refused
from penstock.groups.assigned.reconciling import WAITING_INTERVAL_MS, Reconciling
from penstock.groups.assigned.waiting import Asked
from penstock.groups.context import AssignedTimes
from penstock.groups.streams.checks import invalid_regexes, member_refusal, topology_refusal
from penstock.groups.streams.draft import StreamsDraft
from penstock.groups.streams.endpoints import endpoints_of
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.members import apply_request
from penstock.groups.streams.messages import StreamsHeartbeat, StreamsReply
from penstock.groups.streams.retarget import Rules, is_delayed, is_to_be_compared, retarget
from penstock.groups.streams.status import Status, StatusCode
from penstock.groups.streams.tasks import Tasks
from penstock.protocol.error_codes import ErrorCode

WAITING_EPOCH = MemberEpoch(1)
"""Epoch of members that wait for the first assignment."""


class StreamsHeartbeats(Reconciling[StreamsGroup, StreamsDraft, StreamsHeartbeat]):
    """Decides on heartbeats and deadlines of streams groups."""

    def times(self, group_id: str) -> AssignedTimes:
        """As in Batches."""
        return self._context.streams_times(group_id)

    @property
    def _size_max(self) -> int:
        return self._context.config.streams_group_size_max

    def _rules(self, group_id: str) -> Rules:
        config, keys = self._context.config, self._context.overrides(group_id)
        standbys = keys.get(STREAMS_STANDBYS)
        return Rules(
            config.streams_standby_replicas if standbys is None else int(standbys),
            config.streams_tasks_max,
        )

    def _delay_ms(self, group_id: str) -> int:
        delay = self._context.overrides(group_id).get(STREAMS_DELAY)
        return self._context.config.streams_initial_delay_ms if delay is None else int(delay)

    def _is_to_be_compared(self, group: StreamsGroup) -> bool:
        return is_to_be_compared(group, self._cluster, self._context.clock.monotonic_ms())

    def _is_quiet(self, group: StreamsGroup) -> bool:
        pairs = self._rules(group.group_id).pairs
        return super()._is_quiet(group) and group.tables.streams_said.configs == pairs

    def _new_draft(self, group: StreamsGroup) -> StreamsDraft:
        return StreamsDraft(group)

    def _count_rebalance(self) -> None:
        self._context.counters.streams_rebalances += 1

    def _member_refusal(
        self, draft: StreamsDraft, request: StreamsHeartbeat
    ) -> HeartbeatReply | None:
        return member_refusal(draft, request)

    def _applied(self, draft: StreamsDraft, request: StreamsHeartbeat) -> bool:
        is_wish = request.member_epoch <= JOIN_EPOCH or request.is_shutdown
        return is_wish or apply_request(draft, request)

    def _retarget(self, draft: StreamsDraft, group: StreamsGroup) -> Steps:
        rules = self._rules(group.group_id)
        return retarget(draft, group, self._cluster, self._context.clock, rules)

    def _admit(
        self,
        draft: StreamsDraft,
        group: StreamsGroup,
        asked: Asked[StreamsHeartbeat],
        request: StreamsHeartbeat,
    ) -> Steps:
        """Refuse expressions that are none: those of a new topology are compiled in a turn."""
        topology = request.topology
        if topology is not None and topology.regexes and topology != draft.topology:
            asked.answer = yield from invalid_regexes(topology)
        if asked.answer is None:
            asked.answer = self._admitted(draft, group, request)

    def _admitted(
        self, draft: StreamsDraft, group: StreamsGroup, request: StreamsHeartbeat
    ) -> HeartbeatReply | None:
        refusal = member_refusal(draft, request)
        if refusal is None and request.topology is not None:
            refusal = topology_refusal(draft, request.topology)
        if refusal is not None:
            return refusal
        is_new = draft.facts(request.member_id) is None
        if request.is_shutdown and not is_new:
            group.shutdown_by = request.member_id
        if request.member_epoch == LEFT_EPOCH:
            draft.remove(request.member_id)
            return HeartbeatReply(
                error=ErrorCode.NONE, member_id=request.member_id, member_epoch=LEFT_EPOCH
            )
        if is_new and draft.member_count >= self._size_max:
            text = f"The streams group has reached its maximum capacity of {self._size_max} members"
            return refused(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        if not draft.member_count:
            delay_ms = self._delay_ms(group.group_id)
            group.assign_at_ms = self._context.clock.monotonic_ms() + delay_ms
        apply_request(draft, request)
        return None

    def _goal(
        self, draft: StreamsDraft, group: StreamsGroup, member_id: str
    ) -> tuple[MemberEpoch, Tasks]:
        epoch, tasks = super()._goal(draft, group, member_id)
        if draft.target_epoch < draft.epoch:
            # It waits for more members. Whether it still does by now is decided by the next batch.
            epoch = max(WAITING_EPOCH, draft.target_epoch)
        return epoch, tasks

    # Answers

    def _told(
        self, group: StreamsGroup, request: StreamsHeartbeat, before: Current, after: Current
    ) -> HeartbeatReply:
        is_moved = before.assigned != after.assigned
        statuses = self._statuses(group, request)
        interval_ms = self.times(group.group_id).heartbeat_interval_ms
        if after.state is MemberState.UNRELEASED or statuses:
            interval_ms = min(interval_ms, WAITING_INTERVAL_MS)
        is_lost = request.member_epoch != before.epoch
        configured = group.configured
        return StreamsReply(
            error=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=after.assigned if is_lost or request.is_full or is_moved else None,
            statuses=statuses,
            missing=() if configured is None else configured.missing,
            endpoint_epoch=group.endpoint_epoch,
            endpoints=endpoints_of(group)
            if request.endpoint_epoch != group.endpoint_epoch
            else None,
        )

    def _statuses(self, group: StreamsGroup, request: StreamsHeartbeat) -> tuple[Status, ...]:
        found: list[Status] = []
        configured = group.configured
        own, current = _topology_epoch(group, request), 0
        if configured is not None:
            current = configured.topology_epoch
        if own < current:
            text = f"The member's topology epoch {own} is behind the group's topology epoch"
            found.append(Status(StatusCode.STALE_TOPOLOGY, f"{text} {current}."))
        if configured is not None and configured.status is not None:
            found.append(configured.status)
        elif is_delayed(group, self._context.clock):
            text = "Assignment delayed due to the configured initial rebalance delay."
            found.append(Status(StatusCode.ASSIGNMENT_DELAYED, text))
        if group.shutdown_by is not None:
            text = (
                f"Streams group member {group.shutdown_by} encountered a fatal error and"
                " requested a shutdown for the entire application."
            )
            found.append(Status(StatusCode.SHUTDOWN_APPLICATION, text))
        return tuple(found)


def _topology_epoch(group: StreamsGroup, request: StreamsHeartbeat) -> TopologyEpoch:
    """Return the epoch of the topology that a member has: it says so when it joins."""
    if request.topology is not None:
        return request.topology.epoch
    return group.facts[request.member_id].topology_epoch
