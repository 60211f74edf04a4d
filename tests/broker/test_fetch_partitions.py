"""How many partitions long fetches may look at and be parked on, and who waits for that."""

import asyncio

from penstock.broker.fetch.partition_shares import LOOKING_MAX, PARKED_MAX, FetchPartitions


def test_who_finds_no_share_waits_for_one_in_the_order_of_asking() -> None:
    async def scenario() -> None:
        partitions, order = FetchPartitions(), list[int]()

        async def look(count: int) -> None:
            await partitions.look(count)
            order.append(count)

        await partitions.look(LOOKING_MAX - 10)
        tasks = [asyncio.create_task(look(count)) for count in (11, 2, 3)]
        await asyncio.sleep(0)
        assert order == [], "a small one does not overtake"
        partitions.leave(6)
        await asyncio.gather(*tasks)
        assert order == [11, 2, 3]
        assert partitions.looking == LOOKING_MAX

    asyncio.run(scenario())


def test_a_fetch_of_more_than_all_looks_alone() -> None:
    async def scenario() -> None:
        partitions = FetchPartitions()
        await partitions.look(1)
        large = asyncio.create_task(partitions.look(2 * LOOKING_MAX))
        await asyncio.sleep(0)
        assert not large.done()
        partitions.leave(1)
        await large
        small = asyncio.create_task(partitions.look(1))
        await asyncio.sleep(0)
        assert not small.done()
        partitions.leave(2 * LOOKING_MAX)
        await small

    asyncio.run(scenario())


def test_who_is_cancelled_while_waiting_takes_nothing() -> None:
    async def scenario() -> None:
        partitions = FetchPartitions()
        await partitions.look(LOOKING_MAX)
        waiting = [asyncio.create_task(partitions.look(10)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        partitions.leave(LOOKING_MAX)
        waiting[1].cancel()  # it has its share already, and does not know
        await asyncio.gather(*waiting, return_exceptions=True)
        assert [one.cancelled() for one in waiting] == [True, True, False]
        assert partitions.looking == 10

    asyncio.run(scenario())


def test_what_a_cancelled_one_has_been_given_goes_to_the_next_who_waits() -> None:
    async def scenario() -> None:
        partitions = FetchPartitions()
        await partitions.look(LOOKING_MAX)
        first, second = (asyncio.create_task(partitions.look(LOOKING_MAX)) for _ in range(2))
        await asyncio.sleep(0)
        partitions.leave(LOOKING_MAX)
        first.cancel()  # it has its share already, and does not know
        await asyncio.gather(first, return_exceptions=True)
        async with asyncio.timeout(10):
            await second
        assert first.cancelled()
        assert partitions.looking == LOOKING_MAX

    asyncio.run(scenario())


def test_partitions_are_parked_on_up_to_a_bound_and_are_looked_at_no_more() -> None:
    async def scenario() -> None:
        partitions = FetchPartitions()
        count = PARKED_MAX // 4
        for _ in range(4):
            await partitions.look(count)
            assert partitions.park(count)
        await partitions.look(1)
        assert not partitions.park(1)
        assert (partitions.looking, partitions.parked) == (1, PARKED_MAX)
        partitions.unpark(1)
        assert partitions.park(1)
        assert partitions.looking == 0

    asyncio.run(scenario())
