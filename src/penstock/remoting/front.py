"""The remoting front of one broker: what its handlers share beside the broker itself.

    members     which clients belong to which consumer groups
    sending     messages on their way into batches
    on_demand   creation of missing topics, where that is on
    queues_of   the queues of a topic, made once
    locks       which client consumes a queue alone
    held        what unanswered requests hold
    desk        what pops have in common, whatever protocol asks (pop/desk.py)
    told        groups whose members are told of a change
    keeping     what is taken now and delivered later, whatever protocol its clients speak: places,
                holding, delivery, halves are its parts (keeping.py)
    asker       producers of transactions
    compiled    expressions by which messages are filtered
    filtering   reads that take more than a turn, and what they have left out
    waits       pulls that wait for what their filters want
    unpacking   whose turn it is to have many messages, compressed ones or a long heartbeat read
    rates       messages a second, in and out
    configs     the node's settings, as clients are told them
    arrivals    topics that the metadata has not yet
    finding     the index of messages by id and key, of all logs of the node
    resets      groups that are to read a queue from another offset on
    questions   what the node asks clients for somebody else

Source: ours. The broker does not know its fronts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.base.ids import BrokerId, ReplicaSetId, TopicId
from penstock.broker.finding.indexing import Indexing
from penstock.broker.live_broker import live_broker
from penstock.broker.look_ups import LookUps
from penstock.broker.topics_on_demand import TopicsOnDemand
from penstock.broker.turns import Pace
from penstock.configs.entry import ConfigEntry
from penstock.remoting.config import DELAY_MS_MAX, INDEX_BYTES
from penstock.remoting.filters.compiled import CompiledExpressions
from penstock.remoting.filters.filtering import Filtering
from penstock.remoting.filters.waiting import Waits
from penstock.remoting.finding.naming import NAMING
from penstock.remoting.halves.checking import RemotingAsker
from penstock.remoting.halves.producers import PRODUCER_BYTES
from penstock.remoting.held import HeldRequests
from penstock.remoting.keeping import Keeping
from penstock.remoting.locks import LOCK_BYTES, QueueLocks
from penstock.remoting.members import GroupMembers
from penstock.remoting.operating.arrivals import Arrivals
from penstock.remoting.operating.questions import Questions
from penstock.remoting.operating.rates import Counted, Rates
from penstock.remoting.operating.resets import PendingResets
from penstock.remoting.pop.desk import PopDesk
from penstock.remoting.queues import TopicQueues
from penstock.remoting.routes import SetMember
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import ONE_WAY, Command
from penstock.remoting.wire.frame import encode_frame
from penstock.remoting.wire.message import NO_HOST, Host, packed_host

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.controller.metadata.image import BrokerImage
    from penstock.coordinator.calls.asking import Caller
    from penstock.net.connection import Connection

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]
EndpointOf = Callable[["BrokerImage"], tuple[str, int] | None]
"""Where remoting clients reach a broker; None where they do not."""


OTHER: Final = -1
"""In place of the code of a request that is not supported."""
TELL_MS: Final = 100
"""Members are told of changes of their group at most once in this time: 1,000 that join at once
would be told 500,000 times. RocketMQ tells each time."""
LONG_ANSWERS: Final = 4
"""Of those who operate the cluster, at one time: each has up to 8 MiB (handlers/admin)."""


class Configs(Protocol):
    """The node's configuration as clients see it."""

    def entries(self) -> Sequence[ConfigEntry]:
        """Return all settings of the node; secrets have no value."""

    def read_only(self) -> Mapping[str, str]:
        """Return the names that can not be changed, each with the one to change instead."""


class NoConfigs:
    """A front without a node: nothing is told."""

    def entries(self) -> Sequence[ConfigEntry]:
        """Return nothing."""
        return ()

    def read_only(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}


class RemotingFront:
    """See the module; one for each broker."""

    def __init__(
        self, broker: Broker, spawn: Spawn, endpoint_of: EndpointOf, calls: Caller
    ) -> None:
        """`spawn(name, coroutine)` runs the work for a request under supervision."""
        self.broker = broker
        self.spawn = spawn
        self.endpoint_of = endpoint_of
        self.calls = calls
        self.members: GroupMembers[Connection] = GroupMembers()
        self.held = HeldRequests(broker.scheduler)
        self.compiled = CompiledExpressions()
        self.filtering = Filtering(broker.turns, spawn)
        wake = partial(broker.wakes.begin, is_changed=False)
        self.waits = Waits(broker.scheduler, wake, self.filtering.left_out)
        self.unpacking = LookUps(broker.scheduler, broker.clock)
        self.requests: Counter[int] = Counter()
        """Requests by code, `OTHER` for those that are not supported."""
        self._told: dict[str, None] = {}
        self._is_telling = False
        self.locks = QueueLocks()
        self.on_demand = TopicsOnDemand(broker, spawn)
        broker.on_expire.append(self._expire)  # before keeping asks producers: it drops silent ones
        self.keeping = keeping = Keeping(broker, spawn)
        self.sending, self.places = keeping.sending, keeping.places
        self.holding, self.delivery = keeping.holding, keeping.delivery
        self.halves = keeping.halves
        self.asker = RemotingAsker(broker, self)
        self.halves.askers.append(self.asker)
        self.desk = PopDesk(broker, spawn, calls, self.places, self.sending)
        self.sent_back: Counter[str] = Counter()
        """Messages that came back, by what becomes of them: `retry`, `dead_letter`."""
        self.delivered = 0
        """Messages that were sent to consumers."""
        self.rates = Rates(broker.clock.monotonic_ms(), self.counted())
        self.long_answers = LookUps(broker.scheduler, broker.clock, LONG_ANSWERS)
        self.configs: Configs = NoConfigs()
        self.delay_ms_max = DELAY_MS_MAX
        """How far away the time of a message's own may be."""
        self.arrivals = Arrivals(broker.metadata)
        self.resets = PendingResets()
        self.questions = Questions()
        self.finding = Indexing(broker, NAMING, INDEX_BYTES)
        self._queues: dict[TopicId, tuple[int, TopicQueues]] = {}

    def counted(self) -> Counted:
        """Return how many messages came in, from whatever client, and were sent to consumers."""
        return self.broker.stats.records_produced, self.delivered

    @property
    def pinned_bytes(self) -> int:
        """Approximate bytes that clients pin beside their connections."""
        producers = self.asker.producers.count * PRODUCER_BYTES
        of_groups = self.members.bytes_now + producers + self.compiled.bytes_now
        of_groups += self.waits.bytes_now
        return self.held.bytes_now + of_groups + self.locks.count * LOCK_BYTES

    def use_memory(self, bytes_max: int) -> None:
        """Let unanswered requests have half of so many bytes, and members of groups the rest.

        An eighth of theirs is for the expressions by which they filter.
        """
        half = bytes_max // 2
        self.compiled.bytes_max = half // 8
        self.held.bytes_max, self.members.bytes_max = half, half - self.compiled.bytes_max

    def queues_of(self, topic_id: TopicId, placed: tuple[ReplicaSetId, ...]) -> TopicQueues:
        """Return the queues of a topic whose partitions are placed so."""
        known = self._queues.get(topic_id)
        if known is None or known[0] != len(placed):
            known = len(placed), TopicQueues(placed)
            self._queues[topic_id] = known
        return known[1]

    def set_members(self) -> Mapping[ReplicaSetId, list[SetMember]]:
        """Return the live members of all replica sets that remoting clients reach."""
        sets = self.broker.metadata.replica_sets.items()
        return {set_id: self._members(one.replicas, one.master) for set_id, one in sets}

    def own_host(self) -> Host:
        """Return where clients reach this broker, as messages tell it."""
        endpoint = self._endpoint()
        return NO_HOST if endpoint is None else packed_host(*endpoint)

    def own_address(self) -> str:
        """Return the same as a text, empty where clients do not reach this broker."""
        endpoint = self._endpoint()
        return "" if endpoint is None else f"{endpoint[0]}:{endpoint[1]}"

    def _endpoint(self) -> tuple[str, int] | None:
        image = self.broker.metadata.brokers.get(self.broker.broker_id)
        return None if image is None else self.endpoint_of(image)

    def tell_members(self, groups: list[str]) -> None:
        """Tell the members of groups that have changed, so that they divide the queues anew."""
        if groups and not self._told and not self._is_telling:
            self.broker.scheduler.call_later(TELL_MS, self._tell)
        self._told.update(dict.fromkeys(groups))

    def _tell(self) -> None:
        told, self._told = self._told, {}
        self._is_telling = True
        self.spawn("members of groups are told", self._tell_all(told))

    async def _tell_all(self, groups: Iterable[str]) -> None:
        """Tell members, some in a turn: there may be thousands of groups, and of members.

        What changes meanwhile is told together afterwards, however long this takes.
        """
        try:
            await self._tell_each(groups)
        finally:
            self._is_telling = False
        if self._told:
            self.broker.scheduler.call_later(TELL_MS, self._tell)

    async def _tell_each(self, groups: Iterable[str]) -> None:
        pace = Pace(self.broker.turns)
        for group in groups:
            await pace.step()  # the notice costs as much as to send it
            notice = Command(
                code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                fields={"consumerGroup": group},
                flag=ONE_WAY,
            )
            frame = encode_frame(notice)
            for connection in self.members.connections(group):
                await pace.step()
                if not connection.is_closed:
                    connection.reserve().send(frame)

    def on_close(self, connection: Connection) -> None:
        """Forget a client whose connection has ended, in later turns where it was many."""
        self.tell_members(self.members.closed(connection))
        if self.members.is_heard(connection):
            self.spawn("members that have gone", self._let_go(connection))
        self.asker.producers.closed(connection)
        self.questions.closed(connection)

    async def _let_go(self, connection: Connection) -> None:
        while self.members.is_heard(connection):
            await self.broker.turns.next()
            self.tell_members(self.members.closed(connection))

    def _expire(self, now_ms: int) -> None:
        self.rates.note(now_ms, self.counted())
        self.resets.expire(lambda group: bool(self.members.client_ids(group)))
        self.tell_members(self.members.expire(now_ms))
        self.locks.expire(now_ms)
        self.asker.producers.expire(now_ms)
        gone = [one for one in self._queues if one not in self.broker.metadata.topics_by_id]
        for topic_id in gone:
            del self._queues[topic_id]

    def _members(self, replicas: tuple[BrokerId, ...], master: BrokerId) -> list[SetMember]:
        found = []
        for broker_id in replicas:
            image = live_broker(self.broker.metadata, broker_id)
            endpoint = None if image is None else self.endpoint_of(image)
            if endpoint is not None:
                host, port = endpoint
                found.append(SetMember(broker_id, f"{host}:{port}", broker_id == master))
        return found
