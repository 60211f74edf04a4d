"""Whatever markers are asked for twice, are late and are lost: a consumer reads what was committed.

One producer of version 1 has transaction after transaction in one partition. Each question for a
marker is carried out at most once: at once, late, or never; who asked hears the answer, or that the
outcome is not known. The partition and the coordinator are led by one broker after the other. In
the end everything is answered, and a consumer of committed records reads the transactions that were
committed, in order, and no other.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.coordinator.calls.transactions import MarkersResponse
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.state import TransactionState
from tests.broker.transactional import committed, fetch, fetched
from tests.kafka.transaction_cluster import COORDINATOR_SET, DATA_SET, Question, TransactionCluster

T = TypeVar("T")
NUMBERS = st.integers(0, 20)
DRAINS_MAX = 10


class LateMarkers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.carried: dict[int, MarkersResponse] = {}
        """By place in `held`: what was done, and nobody was told yet."""
        self.done: set[int] = set()
        self.written: list[bytes] = []
        """Of the open transaction."""
        self.committed: list[bytes] = []
        self.sequence = 0

    def _run(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def start(self) -> None:
        async def begin() -> TransactionCluster:
            cluster = TransactionCluster()
            await cluster.settle()
            return cluster

        self.cluster = self._run(begin())
        self.cluster.holds = True
        self.producer = self._run(self.cluster.init())

    def _pick(self, number: int, wanted: set[int]) -> tuple[int, Question] | None:
        """Return one of the questions that have these places, the newest first."""
        if not wanted:
            return None
        at = sorted(wanted)[-1 - number % len(wanted)]
        return at, self.cluster.held[at]

    @property
    def _open(self) -> set[int]:
        """Questions whose asking side waits."""
        return {at for at, one in enumerate(self.cluster.held) if not one.answer.done()}

    @property
    def _to_do(self) -> set[int]:
        return set(range(len(self.cluster.held))) - self.done

    # The producer

    @rule()
    def write(self) -> None:
        if self._run(self.cluster.add(self.producer)) is not Code.NONE:
            return
        value = b"%d" % self.sequence
        if self._run(self.cluster.produce(self.producer, self.sequence, value=value)) is Code.NONE:
            self.sequence += 1
            self.written.append(value)

    @rule(commits=st.booleans())
    def end(self, *, commits: bool) -> None:
        state = self.cluster.state().state
        if state is not TransactionState.ONGOING:
            return
        if self._run(self.cluster.end(self.producer, commits=commits)) is Code.NONE:
            self.committed += self.written if commits else []
            self.written = []

    @rule(commits=st.booleans(), moves=st.booleans())
    def have_one(self, *, commits: bool, moves: bool) -> None:
        """A transaction whose first question is lost, and whose second one is answered."""
        self.write()
        before = len(self.cluster.held)
        self.end(commits=commits)
        if len(self.cluster.held) > before:
            self.lose(0)
            if moves:
                self.lead((self.cluster.master.broker_id + 1) % 3, DATA_SET)
            self.ask_again()
            self.carry_out(0)
            self.tell(0)

    # Questions for markers

    @rule(number=NUMBERS)
    def carry_out(self, number: int) -> None:
        found = self._pick(number, self._to_do)
        if found is not None:
            at, question = found
            self.done.add(at)
            self.carried[at] = self._run(self.cluster.deliver(question))

    @rule(number=NUMBERS)
    def carry_out_late(self, number: int) -> None:
        """What nobody waits for any more."""
        found = self._pick(number, self._to_do - self._open)
        if found is not None:
            self.done.add(found[0])
            self._run(self.cluster.deliver(found[1]))

    @rule(number=NUMBERS)
    def tell(self, number: int) -> None:
        found = self._pick(number, self._open & self.carried.keys())
        if found is not None:
            self.cluster.tell(found[1], self.carried[found[0]])
            self._run(self.cluster.settle())

    @rule(number=NUMBERS)
    def lose(self, number: int) -> None:
        found = self._pick(number, self._open)
        if found is not None:
            self.cluster.lose(found[1])
            self._run(self.cluster.settle())

    @rule()
    def ask_again(self) -> None:
        self._run(self.cluster.ask_again())

    # Masterships

    @rule(broker_id=st.integers(0, 2), set_id=st.sampled_from((DATA_SET, COORDINATOR_SET)))
    def lead(self, broker_id: int, set_id: int) -> None:
        async def move() -> None:
            self.cluster.lead(broker_id, set_id=set_id)
            await self.cluster.settle()

        self._run(move())

    @rule(number=NUMBERS)
    def lead_again(self, number: int) -> None:
        """Who was asked some time ago, and has not looked at it."""
        found = self._pick(number, self._to_do - self._open)
        if found is not None:
            self.lead(found[1].broker_id, DATA_SET)

    # What always holds

    @invariant()
    def what_is_open_is_open_in_its_partition(self) -> None:
        if self.written:
            assert self.cluster.state().state is TransactionState.ONGOING
            assert self.cluster.is_open(self.producer)

    def teardown(self) -> None:
        """Everything comes to its end."""
        if hasattr(self, "cluster"):
            self.end(commits=True)
            for _ in range(DRAINS_MAX):
                self.ask_again()
                for at in self._to_do:
                    self.done.add(at)
                    self.carried[at] = self._run(self.cluster.deliver(self.cluster.held[at]))
                while self._open & self.carried.keys():
                    self.tell(0)
            state = self.cluster.state()
            assert state.is_idle
            assert self._read() == self.committed
            self.cluster.stop()
            self._run(self.cluster.settle())
        self.loop.close()

    def _read(self) -> list[bytes | None]:
        async def ask() -> list[bytes | None]:
            asked = fetch(self.cluster.master, 0)
            await self.cluster.settle()
            found, _ = committed(fetched(asked), 0)
            return [value for _, value in found]

        return self._run(ask())


TestLateMarkers = LateMarkers.TestCase
TestLateMarkers.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
