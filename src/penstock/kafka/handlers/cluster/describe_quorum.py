"""DescribeQuorum (key 55), versions 0 to 2: voters and observers of the metadata log.

    partition    __cluster_metadata-0, and no other: the metadata log is not a topic here
    offsets      number of entries of that log; of members -1 if who answers does not lead
    voters       controllers; a vacant seat is left out
    observers    brokers that are not controllers

Any broker answers, with data of the active controller. Nodes (v2) have the addresses of
controllers, which speak Penstock's protocol and not Kafka's.

Source: Kafka `KafkaRaftClient.handleDescribeQuorumRequest`, `LeaderState.describeQuorum`; KIP-595,
KIP-836 (times, v1), KIP-853 (directory ids and nodes, v2).
"""

import base64
import binascii
import uuid
from collections.abc import Mapping
from itertools import islice
from typing import Any

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.quorum import UNKNOWN, Quorum, QuorumMember
from penstock.controller.errors import (
    InvalidMetadataRequest,
    MetadataError,
    NotActiveController,
)
from penstock.controller.replicated_log import NO_LEADER
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DESCRIBE_QUORUM
VERSIONS = range(3)
METADATA_TOPIC = "__cluster_metadata"
LISTENER = "CONTROLLER"
NAMED_MAX = 100
"""Other topics and partitions that are answered one by one, as in Kafka."""

Fields = dict[str, object]


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Ask the active controller, and answer for the one partition."""
    refused = refusal(context, Operation.DESCRIBE, Resource.CLUSTER)
    if refused is not None:
        return _error(refused)
    if not _is_metadata(request.body.topics):
        return _unknown(request.body.topics)
    operations = context.broker.operations
    if operations is None:
        return _error(NotActiveController(NO_LEADER))
    try:
        async with context.broker.long_places.away():
            quorum = await operations.quorum()
    except MetadataError as error:
        return _error(error)
    return _fields(quorum, context.broker.clock.wall_ms())


def _error(error: PlatformError) -> Fields:
    return {**error_fields(error), "topics": (), "nodes": ()}


def _is_metadata(topics: Any) -> bool:
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC:
        return False
    partitions = topics[0].partitions
    return len(partitions) == 1 and partitions[0].partition_index == 0


def _unknown(topics: Any) -> Fields:
    named = sum(1 + len(topic.partitions) for topic in islice(topics, NAMED_MAX + 1))
    if named > NAMED_MAX:
        return _error(InvalidMetadataRequest("The metadata log has one partition: ask for that."))
    partition = {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "error_message": None}
    empty = {"leader_id": -1, "leader_epoch": -1, "high_watermark": -1}
    nobody: Fields = {"current_voters": (), "observers": ()}
    return {
        **error_fields(None),
        "topics": [
            {
                "topic_name": topic.topic_name,
                "partitions": [
                    {"partition_index": one.partition_index, **partition, **empty, **nobody}
                    for one in topic.partitions
                ],
            }
            for topic in topics
        ],
        "nodes": (),
    }


def _fields(quorum: Quorum, now_ms: int) -> Fields:
    voters = [member for member in quorum.members if member.is_voter]
    partition = {
        "partition_index": 0,
        **error_fields(None),
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.term,
        "high_watermark": quorum.agreed_position,
        "current_voters": [_replica(voter, quorum, now_ms) for voter in voters],
        "observers": [
            _replica(member, quorum, now_ms) for member in quorum.members if not member.is_voter
        ],
    }
    return {
        **error_fields(None),
        "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
        "nodes": [
            {
                "node_id": voter.peer_id,
                "listeners": [{"name": LISTENER, "host": voter.host, "port": voter.port}],
            }
            for voter in voters
            if voter.port
        ],
    }


def _replica(member: QuorumMember, quorum: Quorum, now_ms: int) -> Fields:
    """Return one replica; the leader is always caught up and fetches from no one, as in Kafka.

    For any other, the last caught-up time is known only while it has all committed entries.
    """
    heard_ms = -1 if member.silent_ms == UNKNOWN else now_ms - member.silent_ms
    has_all = member.end_position >= quorum.agreed_position
    caught_up_ms = now_ms if member.is_leader else heard_ms if has_all else -1
    return {
        "replica_id": member.peer_id,
        "replica_directory_id": _directory_id(member.directory_id),
        "log_end_offset": member.end_position,
        "last_fetch_timestamp": -1 if member.is_leader else heard_ms,
        "last_caught_up_timestamp": caught_up_ms,
    }


def _directory_id(text: str) -> uuid.UUID | None:
    """Return a directory id as Kafka encodes it, base64 of 16 bytes; None if it is invalid."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError):
        return None
    return uuid.UUID(bytes=raw) if len(raw) == 16 else None
