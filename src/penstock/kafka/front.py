"""The Kafka front of one broker: state that its handlers share beside the broker itself.

    broker             partitions, replica sets, groups: the same for every protocol
    apis               what is advertised, from the handler modules
    fetch_sessions     fetch sessions of consumers (KIP-227)
    share_sessions     sessions of members of share groups (KIP-932)
    share_admissions   which shares may begin, as coordinators of groups have said
    refused_batches    recent refusals of producers with several requests in flight
    on_demand          creation of missing topics that requests need
    streams_topics     creation of the internal topics of streams groups

Handlers use the front and the broker; the broker does not know its fronts.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from penstock.broker.coordinators.internal_topic import InternalTopic
from penstock.broker.fetch.partition_shares import PARTITION_BYTES
from penstock.broker.topics_on_demand import TopicsOnDemand
from penstock.broker.turns import Pace
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.broker_configs import BrokerConfigs, NoSettings
from penstock.kafka.fetch.session_cache import FetchSessionCache
from penstock.kafka.produce.refused_batches import RefusedBatches
from penstock.kafka.shares.freeing import free
from penstock.kafka.shares.sessions import ShareSession, ShareSessions
from penstock.kafka.streams_topics import StreamsTopics
from penstock.shares.state import ShareKey
from penstock.transactions.partitioning import INTERNAL_TOPIC as TRANSACTION_TOPIC

if TYPE_CHECKING:
    from penstock.access.delegation import TokenSecrets
    from penstock.broker.broker import Broker
    from penstock.kafka.registry import Api
    from penstock.kafka.request import Reply
    from penstock.kafka.shares.may_begin import MayBegin
    from penstock.protocol.header import RequestHeader

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]
"""Runs a named coroutine under supervision."""
RunLong = Callable[["Reply", "RequestHeader", int, Coroutine[Any, Any, None]], None]
"""Runs the work for a request while its connection is not read and so many bytes are counted."""
TellLong = Callable[["Reply", Callable[[Pace], Coroutine[Any, Any, Mapping[str, Any]]]], None]
"""Has an answer of many elements created when there is room for it, and sends it in slices."""

FEW = 10_000
"""Partitions of fetches that a full collection may traverse, which takes 6 ms."""
FEW_BYTES = 12 << 20
"""Bytes of groups, positions and transactional ids, likewise: 160,000 positions and 24,000 groups
took 60 ms."""


class KafkaFront:
    """See the module; one for each broker."""

    def __init__(
        self,
        broker: Broker,
        apis: dict[int, Api],
        new_session_id: Callable[[], int],
        spawn: Spawn,
        begin: Spawn,
    ) -> None:
        """`new_session_id` draws random ids of fetch sessions from [1, 2^31).

        `spawn(name, coroutine)` runs the work for a request under supervision; `begin` does the
        same and runs it up to its first wait at once.
        """
        config = broker.config
        self.broker = broker
        self.spawn = spawn
        self.begin = begin
        self.apis = {key: api for key, api in apis.items() if api.is_offered(config)}
        """Those that this broker has."""
        self.fetch_sessions = FetchSessionCache(
            config.fetch_sessions_max, config.fetch_session_idle_ms_max, new_session_id
        )
        broker.on_expire.append(self.fetch_sessions.expire)
        self.share_sessions = ShareSessions(
            lambda: broker.shares.config.sessions_max,
            lambda session: spawn("share session", self._free(session)),
        )
        broker.on_expire.append(self.share_sessions.expire)
        self.refused_batches = RefusedBatches(broker.clock)
        self.on_demand = TopicsOnDemand(broker, spawn)
        self.internal_topic = InternalTopic(
            broker,
            self.on_demand,
            INTERNAL_TOPIC,
            lambda: broker.groups.config.partition_count,
        )
        self.transaction_topic = InternalTopic(
            broker,
            self.on_demand,
            TRANSACTION_TOPIC,
            lambda: broker.transactions.config.partition_count,
        )
        self.streams_topics = StreamsTopics(broker, self.on_demand, spawn)
        self.share_admissions: MayBegin
        self.configs: BrokerConfigs = NoSettings(broker.metadata)
        self.token_secrets: Callable[[], TokenSecrets | None] = lambda: None
        """What delegation tokens are made by; None where this broker has no secret for them."""
        self.run_long: RunLong
        self.tell_long: TellLong

    def api_versions(self) -> list[tuple[int, int, int]]:
        """What is advertised: (key, lowest, highest version), both inclusive, ordered by key."""
        return [
            (api.key, api.advertised_min_version, api.max_version) for api in self.apis.values()
        ]

    async def close_share_session(self, session: ShareSession) -> None:
        """End a session that its member closes; returns once what it held is free.

        One that another has taken the place of frees nothing: the member holds it in that one.
        """
        if self.share_sessions.close(session):
            await self._free(session)

    async def _free(self, session: ShareSession) -> None:
        keys = (ShareKey(session.group, *place) for place in session.places())
        await free(self.broker, keys, session.member)

    @property
    def pinned_bytes(self) -> int:
        """Approximate bytes that clients pin beside their connections."""
        waiting = self.broker.short_fetches.waiting * PARTITION_BYTES
        broker = self.broker
        named = broker.groups.pinned_bytes + broker.transactions.pinned_bytes
        sessions = self.fetch_sessions.pinned_bytes + self.share_sessions.pinned_bytes
        metrics = 0 if broker.client_metrics is None else broker.client_metrics.pinned_bytes
        return named + sessions + waiting + metrics

    @property
    def has_long_work(self) -> bool:
        """Whether requests of clients, in progress or completed, have left many objects."""
        fetches = self.broker.fetch_partitions
        shares = self.share_sessions.partitions + self.share_sessions.parked
        partitions = fetches.parked + self.fetch_sessions.partitions + shares
        places = self.broker.long_places
        named = self.broker.groups.pinned_bytes + self.broker.transactions.pinned_bytes
        is_much = partitions > FEW or named > FEW_BYTES
        return bool(fetches.looking) or is_much or not places.is_idle
