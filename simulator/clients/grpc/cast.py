"""RocketMQ's gRPC clients of a run, and what must be true of them in the end.

    topic      written by gRPC producers, normal, in message groups, delayed and of transactions,
               and by a Kafka producer; received by one group without order and one that keeps it,
               each of simple and push consumers, and read by a Kafka client
    judged     simulator/history/remoting

Source: docs/adr/0137, 0144, 0182.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from penstock.configs.group_keys import POP_DELIVERIES, POP_ORDERED
from penstock.controller.commands.topic_names import DEAD_LETTER_PREFIX, DISCARDED_TOPIC
from simulator.clients.feeder import PARTITIONS, Feeder
from simulator.clients.group_settings import set_of_group
from simulator.clients.grpc.consumer import GrpcConsumer
from simulator.clients.grpc.producer import GrpcProducer
from simulator.clients.grpc.stranger import GrpcStranger
from simulator.clients.grpc.transactor import GrpcTransactor
from simulator.clients.remoting.transactor import NAMED, NAMED_OF_GRPC, TransactionNotes
from simulator.clients.remoting.watcher import Watcher
from simulator.clients.transactions import create_topic
from simulator.clients.world import ClientWorld, Draws
from simulator.history.remoting.events import Clock, Place, Read, Sent
from simulator.history.remoting.halves import Reads, judge_halves, undecided
from simulator.history.remoting.order import Grouped, judge_handed, judge_order
from simulator.history.remoting.pops import judge_pops, not_forwarded, not_over
from simulator.history.remoting.sends import judge_sends, not_there, places_of
from simulator.history.shares import ShareNotes, judge_shares

TOPIC = "called"
GROUP, ORDERED = "callers", "ordered-callers"
DELIVERIES_MAX = 5
TOLD_MAX = 3
Work = list[Coroutine[Any, Any, None]]
Started = TypeVar("Started")


class GrpcCast:
    """`count` producers, as many of transactions; twice as many consumers of each group."""

    def __init__(self, simulation: Draws, world: ClientWorld, count: int) -> None:
        def named(name: str) -> dict[str, Any]:
            return {"world": world, "name": name, "random": simulation.random(name), "topic": TOPIC}

        self._world = world
        self._random = simulation.random("grpc")
        self.pops = {GROUP: ShareNotes(), ORDERED: ShareNotes()}
        self.transactions = TransactionNotes()
        self.feeder = Feeder(world=world, random=simulation.random("grpc-feeder"), topic=TOPIC)
        self.producers = [GrpcProducer(**named(f"grpc-{n}")) for n in range(count)]
        self.transactors = [
            GrpcTransactor(**named(f"{NAMED_OF_GRPC}{n}"), notes=self.transactions)
            for n in range(count)
        ]
        self.consumers = [
            GrpcConsumer(
                **named(f"{group}-{n}"),
                group=group,
                notes=notes,
                deliveries_max=DELIVERIES_MAX,
                is_push=n % 2 == 1,
                is_ordered=group == ORDERED,
            )
            for group, notes in self.pops.items()
            for n in range(2 * count)
        ]
        self.stranger = GrpcStranger(**named("grpc-stranger"))
        letters = tuple(map(_letters_of, self.pops))
        self.watcher = Watcher(
            world=world,
            random=simulation.random("grpc-watcher"),
            topics=(TOPIC, DISCARDED_TOPIC, *letters),
        )

    def start(self, start: Callable[[str, Work], Started]) -> list[Started]:
        """Start them, each in a process of its name; returns those that write."""
        writers = [start("grpc-feeder", [self._there(self.feeder.run)])]
        writers += [start(one.name, [self._there(one.run)]) for one in self.producers]
        writers += [start(one.name, [self._there(one.run)]) for one in self.transactors]
        for one in self.transactors:
            start(f"{one.name}-asked", [self._there(one.answer)])
        for each in self.consumers:
            start(each.name, [self._consume(each)])
        start("grpc-stranger", [self._there(self.stranger.run)])
        start("grpc-watcher", [self._there(self.watcher.run)])
        return writers

    async def _there(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await create_topic(self._world, self._random, TOPIC, PARTITIONS)
        await work()

    async def _consume(self, one: GrpcConsumer) -> None:
        """Let few deliveries make a dead letter, and keep the order in one group."""
        settings = {POP_DELIVERIES: str(DELIVERIES_MAX)}
        if one.is_ordered:
            settings[POP_ORDERED] = "true"
        await set_of_group(self._world, self._random, one.group, settings)
        await self._there(one.run)

    # --- what is known -------------------------------------------------------------------------

    @property
    def sends(self) -> list[Sent]:
        """What producers have sent, of all kinds but transactions."""
        return [sent for one in self.producers for sent in one.sends]

    @property
    def grouped(self) -> list[Grouped]:
        """What they have sent into message groups."""
        return [sent for one in self.producers for sent in one.grouped]

    def _reads(self, topic: str) -> Mapping[Place, Read]:
        return self.watcher.reads[topic]

    def _by_value(self, topic: str) -> Reads:
        return places_of(self._reads(topic).values())

    def _discarded(self) -> Reads:
        """Return half messages that nobody has decided, but for those of remoting producers."""
        reads = self._by_value(DISCARDED_TOPIC)
        return {value: some for value, some in reads.items() if not value.startswith(NAMED)}

    def _written(self) -> dict[Place, str]:
        return {place: one.value for place, one in self._reads(TOPIC).items()}

    def behind(self) -> Iterator[str]:
        """Name what is not as it has to be in the end."""
        left = self._not_there()
        clients = (*self.consumers, *self.transactors)
        said = "; ".join(f"{one.name}: {one.last_error or 'fine'}" for one in clients)
        yield from (f"{text} (watcher: {self.watcher.last_error}; {said})" for text in left)

    def _not_there(self) -> list[str]:
        """Return some of each kind."""
        seen, notes, written = self._by_value(TOPIC), self.transactions, self._written()
        fed = [value for values in self.feeder.written.values() for value in values.values()]
        kinds = [
            not_there(self.sends, seen),
            [f"{one} of a Kafka client" for one in fed if one not in seen],
            undecided(notes.halves, notes.decisions, seen, self._discarded()),
        ]
        for group, pops in self.pops.items():
            letters = self._by_value(_letters_of(group))
            kinds += [not_over(pops, written, letters), not_forwarded(pops, written, letters)]
        return [text for found in kinds for text in found[:TOLD_MAX]]

    def judge(self, clock: Clock) -> list[str]:
        """Return what clients were told and must not be."""
        reads, written, seen = self._reads(TOPIC), self._written(), self._by_value(TOPIC)
        notes, grouped = self.transactions, self.grouped
        others = {*notes.fates, *map(str, range(self.feeder.count + 1))}
        offsets = {value: at for one in self.producers for value, at in one.offsets.items()}
        found = [
            *self.watcher.clashes,
            *judge_sends(self.sends, reads, others, clock),
            *judge_order(grouped, offsets, reads),
            *judge_halves(notes.halves, notes.decisions, seen, self._discarded()),
            *self.stranger.wrong,
        ]
        for group, pops in self.pops.items():
            letters = self._by_value(_letters_of(group))
            found += judge_shares(pops, written, self._world.rules)
            found += judge_pops(pops, written, letters, DELIVERIES_MAX, clock)
        letters = self._by_value(_letters_of(ORDERED))
        return found + judge_handed(self.pops[ORDERED], grouped, reads, letters, clock)


def _letters_of(group: str) -> str:
    return DEAD_LETTER_PREFIX + group
