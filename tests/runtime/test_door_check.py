"""A broker that a new active controller never heard of: refused is dead, silent is nothing."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

from penstock.base.ids import BrokerId
from penstock.controller.metadata.image import BrokerImage, ClusterImage
from penstock.runtime.session.door_check import DoorCheck


def image_with(port: int) -> ClusterImage:
    image = ClusterImage()
    image.brokers[BrokerId(7)] = BrokerImage(
        broker_id=BrokerId(7),
        host="127.0.0.1",
        port=1,
        rack=None,
        ha_host="127.0.0.1",
        ha_port=port,
    )
    return image


async def look(image: ClusterImage, awaited: list[bool]) -> list[int]:
    """Run one check; `awaited` gives the answers of `is_awaited` one after the other."""
    refused: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    def spawn(name: str, work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    DoorCheck(
        image,
        is_awaited=lambda _: awaited.pop(0) if awaited else False,
        on_refused=refused.append,
        spawn=spawn,
    ).begin()
    await asyncio.gather(*tasks)
    return refused


def test_a_broker_whose_port_refuses_is_reported() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        image = image_with(unused.getsockname()[1])
    assert asyncio.run(look(image, [True, True, True])) == [7]


def test_a_broker_that_was_heard_meanwhile_is_left_alone() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        image = image_with(unused.getsockname()[1])
    assert asyncio.run(look(image, [True, True, False])) == []


def test_a_port_that_takes_connections_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        image = image_with(server.getsockname()[1])
        assert asyncio.run(look(image, [True, True, False])) == []
