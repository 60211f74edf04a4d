"""Topics for tests: made, filled and looked at through the platform's own client."""

import itertools
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.fetch import FetchOptions, PartitionFetcher
from penstock.client.produce import Producer
from penstock.client.security import ClientSecurity
from penstock.client.settings import ClientSettings
from penstock.record.build import Record
from penstock.record.read import DecodedRecord, iter_batches, iter_records

NOON_MS = 1_767_268_800_000
"""2026-01-01T12:00:00Z."""
_numbers = itertools.count()


class Topics:
    """Every topic has a name of its own, so that tests share one node."""

    def __init__(self, bootstrap: str, security: ClientSecurity = ClientSecurity()) -> None:  # noqa: B008
        self.bootstrap = bootstrap
        self.cluster = Cluster(
            ClientSettings(bootstrap=bootstrap, deadline_ms=120_000, security=security)
        )
        self.admin = Admin(self.cluster)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cluster.close()

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def make(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        self.admin.create_topic(name, partitions=partitions, configs=configs)
        return name

    def fill(self, topic: str, values: Iterable[bytes | None], *, partition: int = 0) -> None:
        """One record a value, a second apart from noon on, with key k<n> and a header."""
        start = self.end(topic, partition)
        self.send(
            topic,
            (
                Record(b"k%d" % n, value, (("n", b"%d" % n),), NOON_MS + n * 1000)
                for n, value in enumerate(values, start)
            ),
            partition=partition,
        )

    def send(self, topic: str, records: Iterable[Record], *, partition: int = 0) -> None:
        with Producer(self.cluster) as producer:
            for record in records:
                producer.send(topic, record, partition=partition)

    def end(self, topic: str, partition: int = 0) -> int:
        return self.admin.list_offsets(topic, -1, [partition])[partition].offset

    def until_decided(self, topic: str, partition: int = 0) -> None:
        """Wait until no transaction is open: a reader of committed records waits as well."""
        end = self.end(topic, partition)
        options = FetchOptions(is_committed_only=True)
        fetched = PartitionFetcher(
            self.cluster, topic, partition, start=0, end=end, options=options
        )
        assert list(fetched)[-1].next_offset >= end

    def read(self, topic: str, partition: int = 0) -> list[DecodedRecord]:
        """All records of a partition, of aborted transactions too."""
        end = self.end(topic, partition)
        fetched = PartitionFetcher(self.cluster, topic, partition, start=0, end=end)
        return [
            record
            for run in fetched
            for header, batch in iter_batches(run.data)
            if not header.is_control
            for record in iter_records(batch)
            if run.offset <= record.offset < end
        ]
