"""WriteTxnMarkers (key 27), versions 1 and 2: an operator ends what hangs in partitions.

Each marker ends the open transaction of one producer in partitions that this broker leads, whatever
a coordinator knows of it; answered once all are confirmed. A request may name at most 1,000
partitions, each once. Needs permission to alter the cluster. Brokers do not use it among each
other: their calls have links of their own.

Source: Kafka `KafkaApis.handleWriteTxnMarkersRequest`, KIP-664 (abort of hanging transactions),
KIP-1228 (version 2: the version of the transaction).
"""

from collections.abc import Mapping
from typing import Any

from penstock.base.errors import PlatformError
from penstock.broker.append.append import partition_to_mark
from penstock.broker.append.markers import append_marker
from penstock.broker.turns import Pace
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import find_hosted_topic, marker_refusal
from penstock.kafka.request import Request
from penstock.kafka.transactions.answering import MARKER, MarkerWrite, park_marker
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.storage.index.transactions import TransactionEnd

KEY = ApiKey.WRITE_TXN_MARKERS
VERSIONS = range(1, 3)
IS_LONG = True
FIRST_PROTOCOL = 1
PARTITIONS_MAX = 1_000
"""What a request may name; each costs a control batch, and tools name one."""

Begun = ErrorCode | MarkerWrite


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Append all markers, then wait until they are confirmed."""
    refused = marker_refusal(context)
    code = ErrorCode.NONE if refused is None else error_code_of(refused)
    pace = Pace(request.turns)
    begun: list[tuple[int, list[tuple[str, list[tuple[int, Begun]]]]]] = []
    left = PARTITIONS_MAX
    for marker in request.body.markers:
        await pace.step()
        topics: list[tuple[str, list[tuple[int, Begun]]]] = []
        begun.append((marker.producer_id, topics))
        for topic in marker.topics:
            await pace.step()
            row: list[tuple[int, Begun]] = []
            topics.append((topic.name, row))
            for partition in topic.partition_indexes:
                await pace.step(MARKER)
                left -= 1
                one = code or _begin(context, request, marker, (topic.name, partition), left)
                row.append((partition, one))
    return {"markers": [await _told(producer_id, topics, pace) for producer_id, topics in begun]}


def _begin(
    context: RequestContext, request: Request, marker: Any, place: tuple[str, int], left: int
) -> Begun:
    """Append one marker; `left` is how many more partitions the request may name."""
    if left < 0 or not request.is_first((marker.producer_id, place)):
        return ErrorCode.INVALID_REQUEST
    ended = TransactionEnd(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        is_commit=marker.transaction_result,
    )
    version = getattr(marker, "transaction_version", FIRST_PROTOCOL)
    try:
        hosted = partition_to_mark(find_hosted_topic(context.broker, place[0]), place[1])
        position = append_marker(hosted, ended, version)
    except PlatformError as error:
        return error_code_of(error)
    return park_marker(context.broker, hosted, position)


async def _told(
    producer_id: int, topics: list[tuple[str, list[tuple[int, Begun]]]], pace: Pace
) -> dict[str, object]:
    await pace.step()
    found: list[dict[str, object]] = []
    for name, row in topics:
        await pace.step()
        partitions: list[dict[str, object]] = []
        for partition, one in row:
            await pace.step()
            code = await one.outcome() if isinstance(one, MarkerWrite) else one
            partitions.append({"partition_index": partition, "error_code": code})
        found.append({"name": name, "partitions": partitions})
    return {"producer_id": producer_id, "topics": found}
