"""The next target assignment of a consumer group, when members, subscriptions or topics change.

    members or subscriptions changed ─┐
    the cluster's topics changed ─────┴─► topics of the group, their hash
        another hash, or members changed ─► group epoch + 1 ─► assignor ─► target of that epoch

Everything is in portions; the confirmed group does not change meanwhile, since one batch of a group
is decided at a time.

Source: KIP-848; Kafka, GroupMetadataManager.updateTargetAssignment, maybeUpdateRegularExpressions.
KAFKA-20442: the target's epoch follows when the last member leaves, too.
"""

from collections import Counter
from collections.abc import Generator, Mapping

from penstock.assignors.consumer import ASSIGNORS, DEFAULT_ASSIGNOR
from penstock.assignors.partitions import NOTHING, count_of
from penstock.assignors.pools import MemberWish
from penstock.assignors.topic_facts import TopicFacts
from penstock.base.ids import MemberEpoch
from penstock.base.ports import Clock
from penstock.coordinator.portions import PORTION, POSITIONS, Steps
from penstock.groups.assigned import topics
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.targets import GroupEpoch, Target, TargetEpoch
from penstock.groups.assigned.topics import MEMBERS_TOGETHER, Found, find_topics, hash_in_steps
from penstock.groups.cluster import Cluster
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.records import MemberFacts, Resolved
from penstock.groups.consumer.topics import matching

COMPARE_REGEX_MS = 10_000
"""How often a group with a regular expression is compared with topics that change: all names are
matched."""
SEEN_TOGETHER = 100
"""Topics for which an authoriser is asked in one portion: 300 us if it has not decided before."""
Subscription = tuple[tuple[str, ...], str | None]


def is_to_be_compared(group: ConsumerGroup, cluster: Cluster, now_ms: int) -> bool:
    """Whether the cluster's topics have changed since the group was compared with them."""
    interval_ms = COMPARE_REGEX_MS if group.resolved else topics.COMPARE_MS
    return topics.is_to_be_compared(group, cluster, now_ms, interval_ms)


def retarget(draft: Draft, group: ConsumerGroup, cluster: Cluster, clock: Clock) -> Steps:
    """Raise the group epoch if anything has changed, and compute the target for a new epoch."""
    is_compared = is_to_be_compared(group, cluster, clock.monotonic_ms())
    if not draft.is_bumped and not is_compared and group.epoch == group.target_epoch:
        return
    version = cluster.version
    regexes = yield from _resolve(draft, group, cluster, clock)
    found = yield from _found(draft, regexes, cluster)
    group.topics_checked_ms = clock.monotonic_ms()
    if group.sights.keys() >= regexes.keys():
        group.topics_version = version  # else it is compared again once members were heard of
    hashed = yield from hash_in_steps(sorted(found.items()))
    if draft.is_bumped or hashed != group.said.topics_hash:
        draft.epoch = MemberEpoch(group.epoch + 1)
        draft.put(Kind.GROUP, "", GroupEpoch(draft.epoch, hashed))
    if draft.epoch > group.target_epoch:
        yield from _assign(draft, regexes, found)
        draft.put(Kind.TARGET_EPOCH, "", TargetEpoch(draft.epoch))


def _resolve(
    draft: Draft, group: ConsumerGroup, cluster: Cluster, clock: Clock
) -> Generator[int, None, dict[str, tuple[str, ...]]]:
    """Return the topics of every regular expression that a member has; forget the others."""
    wanted = dict.fromkeys(facts.regex for _, facts in draft.members() if facts.regex)
    resolved: dict[str, tuple[str, ...]] = {}
    for regex in wanted:
        before = group.resolved.get(regex)
        if before is not None and cluster.version == group.topics_version:
            resolved[regex] = before.topics
            continue
        # With internal ones, as in Kafka (TopicRegexResolver): to exclude them is up to clients.
        matched: list[str] = []
        yield from matching(regex, cluster.names(), matched, clock)
        resolved[regex] = yield from _seen(group, regex, matched)
        if before is None or before.topics != resolved[regex]:
            said = Resolved(resolved[regex], cluster.version, clock.wall_ms())
            draft.put(Kind.REGEX, regex, said)
    for regex in group.resolved:
        if regex not in wanted:
            draft.put(Kind.REGEX, regex, None)
    group.sights = {regex: sight for regex, sight in group.sights.items() if regex in wanted}
    return resolved


def _seen(
    group: ConsumerGroup, regex: str, matched: list[str]
) -> Generator[int, None, tuple[str, ...]]:
    """Return the topics that the client of a member may see; others are as if they were not there.

    Before any is heard of, as after a failover, it is what the group has seen before.
    """
    if regex not in group.sights:
        before = group.resolved.get(regex)
        known = frozenset(before.topics if before else ())
        return tuple(name for name in matched if name in known)
    may_see = group.sights[regex]
    if may_see is None:
        return tuple(matched)
    seen: list[str] = []
    for at in range(0, len(matched), SEEN_TOGETHER):
        seen += filter(may_see, matched[at : at + SEEN_TOGETHER])
        yield PORTION
    return tuple(seen)


def _found(
    draft: Draft, regexes: Mapping[str, tuple[str, ...]], cluster: Cluster
) -> Generator[int, None, dict[str, TopicFacts]]:
    """Return the topics that exist of those that the members subscribe to."""
    names: set[str] = set()
    seen: set[Subscription] = set()
    for number, (_, facts) in enumerate(draft.members()):
        subscription = (facts.topics, facts.regex)
        if subscription not in seen:
            seen.add(subscription)
            names |= {*facts.topics, *regexes.get(facts.regex or "", ())}
        if number % MEMBERS_TOGETHER == 0:
            yield 1
    return (yield from find_topics(names, cluster))


def _assign(draft: Draft, regexes: Mapping[str, tuple[str, ...]], found: Found) -> Steps:
    """Put the next target of every member whose target changes."""
    members: dict[str, MemberWish] = {}
    wishes: dict[Subscription, frozenset[bytes]] = {}
    for number, (member_id, facts) in enumerate(draft.members()):
        had = draft.target(member_id)
        members[member_id] = MemberWish(
            topics=_wish(wishes, facts, regexes, found),
            rack=facts.rack_id,
            had=NOTHING if had is None else had.partitions,
        )
        if number % MEMBERS_TOGETHER == 0:
            yield 3
    by_id = {topic.topic_id: topic for topic in found.values()}
    yield len(wishes) + sum(map(len, wishes.values())) // MEMBERS_TOGETHER
    made = yield from ASSIGNORS[chosen_assignor(draft)](members, by_id)
    for number, (member_id, partitions) in enumerate(made.items()):
        target = Target(partitions)
        if target != draft.target(member_id):
            draft.put_target(member_id, target)
            yield count_of(partitions) // POSITIONS
        if number % MEMBERS_TOGETHER == 0:
            yield 6


def _wish(
    known: dict[Subscription, frozenset[bytes]],
    facts: MemberFacts,
    regexes: Mapping[str, tuple[str, ...]],
    found: Found,
) -> frozenset[bytes]:
    """Return the ids of the topics that a member subscribes to."""
    subscription = (facts.topics, facts.regex)
    if subscription not in known:
        names = {*facts.topics, *regexes.get(facts.regex or "", ())}
        known[subscription] = frozenset(found[name].topic_id for name in names if name in found)
    return known[subscription]


def chosen_assignor(members: Draft | ConsumerGroup) -> str:
    """Return the assignor that most members ask for; of several the first by name."""
    facts = (
        [one for _, one in members.members()]
        if isinstance(members, Draft)
        else [*members.facts.values()]
    )
    votes = Counter(one.assignor for one in facts if one.assignor in ASSIGNORS)
    if not votes:
        return DEFAULT_ASSIGNOR
    return min(votes, key=lambda name: (-votes[name], name or "")) or DEFAULT_ASSIGNOR
