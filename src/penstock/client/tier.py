"""What the tier has of a partition, told by its leader to readers that read the store themselves.

Each question has one answer with the first runs from an offset on; a next one goes on at the end of
the last of them. Permission to read the topic is needed, as for a fetch.

Source: DescribeProducers 0 with fields of our own (protocol/own_fields.py); docs/adr/0154.
"""

from typing import Any, NamedTuple

from penstock.client.cluster import Cluster, check_code
from penstock.client.connection import Connection
from penstock.client.errors import MalformedAnswer, UnsupportedByBroker
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.own_fields import TierState
from penstock.tier.metadata.manifest import Run
from penstock.tier.metadata.run_bytes import are_in_sequence, decode_run

PLACE_FIELDS = 3
CLUSTER_ID_BYTES = 16


class StorePlace(NamedTuple):
    """Where a store is, without credentials; as the settings of a node have it."""

    url: str
    endpoint: str
    region: str


class TierPart(NamedTuple):
    """What a leader has told of a partition in the tier. Ends are exclusive."""

    state: TierState
    place: StorePlace | None = None
    lease_ms: int = 0
    """For how long, from the question on, objects stay where they are."""
    start_offset: int = 0
    end_offset: int = 0
    runs: tuple[Run, ...] = ()
    """The one with the offset that was asked for, or the first behind it; and what follows it."""


NOT_THERE = TierPart(TierState.NONE)


def tier_part(cluster: Cluster, topic: str, partition: int, offset: int) -> TierPart:
    """Return what the tier has from `offset` on. Retries. Raises ClientError.

    A broker that knows nothing of it, such as one of Kafka's, has nothing in a tier.
    """
    fields = {
        "topics": [{"name": topic, "partition_indexes": [partition]}],
        "tier_from": offset,
    }
    what = f"tier of {topic}-{partition}"

    def ask() -> TierPart:
        connection = cluster.connection(cluster.leader(topic, partition))
        answer = connection.call(ApiKey.DESCRIBE_PRODUCERS, fields)
        (told,) = answer.topics[0].partitions
        check_code(told.error_code, what, told.error_message)
        return _part(connection, answer, told)

    try:
        return cluster.retry(what, ask)
    except UnsupportedByBroker:
        return NOT_THERE


def _part(connection: Connection, answer: Any, told: Any) -> TierPart:
    state = int(told.tier_state)
    if state < 0:
        return NOT_THERE
    if state != TierState.KNOWN:
        return TierPart(TierState.UNKNOWN if state == TierState.UNKNOWN else TierState.NONE)
    cluster_id, store = bytes(answer.tier_cluster), tuple(answer.tier_store)
    if len(cluster_id) != CLUSTER_ID_BYTES or len(store) != PLACE_FIELDS:
        raise MalformedAnswer(connection.address, "it does not say where the tier is")
    try:
        runs = tuple(decode_run(cluster_id, bytes(run)) for run in told.tier_runs)
    except ValueError as error:
        raise MalformedAnswer(connection.address, str(error)) from error
    if not are_in_sequence(runs):
        raise MalformedAnswer(connection.address, "runs of the tier that do not follow each other")
    place = StorePlace(*store)
    bounds = int(told.tier_start), int(told.tier_end)
    return TierPart(TierState.KNOWN, place, int(answer.tier_lease_ms), *bounds, runs)
