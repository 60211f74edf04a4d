"""Topics that another broker's client has made are waited for."""

import asyncio
from typing import cast

import pytest

from penstock.controller.metadata.image import ClusterDelta, ClusterImage, TopicImage
from penstock.remoting.operating import arrivals as room
from penstock.remoting.operating.arrivals import Arrivals


def test_who_waits_for_a_topic_goes_on_when_the_metadata_has_it() -> None:
    async def scenario() -> list[bool]:
        image = ClusterImage()
        arrivals = Arrivals(image)
        waiting = [asyncio.ensure_future(arrivals.wait_for("wanted")) for _ in range(2)]
        await asyncio.sleep(0)
        image.topics_by_name["another"] = cast("TopicImage", None)
        image.publish(ClusterDelta())
        await asyncio.sleep(0)
        assert not any(one.done() for one in waiting)
        image.topics_by_name["wanted"] = cast("TopicImage", None)
        image.publish(ClusterDelta())
        return [*(await asyncio.gather(*waiting)), await arrivals.wait_for("wanted")]

    assert asyncio.run(scenario()) == [True, True, True]


def test_a_topic_that_does_not_come_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "WAIT_MS", 1)

    async def scenario() -> bool:
        arrivals = Arrivals(ClusterImage())
        came = await arrivals.wait_for("wanted")
        assert not arrivals._waiting, "nothing is kept of it"
        return came

    assert asyncio.run(scenario()) is False
