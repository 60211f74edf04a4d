"""How many parts of bodies are read in one turn of the loop."""

import asyncio

from penstock.http.pacing import Pace


def test_so_many_parts_are_read_in_a_turn_in_the_order_they_were_asked_for() -> None:
    async def scenario() -> list[list[int]]:
        pace, turns = Pace(2), list[list[int]]()

        async def part(number: int) -> None:
            await pace.turn()
            turns[-1].append(number)

        tasks = [asyncio.create_task(part(number)) for number in range(5)]
        while not all(task.done() for task in tasks):
            turns.append([])
            await asyncio.sleep(0)
        return [turn for turn in turns if turn]

    assert asyncio.run(scenario()) == [[0, 1], [2, 3], [4]]


def test_who_has_gone_takes_no_turn_and_another_row_begins() -> None:
    async def scenario() -> None:
        pace = Pace(1)
        gone, there = asyncio.create_task(pace.turn()), asyncio.create_task(pace.turn())
        await asyncio.sleep(0)
        gone.cancel()
        async with asyncio.timeout(60):
            await there
            await pace.turn()
        assert not pace._row

    asyncio.run(scenario())
