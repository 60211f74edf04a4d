"""Brokers, leaders of partitions, connections, and retries within bounds.

The idea: one `Cluster` per process or task. It keeps the metadata of the requested topics and one
connection per broker. `retry` handles errors of single requests: after broken connections and
retriable codes it drops the metadata, waits (doubling) and tries again until `deadline_ms` is over;
all other errors are raised at once.

Source: KIP-320 (leader epochs are passed on); modelled on Kafka's `NetworkClient` and `Metadata`.
It deliberately does not refresh in the background: metadata is renewed when something fails.
"""

import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.client.connection import Connection
from penstock.client.errors import (
    AuthenticationFailed,
    BrokerError,
    ClientError,
    ConnectionFailed,
    NoBrokerReachable,
    RequestTimedOut,
    TopicNotFound,
    WrongProtocol,
    error_code,
)
from penstock.client.settings import ClientSettings, parse_bootstrap
from penstock.client.views import BrokerView, ClusterView, PartitionView, TopicView
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

T = TypeVar("T")
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""Kinds of keys that have a coordinator."""


class Cluster:
    """The client's view of the cluster. Use as a context manager, or close it."""

    def __init__(self, settings: ClientSettings) -> None:
        """Connect to nothing yet; the first request does."""
        self.settings = settings
        self._brokers: dict[int, BrokerView] = {}
        self._controller_id = -1
        self._topics: dict[str, TopicView] = {}
        self._connections: dict[int, Connection] = {}
        self._any: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        for connection in (*self._connections.values(), self._any):
            if connection is not None:
                connection.close()
        self._connections.clear()
        self._any = None

    # Metadata

    def describe(self, topics: list[str] | None = None) -> ClusterView:
        """Fetch the brokers and these topics, or all; never creates any. Retries.

        Topics that do not exist are left out of the answer.
        """
        return self.retry("metadata", lambda: self._fetch_metadata(topics))

    def topic(self, name: str, *, create: bool = False) -> TopicView:
        """Return a topic, from memory if it is known. Retries.

        With `create` the broker may create it if its settings allow that. Raises TopicNotFound.
        """
        known = self._topics.get(name)
        if known is not None:
            return known
        return self.retry(f"metadata of topic {name}", lambda: self._find_topic(name, create))

    def partition(self, topic: str, partition: int) -> PartitionView:
        """Return a partition. Raises TopicNotFound."""
        partitions = self.topic(topic).partitions
        if not 0 <= partition < len(partitions):
            raise TopicNotFound(topic, partition)
        return partitions[partition]

    def forget(self, topic: str) -> None:
        """Drop the metadata of a topic: the next use fetches it from a broker."""
        self._topics.pop(topic, None)

    def _find_topic(self, name: str, create: bool) -> TopicView:
        self._fetch_metadata([name], create=create)
        topic = self._topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

    def _fetch_metadata(self, topics: list[str] | None, *, create: bool = False) -> ClusterView:
        wanted = None if topics is None else [{"name": name} for name in topics]
        answer = self.any_connection().call(
            ApiKey.METADATA, {"topics": wanted, "allow_auto_topic_creation": create}
        )
        self._brokers = {
            broker.node_id: BrokerView(
                broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in answer.brokers
        }
        self._controller_id = answer.controller_id
        views: dict[str, TopicView] = {}
        for topic in answer.topics:
            view = topic_view(topic)
            self.forget(topic.name)
            if view is not None:
                views[topic.name] = self._topics[topic.name] = view
        return ClusterView(
            cluster_id=answer.cluster_id or "",
            controller_id=answer.controller_id,
            brokers=tuple(self._brokers[broker_id] for broker_id in sorted(self._brokers)),
            topics=views,
        )

    # Connections

    def any_connection(self) -> Connection:
        """Return a connection to any broker. Raises NoBrokerReachable."""
        if self._any is not None and not self._any.is_closed:
            return self._any
        addresses = parse_bootstrap(self.settings.bootstrap)
        random.shuffle(addresses)
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        last: ClientError | None = None
        for host, port in dict.fromkeys(addresses + known):
            try:
                self._any = Connection(host, port, self.settings)
            except (AuthenticationFailed, WrongProtocol):
                raise
            except ClientError as error:
                last = error
            else:
                return self._any
        reason = "" if last is None else str(last)
        raise NoBrokerReachable(self.settings.bootstrap, reason) from last

    def connection(self, broker_id: int) -> Connection:
        """Return the shared connection to a broker, for one request at a time.

        Raises ConnectionFailed and the like; `retry` handles those.
        """
        connection = self._connections.get(broker_id)
        if connection is None or connection.is_closed:
            connection = self._connections[broker_id] = self.open_connection(broker_id)
        return connection

    def open_connection(self, broker_id: int) -> Connection:
        """Open a connection for the caller alone, for instance to pipeline requests."""
        if broker_id not in self._brokers:
            self._fetch_metadata([])
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise ConnectionFailed(f"broker {broker_id}", "it is not in the metadata")
        try:
            return Connection(broker.host, broker.port, self.settings)
        except ClientError:
            del self._brokers[broker_id]  # it may come back at another address
            raise

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker id of the leader. Raises BrokerError (retriable) if there is none."""
        leader = self.partition(topic, partition).leader
        if leader < 0:
            self.forget(topic)
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        return leader

    def controller_connection(self) -> Connection:
        """Return a connection to the broker that accepts changes of topics and settings."""
        if self._controller_id < 0:
            self._fetch_metadata([])
        if self._controller_id < 0:
            return self.any_connection()
        return self.connection(self._controller_id)

    def coordinator_connection(self, key: str, *, key_type: int = GROUP_KEY) -> Connection:
        """Return a connection to the coordinator of a group, or of a transactional id.

        It is looked up each time.
        """
        answer = self.any_connection().call(
            ApiKey.FIND_COORDINATOR, {"key": key, "key_type": key_type}
        )
        check_code(answer.error_code, f"coordinator of {key}")
        if answer.node_id not in self._brokers:
            self._brokers[answer.node_id] = BrokerView(
                broker_id=answer.node_id, host=answer.host, port=answer.port, rack=None
            )
        return self.connection(answer.node_id)

    # Retrying

    def retry(self, what: str, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns, retrying after errors that may pass (`may_pass`).

        Raises all other errors; RequestTimedOut or NoBrokerReachable when `deadline_ms` is over.
        """
        retries = Retries(self.settings, what)
        while True:
            try:
                return attempt()
            except ClientError as error:
                retries.pause_or_raise(error)
                self._after_failure(error)

    def _after_failure(self, error: ClientError) -> None:
        """Drop metadata that may be outdated."""
        self._topics.clear()
        self._controller_id = -1
        if isinstance(error, BrokerError) and self._any is not None:
            self._any.close()  # another broker may have newer metadata


class Retries:
    """Deadline and pauses of one operation; used by every loop that retries."""

    def __init__(self, settings: ClientSettings, what: str) -> None:
        self._settings = settings
        self.what = what
        self.restart()

    def restart(self) -> None:
        """Start the deadline and the pauses over, after progress."""
        self._deadline = time.monotonic() + self._settings.deadline_ms / 1000
        self._pause_ms = self._settings.backoff_ms

    def is_over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() > self._deadline

    def pause_or_raise(self, error: ClientError) -> None:
        """Call `pause` for an error that may pass, and raise any other.

        Pauses double, with a random part so that many clients do not retry at once.
        """
        if not may_pass(error):
            raise error
        self.pause(error)

    def pause(self, error: ClientError) -> None:
        """Wait after `error`; raise RequestTimedOut if the deadline would pass."""
        pause = self._pause_ms * random.uniform(0.5, 1.0) / 1000  # noqa: S311  no secret
        if time.monotonic() + pause > self._deadline:
            if isinstance(error, NoBrokerReachable):
                raise error
            raise RequestTimedOut(self.what, self._settings.deadline_ms, str(error)) from error
        time.sleep(pause)
        self._pause_ms = min(self._settings.backoff_ms_max, self._pause_ms * 2)


def may_pass(error: ClientError) -> bool:
    """Whether a retry may succeed."""
    if isinstance(error, BrokerError):
        return error.is_retriable
    return isinstance(error, ConnectionFailed | RequestTimedOut | NoBrokerReachable)


def check_code(code: int, what: str, message: str | None = None) -> None:
    """Raise BrokerError unless `code` is 0."""
    error = error_code(int(code))
    if error is not ErrorCode.NONE:
        raise BrokerError(error, what, message)


def topic_view(answer: Any) -> TopicView | None:
    """Return a topic's view; None if it does not exist. Raises BrokerError for other codes."""
    code = error_code(int(answer.error_code))
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    check_code(code, f"topic {answer.name}")
    partitions = sorted(answer.partitions, key=lambda partition: int(partition.partition_index))
    return TopicView(
        name=answer.name,
        topic_id=getattr(answer, "topic_id", None),
        is_internal=answer.is_internal,
        partitions=tuple(
            PartitionView(
                partition=partition.partition_index,
                leader=partition.leader_id,
                leader_epoch=getattr(partition, "leader_epoch", -1),
                replicas=tuple(partition.replica_nodes),
                in_sync_replicas=tuple(partition.isr_nodes),
            )
            for partition in partitions
        ),
    )
