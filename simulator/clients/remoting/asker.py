"""A client that asks what producers and consumers ask beside their work.

    where        the cluster, the ends of a queue, the offset of a time
    who          the members of a group, their queues; it joins one, and leaves
    alone        locks of queues, as who keeps their order
    by SQL-92    messages with a property; Kafka's producers give them none

Source: RocketMQ `MQClientInstance`, `RebalanceLockManager`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.message import decode_messages
from simulator.clients.remoting.client import Queue, RemotingClient, place_of, value_of
from simulator.clients.wire import LinkFailed
from simulator.clients.world import pause
from simulator.history.remoting.pulls import PullNotes
from simulator.history.remoting.sends import ORIGIN
from simulator.run.topology import WALL_START_MS

GROUP = "askers"
IDLE_SECONDS = (0.1, 0.5)
EXPRESSION = f"{ORIGIN} IS NOT NULL AND {ORIGIN} <> '' AND NOT ({ORIGIN} IN ('x', 'y'))"


@dataclass(slots=True, kw_only=True)
class Asker(RemotingClient):
    """See the module."""

    topic: str
    binary_share: float = 0.0
    """A binary header has no room for the codes of pops."""
    notes: PullNotes = field(default_factory=PullNotes)
    """What it has pulled by SQL-92."""
    unwanted: list[str] = field(default_factory=list)
    """Values of messages that it does not want, and was told all the same."""
    _turns: int = 0

    async def run(self) -> None:
        """Go on until the run is over."""
        while not self.world.is_over:
            try:
                await self._turn()
            except LinkFailed as error:
                self.failed(error)
                await pause(self.random)
            await self.idle(IDLE_SECONDS)
        self.hang_up()

    async def _turn(self) -> None:
        queue = await self.any_queue(self.topic)
        kinds = (self._where, self._who, self._alone, self._by_sql)
        self._turns += 1
        await kinds[self._turns % len(kinds)](queue)

    async def _ask(self, queue: Queue, code: int, fields: dict[str, Any], body: Any = None) -> Any:
        named = {"topic": self.topic, "queueId": queue.queue_id, "consumerGroup": GROUP} | fields
        raw = b"" if body is None else msgspec.json.encode(body)
        return await self.ask(self.topic, queue.broker, code, named, raw)

    async def _where(self, queue: Queue) -> None:
        await self._ask(queue, RequestCode.GET_BROKER_CLUSTER_INFO, {})
        await self._ask(queue, RequestCode.GET_MAX_OFFSET, {})
        passed_ms = int(asyncio.get_running_loop().time() * 1_000 * self.random.random())
        fields = {"timestamp": WALL_START_MS + passed_ms, "boundaryType": "lower"}
        await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)

    async def _who(self, queue: Queue) -> None:
        subscription = {"topic": self.topic, "subString": EXPRESSION, "expressionType": "SQL92"}
        checked = {"clientId": self.name, "group": GROUP, "subscriptionData": subscription}
        await self._ask(queue, RequestCode.CHECK_CLIENT_CONFIG, {}, checked)
        await self._ask(queue, RequestCode.HEART_BEAT, {}, self._heartbeat())
        await self._ask(queue, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {})
        asked = {"topic": self.topic, "consumerGroup": GROUP, "clientId": self.name}
        asked |= {"strategyName": self.random.choice(("AVG", "AVG_BY_CIRCLE"))}
        asked |= {"messageModel": "CLUSTERING"}
        await self._ask(queue, RequestCode.QUERY_ASSIGNMENT, {}, asked)
        await self._ask(queue, RequestCode.POLLING_INFO, {})
        await self._ask(queue, RequestCode.UNREGISTER_CLIENT, {"clientID": self.name})

    async def _alone(self, queue: Queue) -> None:
        which: dict[str, object] = {
            "topic": self.topic,
            "brokerName": queue.broker,
            "queueId": queue.queue_id,
        }
        body = {"consumerGroup": GROUP, "clientId": self.name, "mqSet": [which]}
        await self._ask(queue, RequestCode.LOCK_BATCH_MQ, {}, body)
        await self._ask(queue, RequestCode.UNLOCK_BATCH_MQ, {}, body)

    async def _by_sql(self, queue: Queue) -> None:
        """Read a queue from its beginning to its end, by what its last heartbeat wants."""
        await self._ask(queue, RequestCode.HEART_BEAT, {}, self._heartbeat())
        offset, is_more = 0, True
        while is_more:
            fields: dict[str, Any] = {"queueOffset": offset, "maxMsgNums": 32, "subVersion": 1}
            fields |= {
                "sysFlag": 0,
                "commitOffset": 0,
                "suspendTimeoutMillis": 0,
                "expressionType": "SQL92",
            }
            answer = await self._ask(queue, RequestCode.PULL_MESSAGE, fields)
            is_found = answer.code == ResponseCode.SUCCESS
            is_more = is_found or answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
            offset = int(answer.fields["nextBeginOffset"]) if is_more else offset
            for message in decode_messages(memoryview(answer.body)) if is_found else ():
                place = place_of(message.locator)
                assert place is not None, message.locator
                self.notes.note(place, value_of(message))
                if value_of(message).isdecimal():
                    self.unwanted.append(f"{value_of(message)} has no property, and was pulled")

    def _heartbeat(self) -> dict[str, Any]:
        wanted = {"topic": self.topic, "subString": EXPRESSION, "expressionType": "SQL92"}
        group = {"groupName": GROUP, "subscriptionDataSet": [wanted | {"subVersion": 1}]}
        return {"clientID": self.name, "consumerDataSet": [group]}
