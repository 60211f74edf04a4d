"""The composition root: runs a node from its settings. It only wires parts together.

    lock data directories ─► metadata log ─► commit logs recovered ─► registered ─► roles taken
      ─► listener ─► ready ............ SIGTERM ─► listener closed ─► logs closed ─► exit code

A process that has registered leads no set until it is elected: every start of a master begins a new
leader epoch, by which clients detect truncation (KIP-320).
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
from penstock.node.access.exposure import check_exposure
from penstock.node.continuity import check_metadata_is_there
from penstock.node.controller_process import ControllerProcess
from penstock.node.identity import DataDirectory, check_cluster_is_named, open_data_directories
from penstock.node.machine import Machine, real_machine
from penstock.node.node import Node
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.io.disk import FileDisk
from penstock.runtime.io.end_signals import end_signals

EXIT_CLEAN = 0
EXIT_FAILED = 1

_OLD_COLLECTIONS = 10_000
"""Collections of the middle generation before a full one. A full collection blocks the loop for
tens of milliseconds while a long request is in memory, and finds little: most objects are freed by
reference counts or in the young generations."""

_SWITCH_SECONDS = 0.000_5
"""How long a worker that has synced waits for the interpreter lock of a busy loop, a tenth of the
default: see net/workers_turn.py."""

log = logging.getLogger(__name__)


class Process(Protocol):
    """A node or a controller process."""

    @property
    def address(self) -> str:
        """The address, as logged."""

    async def start(self) -> None:
        """Start all parts. Raises ConfigError, PlatformError, OSError."""

    async def stop(self) -> bool:
        """Stop all parts; returns whether all of them closed without an error."""


MakeProcess = Callable[[NodeSettings, list[DataDirectory], Callable[[str], None], Machine], Process]


def run(settings: NodeSettings) -> int:
    """Run one node until SIGTERM or SIGINT; returns the process's exit code.

    Raises ConfigError, whose text says what the operator has to change.
    """
    check_exposure(settings)
    return _run(settings, Node)


def run_controller(settings: NodeSettings) -> int:
    """Run one controller process, as `run` does a node."""
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
    """The end of the process and its exit code; the first one that is set counts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.exit_code: asyncio.Future[int] = loop.create_future()

    def stop(self, exit_code: int) -> None:
        """End the process in an orderly way, with this exit code."""
        if not self.exit_code.done():
            self.exit_code.set_result(exit_code)

    def fail(self, reason: str) -> None:
        """End the process because of a failure."""
        log.critical("node stops: %s", reason)
        self.stop(EXIT_FAILED)

    def on_loop_error(
        self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, object]
    ) -> None:
        """Handle an exception that no code has caught.

        An exception of a callback, such as that of a disk or a timer, leaves an operation
        incomplete, and a broken invariant means corrupt state: the process ends, and the next start
        reads what is durable. An error of a connection ends only that connection.
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
    told = (signal.SIGTERM, signal.SIGINT)
    with end_signals(told, lambda _number: stopping.stop(EXIT_CLEAN)):
        node = make(settings, directories, stopping.fail, real_machine(loop))
        return await _serve_until_stopped(settings, node, stopping)


async def _serve_until_stopped(settings: NodeSettings, node: Process, stopping: Stopping) -> int:
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
    if is_clean:
        log.info("stopped id=%d", settings.node.broker_id)
    if failure:  # as the last line of the log, where operators look first
        log.critical("node can not start: %s", failure)
    return exit_code if is_clean else EXIT_FAILED


async def _start(node: Process, stopping: Stopping) -> bool:
    """Start the process; returns False if it was stopped meanwhile."""
    starting = asyncio.get_running_loop().create_task(node.start(), name="start")
    await asyncio.wait((starting, stopping.exit_code), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        await starting
        # Objects of the start are long-lived: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], _OLD_COLLECTIONS)
        sys.setswitchinterval(_SWITCH_SECONDS)
        return True
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    log.info("stopped while starting")
    return False
