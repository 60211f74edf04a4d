"""Changing the controllers through a log that can do it, and what it says when it can not."""

import asyncio

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId, RequestId
from penstock.controller.errors import NotActiveController, RefusedCommand
from penstock.raft.errors import TransferRefused
from penstock.raft.ids import DirectoryId
from penstock.runtime.session.messages import ChangeControllers
from penstock.runtime.session.service_membership import ChangeDone, membership_by
from tests.runtime.session_cluster import on_loop


class Voters:
    """A log that is asked, and answers what the test says, later."""

    def __init__(self, outcome: PlatformError | None = None) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._outcome = outcome

    def add_voter(
        self, peer_id: int, address: str, done: ChangeDone, directory_id: str | None = None
    ) -> None:
        self._take(done, "add", peer_id, address, directory_id)

    def remove_voter(self, peer_id: int, done: ChangeDone, directory_id: str | None = None) -> None:
        self._take(done, "remove", peer_id, directory_id)

    def transfer(self, to: int, done: ChangeDone) -> None:
        self._take(done, "transfer", to)

    def _take(self, done: ChangeDone, *asked: object) -> None:
        self.asked.append(asked)
        asyncio.get_running_loop().call_soon(done, self._outcome)


def asked(action: str, peer_id: int = 4, address: str = "") -> ChangeControllers:
    return ChangeControllers(
        request_id=RequestId(1), action=action, peer_id=PeerId(peer_id), address=address
    )


@on_loop
async def test_each_action_reaches_the_log_and_is_told_when_it_is_in_force() -> None:
    voters = Voters()
    change = membership_by(voters)
    assert "4 at host:9093 is a controller" in await change(asked("add", address="host:9093"))
    assert "no longer a controller" in await change(asked("remove"))
    assert "active" in await change(asked("transfer"))
    assert voters.asked == [("add", 4, "host:9093", None), ("remove", 4, None), ("transfer", 4)]


@on_loop
async def test_a_directory_id_reaches_the_log() -> None:
    voters = Voters()
    for action in ("add", "remove"):
        await membership_by(voters)(
            ChangeControllers(
                request_id=RequestId(1),
                action=action,
                peer_id=PeerId(4),
                address="host:1",
                directory_id=DirectoryId("first"),
            )
        )
    assert voters.asked == [("add", 4, "host:1", "first"), ("remove", 4, "first")]


@on_loop
async def test_what_can_not_be_is_refused_before_the_log_is_asked() -> None:
    voters = Voters()
    for request in (asked("explode"), asked("add"), asked("add", address="host:99999")):
        with pytest.raises(RefusedCommand):
            await membership_by(voters)(request)
    assert voters.asked == []


@on_loop
async def test_refusals_of_the_log_keep_their_meaning() -> None:
    with pytest.raises(NotActiveController):
        await membership_by(Voters(NotActiveController(PeerId(2))))(asked("remove"))
    with pytest.raises(RefusedCommand, match="too far behind"):
        await membership_by(Voters(TransferRefused("4 is too far behind")))(asked("transfer"))
