"""Fields of Penstock's own: known to its client, skipped by readers of Kafka's schema."""

from typing import Any

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequest
from kio.schema.describe_share_group_offsets.v1.response import DescribeShareGroupOffsetsResponse
from kio.serial import entity_reader

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

KEY = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS


def answer(version: int = 1, **own: Any) -> bytes:
    partition = {"partition_index": 3, "start_offset": 7, "leader_epoch": 1, "lag": 9, **own}
    topics = [{"topic_name": "t", "topic_id": None, "partitions": [partition]}]
    group = {"group_id": "g", "topics": topics, "error_code": 0, "error_message": None}
    return encode_response(KEY, version, {"groups": [group]})


def partition_of(told: Any) -> Any:
    return told.groups[0].topics[0].partitions[0]


def test_our_client_reads_what_is_in_flight_and_how_often_records_were_handed_out() -> None:
    body = answer(in_flight=2, delivered=(4, 0, 1))
    told = partition_of(decode_response(KEY, 1, memoryview(body)))
    assert (told.start_offset, told.lag, told.in_flight, told.delivered) == (7, 9, 2, (4, 0, 1))


def test_a_request_asks_for_them_in_a_tag_and_is_kafkas_without() -> None:
    groups = [{"group_id": "g", "topics": None}]
    plain = encode_request(KEY, 1, {"groups": groups})
    more = encode_request(KEY, 1, {"groups": groups, "with_deliveries": True})
    assert more[: len(plain) - 1] == plain[:-1]
    assert not decode_request(KEY, 1, memoryview(plain), 0).with_deliveries
    assert decode_request(KEY, 1, memoryview(more), 0).with_deliveries
    _, size = entity_reader(DescribeShareGroupOffsetsRequest)(memoryview(plain), 0)
    assert size == len(plain)


def test_an_answer_without_them_is_byte_for_byte_kafkas() -> None:
    plain, size = entity_reader(DescribeShareGroupOffsetsResponse)(memoryview(answer()), 0)
    assert size == len(answer()) < len(answer(in_flight=0))
    assert partition_of(plain).lag == 9
    told = partition_of(decode_response(KEY, 1, memoryview(answer())))
    assert (told.in_flight, told.delivered) == (-1, ())


def test_version_0_has_none() -> None:
    assert answer(0, in_flight=2) == answer(0)


def test_a_description_of_producers_is_kafkas_unless_the_tier_is_asked_for() -> None:
    key, topics = ApiKey.DESCRIBE_PRODUCERS, [{"name": "t", "partition_indexes": [1]}]
    plain = encode_request(key, 0, {"topics": topics})
    _, size = entity_reader(DescribeProducersRequest)(memoryview(plain), 0)
    assert size == len(plain)
    assert decode_request(key, 0, memoryview(plain), 0).tier_from == -1
    more = encode_request(key, 0, {"topics": topics, "tier_from": 0})
    assert more[: len(plain) - 1] == plain[:-1]
    assert decode_request(key, 0, memoryview(more), 0).tier_from == 0
    one = {"partition_index": 1, "error_code": 0, "active_producers": ()}
    answer = encode_response(key, 0, {"topics": [{"name": "t", "partitions": [one]}]})
    _, size = entity_reader(DescribeProducersResponse)(memoryview(answer), 0)
    assert size == len(answer)
