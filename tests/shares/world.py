"""A coordinator of shares with a journal, dead letters, groups and a clock in the test's hand."""

from collections.abc import Iterable
from typing import Any

from penstock.base.ids import CoordinatorEpoch
from penstock.coordinator.outbox import Later
from penstock.coordinator.records import JournalRecord
from penstock.shares.answers import Claim, Say
from penstock.shares.config import ShareConfig, SharePolicy
from penstock.shares.coordinator import Move, ShareCoordinator
from penstock.shares.flushing import After
from penstock.shares.messages import Answer, Described, Unavailable
from penstock.shares.runs import Run, Runs
from penstock.shares.state import ShareKey
from penstock.shares.updates.handed import HandOut, Wanted
from penstock.shares.updates.tracing import Traces
from tests.coordinator.held_journal import HeldJournal
from tests.groups.world import HandClock
from tests.shares.bench import KEY, offsets

LOCK_MS = 30_000
VISIBLE = 100_000


class ShareClock(HandClock):
    """Wall time after the first tick."""

    def wall_ms(self) -> int:
        return 1_800_000_000_000 + self.now_ms


class HandLetters:
    """Keeps the copies that nobody has made yet."""

    def __init__(self) -> None:
        self.duties: list[tuple[ShareKey, Runs]] = []
        self.cancelled: list[int] = []

    def send(self, partition: int, key: ShareKey, runs: Runs) -> None:
        assert partition == 0
        self.duties.append((key, runs))

    def cancel(self, partition: int) -> None:
        self.cancelled.append(partition)
        self.duties.clear()


class World:
    """One coordinator of internal partition 0; confirmed at once unless `is_prompt` is False."""

    def __init__(
        self,
        journal: HeldJournal | None = None,
        later: Later | None = None,
        after: After | None = None,
        policy: SharePolicy | None = None,
        traces: Traces | None = None,
        **settings: Any,
    ) -> None:
        self.clock = ShareClock()
        self.journal = journal or HeldJournal()
        self.letters = HandLetters()
        self.policy = policy or SharePolicy()
        self.settings = settings
        self.is_prompt = True
        self.epoch = 7
        self.has_lease = True
        self.place: int | None = 0
        self.coordinator = ShareCoordinator(
            self.clock,
            self.journal,
            config=ShareConfig(**settings),
            groups=self,
            letters=self.letters,
            masterships=self,
            later=later,
            after=after,
            traces=traces,
        )

    # What the coordinator asks

    def epoch_of(self, partition: int) -> CoordinatorEpoch:
        assert partition == 0
        return CoordinatorEpoch(self.epoch)

    def is_certain(self, partition: int) -> bool:
        assert partition == 0
        return self.has_lease

    def policy_of(self, key: ShareKey) -> SharePolicy:
        assert key.topic_id == KEY.topic_id
        return self.policy

    def internal_partition_of(self, key: ShareKey) -> int | None:
        return self.place

    # Masterships

    def load(self, records: Iterable[JournalRecord] = ()) -> "World":
        runtime = self.coordinator.runtime
        runtime.begin_loading(0)
        for record in records:
            runtime.load(0, record)
        runtime.finish_loading(0)
        return self

    def elsewhere(self) -> "World":
        """Return the coordinator that takes over what is confirmed."""
        other = World(self.journal, policy=self.policy, **self.settings)
        other.clock.now_ms = self.clock.now_ms
        other.epoch = self.epoch + 1
        return other.load([*self.journal.records()])

    def settle(self) -> None:
        if self.is_prompt:
            while self.journal.under_way:
                self.journal.confirm()

    def later(self, milliseconds: int) -> None:
        self.clock.now_ms += milliseconds
        self.coordinator.runtime.tick(self.clock.now_ms)
        self.settle()

    # What members do

    def ask(self, begin: Any) -> Answer:
        told = self.begin(begin)
        (answer,) = told
        return answer

    def begin(self, begin: Any) -> list[Answer]:
        """Ask; the list has the answer once there is one."""
        told: list[Answer] = []
        begin(told.append)
        self.settle()
        return told

    def start(self, offset: int = 0, why: Move = Move.START, key: ShareKey = KEY) -> Answer:
        return self.ask(lambda told: self.coordinator.move(key, offset, why, told))

    def take(
        self, count: int = 1, member: str = "a", key: ShareKey = KEY, **wanted: Any
    ) -> HandOut:
        lock_ms = wanted.pop("lock_ms", LOCK_MS)
        end = wanted.pop("visible_end", VISIBLE)
        found = self.coordinator.acquire(key, Wanted(member, count, end, lock_ms, **wanted))
        assert isinstance(found, HandOut), found
        self.settle()
        return found

    def accept(self, handed: HandOut, *only: int, key: ShareKey = KEY) -> Answer:
        receipts = [(at, handed.nonce) for at in only or offsets(handed.runs)]
        return self.ask(lambda told: self.coordinator.accept(key, receipts, VISIBLE, told))

    def say(self, what: Say, handed: HandOut, *runs: Run, during_ms: int | None = None) -> Answer:
        claims = [Claim(first, end, handed.nonce) for first, end in runs or handed.runs]
        return self.ask(lambda told: self.coordinator.say(KEY, what, claims, "a", told, during_ms))

    def described(self, key: ShareKey = KEY) -> Described:
        found = self.coordinator.describe(key)
        assert not isinstance(found, Unavailable), found
        return found
