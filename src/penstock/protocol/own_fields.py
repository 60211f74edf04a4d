"""Fields of Penstock's own in Kafka's messages: tagged ones, for those alone who ask.

    DescribeShareGroupOffsets 1, request:
        tag 10,000   with_deliveries  bool     the answer is to have the two below
    answer, partition:
        tag 10,000   in_flight        int32    records that members hold now
        tag 10,001   delivered        int64[]  entry i: records handed out i + 1 times; the tenth,
                                               or more

No version of Kafka's is changed. A broker of Kafka skips the tag of the request and sends none:
then the fields have their defaults. Clients that refuse unknown tags never get any.

Source: KIP-482, by which a reader skips tags that it does not know; docs/adr/0106.
"""

from dataclasses import dataclass, field
from typing import Any

from penstock.protocol.api_keys import ApiKey

WITH_DELIVERIES_TAG = 10_000
IN_FLIGHT_TAG, DELIVERED_TAG = 10_000, 10_001
"""Far above Kafka's, which count from 0."""
NOT_TOLD = -1


def own_response(api_key: int, api_version: int) -> type[Any] | None:
    """Return the class of an answer with fields of our own; None if it has none."""
    if (api_key, api_version) == (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1):
        return _share_offsets()
    return None


def own_request(api_key: int, api_version: int) -> type[Any] | None:
    """Return the class of a request with fields of our own; None if it has none."""
    if (api_key, api_version) == (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1):
        return _share_offsets_request()
    return None


def _share_offsets_request() -> type[Any]:
    """Return kio's class with one more field. It is loaded when that request is first used."""
    from kio.schema.describe_share_group_offsets.v1 import request as kio  # noqa: PLC0415

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Request(kio.DescribeShareGroupOffsetsRequest):
        with_deliveries: bool = field(
            metadata={"kafka_type": "bool", "tag": WITH_DELIVERIES_TAG}, default=False
        )

    return Request


def _share_offsets() -> type[Any]:
    """Return kio's class with two more fields. It is loaded when that answer is first used."""
    from kio.schema.describe_share_group_offsets.v1 import response as kio  # noqa: PLC0415

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Partition(kio.DescribeShareGroupOffsetsResponsePartition):
        in_flight: int = field(
            metadata={"kafka_type": "int32", "tag": IN_FLIGHT_TAG}, default=NOT_TOLD
        )
        delivered: tuple[int, ...] = field(
            metadata={"kafka_type": "int64", "tag": DELIVERED_TAG}, default=()
        )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Topic(kio.DescribeShareGroupOffsetsResponseTopic):
        partitions: tuple[Partition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Group(kio.DescribeShareGroupOffsetsResponseGroup):
        topics: tuple[Topic, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Response(kio.DescribeShareGroupOffsetsResponse):
        groups: tuple[Group, ...]

    return Response
