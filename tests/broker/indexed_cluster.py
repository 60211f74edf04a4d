"""A cluster of brokers in the test's hand whose nodes have an index of messages each."""

import asyncio
from collections.abc import Iterable

from penstock.broker.finding.indexing import Indexing
from penstock.broker.finding.key_index import KeyIndex
from penstock.broker.finding.search import Times, find_places
from penstock.finding.piece import hash_of
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from penstock.remoting.finding.naming import NAMING
from tests.broker.cluster import Cluster, Node

ALWAYS = Times(0, 1 << 62)
BYTES_MAX = 1 << 30


class Indexed:
    """A cluster whose nodes have an index each."""

    def __init__(self, broker_count: int = 2, bytes_max: int = BYTES_MAX) -> None:
        self.cluster = Cluster(broker_count)
        self.cluster.create("events", partitions=2)
        self.bytes_max = bytes_max
        self.indexings = {
            node.broker_id: Indexing(node.broker, NAMING, bytes_max) for node in self.cluster.nodes
        }
        self.sent = 0

    def put(self, *keys: str, node: int = 0, partition: int = 0, size: int = 10) -> None:
        """Write a record for each key, in a batch; it is confirmed once it is replicated."""
        records = [
            Record(None, bytes(size), (("rmq.keys", key.encode()), ("rmq.bh", b"h 1")), 1_000 + n)
            for n, key in enumerate(keys, self.sent)
        ]
        self.sent += len(keys)
        data = [{"index": partition, "records": build_batch(records)}]
        topics = [{"name": "events", "partition_data": data}]
        fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": topics}
        self.cluster.nodes[node].send(ApiKey.PRODUCE, 11, fields)
        self.cluster.world.run()

    def settle(self) -> None:
        """Let the indexes come as far as they can."""
        for _ in range(2):
            for node in self.cluster.nodes:
                node.broker.expire_waiting()
            self.cluster.world.advance(500)

    def index(self, node: int = 0) -> KeyIndex:
        return self.indexings[node].of(self.cluster.nodes[node].member)

    def found(self, key: str, node: int = 0, times: Times = ALWAYS) -> list[tuple[int, int]]:
        """Return (partition, offset) of the places of a key, the newest first."""
        topic = self.cluster.nodes[node].broker.partitions.by_name[b"events"]
        name_hash = hash_of(topic.topic_id, key.encode())

        async def search() -> list[tuple[int, int]]:
            task = asyncio.ensure_future(find_places(self.index(node), name_hash, times, 100))
            while not task.done():
                self.cluster.world.run()
                await asyncio.sleep(0)
            return [(place.partition.partition, place.offset) for place in task.result()]

        return asyncio.run(search())

    def restart(self, node: int = 0) -> Node:
        """A node comes again with what its disk has; it has lost what was in memory."""
        one = self.cluster.nodes[node]
        one.member.resign()
        one.broker.remove_member(one.member)
        one.open_member()
        return one


def names(count: int) -> list[str]:
    return [f"key-{number}" for number in range(count)]


def fill(indexed: Indexed, keys: Iterable[str]) -> None:
    for key in keys:
        indexed.put(key, size=60)
    indexed.cluster.replicate()
    indexed.settle()


def all_found(indexed: Indexed, count: int, node: int = 0) -> bool:
    return all(indexed.found(key, node) == [(0, number)] for number, key in enumerate(names(count)))
