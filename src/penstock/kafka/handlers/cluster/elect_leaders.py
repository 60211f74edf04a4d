"""ElectLeaders (key 43), versions 0 to 2: elect preferred leaders, or force an unclean election.

    type 0  preferred   the mastership moves to the set's first member, without loss
    type 1  unclean     a set without a live master gets one, even from outside the sync-state set

Masterships belong to replica sets: electing for one partition moves all partitions of its set, and
one request is made for a set however many of its partitions are named. Without a list all
partitions are meant, and those that need no election are left out of the answer. Needs permission
to alter the cluster.

Source: Kafka `ReplicationControlManager.electLeaders`, KIP-183, KIP-460.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import ReplicaSetId, RequestId
from penstock.broker.access import Operation, Resource
from penstock.broker.broker import Broker
from penstock.broker.errors import ElectionNotNeeded, PreferredMasterNotAvailable, UnknownPartition
from penstock.broker.live_broker import live_broker
from penstock.broker.turns import SLICE, Pace
from penstock.controller.errors import MetadataError, NoEligibleMaster, NotActiveController
from penstock.controller.metadata.image import ClusterImage, ReplicaSetImage
from penstock.controller.replicated_log import NO_LEADER
from penstock.controller.session import ElectRequest, TransferRequest
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import all_topics, find_topic, refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.ELECT_LEADERS
VERSIONS = range(3)
SLICED_BY = (("topic_partitions", "partitions"),)
PREFERRED = 0

Outcomes = dict[int, PlatformError | None]


def is_much(context: RequestContext, body: Any) -> bool:
    """Whether all partitions are meant, and are more than are examined in one loop iteration."""
    count = sum(context.broker.metadata.partition_counts.values())
    return body.topic_partitions is None and count > SLICE


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Elect for each set, and answer for each partition."""
    body, broker = request.body, context.broker
    is_unclean = getattr(body, "election_type", PREFERRED) != PREFERRED
    is_all = body.topic_partitions is None
    refused = refusal(context, Operation.ALTER, Resource.CLUSTER)
    if refused is not None:
        return _refuse_all(body.topic_partitions or (), refused)
    wanted = _all_partitions(broker) if is_all else _named_partitions(body.topic_partitions)
    pace = Pace(request.turns)
    outcomes: Outcomes = {}
    results: list[Mapping[str, object]] = []
    for name, partitions in wanted.items():
        answers: list[Mapping[str, object]] = []
        for partition in partitions:
            await pace.step()
            set_id = _set_of(broker, name, partition)
            if set_id is None and is_all:
                break  # the topic was deleted meanwhile
            if set_id is not None and set_id not in outcomes:
                outcomes[set_id] = await _elect(broker, set_id, is_unclean)
            error = UnknownPartition() if set_id is None else outcomes[set_id]
            if not (is_all and isinstance(error, ElectionNotNeeded)):
                answers.append({"partition_id": partition, **error_fields(error)})
        if answers:
            results.append({"topic": name, "partition_result": answers})
    return {"replica_election_results": results}


handle_much = handle


def _refuse_all(topics: Any, error: PlatformError) -> Mapping[str, object]:
    results = [
        {
            "topic": name,
            "partition_result": [{"partition_id": one, **error_fields(error)} for one in named],
        }
        for name, named in _named_partitions(topics).items()
    ]
    return {"error_code": error_code_of(error), "replica_election_results": results}


async def _elect(broker: Broker, set_id: ReplicaSetId, is_unclean: bool) -> PlatformError | None:
    replica_set = broker.metadata.replica_sets[set_id]
    error = _why_not(broker.metadata, replica_set, is_unclean)
    if error is not None:
        return error
    if broker.operations is None:
        return NotActiveController(NO_LEADER)
    make = partial(_unclean if is_unclean else _preferred, set_id)
    try:
        async with broker.long_places.away():
            await broker.operations.operate(make)
    except MetadataError as refused:
        return refused
    return None


def _unclean(set_id: ReplicaSetId, request_id: RequestId) -> ElectRequest | TransferRequest:
    return ElectRequest(request_id=request_id, replica_set_id=set_id, is_unclean=True)


def _preferred(set_id: ReplicaSetId, request_id: RequestId) -> ElectRequest | TransferRequest:
    return TransferRequest(request_id=request_id, replica_set_id=set_id)


def _why_not(
    image: ClusterImage, replica_set: ReplicaSetImage, is_unclean: bool
) -> PlatformError | None:
    has_master = live_broker(image, replica_set.master) is not None
    if is_unclean:
        if has_master:
            return ElectionNotNeeded()
        if any(live_broker(image, replica) is not None for replica in replica_set.replicas):
            return None
        return NoEligibleMaster(replica_set.replica_set_id, "no member is alive")
    preferred = replica_set.replicas[0]
    if has_master and replica_set.master == preferred:
        return ElectionNotNeeded()
    if live_broker(image, preferred) is None or preferred not in replica_set.sync_state_set:
        return PreferredMasterNotAvailable(preferred)
    return None


def _set_of(broker: Broker, name: str, partition: int) -> ReplicaSetId | None:
    topic = find_topic(broker, name)
    if topic is None or not 0 <= partition < len(topic.partitions):
        return None
    return topic.partitions.set_ids[partition]


def _all_partitions(broker: Broker) -> Mapping[str, Sequence[int]]:
    return {topic.name: range(len(topic.partitions)) for topic in all_topics(broker)}


def _named_partitions(topics: Any) -> Mapping[str, Sequence[int]]:
    """Return what the request names, each partition once."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in topics:
        wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return {name: list(partitions) for name, partitions in wanted.items()}
