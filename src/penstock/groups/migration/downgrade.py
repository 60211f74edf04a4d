"""A consumer group becomes a classic group when its last member of KIP-848 has gone.

    batch of heartbeats ─► draft: all members are classic ─► one write ─► confirmed ─► rebalance
                                                                            │
                            what waited, and joins of the batch, is asked anew of the classic group

The members that were there before the batch live on with what they have, and are told to join
again: a member that joins by the same batch joins the classic group. The generation is the group's
epoch. A group with the record of the conversion and no leader was not told yet: a coordinator that
loads it begins the rebalance.

Source: Kafka, GroupMetadataManager (validateOnlineDowngradeWithFencedMembers,
convertToClassicGroup), ClassicGroup.fromConsumerGroup; KIP-848. Departure: there is a rebalance
always, and after a failover too.
"""

import logging
from collections.abc import Generator
from functools import partial

from penstock.coordinator.portions import POSITIONS, TO_TELL, Steps
from penstock.groups.assigned.currents import NEW
from penstock.groups.assigned.reconcile import together
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.member import Member
from penstock.groups.classic.rebalance import Rebalances
from penstock.groups.classic.snapshot import record_parts
from penstock.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.groups.cluster import Cluster
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.records import ClassicFacts, MemberFacts
from penstock.groups.context import Context
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.groups.migration.claims import names_of, with_names
from penstock.groups.migration.consumer_protocol import encode_assignment, version_of
from penstock.groups.migration.conversion import Conversion
from penstock.groups.records import encode_group_key
from penstock.groups.table import GroupTable

MEMBERS_TOGETHER = 2
"""Members added, or written to the record, per unit of cost (portions.py)."""

_log = logging.getLogger("penstock.groups")


class Downgrades:
    """Turns consumer groups into classic groups."""

    __slots__ = ("_cluster", "_context", "_rebalances", "_table")

    def __init__(
        self, context: Context, table: GroupTable, cluster: Cluster, rebalances: Rebalances
    ) -> None:
        self._context = context
        self._table = table
        self._cluster = cluster
        self._rebalances = rebalances

    def made(self, group: ConsumerGroup, draft: Draft) -> Generator[int, None, Conversion | None]:
        """Return the conversion that a batch calls for, or None if the group keeps its kind."""
        config = self._context.config
        if not config.migration_policy.allows_downgrades or not _is_all_classic(draft):
            return None
        if draft.member_count > config.group_size_max:
            return None
        new = self._table.new(group.group_id, Group)
        assignments = yield from self._filled(new, group, draft)
        value = bytearray()
        for number, part in enumerate(record_parts(new, assignments)):
            value += part
            if len(value) > config.record_bytes_max:
                _log.warning("group=%s stays a consumer group: too large", group.group_id)
                return None
            if number % MEMBERS_TOGETHER == 0:
                yield 1
        new.assign(assignments)
        return Conversion(
            table=self._table,
            old=group,
            new=new,
            gone=dict.fromkeys(group.metadata.keys()),
            made={encode_group_key(group.group_id): bytes(value)},
            wall_ms=self._context.clock.wall_ms,
            on_confirmed=partial(self._take_over, group, new, [*group.facts]),
        )

    def _filled(
        self, new: Group, group: ConsumerGroup, draft: Draft
    ) -> Generator[int, None, dict[str, bytes]]:
        """Add the members that live on, and return what each of them has."""
        new.generation = group.epoch
        new.protocol_type = CONSUMER_PROTOCOL_TYPE
        living = [
            (member_id, facts, facts.classic)
            for member_id, facts in draft.members()
            if facts.classic is not None and _was_classic(group, member_id)
        ]
        topics = {topic for _, facts, _ in living for topic in facts.topics}
        names = names_of(sorted(topics), self._cluster)
        yield 1 + (len(living) + len(topics)) // MEMBERS_TOGETHER
        assignments: dict[str, bytes] = {}
        for number, (member_id, facts, classic) in enumerate(living):
            new.add(_member(member_id, facts, classic), CONSUMER_PROTOCOL_TYPE)
            current = draft.current(member_id) or NEW
            had = together(current.assigned, current.revoking)
            version = version_of(classic.protocols[0].metadata)
            assignments[member_id] = encode_assignment(version, with_names(had, names))
            if number % MEMBERS_TOGETHER == 0:
                yield 2 + sum(map(len, had.values())) // POSITIONS
        new.leader_id = None
        if living:
            new.protocol_name = new.choose_protocol()
            new.state = GroupState.STABLE
        return assignments

    def _take_over(self, group: ConsumerGroup, new: Group, before: list[str]) -> None:
        """The conversion is durable: members are to join again, and what waited is asked anew."""
        self._context.counters.groups_downgraded += 1
        _log.info(
            "group=%s generation=%d members=%d: consumer group became a classic group",
            new.group_id,
            new.generation,
            new.member_count,
        )
        if new.members:
            self._rebalances.prepare(new, "it was a consumer group")
        self._context.portions.begin(self._handed_over(group, new, before))

    def _handed_over(self, group: ConsumerGroup, new: Group, before: list[str]) -> Steps:
        for asked in group.queue.take_all():
            if asked.again is not None:
                asked.again()
            yield TO_TELL
        for member_id in before:
            for kind in _OF_A_MEMBER:
                key = DeadlineKey(kind, group.group_id, member_id)
                self._context.deadlines.cancel(key)
            yield 1
        for member in [*new.members.values()]:
            self._rebalances.answering.keep_alive_if_there(new, member)
            yield 1


_OF_A_MEMBER = (
    DeadlineKind.SESSION,
    DeadlineKind.REVOCATION,
    DeadlineKind.JOIN,
    DeadlineKind.SYNC,
)


def _is_all_classic(draft: Draft) -> bool:
    """Whether the group will have members, all of which use the classic protocol."""
    return 0 < draft.classic_count == draft.member_count


def _was_classic(group: ConsumerGroup, member_id: str) -> bool:
    before = group.facts.get(member_id)
    return before is not None and before.classic is not None


def _member(member_id: str, facts: MemberFacts, classic: ClassicFacts) -> Member:
    return Member(
        member_id=member_id,
        instance_id=facts.instance_id,
        client_id=facts.client_id,
        client_host=facts.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=facts.rebalance_timeout_ms,
        protocols=classic.protocols,
    )
