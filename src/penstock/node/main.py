"""The composition root: settings in, a running node out. It wires and decides nothing.

    lock data directories ─► metadata log ─► commit logs recovered ─► registered ─► roles taken
      ─► listener ─► ready ............ SIGTERM ─► listener closed ─► logs closed ─► exit code

A process that registers is master of nothing until it is elected: every start of a master is a new
mastership, and clients look whether the log is still the one they knew.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import uvloop

from penstock.base.errors import ConfigError, PlatformError
from penstock.base.invariant import InvariantViolation
from penstock.node.continuity import check_metadata_is_there
from penstock.node.controller_process import ControllerProcess
from penstock.node.identity import DataDirectory, check_cluster_is_named, open_data_directories
from penstock.node.machine import Machine, real_machine
from penstock.node.node import Node
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.io.disk import FileDisk

EXIT_CLEAN = 0
EXIT_FAILED = 1

_OLD_COLLECTIONS = 10_000
"""So many collections of young objects before one that looks through all: that one holds the loop
for tens of milliseconds while a long request is in memory, and what it could find is freed by
reference counts or young."""

_SWITCH_SECONDS = 0.000_5
"""How long a worker that has synced asks a busy loop for the interpreter, a tenth of the default:
see net/workers_turn.py."""

log = logging.getLogger(__name__)


class Process(Protocol):
    """What runs: a node, or a controller alone."""

    @property
    def address(self) -> str:
        """Where it is reached, for the log."""

    async def start(self) -> None:
        """Bring it up. Raises ConfigError, PlatformError, OSError."""

    async def stop(self) -> bool:
        """Take it down; returns whether everything was closed as it should."""


MakeProcess = Callable[[NodeSettings, list[DataDirectory], Callable[[str], None], Machine], Process]


def run(settings: NodeSettings) -> int:
    """Run one node until SIGTERM or SIGINT; returns the process's exit code.

    Raises ConfigError for whatever the operator has to change before it can run.
    """
    return _run(settings, Node)


def run_controller(settings: NodeSettings) -> int:
    """Run a controller alone, as `run` does a node."""
    return _run(settings, ControllerProcess)


def _run(settings: NodeSettings, make: MakeProcess) -> int:
    paths = [Path(path) for path in settings.node.data_directories]
    voters = [voter.peer_id for voter in settings.cluster.voter_addresses()]
    check_cluster_is_named(settings.node.cluster_id, voters)
    if not voters or settings.node.broker_id in voters:
        check_metadata_is_there({path: FileDisk(path) for path in paths})
    directories = open_data_directories(
        paths, broker_id=settings.node.broker_id, cluster_id=settings.node.cluster_id
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, directories, make))
    finally:
        for directory in directories:
            directory.close()


class Stopping:
    """When the process ends, and with which exit code: the first one that is said counts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.exit_code: asyncio.Future[int] = loop.create_future()

    def stop(self, exit_code: int) -> None:
        """End the node in good order."""
        if not self.exit_code.done():
            self.exit_code.set_result(exit_code)

    def fail(self, reason: str) -> None:
        """End the node because it can not go on."""
        log.critical("node stops: %s", reason)
        self.stop(EXIT_FAILED)

    def on_loop_error(
        self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, object]
    ) -> None:
        """Judge an exception that nobody has caught.

        One out of a callback of ours, such as that of a disk or a timer, leaves a job half done,
        and one out of a broken invariant means corrupt state: the process ends, and the next
        start reads what is durable. What concerns one connection ends that connection.
        """
        error = context.get("exception")
        if isinstance(error, OSError) and "transport" in context:
            log.debug("connection ended: %s", error)
            return
        exception = error if isinstance(error, BaseException) else None
        log.critical("unexpected: %s", context.get("message"), exc_info=exception)
        if "handle" in context or isinstance(error, InvariantViolation):
            self.fail(f"unexpected {error!r}")


async def _serve(
    settings: NodeSettings, directories: list[DataDirectory], make: MakeProcess
) -> int:
    loop = asyncio.get_running_loop()
    stopping = Stopping(loop)
    loop.set_exception_handler(stopping.on_loop_error)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.stop, EXIT_CLEAN)
    node = make(settings, directories, stopping.fail, real_machine(loop))
    exit_code, failure = EXIT_FAILED, ""
    try:
        if await _start(node, stopping):
            log.info("ready id=%d %s", settings.node.broker_id, node.address)
        exit_code = await stopping.exit_code
    except ConfigError:
        raise
    except (PlatformError, OSError) as error:
        failure = str(error)
    except Exception:
        log.critical("node can not start", exc_info=True)
    finally:
        is_clean = await node.stop()
    if failure:  # the last line, where people look
        log.critical("node can not start: %s", failure)
    return exit_code if is_clean else EXIT_FAILED


async def _start(node: Process, stopping: Stopping) -> bool:
    """Start the node; returns False when it was told to stop meanwhile."""
    starting = asyncio.get_running_loop().create_task(node.start(), name="start")
    await asyncio.wait((starting, stopping.exit_code), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        await starting
        # What lives now lives for long: keep the collector away from it.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], _OLD_COLLECTIONS)
        sys.setswitchinterval(_SWITCH_SECONDS)
        return True
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    log.info("told to stop while starting")
    return False
