"""Batches of what is due, and places of the front's topics: bounds, and who hears what became."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.controller.errors import MetadataUnavailable
from penstock.record.batch import BATCH_HEADER_BYTES
from penstock.record.build import Record, build_batch, record_bytes_max
from penstock.record.errors import BatchTooLarge
from penstock.remoting.later import due
from penstock.remoting.later.delayed import Destination, held
from penstock.remoting.later.due import STAMP_BYTES_MAX, Waiting, parts_of, take_due
from penstock.remoting.later.holding import check_taken
from penstock.remoting.later.resending import _count
from tests.broker.cluster import Cluster
from tests.remoting.world import remotings

RECORD = Record(None, b"x" * 100)
ONE = Waiting(Destination(0, bytes(16), 0), RECORD, record_bytes_max(RECORD))
SIZE = record_bytes_max(RECORD) + STAMP_BYTES_MAX


@pytest.mark.parametrize("each", [1, 2, 3])
def test_no_part_is_larger_than_its_bound_and_none_is_smaller_than_it_may_be(each: int) -> None:
    most = BATCH_HEADER_BYTES + each * SIZE
    for bytes_max in (most, most + SIZE - 1):
        assert [len(part) for part in parts_of([ONE] * (3 * each + 1), bytes_max)] == [
            each, each, each, 1,
        ]  # fmt: skip
    assert [len(part) for part in parts_of([ONE] * 3, 1)] == [1, 1, 1], "one at least"


class _Unavailable:
    """A controller that nobody reaches."""

    async def submit(self, command: Any) -> Any:
        raise MetadataUnavailable


def test_who_asks_again_when_a_place_was_not_made_is_told_of_the_next_try() -> None:
    cluster = Cluster(2)
    cluster.create("events")
    remote, _ = remotings(cluster)
    places, set_id = remote.front.places, cluster.nodes[0].member.replica_set_id
    commands: list[Any] = []
    places._spawn = lambda _, work: commands.append(work)  # the command is under way
    told: list[Any] = []

    def use(found: Any) -> None:
        told.append(found)
        if isinstance(found, PlatformError):
            places.use("rmq.retry.shop", set_id, use)

    places.use("rmq.retry.shop", set_id, use)
    port = remote.node.broker.controller
    remote.node.broker.controller = _Unavailable()
    with pytest.raises(StopIteration):
        commands.pop().send(None)
    assert [type(one) for one in told] == [MetadataUnavailable]
    remote.node.broker.controller = port
    with pytest.raises(StopIteration):
        commands.pop().send(None)
    assert told[1].topic.name == "rmq.retry.shop"
    assert not places._under_way


@pytest.mark.parametrize(("bytes_max", "count"), [(0, 1), (1, 2)])
def test_as_many_are_taken_as_have_not_filled_the_bound(
    bytes_max: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "BYTES_MAX", record_bytes_max(ONE.record) + bytes_max)
    batch = memoryview(build_batch([held(ONE.record, ONE.destination)] * 3))
    found = take_due(batch, 0, 1)
    assert (len(found.records), found.next_offset) == (count, count)


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (-1, False)])
def test_a_message_that_its_topic_takes_with_all_that_is_added_is_taken(
    more: int, *, is_taken: bool
) -> None:
    size = BATCH_HEADER_BYTES + SIZE
    rules = SimpleNamespace(max_message_bytes=size + more, min_insync_replicas=1, needs_keys=False)
    target: Any = SimpleNamespace(
        topic=SimpleNamespace(rules=rules),
        check_still_led=lambda: None,
        member=SimpleNamespace(check_in_step=lambda _: None),
    )
    refused = False
    try:
        check_taken(target, ONE.record)
    except BatchTooLarge:
        refused = True
    assert refused is not is_taken


def test_what_could_not_be_sent_back_does_not_count_as_sent_back() -> None:
    counts, told = Counter[str](), list[int | PlatformError]()
    refused = MetadataUnavailable("nobody is there")
    _count(counts, "retry", told.append, refused)
    _count(counts, "retry", told.append, 7)
    assert (counts, told) == ({"retry": 1}, [refused, 7])
