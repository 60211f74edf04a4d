"""DescribeLogDirs (key 35), versions 1 to 4: the partitions in a broker's data directories.

    no list    all partitions that the broker hosts
    names      those of these that it hosts; the directories are always listed

Partitions of a replica set share one commit log. A partition's size is therefore attributed: the
bytes of its batches in the log, without frames, indexes and what other partitions keep from being
deleted. The sizes of all partitions add up to less than the directory holds.

The lag is what of the high watermark lies above the log's end: 0, as a member confirms nothing that
its log has not; -1 while a log is being truncated or copied. A directory with a failed log is
KAFKA_STORAGE_ERROR, without partitions.

Source: Kafka `ReplicaManager.describeLogDirs`, KIP-113, KIP-827 (total and usable bytes, v4).
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from penstock.broker.access import Operation, Resource
from penstock.broker.log_directories import LogDirectory
from penstock.broker.partitions import HostedPartition, hosted_partition
from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import all_hosted_topics, find_hosted_topic, refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS = range(1, 5)
IS_LONG = True
UNKNOWN_LAG, NO_LAG = -1, 0

Fields = dict[str, Any]


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Process the partitions in slices, and assign each to its directory."""
    refused = refusal(context, Operation.DESCRIBE, Resource.CLUSTER)
    if refused is not None:
        return {"error_code": error_code_of(refused), "results": ()}
    directories = context.broker.log_directories()
    results = [_result(context, directory) for directory in directories]
    of_set = {
        set_id: result
        for directory, result in zip(directories, results, strict=True)
        for set_id in directory.set_ids
        if result["error_code"] == ErrorCode.NONE
    }
    async for hosted in _wanted(context, request):
        result = of_set.get(hosted.member.replica_set_id)
        if result is not None:
            _add(result["topics"], hosted)
    return {"error_code": ErrorCode.NONE, "results": results}


def _result(context: RequestContext, directory: LogDirectory) -> Fields:
    members = context.broker.members
    has_failed = any(
        set_id in members and members[set_id].log.is_fenced for set_id in directory.set_ids
    )
    return {
        "error_code": ErrorCode.KAFKA_STORAGE_ERROR if has_failed else ErrorCode.NONE,
        "log_dir": directory.path,
        "topics": [],
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
    }


async def _wanted(context: RequestContext, request: Request) -> AsyncIterator[HostedPartition]:
    """Yield the partitions hosted here, topic by topic, each once."""
    pace = Pace(request.turns)
    named = request.body.topics
    if named is None:
        for topic in all_hosted_topics(context.broker):
            for partition in range(len(topic.partitions)):
                await pace.step()
                hosted = topic.find(partition)
                if hosted is not None:
                    yield hosted
        return
    for one in named:
        await pace.step()
        topic_here = find_hosted_topic(context.broker, one.topic)
        for partition in one.partitions:
            await pace.step()
            found = hosted_partition(topic_here, partition)
            if found is not None and request.is_first((one.topic, partition)):
                yield found


def _add(topics: list[Fields], hosted: HostedPartition) -> None:
    """Add a partition; those of a topic are adjacent, so only the last entry can be the topic's."""
    if not topics or topics[-1]["name"] != hosted.topic.name:
        topics.append({"name": hosted.topic.name, "partitions": []})
    partitions: list[Fields] = topics[-1]["partitions"]
    partitions.append(
        {
            "partition_index": hosted.partition,
            "partition_size": _size_bytes(hosted),
            "offset_lag": _lag(hosted),
            "is_future_key": False,
        }
    )


def _size_bytes(hosted: HostedPartition) -> int:
    """Return the bytes of the partition's batches, in whichever files they are."""
    return hosted.log.size_bytes + hosted.member.log.splitting.moved_bytes(hosted.log)


def _lag(hosted: HostedPartition) -> int:
    """Return the lag; -1 for a log that is being truncated or copied, whose end is not known."""
    if hosted.member.log.is_busy:
        return UNKNOWN_LAG
    return NO_LAG
