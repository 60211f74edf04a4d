"""Metadata answers by hand, against kio's schemas."""

import random
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plain import TEXTS, kio_bytes
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.metadata import (
    BrokerMetadata,
    ClusterMetadata,
    MetadataEncoding,
    PartitionState,
    TopicMetadata,
)
from penstock.protocol.schema import response_schema


def random_state(rng: random.Random) -> PartitionState:
    ids = [rng.randrange(-1, 1 << 31) for _ in range(3)]
    return PartitionState(
        rng.choice(ids),
        rng.randrange(1 << 31),
        ids,
        ids[: rng.randrange(4)],
        ids[:1],
        rng.choice((0, 5)),
    )


def random_topics(rng: random.Random) -> list[TopicMetadata]:
    states = [random_state(rng) for _ in range(3)]
    return [
        TopicMetadata(
            rng.choice((None, *TEXTS)),
            rng.choice((bytes(16), rng.randbytes(16))),
            [(index, rng.choice(states)) for index in range(rng.choice((0, 1, 5)))],
            rng.choice((0, 3)),
            rng.random() < 0.5,
        )
        for _ in range(rng.choice((0, 1, 3)))
    ]


def partition_fields(index: int, state: PartitionState) -> dict[str, Any]:
    return {
        "error_code": state.error_code,
        "partition_index": index,
        "leader_id": state.leader_id,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.in_sync,
        "offline_replicas": state.offline,
    }


@pytest.mark.parametrize("version", range(14))
@given(seed=st.integers(0, 1 << 32))
def test_an_answer_is_written_as_kio_does(version: int, seed: int) -> None:
    rng = random.Random(seed)
    brokers = [BrokerMetadata(1, "host", 9092), BrokerMetadata(2, "čaj", 1, "rack")][
        : rng.choice((0, 1, 2))
    ]
    cluster = ClusterMetadata(brokers, rng.choice((None, "id")), 1, 7, rng.choice((0, 129)))
    topics = random_topics(rng)
    fields = {
        "throttle_time": cluster.throttle_ms,
        "brokers": [
            {"node_id": b.broker_id, "host": b.host, "port": b.port, "rack": b.rack}
            for b in brokers
        ],
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.controller_id,
        "error_code": cluster.error_code,
        "topics": [
            {
                "error_code": topic.error_code,
                "name": topic.name if version >= 12 else topic.name or "",
                "topic_id": uuid.UUID(bytes=topic.topic_id) if any(topic.topic_id) else None,
                "is_internal": topic.is_internal,
                "partitions": [partition_fields(*partition) for partition in topic.partitions],
            }
            for topic in topics
        ],
    }
    encoding = MetadataEncoding(version, cluster)
    for topic in topics:
        encoding.add(topic)
    assert encoding.finish() == kio_bytes(response_schema(ApiKey.METADATA, version), fields)
