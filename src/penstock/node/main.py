"""The composition root: settings in, a running node out. It wires and decides nothing.

    lock data directories ─► metadata log ─► commit logs recovered ─► masterships ─► groups loaded
      ─► listener ─► ready ............ SIGTERM ─► listener closed ─► logs closed ─► exit code

Every start of the node is a new mastership of its replica sets: the leader epoch rises, so that
clients look whether the log is still the one they knew.
"""

import asyncio
import logging
import signal
from contextlib import suppress
from pathlib import Path

import uvloop

from penstock.base.errors import ConfigError, PlatformError
from penstock.base.invariant import InvariantViolation
from penstock.node.identity import DataDirectory, open_data_directories
from penstock.node.node import Node
from penstock.node.settings import NodeSettings

EXIT_CLEAN = 0
EXIT_FAILED = 1
EXIT_CONFIG = 2

log = logging.getLogger(__name__)


def run(settings: NodeSettings) -> int:
    """Run one node until SIGTERM or SIGINT; returns the process's exit code.

    Raises ConfigError for whatever the operator has to change before it can run.
    """
    directories = open_data_directories(
        [Path(path) for path in settings.node.data_directories],
        broker_id=settings.node.broker_id,
        cluster_id=settings.node.cluster_id,
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, directories))
    finally:
        for directory in directories:
            directory.close()


async def _serve(settings: NodeSettings, directories: list[DataDirectory]) -> int:
    loop = asyncio.get_running_loop()
    stopping: asyncio.Future[int] = loop.create_future()

    def stop(code: int) -> None:
        if not stopping.done():
            stopping.set_result(code)

    def fail(reason: str) -> None:
        log.critical("node stops: %s", reason)
        stop(EXIT_FAILED)

    def on_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError):
            log.debug("connection ended: %s", error)
            return
        log.critical(
            "unexpected: %s",
            context.get("message"),
            exc_info=error if isinstance(error, BaseException) else None,
        )
        if isinstance(error, InvariantViolation):
            fail(f"invariant broken: {error}")

    loop.set_exception_handler(on_loop_error)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop, EXIT_CLEAN)
    node = Node(settings, directories, fail)
    try:
        await node.start()
        log.info("ready broker=%d kafka=%s", settings.node.broker_id, node.address)
        return await stopping
    except ConfigError:
        raise
    except PlatformError as error:
        log.critical("node can not start: %s", error)
        return EXIT_FAILED
    finally:
        with suppress(asyncio.CancelledError):
            await node.stop()
