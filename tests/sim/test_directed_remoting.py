"""Schedules where a master dies at the worst moment for RocketMQ's remoting clients.

    between decision and copy           the next master writes the copy, and nobody decides again
    between a decision and its repeat   the second one succeeds, and changes nothing
    among decisions that contradict     one of two is told that it holds
    between pop and journal             what was acknowledged never comes again
    between sent back and delivered     what was sent back comes again, not early

What is wrong then is what the clients' judges find (simulator/history/remoting).
"""

import asyncio
from collections import Counter
from typing import Any

import pytest

from penstock.remoting.halves.deciding import Deciding
from penstock.remoting.halves.led import LedHalves
from penstock.remoting.handlers import acks, end_transaction, pop
from penstock.remoting.later.delivery import Delivery
from penstock.replication.errors import NotMaster
from simulator.clients.remoting import popper, puller, transactor
from simulator.kernel.process import current_process
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from simulator.run.server import Server

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(is_apart=True, partitions=1, producers=1, records_per_second=10, remoting=1)
SEEDS = (0,)
GAP_S, DOWN_S = 2.5, 0.6
"""From one kill to the next, and until it is started again: another one is master by then."""
REACHED_S = 40.0
COPYLESS_S = 0.4
"""Longer than a decision takes to be confirmed, and less than its master is killed after."""


class Moment:
    """Kills the broker that comes to a place in its code, so many times in all."""

    def __init__(self, kills: int = 1) -> None:
        self.kills = kills
        self.hits = 0
        self.run: Run | None = None
        """None: nobody is killed."""
        self._last_s = 0.0

    def here(self, after_s: float = 0.0) -> bool:
        """Return whether whoever runs this is killed, after so long."""
        run = self.run
        if run is None or self.hits >= self.kills:
            return False
        now_s = run.simulation.now_s
        if self.hits and now_s < self._last_s + GAP_S:
            return False
        self.hits, self._last_s = self.hits + 1, now_s
        self._in_world(run, after_s, self._server(run).kill)
        self._in_world(run, after_s + DOWN_S, self._server(run).start)
        return True

    @staticmethod
    def _server(run: Run) -> Server:
        process = current_process()
        (found,) = (one for one in run.cluster.servers.values() if one.process is process)
        return found

    @staticmethod
    def _in_world(run: Run, delay_s: float, action: Any) -> None:
        world = run.simulation.processes[0].context
        run.simulation.loop.call_later(delay_s, action, context=world)


def follow(moment: Moment) -> Counter[str]:
    """Run until the moment has come so often, and judge; return what the clients have done."""
    done: Counter[str] = Counter()
    for seed in SEEDS:
        moment.hits = 0
        casts: list[Any] = []

        async def schedule(run: Run, casts: list[Any] = casts) -> None:
            casts.append(run.clients.remoting)
            moment.run = run
            await run.until(lambda: moment.hits >= moment.kills, REACHED_S)
            await asyncio.sleep(GAP_S)
            moment.run = None

        result = run_plan(Plan(seed=seed, shape=SHAPE), schedule)
        assert not result.findings, (seed, result.findings[:3])
        (cast,) = casts
        done["committed"] += sum(
            one.is_taken and one.is_commit for one in cast.transactions.decisions
        )
        done["acknowledged"] += sum(one.is_taken for one in cast.pops.settled)
        done["returned"] += sum(one.is_taken for one in cast.puller.returned)
    return done


def test_a_master_dies_between_a_decision_and_its_copy(monkeypatch: MonkeyPatch) -> None:
    dying: list[Any] = []  # brokers, which are referenced: no other one may have their ids
    moment, owed = Moment(), Counter[str]()
    append, owe = LedHalves._append_to, Deciding.owe

    def append_to(led: Any, hosted: Any, memory: memoryview, prepared: Any) -> int:
        is_copy = hosted is not led.hosted
        if is_copy and (led._broker in dying or moment.here(COPYLESS_S)):
            dying.append(led._broker)
            raise NotMaster("its power fails here")
        return append(led, hosted, memory, prepared)

    def owing(deciding: Any, *rest: Any) -> None:
        owed["by a new master"] += deciding._broker not in dying
        owe(deciding, *rest)

    monkeypatch.setattr(LedHalves, "_append_to", append_to)
    monkeypatch.setattr(Deciding, "owe", owing)
    assert follow(moment)["committed"] > 0
    assert owed["by a new master"] > 0


def test_a_decision_is_repeated_at_a_new_master(monkeypatch: MonkeyPatch) -> None:
    moment, answer = Moment(kills=2), end_transaction._answer

    def answered(reply: Any, outcome: Any) -> None:
        answer(reply, outcome)
        moment.here(0.01)

    monkeypatch.setattr(end_transaction, "_answer", answered)
    monkeypatch.setattr(transactor, "AGAIN_SHARE", 1.0)
    assert follow(moment)["committed"] > 0


def test_two_decide_at_once_while_masters_die(monkeypatch: MonkeyPatch) -> None:
    moment, decide = Moment(kills=2), Deciding.decide

    def decided(deciding: Any, *rest: Any) -> None:
        decide(deciding, *rest)
        moment.here()

    monkeypatch.setattr(Deciding, "decide", decided)
    monkeypatch.setattr(transactor, "WEIGHTS", (0, 0, 1, 8, 0))
    monkeypatch.setattr(transactor, "AGAIN_SHARE", 0.5)
    assert follow(moment)["committed"] > 0


def test_a_master_dies_between_pop_and_journal(monkeypatch: MonkeyPatch) -> None:
    moment, tell, acknowledged = Moment(kills=2), pop._tell, acks._acknowledged

    def told(*all_of_it: Any) -> None:
        tell(*all_of_it)
        moment.here()

    def said(*all_of_it: Any) -> None:
        acknowledged(*all_of_it)
        if moment.hits == 1:
            moment.here(0.001)  # the answer is on its way

    monkeypatch.setattr(pop, "_tell", told)
    monkeypatch.setattr(acks, "_acknowledged", said)
    monkeypatch.setattr(popper, "WEIGHTS", (10, 5, 3, 4, 1, 1))
    assert follow(moment)["acknowledged"] > 0


@pytest.mark.parametrize("is_done", [False, True])
def test_a_master_dies_as_it_delivers_what_was_sent_back(
    monkeypatch: MonkeyPatch, *, is_done: bool
) -> None:
    moment, append = Moment(), Delivery._append

    def appended(delivery: Any, source: Any, due: Any, *rest: Any) -> None:
        if due.records and not is_done and moment.here():
            return  # read, and not appended
        append(delivery, source, due, *rest)
        if due.records and is_done:
            moment.here()  # appended, and not replicated

    monkeypatch.setattr(Delivery, "_append", appended)
    monkeypatch.setattr(puller, "RETURNED_SHARE", 0.3)
    assert follow(moment)["returned"] > 0
