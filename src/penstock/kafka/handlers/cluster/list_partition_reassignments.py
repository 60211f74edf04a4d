"""ListPartitionReassignments (key 46), version 0: which partitions get other replicas.

All partitions of a replica set whose members change are on the way, whichever of them a request
named, and those of internal topics too. `adding_replicas` are those that the set did not have when
the reassignment began, until it ends; `removing_replicas` those that are to go and are not gone
yet. A reassignment that was cancelled is told until the set is as it was. Needs permission to
describe the cluster.

Source: Kafka `ReplicationControlManager.listPartitionReassignments`, KIP-455; ADR 0129.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.base.ids import ReplicaSetId
from penstock.broker.access import Operation, Resource
from penstock.broker.turns import SLICE, Pace
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import all_topics, find_topic, refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.LIST_PARTITION_REASSIGNMENTS
VERSIONS = range(1)
SLICED_BY = (("topics", "partition_indexes"),)


def is_much(context: RequestContext, body: Any) -> bool:
    """Whether more partitions have to be looked at than in one loop iteration."""
    image = context.broker.metadata
    if body.topics is not None or not image.configuration.reassignments:
        return False
    return sum(image.partition_counts.values()) > SLICE


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with the partitions that are on the way, all or those that are asked for."""
    refused = refusal(context, Operation.DESCRIBE, Resource.CLUSTER)
    if refused is not None:
        return {**error_fields(refused), "topics": ()}
    broker, pace = context.broker, Pace(request.turns)
    told: dict[str, list[Mapping[str, object]]] = {}
    if request.body.topics is None and broker.metadata.configuration.reassignments:
        for topic in all_topics(broker):
            await _tell(broker.metadata, topic, range(len(topic.partitions)), told, pace)
    for asked in request.body.topics or ():
        found = find_topic(broker, asked.name)
        if found is not None:
            fresh = [one for one in asked.partition_indexes if request.is_first((asked.name, one))]
            await _tell(broker.metadata, found, fresh, told, pace)
    topics = [{"name": name, "partitions": partitions} for name, partitions in told.items()]
    return {**error_fields(None), "topics": topics}


handle_much = handle


async def _tell(
    image: ClusterImage,
    topic: TopicImage,
    partitions: Iterable[int],
    told: dict[str, list[Mapping[str, object]]],
    pace: Pace,
) -> None:
    set_ids = topic.partitions.set_ids
    for partition in partitions:
        await pace.step()
        if not 0 <= partition < len(set_ids):
            continue
        replicas = _replicas(image, set_ids[partition])
        if replicas is not None:
            told.setdefault(topic.name, []).append({"partition_index": partition, **replicas})


def _replicas(image: ClusterImage, set_id: ReplicaSetId) -> Mapping[str, object] | None:
    """Return what is told of each partition of a set; None for one whose members stay."""
    wanted = image.configuration.reassignments.get(set_id)
    replica_set = image.replica_sets.get(set_id)
    if wanted is None or replica_set is None:
        return None
    members, target = replica_set.replicas, wanted.target
    known = wanted.before or members
    return {
        "replicas": (*members, *(one for one in target if one not in members)),
        "adding_replicas": tuple(one for one in target if one not in known),
        "removing_replicas": tuple(one for one in members if one not in target),
    }
