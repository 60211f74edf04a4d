"""What a stream has in flight: what makes room for another message, and when."""

import asyncio

from penstock.http.operations.flight import Flight
from tests.http_front.scripted_node import handle

HOUR = 3_600.0


def test_a_message_makes_room_in_the_moment_in_which_its_time_ends() -> None:
    flight = Flight(2)
    flight.add(handle(1), 5.0)
    flight.add(handle(2), 6.0)
    assert flight.room(4.999) == 0
    assert flight.room(5.0) == 1
    assert flight.room(6.0) == 2


def test_what_is_kept_for_longer_makes_no_room_when_its_first_time_ends() -> None:
    flight = Flight(1)
    flight.add(handle(1), 5.0)
    flight.add(handle(1), 9.0)
    assert flight.room(8.0) == 0
    assert flight.room(9.0) == 1


def test_what_is_kept_for_longer_often_takes_no_more_memory() -> None:
    flight = Flight(2)
    for number in range(1_000):
        flight.add(handle(1), float(number))
    assert len(flight._ends) <= 5
    assert flight.room(998.0) == 1
    assert flight.room(999.0) == 2


def test_who_waits_for_room_goes_on_with_the_first_that_is_settled() -> None:
    async def run() -> None:
        now = asyncio.get_running_loop().time()
        flight = Flight(2)
        for number in (1, 2):
            flight.add(handle(number), now + HOUR)
        waiting = asyncio.create_task(flight.until_room(now, HOUR))
        await asyncio.sleep(0)
        flight.settled(handle(3), None)
        flight.settled(handle(1), handle(1))
        await asyncio.sleep(0)
        assert not waiting.done()
        flight.settled(handle(1), None)
        await waiting
        assert flight.room(now) == 1

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_message_that_is_settled_twice_makes_room_once() -> None:
    flight = Flight(3)
    for number in (1, 2):
        flight.add(handle(number), 5.0)

    flight.settled(handle(1), None)
    flight.settled(handle(1), None)
    assert flight.room(0.0) == 2
    assert len(flight) == 1
