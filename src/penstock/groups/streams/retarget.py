"""The next target assignment of a streams group, when members, topology, topics or keys change.

    members, topology or keys changed ─┐
    the cluster's topics changed ──────┴─► the topology with its topics, their hash
        another hash, or another verdict ─► group epoch + 1 ─► assignor ─► target of that epoch

While the topics are not as they have to be, the target of every member is empty. Everything is in
portions; the confirmed group does not change meanwhile.

Source: KIP-1071; Kafka 4.2, GroupMetadataManager.streamsGroupHeartbeat, TargetAssignmentBuilder.
"""

from collections.abc import Generator, Iterator
from typing import NamedTuple

from penstock.assignors.partitions import NOTHING, count_of
from penstock.assignors.topic_facts import TopicFacts
from penstock.base.ids import MemberEpoch, TopologyEpoch
from penstock.base.ports import Clock
from penstock.coordinator.portions import PORTION, Steps
from penstock.groups.assigned import topics
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.tables import NO_EPOCH
from penstock.groups.assigned.targets import Target, TargetEpoch
from penstock.groups.assigned.topics import MEMBERS_TOGETHER, find_topics, topics_hash
from penstock.groups.cluster import Cluster
from penstock.groups.consumer.retarget import COMPARE_REGEX_MS
from penstock.groups.consumer.topics import matching
from penstock.groups.streams.assignor import MemberState, assign
from penstock.groups.streams.configured import Configured, configure
from penstock.groups.streams.draft import StreamsDraft
from penstock.groups.streams.group import StreamsGroup, endpoints_changed
from penstock.groups.streams.records import NOT_VALIDATED, Pairs, StreamsEpoch
from penstock.groups.streams.tasks import Tasks
from penstock.groups.streams.topology import Topology

FIRST_EPOCH = MemberEpoch(2)
"""Members that wait for the first assignment are in epoch 1."""
STANDBYS = "num.standby.replicas"
"""Name of the setting in the group's record, as in Kafka."""
_TASKS_TOGETHER = 100


class Rules(NamedTuple):
    """What the settings say of one group."""

    standby_count: int
    tasks_max: int

    @property
    def pairs(self) -> Pairs:
        """The settings that an assignment is computed by, as the group's record has them."""
        return ((STANDBYS, str(self.standby_count)),)


def is_to_be_compared(group: StreamsGroup, cluster: Cluster, now_ms: int) -> bool:
    """Whether the cluster's topics have changed since the group was compared with them.

    While topics are missing or wrong every change counts at once.
    """
    if group.configured is not None and not group.configured.is_ready:
        interval_ms = 0
    else:
        has_regexes = group.tables.topology is not None and bool(group.tables.topology.regexes)
        interval_ms = COMPARE_REGEX_MS if has_regexes else topics.COMPARE_MS
    return topics.is_to_be_compared(group, cluster, now_ms, interval_ms)


def retarget(
    draft: StreamsDraft, group: StreamsGroup, cluster: Cluster, clock: Clock, rules: Rules
) -> Steps:
    """Raise the group epoch if anything has changed, and compute the target for a new epoch."""
    is_compared = is_to_be_compared(group, cluster, clock.monotonic_ms())
    is_ruled = group.tables.streams_said.configs != rules.pairs
    is_assigned = group.epoch == group.target_epoch
    if not (draft.is_bumped or is_compared or is_ruled) and is_assigned:
        return
    topology = draft.topology
    if topology is not None:
        version = cluster.version
        hashed = yield from _configure(group, topology, cluster, clock, rules)
        group.topics_version, group.topics_checked_ms = version, clock.monotonic_ms()
        _raise_epoch(draft, group, StreamsEpoch(NO_EPOCH, hashed, _validated(group), rules.pairs))
    if draft.epoch > group.target_epoch and not is_delayed(group, clock, draft):
        yield from _assign(draft, group.configured, rules)
        draft.target_epoch = draft.epoch
        draft.put(Kind.STREAMS_TARGET_EPOCH, "", TargetEpoch(draft.epoch))


def is_delayed(group: StreamsGroup, clock: Clock, draft: StreamsDraft | None = None) -> bool:
    """Whether the first assignment still waits for more members."""
    is_left = draft is not None and not draft.member_count
    return not is_left and clock.monotonic_ms() < group.assign_at_ms


def _validated(group: StreamsGroup) -> TopologyEpoch:
    configured = group.configured
    is_ready = configured is not None and configured.is_ready
    return configured.topology_epoch if configured is not None and is_ready else NOT_VALIDATED


def _raise_epoch(draft: StreamsDraft, group: StreamsGroup, said: StreamsEpoch) -> None:
    if draft.is_bumped or said != group.tables.streams_said._replace(epoch=NO_EPOCH):
        draft.epoch = max(MemberEpoch(group.epoch + 1), FIRST_EPOCH)
        draft.put(Kind.STREAMS_GROUP, "", said._replace(epoch=draft.epoch))


def _configure(
    group: StreamsGroup, topology: Topology, cluster: Cluster, clock: Clock, rules: Rules
) -> Generator[int, None, int]:
    """Look the topics of a topology up; return their hash."""
    matches: dict[str, tuple[str, ...]] = {}
    for regex in topology.regexes:
        found_names: list[str] = []
        yield PORTION
        yield from matching(regex, cluster.names_of_users(), found_names, clock)
        matches[regex] = tuple(found_names)
    names = {name for one in topology.subtopologies for name in one.topics}
    names |= {name for some in matches.values() for name in some}
    found = yield from find_topics(names, cluster)
    counts = {name: topic.partition_count for name, topic in found.items()}
    group.configured = yield from configure(topology, counts, matches, tasks_max=rules.tasks_max)
    endpoints_changed(group)
    yield 1 + len(found) // MEMBERS_TOGETHER
    return topics_hash(_without_racks(sorted(found.items())))


def _without_racks(
    found: list[tuple[str, TopicFacts]],
) -> Iterator[tuple[str, TopicFacts]]:
    """Yield topics as assignments of tasks see them: these do not go by racks."""
    return ((name, topic._replace(racks=())) for name, topic in found)


def _assign(draft: StreamsDraft, configured: Configured | None, rules: Rules) -> Steps:
    """Put the next target of every member whose target changes."""
    members: dict[str, MemberState] = {}
    for number, (member_id, facts) in enumerate(draft.members()):
        had = draft.target(member_id)
        members[member_id] = MemberState(
            facts.process_id, NOTHING if had is None else had.partitions
        )
        if number % MEMBERS_TOGETHER == 0:
            yield 3
    made: dict[str, Tasks] = dict.fromkeys(members, NOTHING)
    if configured is not None and configured.is_ready and members:
        made = yield from assign(
            members, configured.subtopologies, standby_count=rules.standby_count
        )
    spent = 0
    for member_id, tasks in made.items():
        target = Target(tasks)
        if target != draft.target(member_id):
            draft.put_target(member_id, target)
        spent += MEMBERS_TOGETHER + count_of(tasks)
        if spent >= _TASKS_TOGETHER:
            yield 1 + spent // MEMBERS_TOGETHER
            spent = 0
