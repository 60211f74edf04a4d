"""Whose turn it is among the indexes of a node, how long it rests, and what is gone from a log."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from harness.log_world import World
from penstock.base.ids import TopicPartition
from penstock.broker.finding import indexing as module
from penstock.broker.finding.gathering import gather
from penstock.broker.finding.indexing import REST, REST_MS_MAX, Indexing
from penstock.finding.piece import Piece
from penstock.frames.frames import FRAME_HEADER_BYTES, HEADER, KIND_BATCH
from penstock.record.build import Record, build_batch
from penstock.record.compression import READER_BOUNDS
from penstock.remoting.finding.naming import KEYS_MAX, NAMING, has_name
from tests.broker.bounded_index import TOPIC, Log, member_of

PARTITION = TopicPartition(TOPIC, 0)


def broker_of(world: World) -> Any:
    """Return what indexes ask of a broker."""
    return SimpleNamespace(
        members={},
        clock=world,
        scheduler=world,
        on_expire=[],
        tier=None,
        partitions=SimpleNamespace(by_id={}),
    )


class Node:
    """Indexes of made-up logs, one for each set, and the broker that has them."""

    def __init__(self, *ends: int) -> None:
        self.world = World()
        self.broker = broker_of(self.world)
        for set_id, end in enumerate(ends):
            log = Log(0, end)
            log.place.offload = log.place.clock = log.place.scheduler = self.world
            log.place.directory = f"set-{set_id}"
            log.partitions = {}  # type: ignore[attr-defined]
            self.broker.members[set_id] = member_of(log, set_id)
        self.indexing = Indexing(self.broker, NAMING, 1 << 30)


def _noted(steps: list[int], set_id: int, read: Callable[..., Any], *wanted: int) -> Any:
    steps.append(set_id)
    return read(*wanted)


def test_indexes_have_their_turns_one_after_the_other() -> None:
    node = Node(1_000, 1_000, 1_000)
    steps: list[int] = []
    for set_id, member in node.broker.members.items():
        read = member.log.read_run
        member.log.read_run = partial(_noted, steps, set_id, read)
    node.indexing.look()
    node.world.advance(5_000)
    assert steps == [0, 1, 2] * 10


@pytest.mark.parametrize(
    ("took_ms", "waits", "rest_ms"),
    [(0, False, 0), (10, False, REST * 10), (1_000, False, REST_MS_MAX), (1_000, True, 0)],
)
def test_an_index_rests_in_proportion_unless_a_search_waits(
    took_ms: int, waits: bool, rest_ms: int
) -> None:
    node = Node(1_000)
    node.indexing.look()
    index = node.indexing.of(node.broker.members[0])
    if waits:
        index.when_reached(1_000, 1 << 62, lambda: None)
    node.world.now_ms += took_ms
    node.world.work_one()
    while node.world.work:
        node.world.work_one()
    begun_ms = node.world.now_ms
    assert [at - begun_ms for at, _, _ in node.world.later] == [rest_ms]


@pytest.mark.parametrize(("start", "is_gone"), [(6, False), (7, False), (8, True)])
@pytest.mark.parametrize("where", ["log", "tier"])
def test_messages_are_gone_when_a_partition_begins_behind_the_last(
    monkeypatch: pytest.MonkeyPatch, where: str, start: int, is_gone: bool
) -> None:
    node = Node(0)
    member = node.broker.members[0]
    own = start if where == "log" else 100
    member.log.partitions[PARTITION] = SimpleNamespace(log_start_offset=own)
    if where == "tier":
        hosted = SimpleNamespace(member=member)
        topic = SimpleNamespace(find=lambda _: hosted)
        node.broker.partitions.by_id[TOPIC] = topic
        monkeypatch.setattr(module, "is_tiered", lambda _: True)
        monkeypatch.setattr(module, "first_offset", lambda *_: start)
    assert node.indexing._is_gone(member, PARTITION, 7) is is_gone
    if where == "tier":
        member.is_master = False
        assert not node.indexing._is_gone(member, PARTITION, 7), "a slave does not know it"


# What a run adds


def frame(batch: bytes) -> bytes:
    size = FRAME_HEADER_BYTES + len(batch)
    return HEADER.pack(0, 0, 0, KIND_BATCH, size, 3, 0, 0, 0, bytes(TOPIC)) + batch


def named(at_ms: int, **headers: bytes) -> Record:
    pairs = tuple((f"rmq.{name}", value) for name, value in headers.items())
    return Record(None, b"body", pairs, at_ms)


def test_each_batch_that_can_not_be_read_counts() -> None:
    bad = bytearray(build_batch([named(1, keys=b"a", bh=b"h")], codec=1))
    bad[70:] = b"\xff" * len(bad[70:])
    good = build_batch([named(2, keys=b"b", bh=b"h")])
    data = memoryview(frame(bytes(bad)) + frame(good) + frame(bytes(bad)))
    gathered = gather(data, Piece(0), NAMING, lambda _: READER_BOUNDS)
    assert (gathered.unreadable, gathered.count) == (2, 1)


def test_messages_without_a_name_are_not_looked_for_at_any_time() -> None:
    batch = build_batch([named(5), named(10, keys=b"a", bh=b"h"), named(20)])
    gathered = gather(memoryview(frame(batch)), Piece(0), NAMING, lambda _: READER_BOUNDS)
    assert (gathered.first_ms, gathered.last_ms) == (10, 10)


# By which names


@pytest.mark.parametrize("count", [1, KEYS_MAX - 1, KEYS_MAX, KEYS_MAX + 1, 2 * KEYS_MAX])
def test_a_message_is_found_by_each_of_its_first_keys(count: int) -> None:
    keys = [b"key-%d" % number for number in range(count)]
    assert NAMING.names(None, (None, b" ".join(keys), b"host")) == keys[:KEYS_MAX]


def test_an_id_is_no_key_and_a_key_no_id() -> None:
    properties = {"UNIQ_KEY": "id", "KEYS": "one two"}
    assert [has_name(properties, name, is_id=True) for name in ("id", "one", "one two")] == [
        True, False, False,
    ]  # fmt: skip
    assert [
        has_name(properties, name, is_id=False) for name in ("id", "one", "one two", "tw", "")
    ] == [True, True, True, False, False]
