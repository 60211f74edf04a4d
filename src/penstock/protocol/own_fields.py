"""Fields of Penstock's own in Kafka's messages: tagged ones, for those alone who ask.

    DescribeShareGroupOffsets 1, request:
        tag 10,000   with_deliveries  bool     the answer is to have the two below
    answer, partition:
        tag 10,000   in_flight        int32    records that members hold now
        tag 10,001   delivered        int64[]  entry i: records handed out i + 1 times; the tenth,
                                               or more

    DescribeProducers 0, request:
        tag 10,000   tier_from        int64    the answer is to have what the tier has from this
                                               offset on, and no producers
    answer:
        tag 10,000   tier_store       string[] where it is: url, endpoint, region
        tag 10,001   tier_cluster     bytes    the cluster in the names of its objects
        tag 10,002   tier_lease_ms    int64    for how long what is told may be used
    answer, partition:
        tag 10,000   tier_state       int8     TierState
        tag 10,001   tier_start       int64    inclusive; nothing below it is to be read
        tag 10,002   tier_end         int64    exclusive
        tag 10,003   tier_runs        bytes[]  docs/formats/tier.md; the first of them, in order

No version of Kafka's is changed. A broker of Kafka skips the tag of the request and sends none:
then the fields have their defaults. Clients that refuse unknown tags never get any.

Source: KIP-482, by which a reader skips tags that it does not know; docs/adr/0106, docs/adr/0154.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from penstock.protocol.api_keys import ApiKey

WITH_DELIVERIES_TAG = 10_000
IN_FLIGHT_TAG, DELIVERED_TAG = 10_000, 10_001
"""Far above Kafka's, which count from 0."""
NOT_TOLD = -1


class TierState(IntEnum):
    """What a master knows of a partition in the tier."""

    NONE = 0
    """It is not copied, or the node has no store."""
    KNOWN = 1
    UNKNOWN = 2
    """Not yet, or not while the store does not answer."""


def own_response(api_key: int, api_version: int) -> type[Any] | None:
    """Return the class of an answer with fields of our own; None if it has none."""
    made = _RESPONSES.get((api_key, api_version))
    return None if made is None else made()


def own_request(api_key: int, api_version: int) -> type[Any] | None:
    """Return the class of a request with fields of our own; None if it has none."""
    made = _REQUESTS.get((api_key, api_version))
    return None if made is None else made()


def _tagged(kind: str, tag: int, default: object) -> Any:
    return field(metadata={"kafka_type": kind, "tag": tag}, default=default)


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


def _producers_request() -> type[Any]:
    """Return kio's class with one more field. It is loaded when that request is first used."""
    from kio.schema.describe_producers.v0 import request as kio  # noqa: PLC0415

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Request(kio.DescribeProducersRequest):
        tier_from: int = _tagged("int64", 10_000, NOT_TOLD)

    return Request


def _producers() -> type[Any]:
    """Return kio's class with what the tier has. It is loaded when that answer is first used."""
    from kio.schema.describe_producers.v0 import response as kio  # noqa: PLC0415

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Partition(kio.PartitionResponse):
        tier_state: int = _tagged("int8", 10_000, NOT_TOLD)
        tier_start: int = _tagged("int64", 10_001, NOT_TOLD)
        tier_end: int = _tagged("int64", 10_002, NOT_TOLD)
        tier_runs: tuple[bytes, ...] = _tagged("bytes", 10_003, ())

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Topic(kio.TopicResponse):
        partitions: tuple[Partition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Response(kio.DescribeProducersResponse):
        topics: tuple[Topic, ...]
        tier_store: tuple[str, ...] = _tagged("string", 10_000, ())
        tier_cluster: bytes = _tagged("bytes", 10_001, b"")
        tier_lease_ms: int = _tagged("int64", 10_002, NOT_TOLD)

    return Response


_REQUESTS: dict[tuple[int, int], Callable[[], type[Any]]] = {
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1): _share_offsets_request,
    (ApiKey.DESCRIBE_PRODUCERS, 0): _producers_request,
}
_RESPONSES: dict[tuple[int, int], Callable[[], type[Any]]] = {
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1): _share_offsets,
    (ApiKey.DESCRIBE_PRODUCERS, 0): _producers,
}
