"""Attacks by members of consumer groups, by what clients push, and by what they ask of producers.

consumer-regexes    members of 100 groups whose expressions are costly, over 5,000 topics
consumer-topics     members of new groups that name 2,000 topics each, and leave
consumer-owned      members that say that they have 20,000 partitions
push-points         pushes of as many points as one may have, by a new instance each
push-fields         pushes of 1 MiB of fields that hold nothing, or of one metric that is too large
push-bombs          pushes that unpack to 200 times their size
txn-positions       positions of a transaction for 5,000 partitions, by one group after another
txn-aborted         reads of committed records among 60,000 transactions that were aborted
tiny                reads of 280,000 batches of one record without a value
"""

import contextlib
import datetime
import gzip
import itertools
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from penstock.protobuf.codec import encode
from penstock.protocol.api_keys import ApiKey
from penstock.record.batch import TRANSACTIONAL
from penstock.record.build import Record, build_batch
from penstock.telemetry.otlp import (
    AnyValue,
    Gauge,
    Histogram,
    HistogramDataPoint,
    KeyValue,
    Metric,
    NumberDataPoint,
)
from penstock.telemetry.subscriptions import Subscriptions
from reliability.attacks.attack_frames import (
    ANSWER_SECONDS,
    Aim,
    Attack,
    asking,
    exchange,
    request,
)
from reliability.attacks.attack_kept import find_coordinator, sending
from reliability.attacks.attack_settings import topics_created
from reliability.attacks.attack_transactions import add, added, begun, end

MANY, SUBSCRIBED, OWNED = 5_000, 2_000, 20_000
GROUPS, TOGETHER = 100, 20
POINTS, ATTRIBUTES, PUSH_BYTES = 10_000, 8, 1 << 20
IDS, ROUNDS, ADDED = 1_000, 10, 100
TINY_BATCHES, TINY_REQUESTS = 13_990, 20
COMMITTED_PARTITIONS, METADATA_BYTES = 500, 4_000
GZIP = 1
Context = contextlib.AbstractContextManager[object]
READ = "asked"
"""The topic of what is asked of producers, and committed."""


def _beat(group: str, epoch: int, **fields: Any) -> bytes:
    told = {
        "group_id": group,
        "member_id": "member",
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": datetime.timedelta(seconds=9),
        "subscribed_topic_names": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    return request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, told | fields)


def _regexes(aim: Aim) -> Context:
    """Each heartbeat has another expression, so that nothing is remembered of it."""
    find_coordinator(aim.kafka)
    for first in range(0, MANY, 500):
        made = topics_created(f"many-{first}", 500, 1, validate_only=False)
        with socket.create_connection(aim.kafka, ANSWER_SECONDS) as connection:
            exchange(connection, [made])
    numbers = itertools.count()

    def next_ones() -> list[bytes]:
        number = next(numbers)
        regex = f"(m?a?n?y?-?.{{0,20}}){{1,20}}|{number}"
        group = f"regexes-{number % GROUPS}"
        return [_beat(group, 0, subscribed_topic_regex=regex), _beat(group, -1)]

    return sending(aim.kafka, next_ones, connections=4)


def _topics(aim: Aim) -> Context:
    find_coordinator(aim.kafka)
    numbers = itertools.count()
    names = [f"unknown-{one}" for one in range(SUBSCRIBED)]

    def next_ones() -> list[bytes]:
        groups = [f"topics-{next(numbers)}" for _ in range(TOGETHER)]
        joins = [_beat(one, 0, subscribed_topic_names=names) for one in groups]
        return joins + [_beat(one, -1) for one in groups]

    return sending(aim.kafka, next_ones, connections=4)


def _owned(aim: Aim) -> Context:
    find_coordinator(aim.kafka)
    one = [{"topic_id": uuid.UUID(int=7), "partitions": list(range(OWNED))}]
    each = [{"topic_id": uuid.UUID(int=number), "partitions": [0]} for number in range(OWNED // 2)]
    frames = [_beat("owned", 0, subscribed_topic_names=[READ], topic_partitions=[])]
    for has in (one, each):
        frames += [_beat("owned", 1, topic_partitions=has)] * 4
    return asking(aim.kafka, [frames], connections=2)


def _push(instance: uuid.UUID, metrics: bytes, codec: int = 0) -> bytes:
    """A push that is taken where nobody has said what is wanted."""
    fields = {
        "client_instance_id": instance,
        "subscription_id": Subscriptions({}).asked_of(instance, {}).subscription_id,
        "terminating": False,
        "compression_type": codec,
        "metrics": metrics,
    }
    return request(ApiKey.PUSH_TELEMETRY, 0, fields)


def _pushing(payloads: Callable[[], list[tuple[bytes, int]]]) -> Attack:
    def attack(aim: Aim) -> Context:
        turn = itertools.cycle(payloads())
        return sending(aim.kafka, lambda: [_push(uuid.uuid4(), *next(turn))], connections=8)

    return attack


def _field(number: int, data: bytes) -> bytes:
    size, left = bytearray(), len(data)
    while left > 127:
        size.append(left & 127 | 128)
        left >>= 7
    return bytes((number << 3 | 2, *size, left)) + data


def _data(metrics: list[bytes]) -> bytes:
    """Return metrics of one client as it sends them."""
    scope = b"".join(_field(2, one) for one in metrics)
    return _field(1, _field(2, scope))


def _points() -> bytes:
    attributes = [
        KeyValue(key=f"key-{one}", value=AnyValue(string_value="v")) for one in range(ATTRIBUTES)
    ]
    few = [NumberDataPoint(as_int=one, attributes=attributes) for one in range(50)]
    gauge = encode(Metric(name="m" * 200, gauge=Gauge(data_points=few)))
    return _data([gauge] * min(POINTS // 50, PUSH_BYTES // (len(gauge) + 8)))


def _fields() -> list[bytes]:
    nothing = _field(1, b"") * (PUSH_BYTES // 2)
    scopes = _field(1, _field(2, b"") * (PUSH_BYTES // 2 - 8))
    metrics = _data([b""] * (PUSH_BYTES // 2 - 8))
    buckets = HistogramDataPoint(bucket_counts=[1] * (PUSH_BYTES // 8 - 100))
    histogram = _data([encode(Metric(name="m", histogram=Histogram(data_points=[buckets])))])
    unknown = _data([_field(15, b"") * (PUSH_BYTES // 2 - 16)])
    return [nothing, scopes, metrics, histogram, unknown]


def _bombs() -> list[tuple[bytes, int]]:
    plain = _points()
    return [(gzip.compress(one), GZIP) for one in (plain, bytes(PUSH_BYTES), bytes(64 << 20))]


def _positions(aim: Aim) -> Context:
    producers = begun(aim.kafka, {"committing": 60_000})
    ((name, producer),) = producers.items()
    numbers = itertools.count()
    partitions = [
        {
            "partition_index": one,
            "committed_offset": 7,
            "committed_leader_epoch": -1,
            "committed_metadata": "m" * METADATA_BYTES,
        }
        for one in range(COMMITTED_PARTITIONS)
    ]

    def next_ones() -> list[bytes]:
        fields = {
            "transactional_id": name,
            "group_id": f"committed-{next(numbers)}",
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": READ, "partitions": partitions}],
        }
        return [request(ApiKey.TXN_OFFSET_COMMIT, 5, fields)]

    return sending(aim.kafka, next_ones, connections=4)


@contextlib.contextmanager
def _aborted(aim: Aim) -> Iterator[None]:
    """Leave many short transactions behind, all aborted, and read among them."""
    producers = begun(aim.kafka, {f"aborted-{one}": 60_000 for one in range(IDS)})
    for number in range(ROUNDS):
        added(aim.kafka, [add(name, one, {READ: [0]}) for name, one in producers.items()])
        batches = [_of_transaction(name, one, number) for name, one in producers.items()]
        ends = [end(name, one, committed=False) for name, one in producers.items()]
        with socket.create_connection(aim.kafka, ANSWER_SECONDS) as connection:
            for frames in (batches, ends):
                for at in range(0, len(frames), ADDED):
                    exchange(connection, frames[at : at + ADDED])
    reads = [_read(at, 1) for at in (0, 1_000, IDS, IDS * ROUNDS)]
    asked = {"topics": [{"name": READ, "partition_indexes": [0] * 10}]}
    producing = request(ApiKey.DESCRIBE_PRODUCERS, 0, asked)
    with asking(aim.kafka, [[one] * 4 for one in (*reads, producing)], connections=4):
        yield


def _of_transaction(name: str, producer: tuple[int, int], number: int) -> bytes:
    batch = build_batch(
        [Record(None, b"v")],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=number,
        attributes=TRANSACTIONAL,
    )
    data = [{"name": READ, "partition_data": [{"index": 0, "records": batch}]}]
    fields = {"transactional_id": name, "acks": 1, "timeout": 30_000, "topic_data": data}
    return request(ApiKey.PRODUCE, 7, fields)


def _read(offset: int, isolation: int) -> bytes:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 50 << 20}
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": isolation,
        "topics": [{"topic": READ, "partitions": [part]}],
    }
    return request(ApiKey.FETCH, 4, fields)


def _tiny(aim: Aim) -> Context:
    batch = build_batch([Record(None, b"")])
    parts = [{"index": 0, "records": batch}] * TINY_BATCHES
    data = [{"name": READ, "partition_data": parts}]
    fields = {"transactional_id": None, "acks": 1, "timeout": 30_000, "topic_data": data}
    with socket.create_connection(aim.kafka, ANSWER_SECONDS) as connection:
        for _ in range(TINY_REQUESTS):
            exchange(connection, [request(ApiKey.PRODUCE, 7, fields)])
    reads = [[_read(at, isolation)] * 4 for at in (0, 1, TINY_BATCHES) for isolation in (0, 1)]
    return asking(aim.kafka, reads, connections=4)


ASKERS: dict[str, Attack] = {
    "tiny": _tiny,
    "consumer-regexes": _regexes,
    "consumer-topics": _topics,
    "consumer-owned": _owned,
    "push-points": _pushing(lambda: [(_points(), 0)]),
    "push-fields": _pushing(lambda: [(one, 0) for one in _fields()]),
    "push-bombs": _pushing(_bombs),
    "txn-positions": _positions,
    "txn-aborted": _aborted,
}
ASKED_TOPIC = dict.fromkeys(ASKERS, (READ, COMMITTED_PARTITIONS))
"""The topic that must be there, and of how many partitions."""
ASKED_STAYS = frozenset({"consumer-regexes", "consumer-topics", "push-points", "txn-positions"})
"""Groups, instances and positions that these make stay, within their bounds."""
