"""The broker's port to the active controller; fails at once where there can be none.

Commands wait until a controller is elected. If a node is its own only controller and its metadata
log is fenced, waiting is pointless: clients get that error instead of a time-out.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.base.ids import RequestId
from penstock.broker.quorum import Quorum, QuorumMember
from penstock.controller.commands.command import Command
from penstock.controller.errors import MetadataLogFenced
from penstock.node.control_plane import ControlPlane
from penstock.runtime.session.client import SessionClient
from penstock.runtime.session.messages import ChangeFeature, Operation, QuorumRequest

R = TypeVar("R")


class MetadataCommands:
    """A ControllerPort, and the operations of the active controller."""

    def __init__(self, plane: ControlPlane, sessions: SessionClient) -> None:
        self._plane = plane
        self._commands = sessions.commands

    async def submit(self, command: Command[R]) -> R:
        """Return the answer. Raises as SessionCommands.submit does."""
        self._check()
        return await self._commands.submit(command)

    async def operate(self, make: Callable[[RequestId], Operation]) -> str:
        """Return the outcome as text for people. Raises as SessionCommands.operate does."""
        self._check()
        return await self._commands.operate(make)

    async def quorum(self) -> Quorum:
        """Return voters and learners of the metadata log. Raises as `operate` does."""
        return read_quorum(
            await self._commands.operate(lambda request_id: QuorumRequest(request_id=request_id))
        )

    async def change_feature(
        self, feature: str, level: int, *, is_lowering: bool, is_trial: bool
    ) -> None:
        """Raise or lower a feature's level. Raises as `operate` does."""
        self._check()
        await self._commands.operate(
            lambda request_id: ChangeFeature(
                request_id=request_id,
                feature=feature,
                level=level,
                is_lowering=is_lowering,
                is_trial=is_trial,
            )
        )

    def _check(self) -> None:
        if self._plane.log.is_fenced and self._plane.is_only_voter:
            raise MetadataLogFenced(
                "The metadata log's disk has failed: look at the disk and restart the node."
            )


def read_quorum(text: str) -> Quorum:
    """Return what the JSON of a QuorumRequest's answer says; a vacant seat is nobody yet."""
    told = json.loads(text)
    members = [_member(one, told["leader_id"]) for one in told["peers"]
               if one["state"] != "vacant"]  # fmt: skip
    return Quorum(told["leader_id"], told["term"], told["commit_index"], tuple(members))


def _member(told: dict[str, Any], leader_id: int) -> QuorumMember:
    host, _, port = told["address"].rpartition(":")
    return QuorumMember(
        peer_id=told["peer_id"],
        directory_id=told["directory_id"],
        host=host,
        port=int(port) if port else 0,
        is_voter=told["is_voter"],
        end_position=told["match_index"],
        is_leader=told["peer_id"] == leader_id and told["is_voter"],
        silent_ms=told["silent_ms"],
    )
