"""A long command is executed in parts; nobody is told of a half as if it were all or nothing."""

import asyncio
from typing import Any, cast

import pytest

from penstock.base.ids import ControllerEpoch, PeerId
from penstock.controller.commands import command as c
from penstock.controller.errors import (
    LeadershipLost,
    MetadataError,
    MetadataPolicyViolation,
    MetadataQueueFull,
    NotActiveController,
)
from penstock.controller.replicated_log import Leadership
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.session.submitting import submit_in_parts

COMMAND = c.CreateTopics(topics=tuple(c.NewTopic(name=f"t{at}") for at in range(120)))


class Driver:
    """Creates every topic; the `fails_at`-th command fails."""

    leadership = Leadership(PeerId(2), ControllerEpoch(7), is_leader=False)

    def __init__(self, fails_at: int = 0, error: MetadataError | None = None) -> None:
        self.sizes: list[int] = []
        self._fails_at = fails_at
        self._error = error

    async def submit(self, command: c.CreateTopics) -> tuple[c.TopicOutcome, ...]:
        self.sizes.append(len(command.topics))
        if self._error is not None and len(self.sizes) == self._fails_at:
            raise self._error
        return tuple(c.TopicOutcome(name=topic.name) for topic in command.topics)


def submit(driver: Driver) -> Any:
    return asyncio.run(submit_in_parts(cast("ControllerDriver", driver), COMMAND))


def test_the_answers_of_the_parts_are_one() -> None:
    driver = Driver()
    assert [one.name for one in submit(driver)] == [topic.name for topic in COMMAND.topics]
    assert driver.sizes == [50, 50, 20]


def test_a_first_part_that_fails_is_the_answer_to_all() -> None:
    driver = Driver(1, NotActiveController(PeerId(2)))
    with pytest.raises(NotActiveController) as raised:
        submit(driver)
    assert not isinstance(raised.value, LeadershipLost), "it may be sent elsewhere"
    assert driver.sizes == [50]


@pytest.mark.parametrize(
    "error",
    [NotActiveController(PeerId(2)), MetadataQueueFull(1), MetadataPolicyViolation("too large")],
)
def test_a_later_part_that_fails_leaves_open_what_became_of_the_command(
    error: MetadataError,
) -> None:
    driver = Driver(2, error)
    with pytest.raises(LeadershipLost):
        submit(driver)
    assert driver.sizes == [50, 50], "nothing behind it is done"
