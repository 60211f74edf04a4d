"""DescribeProducers (key 61), version 0: the idempotent producers that a partition remembers.

    a producer   its id and epoch, the sequence of its last record, the time of its last append

Only the master answers, with what it has appended, confirmed or not: this is what decides about the
producer's next batch. The time is that of the append and not the timestamp of the batch, as a
producer is forgotten by it (penstock.storage.index.producers). A producer without a transaction has
-1 as the epoch of its coordinator and as the offset at which its open transaction begins.

Who asks so, by a tagged field, is told what the tier has of the partitions instead, and where the
tier is (protocol/own_fields.py): no other request that a master alone answers asks for permission
to read the topic, and for nothing else (docs/adr/0154).

Source: Kafka `ReplicaManager.activeProducerState`, KIP-664.
"""

from collections.abc import Iterator, Mapping

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.broker.partitions import HostedPartition
from penstock.broker.producer_list import ProducerList, list_producers
from penstock.broker.tier.telling import RUNS_TOLD_MAX, is_to_be_copied, told_tier
from penstock.broker.turns import Pace
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import led_partition
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.own_fields import TierState
from penstock.tier.metadata.run_bytes import encode_run

KEY = ApiKey.DESCRIBE_PRODUCERS
VERSIONS = range(1)
IS_LONG = True

Fields = dict[str, object]


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Find the partitions, then go through the producers of their logs in slices."""
    pace = Pace(request.turns)
    topics: list[Fields] = []
    found: dict[HostedPartition, Fields] = {}
    for topic in request.body.topics:
        await pace.step()  # without partitions too
        answers: list[Fields] = []
        topics.append({"name": topic.name, "partitions": answers})
        for partition in topic.partition_indexes:
            await pace.step()
            answer: Fields = {"partition_index": partition, "active_producers": ()}
            answers.append(answer)
            if not request.is_first((topic.name, partition)):  # each may have a long list
                answer["error_code"] = ErrorCode.INVALID_REQUEST
                continue
            try:
                hosted = led_partition(context, topic.name, partition, Operation.READ)
            except PlatformError as error:
                answer |= error_fields(error)
            else:
                found[hosted] = answer
    tier_from = request.body.tier_from
    if tier_from >= 0:
        return {"topics": topics, **await _tier(context, found, tier_from, pace)}
    for hosted, producers in (await list_producers(found, pace)).items():
        found[hosted]["active_producers"] = ActiveProducers(producers)
    return {"topics": topics}


async def _tier(
    context: RequestContext, found: Mapping[HostedPartition, Fields], offset: int, pace: Pace
) -> Fields:
    """Add to each partition what the tier has of it; return where it is, if any has something."""
    broker, left, is_told = context.broker, RUNS_TOLD_MAX, False
    for hosted, answer in found.items():
        await pace.step()
        told = told_tier(broker, hosted, offset, left)
        if told is None:
            is_coming = is_to_be_copied(broker, hosted)
            answer["tier_state"] = TierState.UNKNOWN if is_coming else TierState.NONE
            continue
        is_told, left = True, left - len(told.runs)
        answer |= {
            "tier_state": TierState.KNOWN,
            "tier_start": told.start_offset,
            "tier_end": told.end_offset,
            "tier_runs": [encode_run(run) for run in told.runs],
        }
        await pace.step(len(told.runs))
    if broker.tier is None or not is_told:
        return {}
    url, endpoint, region, cluster_id, lease_ms = broker.tier.place
    store = {"tier_store": (url, endpoint, region), "tier_cluster": cluster_id}
    return {**store, "tier_lease_ms": lease_ms}


class ActiveProducers:
    """The elements of an answer, each created when it is encoded."""

    __slots__ = ("_producers",)

    def __init__(self, producers: ProducerList) -> None:
        self._producers = producers

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Fields]:
        for producer in self._producers:
            yield {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_append_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.first_open_offset,
            }
