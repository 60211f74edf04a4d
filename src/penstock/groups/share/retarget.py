"""The next target assignment of a share group, and which partitions may have a share from then on.

    members or subscriptions changed ─┐
    the cluster's topics changed ─────┴─► group epoch + 1 ─► `simple` ─► target of that epoch
                                                             └─► what is assigned may have a share

What may have a share is written with the first assignment of it, so it is known before any member
can fetch. Deleted topics are left out: their shares have gone with their data.

Source: KIP-932; Kafka, GroupMetadataManager (shareGroupHeartbeat, maybeCreateInitializeShareGroup).
"""

from penstock.assignors.partitions import NOTHING, count_of
from penstock.assignors.pools import MemberWish
from penstock.assignors.share import simple
from penstock.base.ids import MemberEpoch
from penstock.base.ports import Clock
from penstock.coordinator.portions import Steps
from penstock.groups.assigned import topics
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.targets import Target, TargetEpoch
from penstock.groups.assigned.topics import MEMBERS_TOGETHER, Found, find_topics, topics_hash
from penstock.groups.cluster import Cluster
from penstock.groups.share.draft import ShareDraft
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.records import Shared, SharedTopic, ShareEpoch

NUMBERS_TOGETHER = 250
"""Numbers of partitions noted per unit of cost (portions.py)."""
TOPIC_AS_PARTITIONS = 50
TOGETHER = 10 * NUMBERS_TOGETHER


def is_to_be_compared(group: ShareGroup, cluster: Cluster, now_ms: int) -> bool:
    """Whether the cluster's topics have changed since the group was compared with them."""
    return topics.is_to_be_compared(group, cluster, now_ms, topics.COMPARE_MS)


def retarget(draft: ShareDraft, group: ShareGroup, cluster: Cluster, clock: Clock) -> Steps:
    """Raise the group epoch if anything has changed, and compute the target for a new epoch."""
    is_compared = is_to_be_compared(group, cluster, clock.monotonic_ms())
    if not draft.is_bumped and not is_compared and group.epoch == group.target_epoch:
        return
    version = cluster.version
    names: set[str] = set()
    for _, facts in draft.members():
        names.update(facts.topics)
    found = yield from find_topics(names, cluster)
    group.topics_version, group.topics_checked_ms = version, clock.monotonic_ms()
    hashed = topics_hash((name, one._replace(racks=())) for name, one in found.items())
    if draft.is_bumped or hashed != group.said.topics_hash:
        draft.epoch = MemberEpoch(group.epoch + 1)
        draft.put(Kind.SHARE_GROUP, "", ShareEpoch(draft.epoch, hashed))
    if draft.epoch > group.target_epoch:
        yield from _assign(draft, found)
        draft.put(Kind.SHARE_TARGET_EPOCH, "", TargetEpoch(draft.epoch))
        yield from _share(draft, found, cluster)


def _assign(draft: ShareDraft, found: Found) -> Steps:
    """Put the next target of every member whose target changes."""
    members: dict[str, MemberWish] = {}
    wishes: dict[tuple[str, ...], frozenset[bytes]] = {}
    for number, (member_id, facts) in enumerate(draft.members()):
        if facts.topics not in wishes:
            ids = (found[name].topic_id for name in facts.topics if name in found)
            wishes[facts.topics] = frozenset(ids)
        had = draft.target(member_id)
        members[member_id] = MemberWish(
            topics=wishes[facts.topics],
            rack=facts.rack_id,
            had=NOTHING if had is None else had.partitions,
        )
        if number % MEMBERS_TOGETHER == 0:
            yield 3
    by_id = {topic.topic_id: topic for topic in found.values()}
    made = yield from simple(members, by_id)
    for number, (member_id, partitions) in enumerate(made.items()):
        target = Target(partitions)
        if target != draft.target(member_id):
            draft.put_target(member_id, target)
        if number % MEMBERS_TOGETHER == 0:
            yield 6


def _share(draft: ShareDraft, found: Found, cluster: Cluster) -> Steps:
    """Note what is assigned now: every partition of the topics that members subscribe to."""
    shared: dict[bytes, SharedTopic] = {}
    spent = 0
    for topic_id, topic in draft.shared.topics.items():
        known = cluster.find(topic.name)
        if known is not None and known.topic_id == topic_id:
            shared[topic_id] = topic
    for name, one in found.items():
        before = shared.get(one.topic_id)
        if before is None or len(before.numbers) < one.partition_count:
            shared[one.topic_id] = SharedTopic(name, frozenset(range(one.partition_count)))
        spent += TOPIC_AS_PARTITIONS + one.partition_count
        if spent >= TOGETHER:
            yield spent // NUMBERS_TOGETHER
            spent = 0
    draft.put_shared(Shared(shared))
    yield 1 + count_of(draft.shared.partitions) // NUMBERS_TOGETHER
