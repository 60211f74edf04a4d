"""Any sequence of heartbeats, time, confirmations and failovers keeps what a share group promises.

After every step: epochs only grow, each heartbeat is answered at most once, what members were told
may have a share, and what a restart would load equals what was confirmed. At the end, when all
members beat and the journal confirms, every partition is shared by equally many members, and nobody
has two more than another.
"""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.topics import COMPARE_MS
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.share.administration import HeldGroup
from penstock.groups.share.group import ShareGroup
from penstock.protocol.error_codes import ErrorCode
from tests.groups.share.circle import SESSION_MS, Circle, Sharer, settle
from tests.groups.world import GROUP, PARTITIONS

MEMBERS = 4
members = st.integers(0, MEMBERS - 1)


class ShareGroupMachine(RuleBasedStateMachine):
    @initialize(has_turns=st.booleans())
    def start(self, has_turns: bool) -> None:
        self.circle = Circle(has_turns=has_turns, expiry_check_interval_ms=10**9)
        self.circle.all_turns()
        self.circle.cluster.create("t", 2)
        self.circle.cluster.create("u", 1)
        self.sharers = [
            Sharer(self.circle, f"m{n}", *(("t", "u"), ("t",), ("u",), ("t", "u"))[n])
            for n in range(MEMBERS)
        ]
        self.epoch = 0
        self.everything: list[list[Any]] = []
        self.deleted = 0

    @rule(who=members)
    def beat(self, who: int) -> None:
        sharer = self.sharers[who].beat()
        if sharer.waits is not None:
            self.everything.append(sharer.waits)
        self.hear()

    @rule(who=members, topics=st.sampled_from([("t",), ("u",), ("t", "u")]))
    def subscribe(self, who: int, topics: tuple[str, ...]) -> None:
        self.sharers[who].subscribe(*topics)
        self.hear()

    @rule(who=members)
    def leave(self, who: int) -> None:
        if self.sharers[who].epoch > 0:
            self.everything.append(self.sharers[who].leave())
            self.hear()

    @rule(who=members)
    def the_answer_is_lost(self, who: int) -> None:
        """The connection breaks: the client asks again with what it knew."""
        self.sharers[who].waits = None

    @rule(ms=st.sampled_from([1_000, SESSION_MS + 1]))
    def time_passes(self, ms: int) -> None:
        self.circle.pass_ms(ms)
        self.hear()

    @rule(count=st.integers(2, 6))
    def a_topic_grows(self, count: int) -> None:
        known = self.circle.cluster.find("t")
        if known is not None and known.partition_count < count:
            self.circle.cluster.create("t", count)

    @rule()
    def the_journal_waits(self) -> None:
        self.circle.journal.is_prompt = False

    @rule()
    def the_journal_confirms(self) -> None:
        self.circle.journal.is_prompt = True
        self.circle.journal.confirm()
        self.hear()

    @rule(unwritten=st.sampled_from([None, Unwritten.TOO_LARGE, Unwritten.FAILED]))
    def the_journal_refuses(self, unwritten: Unwritten | None) -> None:
        self.circle.journal.refuses = unwritten

    @rule()
    def the_journal_is_late(self) -> None:
        """What takes long is told so, and may be confirmed in the end."""
        self.circle.journal.late()
        self.hear()

    @rule()
    def turns_pass(self) -> None:
        self.circle.all_turns()
        self.hear()

    @rule()
    def the_coordinator_fails(self) -> None:
        """What was not confirmed may be in the log or not: here it is all in it."""
        self.circle.restart()
        for sharer in self.sharers:
            sharer.waits = None
        self.hear()

    @rule(refuses=st.sampled_from([None, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def an_administrator_deletes_it(self, refuses: ErrorCode | None) -> None:
        self.circle.cluster.share_masters.refuses = refuses
        self.circle.deleted()
        self.hear()

    @rule()
    def an_administrator_drops_a_topic(self) -> None:
        found = self.circle.coordinator.shares.hold(GROUP)
        if isinstance(found, HeldGroup):
            found.drop([self.circle.cluster.topics["u"].topic_id], lambda _: None)
            found.end()

    def hear(self) -> None:
        for sharer in self.sharers:
            sharer.hear()

    def confirmed(self) -> ShareGroup | None:
        found = self.circle.coordinator._table.groups.get(GROUP)
        return found if isinstance(found, ShareGroup) else None

    @invariant()
    def epochs_grow_and_what_members_have_may_have_a_share(self) -> None:
        group = self.confirmed() if hasattr(self, "circle") else None
        if group is None:
            self.epoch = 0  # it was deleted; a group of this name begins anew
            return
        shared = group.shared.partitions
        for current in group.currents.values():
            for topic_id, numbers in current.assigned.items():
                assert numbers <= shared.get(topic_id, frozenset())
        assert set(group.currents) <= set(group.facts)
        assert group.epoch >= self.epoch
        self.epoch = group.epoch

    @invariant()
    def every_heartbeat_is_answered_once(self) -> None:
        if hasattr(self, "everything"):
            assert all(len(answers) <= 1 for answers in self.everything)

    @invariant()
    def replay_equals_what_was_confirmed(self) -> None:
        if not hasattr(self, "circle") or self.circle.journal.waiting or self.circle.turns:
            return
        now = self.confirmed()
        again = self.loaded()._table.groups.get(GROUP)
        if now is None or not now.metadata.values:
            assert again is None
            return
        assert isinstance(again, ShareGroup)
        assert (again.facts, again.targets, again.currents, again.shared) == (
            now.facts,
            now.targets,
            now.currents,
            now.shared,
        )
        assert (again.said, again.target_said, again.state) == (
            now.said,
            now.target_said,
            now.state,
        )
        assert again.size_bytes == now.size_bytes

    def loaded(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            self.circle.clock,
            self.circle.journal,
            config=self.circle.config,
            new_suffix=str,
            cluster=self.circle.cluster,
        )
        for partition in range(PARTITIONS):
            coordinator.runtime.begin_loading(partition)
            for record in self.circle.journal.logs[partition]:
                coordinator.runtime.load(partition, record)
            coordinator.runtime.finish_loading(partition)
        return coordinator

    def teardown(self) -> None:
        if not hasattr(self, "circle"):
            return
        self.circle.has_turns = False
        self.circle.journal.refuses, self.circle.journal.is_prompt = None, True
        self.circle.journal.confirm()
        self.circle.all_turns()
        self.circle.restart()
        self.time_passes(SESSION_MS + 1)
        for sharer in self.sharers:
            sharer.topics, sharer.epoch, sharer.waits = ("t", "u"), 0, None
        settle(*self.sharers)
        self.circle.pass_ms(COMPARE_MS)
        settle(*self.sharers)
        shared = Counter(each for one in self.sharers for each in one.reads)
        topic = self.circle.cluster.find("t")
        assert topic is not None
        wanted = {("t", n) for n in range(topic.partition_count)} | {("u", 0)}
        assert set(shared) == wanted
        assert len(set(shared.values())) == 1
        counts = [len(one.reads) for one in self.sharers]
        assert max(counts) - min(counts) <= 1
        assert self.circle.shared() == wanted


TestShareGroupMachine = ShareGroupMachine.TestCase
TestShareGroupMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
