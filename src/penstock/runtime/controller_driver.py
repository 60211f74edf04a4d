"""The controller's driver: one command at a time from `handle` through the log to `replay`.

    submit ─► turn (first come, first served) ─► handle ─► propose ─► apply ─► answer

A command is judged by an image that holds everything before it, so the next one has to wait until
the last one is applied or has failed, also when whoever asked for it has given up waiting. Many
topics in one command are one entry and one fsync; that is where batching pays.

Source: Kafka QuorumController, which pipelines on a timeline-hashed image; we need some hundred
changes a second and not some ten thousand. It decides nothing about metadata.

An exception out of `apply` (corrupt state, a listener that failed) reaches the event loop's
exception handler, which must end the process: the image can not be trusted then.
"""

import asyncio
from typing import TypeVar

from penstock.base.ports import Buffer
from penstock.controller.commands import Command
from penstock.controller.controller import Controller
from penstock.controller.errors import (
    MetadataError,
    MetadataPolicyViolation,
    MetadataQueueFull,
    MetadataTimeout,
)
from penstock.controller.record_codec import ENTRY_BYTES_MAX, decode_records, encode_records
from penstock.controller.records import MetadataRecord
from penstock.controller.replicated_log import ReplicatedLog
from penstock.controller.snapshot import snapshot_records

R = TypeVar("R")

COMMANDS_MAX = 1_000
"""Commands that may wait; the next one is refused at once, which clients take as: try again."""

COMMAND_TIMEOUT_MS = 30_000
"""How long a command waits for its turn and its commit; below the 40 s and more that clients wait
for an answer, so that they hear from us why."""


class ControllerDriver:
    """A ControllerPort for the broker and a StateMachine for the log."""

    def __init__(
        self,
        controller: Controller,
        log: ReplicatedLog,
        *,
        timeout_ms: int = COMMAND_TIMEOUT_MS,
        commands_max: int = COMMANDS_MAX,
    ) -> None:
        self._controller = controller
        self._log = log
        self._timeout_ms = timeout_ms
        self._commands_max = commands_max
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._in_flight: asyncio.Future[int | MetadataError] | None = None
        self._is_started = False

    def start(self) -> None:
        """Replay what the log holds. Blocking work is done: the log was read when it was opened.

        Raises:
            MetadataError, InvariantViolation: the log can not be replayed.
        """
        self._log.start(self)
        self._is_started = True
        self._maybe_snapshot()

    async def submit(self, command: Command[R]) -> R:
        """Return the answer once the change is committed and replayed here.

        Raises:
            RefusedCommand: the command as a whole can not be.
            MetadataUnavailable: not taken; after MetadataTimeout it may still happen.
        """
        if self._waiting >= self._commands_max:
            raise MetadataQueueFull(self._commands_max)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._take_turn(command)
        except TimeoutError:
            raise MetadataTimeout(self._timeout_ms) from None
        finally:
            self._waiting -= 1

    async def _take_turn(self, command: Command[R]) -> R:
        async with self._turn:
            await self._settle()  # of a command whose owner gave up waiting
            result = self._controller.handle(command)
            if result.records:
                self._propose(result.records)
                outcome = await self._settle()
                if isinstance(outcome, MetadataError):
                    raise outcome
            return result.response

    def _propose(self, records: tuple[MetadataRecord, ...]) -> None:
        entry = encode_records(records)
        if len(entry) > ENTRY_BYTES_MAX:
            raise MetadataPolicyViolation(
                f"The change takes {len(entry)} bytes, more than {ENTRY_BYTES_MAX}: ask for fewer"
                " topics or partitions at a time."
            )
        in_flight = self._in_flight = asyncio.get_running_loop().create_future()
        self._log.propose(entry, in_flight.set_result)

    async def _settle(self) -> int | MetadataError | None:
        """Wait for the entry in flight. Cancelling the wait leaves the entry in flight."""
        if self._in_flight is None:
            return None
        outcome = await asyncio.shield(self._in_flight)
        self._in_flight = None
        return outcome

    def install_snapshot(self, index: int, snapshot: Buffer) -> None:
        """Replay a snapshot. Only at start: one log, one voter, nothing to catch up with."""
        assert not self._is_started
        self._controller.replay(decode_records(snapshot))

    def apply(self, index: int, payload: Buffer) -> None:
        """Replay one committed entry."""
        self._controller.replay(decode_records(payload))
        if self._is_started:
            self._maybe_snapshot(index)

    def _maybe_snapshot(self, index: int | None = None) -> None:
        if self._log.wants_snapshot:
            snapshot = encode_records(snapshot_records(self._controller.image))
            self._log.trim(self._log.applied_index if index is None else index, snapshot)
