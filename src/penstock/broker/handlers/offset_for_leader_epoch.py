"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where a mastership's records end.

A consumer that changed leader asks for the epoch of its last record, and sees by the end offset
whether what it read was cut off. The answer is the largest epoch at or below the one asked for,
with its end; an epoch older than all known ones ends where the log starts, a newer one is unknown.

Source: KIP-101, KIP-279 (largest epoch below), KIP-320; Kafka `LeaderEpochFileCache.endOffsetFor`.
Epochs are those of the replica set: partitions of one set share them.
"""

from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Position
from penstock.broker.broker import Broker
from penstock.broker.error_map import error_code_of
from penstock.broker.errors import UnknownPartition
from penstock.broker.fetch_operation import check_leader_epoch
from penstock.broker.partitions import HostedPartition
from penstock.broker.request import Reply, Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS = range(2, 5)
UNKNOWN = (-1, -1)


def handle(broker: Broker, request: Request, reply: Reply) -> None:
    """Answer partition by partition."""
    reply(
        {
            "topics": [
                {
                    "topic": topic.topic,
                    "partitions": [
                        _answer(broker, topic.topic, wanted) for wanted in topic.partitions
                    ],
                }
                for topic in request.body.topics
            ]
        }
    )


def _answer(broker: Broker, topic_name: str, wanted: Any) -> dict[str, object]:
    answer: dict[str, object] = {"partition": wanted.partition}
    try:
        hosted = broker.partitions.find(topic_name, wanted.partition)
        if hosted is None:
            raise UnknownPartition
        check_leader_epoch(hosted.member, wanted.current_leader_epoch)
        answer["leader_epoch"], answer["end_offset"] = _end_of(hosted, wanted.leader_epoch)
    except PlatformError as error:
        answer["error_code"] = error_code_of(error)
    return answer


def _end_of(hosted: HostedPartition, leader_epoch: int) -> tuple[int, int]:
    """Return (epoch, end offset, exclusive)."""
    member, log = hosted.member, hosted.log
    if leader_epoch < 0 or leader_epoch > member.epochs.latest:
        return UNKNOWN
    if leader_epoch == member.leader_epoch:
        return leader_epoch, log.log_end_offset
    found = member.epochs.end_of(LeaderEpoch(leader_epoch), Position(member.log.end_position))
    if found is None:
        return leader_epoch, log.log_start_offset
    end = member.log.offset_at_position(log, found.start_position)
    return found.leader_epoch, max(end, log.log_start_offset)
