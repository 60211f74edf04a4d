"""RocketMQ's remoting clients of a run, and what must be true of them in the end.

    topic      written by remoting producers, plain, delayed and of transactions, and by a Kafka
               producer; popped by one group, pulled by another, and read by a Kafka client
    judged     simulator/history/remoting

Source: docs/adr/0122, 0127, 0132, 0134.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from penstock.configs.group_keys import POP_DELIVERIES
from penstock.controller.commands.topic_names import (
    DEAD_LETTER_PREFIX,
    DISCARDED_TOPIC,
    RETRY_PREFIX,
)
from simulator.clients.feeder import PARTITIONS, Feeder
from simulator.clients.group_settings import set_of_group
from simulator.clients.remoting import popper, puller
from simulator.clients.remoting.asker import Asker
from simulator.clients.remoting.finder import Finder
from simulator.clients.remoting.popper import Popper
from simulator.clients.remoting.producer import RemotingProducer
from simulator.clients.remoting.puller import RETRY_TOPIC, Puller
from simulator.clients.remoting.transactor import (
    NAMED,
    NAMED_OF_GRPC,
    TransactionNotes,
    Transactor,
)
from simulator.clients.remoting.watcher import Watcher
from simulator.clients.transactions import create_topic
from simulator.clients.world import ClientWorld, Draws
from simulator.history.remoting.events import Clock, Place, Read, Sent
from simulator.history.remoting.halves import Reads, judge_halves, undecided
from simulator.history.remoting.pops import judge_pops, not_over
from simulator.history.remoting.pulls import judge_pulls, not_pulled
from simulator.history.remoting.returns import judge_returns, not_back
from simulator.history.remoting.sends import judge_sends, not_there, places_of
from simulator.history.shares import ShareNotes, judge_shares

TOPIC = "remote"
RETRIES = RETRY_PREFIX + puller.GROUP
RETURNED_LETTERS = DEAD_LETTER_PREFIX + puller.GROUP
POPPED_LETTERS = DEAD_LETTER_PREFIX + popper.GROUP
DELIVERIES_MAX = 4
TOLD_MAX = 3
Work = list[Coroutine[Any, Any, None]]
Started = TypeVar("Started")


class RemotingCast:
    """`count` producers, as many of transactions, twice as many poppers; three that ask."""

    def __init__(self, simulation: Draws, world: ClientWorld, count: int) -> None:
        def named(name: str) -> dict[str, Any]:
            return {"world": world, "name": name, "random": simulation.random(name)}

        self._world = world
        self._random = simulation.random("remoting")
        self.pops = ShareNotes()
        self.transactions = TransactionNotes()
        self.feeder = Feeder(world=world, random=simulation.random("remote-feeder"), topic=TOPIC)
        self.producers = [
            RemotingProducer(**named(f"remote{n}"), topic=TOPIC) for n in range(count)
        ]
        self.transactors = [
            Transactor(**named(f"{NAMED}{n}"), topic=TOPIC, notes=self.transactions)
            for n in range(count)
        ]
        self.poppers = [
            Popper(**named(f"popper{n}"), topic=TOPIC, notes=self.pops) for n in range(2 * count)
        ]
        self.puller = Puller(**named("puller"), topic=TOPIC)
        self.asker = Asker(**named("asker"), topic=TOPIC)
        self.finder = Finder(**named("finder"), topic=TOPIC, sends=lambda: self.sends)
        self.watcher = Watcher(
            world=world,
            random=simulation.random("remote-watcher"),
            topics=(TOPIC, RETRIES, RETURNED_LETTERS, POPPED_LETTERS, DISCARDED_TOPIC),
        )

    def start(self, start: Callable[[str, Work], Started]) -> list[Started]:
        """Start them, each in a process of its name; returns those that write."""
        writers = [start("remote-feeder", [self._there(self.feeder.run)])]
        writers += [start(one.name, [self._there(one.run)]) for one in self.producers]
        writers += [start(one.name, [self._there(one.run)]) for one in self.transactors]
        for one in self.transactors:
            start(f"{one.name}-asked", [self._there(one.answer)])
        for each in self.poppers:
            start(each.name, [self._pop(each)])
        start("puller", [self._there(self.puller.run)])
        start("asker", [self._there(self.asker.run)])
        start("finder", [self._there(self.finder.run)])
        start("remote-watcher", [self._there(self.watcher.run)])
        return writers

    async def _there(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await create_topic(self._world, self._random, TOPIC, PARTITIONS)
        await work()

    async def _pop(self, one: Popper) -> None:
        await self._there(self._configure)
        await one.run()

    async def _configure(self) -> None:
        """Let few deliveries make a dead letter; returns when it is so."""
        settings = {POP_DELIVERIES: str(DELIVERIES_MAX)}
        await set_of_group(self._world, self._random, popper.GROUP, settings)

    # --- what is known -------------------------------------------------------------------------

    @property
    def sends(self) -> list[Sent]:
        """What producers have sent, of all kinds but transactions."""
        return [sent for one in self.producers for sent in one.sends]

    def _fed(self) -> dict[Place, str]:
        return {
            (partition, offset): value
            for partition, values in self.feeder.written.items()
            for offset, value in values.items()
        }

    def _reads(self, topic: str) -> Mapping[Place, Read]:
        return self.watcher.reads[topic]

    def _by_value(self, topic: str) -> Reads:
        return places_of(self._reads(topic).values())

    def _discarded(self) -> Reads:
        """Return half messages that nobody has decided, but for those of gRPC producers."""
        reads = self._by_value(DISCARDED_TOPIC)
        return {value: some for value, some in reads.items() if not value.startswith(NAMED_OF_GRPC)}

    def _written(self) -> dict[Place, str]:
        return {place: one.value for place, one in self._reads(TOPIC).items()}

    def behind(self) -> Iterator[str]:
        """Name what is not as it has to be in the end."""
        left = self._not_there()
        said = "; ".join(
            f"{one.name}: {one.last_error or 'fine'}"
            for one in (*self.poppers, self.puller, *self.transactors)
        )
        yield from (f"{text} (watcher: {self.watcher.last_error}; {said})" for text in left)

    def _not_there(self) -> list[str]:
        """Return some of each kind."""
        seen, returned = self._by_value(TOPIC), self.puller.returned
        fed = [f"{one} of a Kafka client" for one in self._fed().values() if one not in seen]
        notes, discarded = self.transactions, self._discarded()
        retries, letters = self._reads(RETRIES), self._reads(RETURNED_LETTERS)
        kinds = (
            not_there(self.sends, seen),
            fed,
            undecided(notes.halves, notes.decisions, seen, discarded),
            not_over(self.pops, self._written(), self._by_value(POPPED_LETTERS)),
            not_back(returned, retries.values(), letters.values()),
            not_pulled(self.puller.notes[TOPIC], self._reads(TOPIC).keys()),
            not_pulled(self.puller.notes[RETRY_TOPIC], retries.keys()),
        )
        return [text for found in kinds for text in found[:TOLD_MAX]]

    def judge(self, clock: Clock) -> list[str]:
        """Return what clients were told and must not be."""
        reads, written = self._reads(TOPIC), self._written()
        seen, notes = self._by_value(TOPIC), self.transactions
        others = {*notes.fates, *map(str, range(self.feeder.count + 1))}
        retries, letters = self._reads(RETRIES), self._reads(RETURNED_LETTERS)
        rules = self._world.rules
        return [
            *self.watcher.clashes,
            *judge_sends(self.sends, reads, others, clock),
            *judge_halves(notes.halves, notes.decisions, seen, self._discarded()),
            *judge_shares(self.pops, written, rules),
            *judge_pops(self.pops, written, self._by_value(POPPED_LETTERS), DELIVERIES_MAX, clock),
            *judge_returns(self.puller.returned, retries.values(), letters.values(), clock),
            *judge_pulls(self.puller.notes[TOPIC], reads, rules),
            *judge_pulls(self.puller.notes[RETRY_TOPIC], retries, rules),
            *judge_pulls(self.asker.notes, reads, rules),
            *self.asker.unwanted[:TOLD_MAX],
            *self.finder.wrong,
        ]
