"""The connection of a command to the controllers, whose addresses are in the settings.

A cluster of `penstock up` is given by its directory; any other by the settings file of one of its
processes, which names the voters and the file with the secret.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Coroutine, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from penstock.base.errors import ConfigError
from penstock.base.ids import PeerId, RequestId
from penstock.cli.connect import QUIET_SECONDS, CommandFailed
from penstock.cli.output import note
from penstock.cli.values import directory

if TYPE_CHECKING:
    from penstock.controller.commands.command import Command
    from penstock.controller.session import StatusAnswer
    from penstock.node.settings.settings import NodeSettings
    from penstock.runtime.session.client import SessionClient

ANSWER_SECONDS = 15.0
TROUBLES_SHOWN_MAX = 3
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings of any process of the cluster."),
]
DataOption = Annotated[
    Path,
    typer.Option(
        metavar="DIR", help="Directory of `penstock up`, without --config.", parser=directory
    ),
]
DATA_DEFAULT = Path("penstock-data")


class Switch(StrEnum):
    """The values on and off."""

    ON = "on"
    OFF = "off"


SwitchArgument = Annotated[Switch, typer.Argument(metavar="on|off", show_default=False)]
T = TypeVar("T")
Address = tuple[str, int]


def cluster_settings(config: Path | None, data: Path) -> NodeSettings:
    """Return settings with the controllers' addresses. Raises ConfigError."""
    path = config or data / "node-1" / "node.toml"
    if config is None and not path.exists():
        raise ConfigError(
            f"{data} holds no cluster of `penstock up`: name its directory with --data, or the "
            "settings of one of the processes with --config"
        )
    from penstock.node.settings.settings import load_settings

    return load_settings(path, environment=os.environ)


def controllers_of(settings: NodeSettings) -> dict[PeerId, Address]:
    """Return the addresses of possible controllers.

    These are the voters, and the process with these settings, which may have been given a vote
    later. Raises ConfigError for a single node.
    """
    cluster, node = settings.cluster, settings.node
    found = {voter.peer_id: (voter.host, voter.port) for voter in cluster.voter_addresses()}
    if cluster.controller_port and PeerId(node.broker_id) not in found:
        found[PeerId(node.broker_id)] = _own_address(settings)
    if not found:
        raise ConfigError(
            "this node is alone and has no port for operators: give cluster.voters, "
            "cluster.controller_port and cluster.secret_file, or start it with penstock up --nodes"
        )
    return found


def _own_address(settings: NodeSettings) -> Address:
    """Return the address of this process's controller port, from its own machine."""
    host = settings.cluster.host or settings.node.host
    every = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared, not bound
    return every.get(host, host), settings.cluster.controller_port


def fetch_status(settings: NodeSettings) -> StatusAnswer:
    """Return the cluster's status from the active controller, or from any if none is active."""
    answer, troubles = _run(_with_client(settings, lambda client: client.commands.status()))
    if not answer.cluster_id:
        raise CommandFailed(f"the process that answered is in no cluster yet{troubles}")
    return answer


def operate(settings: NodeSettings, make: Callable[[RequestId], Any]) -> str:
    """Send an operator's request to the active controller; return its result as text."""
    return _run(_with_client(settings, lambda client: client.commands.operate(make)))[0]


def fetch_quorum(settings: NodeSettings) -> dict[str, Any]:
    """Return the members of the metadata log's quorum, as the active controller sees them."""
    import json

    from penstock.runtime.session.messages import QuorumRequest

    quorum: dict[str, Any] = json.loads(
        operate(settings, lambda request_id: QuorumRequest(request_id=request_id))
    )
    return quorum


def submit(settings: NodeSettings, command: Command[T]) -> T:
    """Send a command to the active controller; return its answer."""
    return _run(_with_client(settings, lambda client: client.submit(command)))[0]


async def _with_client(
    settings: NodeSettings, ask: Callable[[SessionClient], Coroutine[Any, Any, T]]
) -> T:
    import asyncio

    from penstock.net.peer import PeerRefused
    from penstock.node.operator_session import answer_unless_refused, operator_session

    async with operator_session(settings, controllers_of(settings)) as client:
        text = f"waiting for the active controller, for {ANSWER_SECONDS:.0f} s at most"
        waiting = asyncio.get_running_loop().call_later(QUIET_SECONDS, note, text)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer_unless_refused(client, ask(client))
        except PeerRefused as error:
            raise CommandFailed(f"the controllers do not let this command in: {error}") from None
        finally:
            waiting.cancel()


def _run(work: Coroutine[Any, Any, T]) -> tuple[T, str]:
    """Return the result, and the warnings on the way as text to append to a message."""
    import asyncio

    from penstock.controller.errors import MetadataTimeout

    with _troubles_collected() as troubles:
        try:
            return asyncio.run(work), _in_brackets(troubles)
        except (TimeoutError, MetadataTimeout):
            raise CommandFailed(
                "no active controller answered in time: see whether a majority of them runs"
                + _in_brackets(troubles)
            ) from None


def _in_brackets(troubles: list[str]) -> str:
    return f" ({'; '.join(troubles[:TROUBLES_SHOWN_MAX])})" if troubles else ""


@contextlib.contextmanager
def _troubles_collected() -> Iterator[list[str]]:
    """Yield a list that collects warnings, so that a command can report them in one line."""
    import logging

    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if (text := record.getMessage()) not in found:
                found.append(text)

    collector, logger = Collector(logging.WARNING), logging.getLogger("penstock")
    logger.addHandler(collector)
    try:
        yield found
    finally:
        logger.removeHandler(collector)
