"""A consumer that pulls: all queues of a topic and of its group's retry topic.

It sends some messages back, tells its positions, and at times begins anew at those that it is told.

Source: RocketMQ `PullAPIWrapper`, `MQClientAPIImpl.consumerSendMessageBack`.
"""

from dataclasses import dataclass, field

import msgspec

from penstock.remoting.later.delayed import DELAYS_MS
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.message import Message, decode_messages
from penstock.remoting.wire.properties import read_properties
from simulator.clients.remoting.client import Queue, RemotingClient, place_of, value_of
from simulator.clients.wire import LinkFailed
from simulator.clients.world import now_ns, pause
from simulator.history.remoting.events import Returned, Told, Updated
from simulator.history.remoting.pulls import PullNotes

GROUP = "pullers"
RETRY_TOPIC = f"%RETRY%{GROUP}"
IDLE_SECONDS = (0.01, 0.15)
RETURNED_SHARE, GIVEN_UP_SHARE = 0.06, 0.15
ANEW_SHARE, ONE_WAY_SHARE, BEATS_SHARE, BY_PULL_SHARE = 0.03, 0.3, 0.2, 0.2
LEVEL = 1
TIMES_MAX = 2
WAIT_MS = 200
HAS_POSITION, MAY_WAIT, HAS_SUBSCRIPTION = 1, 2, 4
_NONE = frozenset({ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY})


@dataclass(slots=True, kw_only=True)
class Puller(RemotingClient):
    """See the module; the only member of its group."""

    topic: str
    returned: list[Returned] = field(default_factory=list)
    notes: dict[str, PullNotes] = field(default_factory=dict)
    """By topic."""
    _at: dict[tuple[str, Queue], int] = field(default_factory=dict)
    _partitions: dict[tuple[str, Queue], int] = field(default_factory=dict)
    """Of queues from which something has come."""

    def __post_init__(self) -> None:
        """Nothing is pulled yet."""
        self.notes = {self.topic: PullNotes(), RETRY_TOPIC: PullNotes()}

    async def run(self) -> None:
        """Pull until the run is over."""
        while not self.world.is_over:
            for topic in (self.topic, RETRY_TOPIC):
                try:
                    await self._turn(topic)
                except LinkFailed as error:
                    self.failed(error)
                    await pause(self.random)
            if not self.world.is_stopping and self.random.random() < ANEW_SHARE:
                self.hang_up()
                self._at.clear()
            await self.idle(IDLE_SECONDS)
        self.hang_up()

    async def _turn(self, topic: str) -> None:
        route = await self.route(topic)
        if self.random.random() < BEATS_SHARE:
            await self._beat()
            self._routes.pop(topic, None)  # a retry topic gets more queues
        for queue in route.queues:
            try:
                await self._pull(topic, queue)
            except LinkFailed as error:
                self.failed(error)

    async def _beat(self) -> None:
        topics = [{"topic": one, "subString": "*"} for one in (self.topic, RETRY_TOPIC)]
        group = {"groupName": GROUP, "subscriptionDataSet": topics}
        body = msgspec.json.encode({"clientID": self.name, "consumerDataSet": [group]})
        for address in self.world.remoting_addresses:
            link = await self.link(address)
            await link.call(RequestCode.HEART_BEAT, {}, body)

    def _named(self, topic: str, queue: Queue) -> dict[str, object]:
        return {"consumerGroup": GROUP, "topic": topic, "queueId": queue.queue_id}

    async def _pull(self, topic: str, queue: Queue) -> None:
        key = topic, queue
        if key not in self._at:
            self._at[key] = await self._begin(topic, queue)
        fields = self._named(topic, queue) | {
            "queueOffset": self._at[key],
            "maxMsgNums": self.random.randint(1, 32),
            "sysFlag": HAS_SUBSCRIPTION | (MAY_WAIT if self.random.random() < 0.2 else 0),
            "suspendTimeoutMillis": WAIT_MS,
            "subscription": "*",
        }
        answer = await self.ask(topic, queue.broker, RequestCode.PULL_MESSAGE, fields)
        if answer.code in _NONE:
            self._at[key] = int(answer.fields["nextBeginOffset"])
            return
        if answer.code != ResponseCode.SUCCESS:
            raise LinkFailed(f"pull: {ResponseCode(answer.code).name}: {answer.remark}")
        for message in decode_messages(memoryview(answer.body)):
            place = place_of(message.locator)
            assert place is not None, message.locator
            self._partitions[key] = place[0]
            self.notes[topic].note(place, value_of(message))
            if not self.world.is_stopping and self.random.random() < RETURNED_SHARE:
                await self._return(queue, message)
        self._at[key] = int(answer.fields["nextBeginOffset"])
        await self._update(topic, queue)

    async def _begin(self, topic: str, queue: Queue) -> int:
        """Return where the group is, or the first offset. Raises LinkFailed."""
        asked_ns = now_ns()
        fields = self._named(topic, queue) | {"setZeroIfNotFound": "false"}
        code = RequestCode.QUERY_CONSUMER_OFFSET
        answer = await self.ask(topic, queue.broker, code, fields)
        partition, told_ns = self._partitions.get((topic, queue)), now_ns()
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            if partition is not None:
                self.notes[topic].told.append(Told(partition, -1, asked_ns, told_ns))
            code = RequestCode.GET_MIN_OFFSET
            answer = await self.ask(topic, queue.broker, code, self._named(topic, queue))
        elif answer.code == ResponseCode.SUCCESS and partition is not None:
            told = Told(partition, int(answer.fields["offset"]), asked_ns, told_ns)
            self.notes[topic].told.append(told)
        if answer.code != ResponseCode.SUCCESS:
            raise LinkFailed(f"position: {ResponseCode(answer.code).name}: {answer.remark}")
        return int(answer.fields["offset"])

    async def _update(self, topic: str, queue: Queue) -> None:
        """Tell the group's position. Raises LinkFailed."""
        updates, key = self.notes[topic].updates, (topic, queue)
        at, asked_ns, position = len(updates), now_ns(), self._at[key]
        updates.append(Updated(self._partitions[key], position, asked_ns))
        fields = self._named(topic, queue) | {"commitOffset": position}
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        if self.random.random() < ONE_WAY_SHARE:
            link = await self.master(topic, queue.broker)
            link.throw(code, fields | {"bname": queue.broker})
            return
        answer = await self.ask(topic, queue.broker, code, fields)
        if answer.code == ResponseCode.SUCCESS:
            updates[at] = updates[at]._replace(told_ns=now_ns(), is_taken=True)

    async def _return(self, queue: Queue, message: Message) -> None:
        """Send a message back; one that fails is noted as such. Raises LinkFailed."""
        is_given_up = self.random.random() < GIVEN_UP_SHARE
        times_max = 0 if is_given_up else TIMES_MAX
        value, times = value_of(message), message.reconsume_times
        at = len(self.returned)
        delay_ms = DELAYS_MS[LEVEL - 1]
        self.returned.append(Returned(value, times, times_max, delay_ms, now_ns()))
        properties = read_properties(message.properties)
        fields = {
            "group": GROUP,
            "offset": message.locator,
            "delayLevel": LEVEL,
            "originMsgId": properties.get("UNIQ_KEY", ""),
            "originTopic": properties.get("RETRY_TOPIC", message.topic),
            "unitMode": "false",
            "maxReconsumeTimes": times_max,
        }
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        answer = await self.ask(self.topic, queue.broker, code, fields)
        if answer.code == ResponseCode.SUCCESS:
            self.returned[at] = self.returned[at]._replace(is_taken=True)
        else:
            self.last_error = f"back: {ResponseCode(answer.code).name}: {answer.remark}"
