"""Brokers that ask each other while links are cut and brokers are killed."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from penstock.base.ids import BrokerId, ProducerEpoch, ProducerId
from penstock.coordinator.calls.asking import CallError, CallNotBegun, CallOutcomeUnknown
from penstock.coordinator.calls.transactions import AskedPartition, VerifyRequest, VerifyResponse
from penstock.kafka.transactions.answering import TransactionAnswers
from penstock.node.node import Node
from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run
from simulator.run.server import Server
from tests.sim.test_directed import follow

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TIMEOUT_MS = 500
ASKED = 200
"""Questions of each broker, one each 20 ms."""


class Asking:
    """Every broker asks every broker, itself too; what was done and what was heard is noted."""

    def __init__(self, run: Run) -> None:
        self.done: Counter[int] = Counter()
        """Question -> times that a handler has seen it."""
        self.heard: dict[int, str] = {}
        self.after_ms: list[int] = []
        self._count = 0
        self._run = run
        self._tasks: list[asyncio.Task[None]] = []

    async def answer(self, question: VerifyRequest) -> VerifyResponse:
        """Answer in place of a broker's coordinator of transactions, which has none of these."""
        self.done[question.producer_id] += 1
        await asyncio.sleep(0.02 * (question.producer_id % 4))
        return VerifyResponse(codes=(question.producer_id,))

    def ask(self, server: Server, broker_id: int) -> None:
        """Let a broker that runs ask another one."""
        node, process = server.node, server.process
        if not isinstance(node, Node) or process is None or not process.is_alive:
            return
        self._count += 1
        number = self._count
        process.call_soon(self._begin, self._one(node, broker_id, number))

    def _begin(self, work: "asyncio.Future[None]") -> None:
        self._tasks.append(self._run.simulation.loop.create_task(work))  # type: ignore[arg-type]

    async def _one(self, node: Node, broker_id: int, number: int) -> None:
        question = VerifyRequest(
            transactional_id="t", producer_id=ProducerId(number), producer_epoch=ProducerEpoch(0),
            is_verify_only=True,
            partitions=(AskedPartition("t", 0),),
        )  # fmt: skip
        begun_s = self._run.simulation.now_s
        self.heard[number] = "nothing"
        try:
            answer = await node.calls.ask(BrokerId(broker_id), question, timeout_ms=TIMEOUT_MS)
            assert answer.codes == (number,), "the answer to another question"
            self.heard[number] = "answer"
        except CallNotBegun:
            self.heard[number] = "not begun"
        except CallOutcomeUnknown:
            self.heard[number] = "unknown"
        except CallError as error:
            raise AssertionError("an error of no kind") from error
        self.after_ms.append(round(1_000 * (self._run.simulation.now_s - begun_s)))

    async def go(self) -> None:
        """Ask for some seconds."""
        brokers = [one for one in self._run.cluster.servers.values() if one.host.is_broker]
        for _ in range(ASKED):
            for asking in brokers:
                for asked in brokers:
                    self.ask(asking, asked.host.process_id)
            await asyncio.sleep(0.02)

    def judge(self) -> Counter[str]:
        """Check what was done against what was heard."""
        for number, heard in self.heard.items():
            times = self.done[number]
            assert times <= 1, "done twice"
            if heard == "answer":
                assert times == 1
            if heard == "not begun":
                assert times == 0
        return Counter(self.heard.values())


@pytest.fixture
def new_asking(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], Asking]:
    """Let the newest one answer for every broker: brokers register their handler as they start."""
    newest: list[Asking] = []

    def new(run: Run) -> Asking:
        newest.append(Asking(run))
        return newest[-1]

    async def verify(_: TransactionAnswers, question: VerifyRequest) -> VerifyResponse:
        return await newest[-1].answer(question)

    monkeypatch.setattr(TransactionAnswers, "verify", verify)
    return new


def brokers_of(run: Run) -> list[str]:
    return [one.name for one in run.cluster.servers.values() if one.host.is_broker]


def test_brokers_ask_each_other_at_most_once_while_links_are_cut_and_brokers_are_killed(
    new_asking: Callable[[Run], Asking],
) -> None:
    async def schedule(run: Run) -> None:
        asking = new_asking(run)
        first, second, *_ = brokers_of(run)
        going = asyncio.create_task(asking.go())
        await asyncio.sleep(0.5)
        run.cluster.weather.add(Effect(pairs=pairs([first], [second], both_ways=True), is_cut=True))
        await asyncio.sleep(0.7)
        run.cluster.weather.clear()
        slow = pairs([second], [first], both_ways=False)
        run.cluster.weather.add(Effect(pairs=slow, latency_s=0.3))
        await asyncio.sleep(0.5)
        run.cluster.weather.clear()
        run.cluster.servers[second].restart()
        await asyncio.sleep(0.5)
        run.cluster.servers[first].kill()
        await asyncio.sleep(0.3)
        run.cluster.servers[first].start()
        await going
        await asyncio.sleep(2 * TIMEOUT_MS / 1_000)
        heard = asking.judge()
        assert heard["answer"] > ASKED
        assert heard["unknown"] > 0
        assert heard["not begun"] > 0
        assert max(asking.after_ms) <= TIMEOUT_MS + 20, "a call outlives its time"

    follow(schedule)


def test_a_cut_link_is_given_up_and_calls_pass_again_once_it_heals(
    new_asking: Callable[[Run], Asking],
) -> None:
    async def schedule(run: Run) -> None:
        asking = new_asking(run)
        first, second, *_ = brokers_of(run)
        asked = run.cluster.servers[second].host.process_id
        asking.ask(run.cluster.servers[first], asked)
        await asyncio.sleep(0.1)
        run.cluster.weather.add(Effect(pairs=pairs([first], [second], both_ways=True), is_cut=True))
        for _ in range(4):
            asking.ask(run.cluster.servers[first], asked)
            await asyncio.sleep(1.0)
        run.cluster.weather.clear()
        await asyncio.sleep(2.0)
        asking.ask(run.cluster.servers[first], asked)
        await asyncio.sleep(0.3)
        heard = asking.judge()
        assert heard["answer"] == 2, heard
        assert asking.heard[max(asking.heard)] == "answer"

    follow(schedule)
