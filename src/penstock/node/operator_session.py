"""A session with the controllers for an operator's command, which is not a member of the cluster.

It works like a broker's session, but registers nothing, its heartbeats have no effect, and it does
not wait for an image, since it has none. The initial controllers need not be all of them.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from penstock.base.ids import BrokerId, PeerId
from penstock.controller.commands.command import Command
from penstock.controller.errors import NotActiveController
from penstock.controller.replicated_log import NO_ENTRY, NO_LEADER
from penstock.controller.session import (
    OperationAnswer,
    PrepareTransfer,
    ProbeSets,
    ReleasePromises,
    SetReport,
    TransferReady,
)
from penstock.node.peers import peer_security
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.io.clock import SystemClock
from penstock.runtime.io.randomness import SystemRandomness
from penstock.runtime.raft.transport import parse_address
from penstock.runtime.session.client import SessionClient, SessionIdentity, SessionPorts
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.link import AnswerLost, NoSession
from penstock.runtime.session.messages import QuorumRequest

R = TypeVar("R")
NO_MEMBER = -1
LOOK_SECONDS = 0.01
Address = tuple[str, int]


class _Tool:
    """A SessionOwner and a LocalLog without a broker and a log."""

    applied_index = NO_ENTRY

    def reports(self) -> tuple[SetReport, ...]:
        return ()

    def probe(self, request: ProbeSets) -> tuple[SetReport, ...]:
        del request
        return ()

    def release(self, request: ReleasePromises) -> None:
        del request

    async def prepare_transfer(self, request: PrepareTransfer) -> TransferReady:
        return TransferReady(request_id=request.request_id, is_ready=False, reason="a tool")

    def note_controller(self, sent_ms: int, *, is_caught_up: bool) -> None:
        del sent_ms, is_caught_up

    async def register(self) -> None:
        pass

    async def submit(self, command: Command[R]) -> R:
        raise NotActiveController(NO_LEADER)

    async def wait_until_applied(self, log_index: int, timeout_ms: int) -> bool:
        del log_index, timeout_ms
        return True


@asynccontextmanager
async def operator_session(
    settings: NodeSettings, controllers: Mapping[PeerId, Address]
) -> AsyncIterator[SessionClient]:
    """Yield a client; the first request waits until a controller is reached."""
    tasks: set[asyncio.Task[None]] = set()

    def spawn(name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    tool, security = _Tool(), peer_security(settings.cluster)
    client = SessionClient(
        SessionIdentity(
            broker_id=BrokerId(NO_MEMBER),
            incarnation=secrets.token_urlsafe(8),
            cluster_id=lambda: settings.node.cluster_id,
        ),
        SessionConfig.of(settings.controller),
        SessionPorts(
            security=security,
            clock=SystemClock(),
            randomness=SystemRandomness(),
            owner=tool,
            log=tool,
            local=None,
            spawn=spawn,
        ),
    )
    client.start(controllers)
    learning = asyncio.create_task(_learn_controllers(client, controllers))
    try:
        yield client
    finally:
        learning.cancel()
        await client.stop()
        security.end_links("the command has ended")  # a farewell of TLS would outlive the loop
        await asyncio.sleep(0)


async def answer_unless_refused(client: SessionClient, work: Coroutine[Any, Any, R]) -> R:
    """Return what `work` returns. Raises PeerRefused once no controller lets the client in."""
    asking = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({asking}, timeout=LOOK_SECONDS))[0]:
            if (refusal := client.refusal()) is not None:
                raise refusal
        return asking.result()
    finally:
        asking.cancel()


async def _learn_controllers(client: SessionClient, known: Mapping[PeerId, Address]) -> None:
    """Ask the first reachable controller for the voters, and open sessions to these as well."""
    while not client.open_sessions():  # noqa: ASYNC110  nothing tells a tool of it
        await asyncio.sleep(LOOK_SECONDS)
    try:
        answer = await client.open_sessions()[0].ask(
            lambda request_id: QuorumRequest(request_id=request_id)
        )
    except (AnswerLost, NoSession):
        return
    if not isinstance(answer, OperationAnswer) or answer.error:
        return
    voters = {
        PeerId(int(peer["peer_id"])): parse_address(peer.get("address", ""))
        for peer in json.loads(answer.text)["peers"]
        if peer["is_voter"]
    }
    reachable = {peer: place for peer, place in voters.items() if place[1]}
    client.set_controllers({**reachable, **known})
