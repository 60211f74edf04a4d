"""A client that looks for messages by their ids, each some time after it was acknowledged.

    it is acknowledged, and no master of the topic's sets has it    wrong
    another message is told                                        wrong
    busy, behind, no master, no answer, a set without members      says nothing

A query names its replica set, so an answer is that of the set's master.

Source: docs/adr/0175; RocketMQ `MQAdminImpl.queryMessageByUniqKey`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.message import decode_messages
from simulator.clients.feeder import PARTITIONS
from simulator.clients.remoting.client import RemotingClient, place_of, value_of
from simulator.clients.wire import LinkFailed
from simulator.clients.world import pause
from simulator.history.remoting.events import FINDINGS_MAX, Place, Sent

IDLE_SECONDS = (0.05, 0.3)
ALWAYS = (1 << 63) - 1
ASKED_MAX = 50
"""The newest that are chosen from: what is older may have been let go by the bound of the disk."""


@dataclass(slots=True, kw_only=True)
class Finder(RemotingClient):
    """See the module."""

    topic: str
    sends: Callable[[], Iterable[Sent]]
    wrong: list[str] = field(default_factory=list)
    found: int = 0

    async def run(self) -> None:
        """Look for one after the other, until the run is over."""
        while not self.world.is_over:
            taken = deque((one for one in self.sends() if _may_be_found(one)), ASKED_MAX)
            if taken:
                try:
                    await self._find(self.random.choice(taken))
                except LinkFailed as error:
                    self.failed(error)
                    await pause(self.random)
            await self.idle(IDLE_SECONDS)
        self.hang_up()

    async def _find(self, one: Sent) -> None:
        """Ask the masters of all sets; it is to be with one, if all have answered."""
        self.look_again(self.topic, PARTITIONS)
        queues = (await self.route(self.topic)).queues
        brokers = sorted({queue.broker for queue in queues})
        fields = {"topic": self.topic, "key": f"ID-{one.value}", "maxNum": 32}
        fields |= {"beginTimestamp": 0, "endTimestamp": ALWAYS, "_UNIQUE_KEY_QUERY": "true"}
        places: list[Place | None] = []
        is_certain = len(queues) == PARTITIONS
        for broker in brokers:
            answer = await self.ask(self.topic, broker, RequestCode.QUERY_MESSAGE, fields)
            is_certain &= answer.code in {ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND}
            for message in decode_messages(memoryview(answer.body)):
                places.append(place_of(message.locator))
                if value_of(message) != one.value:
                    self._note(f"{value_of(message)} was told for the id of {one.value}")
        if one.place in places:
            self.found += 1
        elif is_certain:
            self._note(f"{one.value} was acknowledged at {one.place}, and is not found by its id")

    def _note(self, text: str) -> None:
        if len(self.wrong) < FINDINGS_MAX:
            self.wrong.append(text)


def _may_be_found(one: Sent) -> bool:
    """Whether a message is in its topic at once, and stays there."""
    return one.is_taken and one.place is not None and not one.delay_ms
