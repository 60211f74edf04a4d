"""Reads for clients of what only the tier has: bounds, time, and who is woken."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from harness.log_world import World as Time
from penstock.base.ids import Offset
from penstock.broker.errors import TierUnavailable
from penstock.broker.tier.view import TierChunk, TierClient
from penstock.replica.replica_set import Role
from penstock.runtime.tier import reads
from penstock.runtime.tier.byte_room import ByteRoom
from penstock.runtime.tier.fair_places import FairPlaces, Tickets
from penstock.runtime.tier.reads import WAITING_PER_PLACE, RemoteReads
from penstock.runtime.tier.told import ToldRuns
from penstock.storage.errors import OffsetOutOfRange
from penstock.tier.config import TierConfig
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import CLUSTER, Part, batch, key
from tests.tier.objects import change, file_at, manifest_of, name, put
from tests.tier.store_contract import run

ONE = key(1, 0)


class World:
    """A partition of which the tier has [0, 20) in two runs, and the disks nothing below 20."""

    def __init__(self, **settings: int) -> None:
        caller: Any = None
        self.clock = Time()
        self.bucket = Bucket()
        self.runs = []
        for at in (0, 10):
            batches = [batch(offset, size=50) for offset in range(at, at + 10)]
            part = Part(ONE, batches, decided_end=at + 10)
            self.runs += put(self.bucket, name(at + 1), [part])
        self.manifest: Any = manifest_of(self.runs)
        self.tasks: list[asyncio.Task[None]] = []
        member = SimpleNamespace(replica_set_id=1, leader_epoch=3, role=Role.MASTER)
        log = SimpleNamespace(topic_partition=ONE, log_start_offset=20, log_end_offset=30)
        self.hosted: Any = SimpleNamespace(member=member, log=log, is_dropped=False)
        self.woken = 0
        self.reads = RemoteReads(
            ModelledStore(self.bucket),
            lambda *_: self.manifest,
            TierConfig(**{"read_ms": 400, **settings}),  # type: ignore[arg-type]
            raise_start=self._never,
            told=ToldRuns(caller, self.clock, CLUSTER),
            spawn=lambda _, work: self.tasks.append(asyncio.ensure_future(work)),
        )

    async def _never(self, *_: object) -> bool:
        return False

    def wake(self) -> None:
        self.woken += 1

    def fetch(
        self, offset: int, connection: object = None, bytes_max: int = 1 << 20
    ) -> TierChunk | None:
        client = TierClient(connection, self.wake)
        return self.reads.fetch(client, self.hosted, Offset(offset), bytes_max)

    async def over(self) -> None:
        tasks, self.tasks = self.tasks, []
        await asyncio.gather(*tasks)


def test_who_fetches_is_woken_and_finds_the_records_and_so_does_who_comes_later() -> None:
    world = World()

    async def story() -> None:
        assert world.fetch(3) is None
        assert world.fetch(3) is None, "the same read, and the same client: woken once"
        await world.over()
        assert world.woken == 1
        for _ in range(2):
            chunk = world.fetch(3)
            assert chunk is not None
            expected = b"".join(batch(at, size=50) for at in range(3, 10))
            assert b"".join(map(bytes, chunk.buffers)) == expected
            assert (chunk.first_offset, chunk.next_offset, chunk.aborted) == (3, 10, [])
        assert world.reads.counters.reads == 1

    run(story())


def test_a_client_with_less_room_gets_the_first_batches_of_what_is_ready() -> None:
    world, size = World(), len(batch(0, size=50))

    async def story() -> None:
        world.fetch(0)
        await world.over()
        chunk = world.fetch(0, bytes_max=2 * size + 1)
        assert chunk is not None
        assert (chunk.size, chunk.next_offset) == (2 * size, 2)
        just = world.fetch(0, bytes_max=3 * size)
        assert just is not None
        assert (just.size, just.next_offset) == (3 * size, 3)
        least = world.fetch(0, bytes_max=1)
        assert least is not None
        assert (least.size, least.next_offset) == (size, 1)

    run(story())


def test_reads_of_one_connection_have_a_bound_and_others_go_on() -> None:
    world = World(reads_of_client=2)

    async def story() -> None:
        greedy, other = object(), object()
        for offset in range(4):
            world.fetch(offset, greedy)
        assert (world.reads.open_count, world.reads.counters.reads_refused) == (2, 2)
        world.fetch(9, other)
        assert world.reads.open_count == 3
        await world.over()
        assert world.reads.open_count == 0
        world.fetch(5, greedy)
        assert world.reads.open_count == 1, "the bound counts what is under way"
        await world.over()

    run(story())


@pytest.mark.parametrize("fault", ["lies", "lost", "unknown"])
def test_what_can_not_be_read_in_time_is_an_error_once_and_then_tried_again(fault: str) -> None:
    world = World()

    async def story() -> None:
        manifest, objects = world.manifest, dict(world.bucket.objects)
        if fault == "lies":
            change(world.bucket, name(1), file_at(world.runs[0].entry.extent_at + 70))
        elif fault == "lost":
            world.bucket.objects.clear()
        else:
            world.manifest = None
        assert world.fetch(0) is None
        await world.over()
        assert world.woken == 1
        with pytest.raises(TierUnavailable):
            world.fetch(0)
        assert (world.reads.counters.read_failures > 0) == (fault != "unknown")
        world.manifest = manifest
        world.bucket.objects.update(objects)
        assert world.fetch(0) is None
        await world.over()
        assert world.fetch(0) is not None

    run(story())


def test_what_was_deleted_in_the_tier_is_out_of_range() -> None:
    world = World()

    async def story() -> None:
        world.manifest.start_offset = 4
        world.fetch(3)
        await world.over()
        with pytest.raises(OffsetOutOfRange):
            world.fetch(3)

    run(story())


def test_a_read_that_fails_is_the_clients_no_more() -> None:
    world = World(reads_of_client=1)

    async def story() -> None:
        client = object()
        world.hosted.is_dropped = True
        for offset in (0, 1, 2):
            assert world.fetch(offset, client) is None
            await world.over()
        assert (world.woken, world.reads.counters.reads_refused) == (3, 0)
        world.hosted.is_dropped = False
        world.fetch(9, client)
        await world.over()
        assert world.fetch(9, client) is not None

    run(story())


def test_what_is_ready_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    world, size = World(), len(batch(0, size=50)) + reads.READY_COSTS
    monkeypatch.setattr(reads, "READY_BYTES_MAX", 3 * size)

    async def story() -> None:
        for offset in (0, 3, 5, 8, 9, 1):  # as many batches as there are up to 10
            world.fetch(offset)
            await world.over()
            chunks = [chunk for chunk, _ in world.reads._ready.values()]
            held = sum(chunk.size + reads.READY_COSTS for chunk in chunks)
            assert world.reads._ready_bytes == held
            assert held <= 3 * size
            assert world.fetch(offset) is not None, "the newest is there"

    run(story())


def test_who_is_told_of_a_search_may_search_again_at_once() -> None:
    world = World()
    found: list[Any] = []

    def search(timestamp: int, done: Any) -> None:
        world.reads.search(
            "host", world.hosted, (0, 20), timestamp, lambda hit: hit.base_offset, done=done
        )

    def again(*told: Any) -> None:
        found.append(told)
        search(15, lambda *told: found.append(told))

    async def story() -> None:
        search(4, again)
        while world.tasks:
            await world.over()
        assert found == [(4, None), (15, None)]

    run(story())


def test_another_mastership_reads_nothing_for_the_one_before() -> None:
    world = World()

    async def story() -> None:
        world.fetch(3)
        world.hosted.member.leader_epoch = 4
        await world.over()
        assert world.reads.counters.reads == 0
        assert world.fetch(3) is None, "it begins anew"
        await world.over()
        assert world.fetch(3) is not None

    run(story())


def test_who_needs_all_of_the_room_has_it_once_nobody_else_does() -> None:
    async def story() -> None:
        room, order = ByteRoom(10), []

        async def take(size: int) -> None:
            async with room.room(size):
                order.append(size)

        async with room.room(1):
            tasks = [asyncio.ensure_future(take(size)) for size in (10, 50, 3)]
            await asyncio.sleep(0)
            assert order == []
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks)
        assert order == [10, 50, 3]
        assert room.held == 0

    run(story())


def test_what_was_granted_to_one_who_is_cancelled_goes_to_the_next() -> None:
    async def story() -> None:
        room = ByteRoom(10)

        async def take() -> None:
            async with room.room(10):
                pass

        async with room.room(10):
            first, second = (asyncio.ensure_future(take()) for _ in range(2))
            await asyncio.sleep(0)
        first.cancel()  # it has the room, and does not know
        async with asyncio.timeout(10):
            await asyncio.gather(first, second, return_exceptions=True)
        assert (first.cancelled(), second.cancelled(), room.held) == (True, False, 0)

    run(story())


def test_room_for_bytes_is_given_in_order_and_comes_back_when_who_waits_is_cancelled() -> None:
    async def story() -> None:
        room, order = ByteRoom(10), []

        async def take(size: int, until: asyncio.Event) -> None:
            async with room.room(size):
                order.append(size)
                await until.wait()

        first, never = asyncio.Event(), asyncio.Event()
        tasks = [asyncio.ensure_future(take(6, first))]
        await asyncio.sleep(0)
        tasks += [asyncio.ensure_future(take(size, never)) for size in (50, 3)]
        await asyncio.sleep(0)
        assert (order, room.held) == ([6], 6)
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        await asyncio.sleep(0)
        assert (order, room.held) == ([6, 3], 9)
        tasks[2].cancel()
        first.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert room.held == 0

    run(story())


class Connection:
    def __init__(self, client_host: str) -> None:
        self.client_host = client_host


def test_an_address_with_many_connections_leaves_room_for_the_reads_of_others() -> None:
    world = World(reads_at_once=2, reads_of_client=1)
    limit = WAITING_PER_PLACE * 2

    async def story() -> None:
        clients = [Connection("greedy" if at < limit else "second") for at in range(2 * limit)]
        for offset in range(limit):
            world.fetch(offset, clients[offset])
        assert world.reads.open_count == limit // 2
        for offset in range(limit, 2 * limit):
            world.fetch(offset, clients[offset])
        assert world.reads.open_count == limit * 3 // 4
        world.fetch(99, Connection("third"))
        assert world.reads.open_count == limit * 3 // 4 + 1
        await world.over()
        assert world.reads.open_count == 0
        world.fetch(500, clients[0])
        assert world.reads.open_count == 1
        await world.over()

    run(story())


def test_a_gap_before_the_next_record_is_passed_over_and_one_up_to_the_end_is_told() -> None:
    world = World()
    (first,) = put(world.bucket, name(8), [Part(ONE, [batch(0), batch(12)])])
    (last,) = put(world.bucket, name(9), [Part(ONE, [batch(13), batch(30)])])
    world.manifest = manifest_of([first, last._replace(end_offset=20)])

    async def story() -> None:
        for offset in (5, 15):
            assert world.fetch(offset) is None
        await world.over()
        behind, nothing = world.fetch(5), world.fetch(15)
        assert behind is not None
        assert nothing is not None
        assert (behind.first_offset, behind.next_offset, bytes(behind.data)) == (12, 13, batch(12))
        assert (nothing.first_offset, nothing.next_offset, nothing.size) == (15, 20, 0)
        assert world.reads.counters.read_failures == 0

    run(story())


def test_a_newcomer_does_not_wait_for_the_slow_reads_of_another_address() -> None:
    async def story() -> None:
        places, order = FairPlaces(3, 100), []
        gates = [asyncio.Event() for _ in range(6)]

        async def work(host: str, number: int) -> None:
            async with places.work(host):
                order.append((host, number))
                await gates[number].wait()

        tasks = [asyncio.ensure_future(work("slow", number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks += [asyncio.ensure_future(work("new", number)) for number in (4, 5)]
        for _ in range(3):
            await asyncio.sleep(0)
        assert order == [("slow", 0), ("slow", 1), ("new", 4)]
        for number in (0, 1):
            gates[number].set()
            for _ in range(3):
                await asyncio.sleep(0)
        assert order[3:] == [("slow", 2), ("new", 5)], "fewest at work, and not served last"
        tasks[2].cancel()
        for gate in gates:
            gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order[5:] == [("slow", 3)]
        assert not places._at_work.total()

    run(story())


def test_an_address_that_found_a_search_in_progress_has_the_next_one() -> None:
    tickets = Tickets(2, 3.0)
    assert tickets.may_begin("a", 0.0, is_free=True)
    assert not tickets.may_begin("b", 1.0, is_free=False)
    assert not tickets.may_begin("a", 2.0, is_free=True), "it is b's turn"
    assert not tickets.may_begin("c", 2.0, is_free=True), "there is no ticket left"
    assert tickets.may_begin("b", 3.0, is_free=True)
    assert not tickets.may_begin("c", 3.0, is_free=True), "it is a's turn"
    assert tickets.may_begin("c", 5.1, is_free=True), "a has not come again"
    assert tickets.may_begin("a", 5.2, is_free=True)


def test_searches_of_one_address_leave_turns_to_others() -> None:
    world = World(read_ms=60_000)
    ends: list[tuple[str, object]] = []

    def search(host: str) -> None:
        world.reads.search(
            host,
            world.hosted,
            (0, 20),
            0,
            lambda hit: hit.base_offset,
            done=lambda found, error: ends.append((host, found if error is None else error)),
        )

    async def story() -> None:
        search("greedy")
        search("other")
        await world.over()
        search("greedy")
        search("other")
        await world.over()
        search("greedy")
        await world.over()

    run(story())
    refused = [host for host, found in ends if isinstance(found, TierUnavailable)]
    assert refused == ["other", "greedy"]
    assert [host for host, found in ends if found == 0] == ["greedy", "other", "greedy"]


def test_answers_without_records_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "READY_BYTES_MAX", 3 * reads.READY_COSTS)
    world = World()
    (only,) = put(world.bucket, name(9), [Part(ONE, [batch(0), batch(30)])])
    world.manifest = manifest_of([only._replace(end_offset=20)])

    async def story() -> None:
        for offset in (5, 6, 7, 8):
            world.fetch(offset)
            await world.over()
        assert world.fetch(5) is None, "the oldest one was let go"
        for offset in (7, 8):
            assert world.fetch(offset) is not None
        await world.over()

    run(story())


def test_a_place_that_was_granted_as_its_read_was_cancelled_is_the_next_one_s() -> None:
    async def story() -> None:
        places = FairPlaces(1, 9)
        async with places.work("a"):
            waiting = asyncio.ensure_future(places.work("b").__aenter__())
            gone = asyncio.ensure_future(places.work("c").__aenter__())
            await asyncio.sleep(0)
            gone.cancel()
        waiting.cancel()  # in the turn in which it was granted
        ended = await asyncio.gather(waiting, gone, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
        assert not places._at_work.total()
        async with places.work("d"):
            assert places._at_work == {"d": 1}

    run(story())


def test_who_comes_again_keeps_its_turn_and_who_found_no_ticket_has_none() -> None:
    tickets = Tickets(2, 3.0)
    for now, host in ((0.0, "a"), (1.0, "b"), (1.0, "c"), (2.0, "a")):
        assert not tickets.may_begin(host, now, is_free=False)
    assert not tickets.may_begin("b", 2.0, is_free=True), "a came before it, and again"
    assert tickets.may_begin("a", 3.0, is_free=True)
    assert tickets.may_begin("b", 3.0, is_free=True)
    assert tickets.may_begin("d", 3.0, is_free=True), "c never had a ticket"


def test_a_ticket_is_good_to_its_last_moment() -> None:
    tickets = Tickets(2, 3.0)
    assert not tickets.may_begin("a", 0.0, is_free=False)
    assert not tickets.may_begin("b", 3.0, is_free=True)
    assert tickets.may_begin("b", 3.1, is_free=True)
