"""The only module of this package that talks to brokers.

It offers what Spark needs (topics, partitions, offsets, the records of a range) and keeps the
client's types out of the other modules. Errors of the client are passed on; each is one sentence.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, Self

from penstock.access.rules import AclOperation
from penstock.client import admin
from penstock.client.access.permitted import permitted_operations
from penstock.client.cluster import Cluster
from penstock.client.errors import OffsetOutOfRange
from penstock.client.fetch import FetchOptions, PartitionFetcher
from penstock.client.security import ClientSecurity
from penstock.client.settings import ClientSettings
from penstock.client.tier import TierPart, tier_part
from penstock.record.committed import Aborted
from penstock.spark.errors import NotLetIn
from penstock.spark.ranges import OffsetRange, Offsets, PartitionName
from penstock.spark.security import SecurityOptions, who

NO_RECORD = -1
"""Offset for a timestamp later than that of every record."""
FETCH = FetchOptions(partition_bytes_max=8 << 20)
FETCH_COMMITTED = replace(FETCH, is_committed_only=True)


class Run(NamedTuple):
    """Fetched bytes of whole batches. Only records from `offset` on (inclusive) are wanted, and of
    transactions that are in `aborted` none.
    """

    offset: int
    data: memoryview
    aborted: tuple[Aborted, ...] = ()


class BrokerAccess:
    """A connection to the brokers, used by one thread. Close it, or use it in a `with`.

    With `is_committed_only` every log seems to end at its last stable offset, which is where the
    oldest open transaction begins, and what was aborted is told with what is read.
    """

    def __init__(
        self,
        bootstrap: str,
        timeout_seconds: float,
        *,
        is_committed_only: bool = False,
        security: ClientSecurity = ClientSecurity(),  # noqa: B008  it can not be changed
    ) -> None:
        """Connect only when the first request is made."""
        self._is_committed_only = is_committed_only
        self.timeout_seconds = timeout_seconds
        deadline_ms = int(timeout_seconds * 1000)
        self._cluster = Cluster(
            ClientSettings(
                bootstrap=bootstrap,
                client_id="penstock-spark",
                deadline_ms=deadline_ms,
                request_timeout_ms=min(30_000, max(1_000, deadline_ms)),
                security=security,
            )
        )
        self._admin = admin.Admin(self._cluster)

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
        self._cluster.close()

    @property
    def cluster(self) -> Cluster:
        """The client, for the sink, which produces through it."""
        return self._cluster

    def check_permitted(self, topics: Iterable[str], operation: AclOperation) -> None:
        """Raise NotLetIn if the client may not do this with one of the topics.

        A topic that is not there, and a broker that does not tell, are passed over.
        """
        principal = who(self._cluster.settings.security)
        for topic in topics:
            permitted = permitted_operations(self._cluster, topic)
            if permitted is not None and operation not in permitted:
                verb = operation.name.lower()
                raise NotLetIn(
                    f"{principal} is not permitted to {verb} topic {topic}:"
                    f" penstock acl add --allow PRINCIPAL --operation {verb} topic:{topic}"
                )

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic; empty if the brokers have no ids. Raises TopicNotFound."""
        found = self._admin.describe_topic(topic).topic_id
        return str(found) if found is not None and found.int else ""

    def topics(self) -> list[str]:
        """Return the names of all topics except internal ones, sorted."""
        return [topic.name for topic in self._admin.list_topics()]

    def partitions(self, topic: str) -> list[int]:
        """Return the present partitions of a topic. Raises TopicNotFound."""
        return [view.partition for view in self._admin.describe_topic(topic).partitions]

    def earliest(self, names: Iterable[PartitionName]) -> Offsets:
        """Return the log start offset of each partition (inclusive)."""
        return self.at_timestamp(dict.fromkeys(names, admin.EARLIEST))

    def latest(self, names: Iterable[PartitionName]) -> Offsets:
        """Return the ends (exclusive): high watermarks, or last stable offsets."""
        return self.at_timestamp(dict.fromkeys(names, admin.LATEST))

    def high_watermarks(self, names: Iterable[PartitionName]) -> Offsets:
        """Return the ends (exclusive) of what is replicated, with what is not decided yet."""
        return self._offsets(dict.fromkeys(names, admin.LATEST), is_committed_only=False)

    def at_timestamp(self, wanted: Mapping[PartitionName, int]) -> Offsets:
        """Return the first offset with that timestamp (ms) or a later one, or NO_RECORD."""
        return self._offsets(wanted, is_committed_only=self._is_committed_only)

    def _offsets(self, wanted: Mapping[PartitionName, int], *, is_committed_only: bool) -> Offsets:
        asked: dict[tuple[str, int], list[int]] = {}
        for name, time_ms in wanted.items():
            asked.setdefault((name.topic, time_ms), []).append(name.partition)
        found: Offsets = {}
        for (topic, time_ms), partitions in asked.items():
            answers = self._admin.list_offsets(
                topic, time_ms, partitions, is_committed_only=is_committed_only
            )
            found |= {PartitionName(topic, p): answer.offset for p, answer in answers.items()}
        return found

    def tier_part(self, name: PartitionName, offset: int) -> TierPart:
        """Return the first of what the tier has of a partition from `offset` on (inclusive)."""
        return tier_part(self._cluster, name.topic, name.partition, offset)

    def read(self, wanted: OffsetRange) -> Iterator[Run]:
        """Yield the bytes of the records of a range, in order, and fetch the next ones meanwhile.

        A run may extend beyond the range. Raises OffsetOutOfRange if the log has no such offset,
        RequestTimedOut if there is no progress for the whole time-out.
        """
        fetcher = PartitionFetcher(
            self._cluster,
            wanted.topic,
            wanted.partition,
            start=wanted.start,
            end=wanted.end,
            options=FETCH_COMMITTED if self._is_committed_only else FETCH,
        )
        for run in fetcher:
            yield Run(run.offset, run.data, run.aborted)


_SHARED: dict[tuple[str, float, bool, ClientSecurity], BrokerAccess] = {}
_SHARED_MAX = 4


def shared_access(
    bootstrap: str,
    timeout_seconds: float,
    security: SecurityOptions,
    *,
    is_committed_only: bool = False,
) -> BrokerAccess:
    """Return the shared access of this worker process, which runs one task after another.

    Brokers limit new connections per second and address, and small tasks with a connection each
    would reach that limit. Do not close it: the client opens a stale connection again when it
    retries. A few are kept, for jobs on several clusters. Files are read again for each task: with
    another password there is another access. Raises OptionError.
    """
    login = security.load()
    key = (bootstrap, timeout_seconds, is_committed_only, login)
    if key not in _SHARED:
        while len(_SHARED) >= _SHARED_MAX:
            _SHARED.pop(next(iter(_SHARED))).close()
        _SHARED[key] = BrokerAccess(
            bootstrap, timeout_seconds, is_committed_only=is_committed_only, security=login
        )
    return _SHARED[key]


__all__ = ["NO_RECORD", "BrokerAccess", "OffsetOutOfRange", "Run", "shared_access"]
