"""Any sequence of heartbeats, time, refusals and failovers keeps what a streams group promises.

After every step: no active task has two members, no process has a task twice, and what a restart
would load equals what was confirmed. At the end, when all members beat, every task is active in
exactly one member, and nobody has two more than another.
"""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.holders import Holders, held
from penstock.groups.streams.tasks import Role, role_of, subtopology_of
from tests.groups.streams.troupe import SESSION_MS, TIMEOUT_MS, WORD_COUNT, Player, Troupe, settle
from tests.groups.world import GROUP

MEMBERS = 4
members = st.integers(0, MEMBERS - 1)


def whole(holders: Holders) -> dict[tuple[bytes, int], set[str]]:
    """Return holders without an order."""
    return {(key, n): {*who} for key, some in holders.items() for n, who in some.items()}


class StreamsGroupMachine(RuleBasedStateMachine):
    @initialize(standbys=st.integers(0, 2))
    def start(self, standbys: int) -> None:
        self.troupe = Troupe(expiry_check_interval_ms=10**9, streams_standby_replicas=standbys)
        self.troupe.words()
        # The first two are threads of one process.
        self.players = [
            Player(self.troupe, f"m{n}", WORD_COUNT, process_id=f"p{max(n, 1)}")
            for n in range(MEMBERS)
        ]

    @rule(who=members)
    def beat(self, who: int) -> None:
        self.players[who].beat()

    @rule(who=members)
    def beat_and_lose_the_answer(self, who: int) -> None:
        player = self.players[who]
        epoch, owned = player.epoch, player.owned
        player.beat()
        if epoch:
            player.epoch, player.owned, player.is_lost = epoch, owned, True

    @rule(who=members)
    def leave(self, who: int) -> None:
        if self.players[who].epoch:
            self.players[who].leave()

    @rule(ms=st.sampled_from([1_000, TIMEOUT_MS // 2, SESSION_MS + 1]))
    def time_passes(self, ms: int) -> None:
        self.troupe.pass_ms(ms)

    @rule(count=st.integers(1, 4))
    def topics_change(self, count: int) -> None:
        for name in ("lines", "words", "counts"):
            self.troupe.cluster.create(name, count)

    @rule(reason=st.sampled_from([Unwritten.FAILED, Unwritten.OVERTAKEN]), who=members)
    def a_write_fails(self, reason: Unwritten, who: int) -> None:
        self.troupe.journal.refuses = reason
        self.players[who].beat()
        self.troupe.journal.refuses = None

    @rule()
    def the_coordinator_restarts(self) -> None:
        self.troupe.restart()

    def group(self, coordinator: GroupCoordinator) -> StreamsGroup | None:
        found = coordinator._table.groups.get(GROUP)
        assert found is None or isinstance(found, StreamsGroup), found
        return found

    @invariant()
    def a_task_is_active_once_and_in_a_process_once(self) -> None:
        group = self.group(self.troupe.coordinator)
        active: Counter[tuple[str, int]] = Counter()
        placed: Counter[tuple[str, str, int]] = Counter()
        for member_id, current in {} if group is None else group.currents.items():
            assert group is not None
            process_id = group.facts[member_id].process_id
            own = {(subtopology_of(key), number) for key, some in held(current) for number in some}
            placed.update((process_id, *task) for task in own)
            active.update(
                (subtopology_of(key), number)
                for key, numbers in held(current)
                if role_of(key) is Role.ACTIVE
                for number in numbers
            )
        assert not [task for task, count in active.items() if count > 1]
        assert not [place for place, count in placed.items() if count > 1]

    @invariant()
    def what_is_confirmed_is_what_a_restart_loads(self) -> None:
        here, loaded = self.group(self.troupe.coordinator), self.group(self.troupe._start())
        if here is None or not here.metadata.values:
            return
        assert loaded is not None
        assert (loaded.facts, loaded.targets, loaded.currents) == (
            here.facts,
            here.targets,
            here.currents,
        )
        assert (loaded.tables.streams_said, loaded.tables.topology) == (
            here.tables.streams_said,
            here.tables.topology,
        )
        assert whole(loaded.tables.holders) == whole(here.tables.holders)

    def teardown(self) -> None:
        self.troupe.pass_ms(1_001)
        settle(*self.players)
        tasks = Counter(task for one in self.players for task in one.tasks())
        topics = self.troupe.cluster.topics
        count = topics["lines"].partition_count
        assert tasks == {(part, n): 1 for part in ("0", "1") for n in range(count)}
        sizes = [len(one.tasks()) for one in self.players]
        assert max(sizes) - min(sizes) <= 1, sizes


TestStreamsGroups = StreamsGroupMachine.TestCase
TestStreamsGroups.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
