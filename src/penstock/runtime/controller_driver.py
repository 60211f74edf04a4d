"""The controller's driver: one command at a time from `handle` through the log to `replay`.

    submit ─► lock (in order of arrival) ─► handle ─► propose ─► apply ─► answer

An answer without records, such as a refusal, waits until the log has confirmed that this process
still led when it was found: a suspended process may have been replaced without knowing it, and the
new leader may have created what is missing here.

A command is checked against an image that holds everything before it, so the next one waits until
the last one is applied or has failed, even if the caller of that one has given up. Many topics in
one command are one entry and one fsync: this is where batching pays.

Every process has a driver, since every process replays the log; only the leader's accepts commands.
When leadership is lost, a command that was not proposed fails with NotActiveController and may be
sent elsewhere; one that was proposed fails with LeadershipLost, because the next leader may still
commit it. A new leadership begins with an image that holds all that was committed before, so
nothing of an earlier one is waited for.

Source: Kafka QuorumController, which pipelines on a timeline-hashed image; a few hundred changes a
second suffice here, not ten thousand. The driver decides nothing about metadata.

An exception from `apply` (corrupt state, a failed listener) reaches the event loop's exception
handler, which must end the process: the image cannot be trusted then.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TypeVar

from penstock.base.ids import ControllerEpoch
from penstock.base.ports import Buffer
from penstock.controller.commands.command import Command
from penstock.controller.commands.context import Result
from penstock.controller.controller import Controller
from penstock.controller.errors import (
    LeadershipLost,
    MetadataError,
    MetadataPolicyViolation,
    MetadataQueueFull,
    MetadataTimeout,
    NotActiveController,
    RefusedCommand,
)
from penstock.controller.metadata.install import Installation
from penstock.controller.metadata.record_codec import (
    ENTRY_BYTES_MAX,
    decode_records,
    encode_records,
)
from penstock.controller.metadata.records import MetadataRecord
from penstock.controller.replicated_log import NO_ENTRY, Leadership, MachineIndex, ReplicatedLog
from penstock.runtime.image_installing import ImageInstalling
from penstock.runtime.image_writing import ImageWriting

R = TypeVar("R")

COMMANDS_MAX = 1_000
"""Commands that may wait; further ones are refused at once with an error that clients retry."""

COMMAND_TIMEOUT_MS = 30_000
"""Time limit for a command to get the lock and commit; below the 40 s and more that clients wait
for an answer, so that they receive the reason."""

_NO_TERM = ControllerEpoch(-1)

_WATCHERS_MAX = 10_000
"""Callers that may wait for entries to be applied."""


@dataclass(slots=True)
class DriverStats:
    """Counters of one driver since it was created."""

    proposals: int = 0
    proposals_failed: int = 0
    """Includes those that the next leader has committed after all."""
    entries_applied: int = 0
    snapshots_installed: int = 0
    leaderships: int = 0
    """Times that this process became the active controller."""


class ControllerDriver:
    """A ControllerPort for this process and a StateMachine for the log."""

    def __init__(
        self,
        controller: Controller,
        log: ReplicatedLog,
        *,
        timeout_ms: int = COMMAND_TIMEOUT_MS,
        commands_max: int = COMMANDS_MAX,
    ) -> None:
        """The log's `on_leadership` must be wired to this object's."""
        self.stats = DriverStats()
        self._controller = controller
        self._log = log
        self._timeout_ms = timeout_ms
        self._commands_max = commands_max
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._in_flight: asyncio.Future[MachineIndex | MetadataError] | None = None
        self._is_started = False
        self._applied_index = NO_ENTRY
        self._is_level_lowered = False
        self._writing: ImageWriting | None = None
        self._installing: ImageInstalling | None = None
        self._led_term = _NO_TERM
        self._watchers: list[tuple[MachineIndex, int, asyncio.Future[None]]] = []
        self._watcher_numbers = count()

    def start(self) -> None:
        """Replay the log, which was read when it was opened, so that nothing blocks.

        Raises:
            MetadataError, InvariantViolation: the log cannot be replayed.
        """
        self._log.start(self)
        self._is_started = True
        self._note_applied(self._log.applied_index)
        self._maybe_snapshot()

    @property
    def leadership(self) -> Leadership:
        """The leader of the log and its term, as known here."""
        return self._log.leadership

    @property
    def applied_index(self) -> MachineIndex:
        """Index of the last entry in the image."""
        return self._applied_index

    def on_leadership(self, leadership: Leadership) -> None:
        """Note a change of leadership. The outcome of a command in flight at its end is unknown."""
        term = leadership.term if leadership.is_leader else _NO_TERM
        if term == self._led_term:
            return
        self._led_term = term
        self._resolve(NotActiveController(leadership.leader_id))
        if leadership.is_leader:
            self.stats.leaderships += 1

    async def submit(self, command: Command[R], *, decided_in: ControllerEpoch | None = None) -> R:
        """Return the response once the change is committed and replayed here.

        It is proposed in the term in which it arrived, or in `decided_in`, or not at all: what was
        decided in an earlier leadership may rest on entries that have been overruled since.

        Raises:
            RefusedCommand: the command is refused as a whole.
            NotActiveController: not accepted; LeadershipLost: it may still be committed.
            MetadataUnavailable: not accepted; after MetadataTimeout it may still be committed.
        """
        term = self._led() if decided_in is None else decided_in
        if self._waiting >= self._commands_max:
            raise MetadataQueueFull(self._commands_max)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._take_turn(command, term)
        except TimeoutError:
            raise MetadataTimeout(self._timeout_ms) from None
        finally:
            self._waiting -= 1

    async def wait_until_applied(self, log_index: MachineIndex, timeout_ms: int) -> bool:
        """Wait until the image holds the entry; return whether it does within the time."""
        if self._applied_index >= log_index:
            return True
        if len(self._watchers) >= _WATCHERS_MAX:
            raise MetadataQueueFull(_WATCHERS_MAX)
        applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._watchers, (log_index, next(self._watcher_numbers), applied))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await applied
        except TimeoutError:
            return False
        finally:
            if applied.cancelled():
                self._watchers = [entry for entry in self._watchers if entry[2] is not applied]
                heapq.heapify(self._watchers)
        return True

    async def _take_turn(self, command: Command[R], term: ControllerEpoch) -> R:
        async with self._turn:
            await self._settle()  # of a command whose caller has given up
            if self._led() != term:
                raise NotActiveController(self._log.leadership.leader_id)
            judged = self._judge(command)
            if isinstance(judged, Result) and judged.records:
                await self._commit(judged.records)
                return judged.response
        await self._confirm()
        if isinstance(judged, RefusedCommand):
            raise judged
        return judged.response

    def trial(self, command: Command[R]) -> R:
        """Return what a command would answer now, without writing. Raises RefusedCommand."""
        judged = self._judge(command)
        if isinstance(judged, RefusedCommand):
            raise judged
        return judged.response

    def _judge(self, command: Command[R]) -> Result[R] | RefusedCommand:
        try:
            return self._controller.handle(command)
        except RefusedCommand as refused:
            return refused

    async def _commit(self, records: tuple[MetadataRecord, ...]) -> None:
        self._propose(records)
        outcome = await self._settle()
        if isinstance(outcome, NotActiveController):
            raise LeadershipLost(outcome.controller_id)
        if isinstance(outcome, MetadataError):
            raise outcome

    async def _confirm(self) -> None:
        """Return once it is confirmed that this process leads. Raises MetadataError if not."""
        confirmed: asyncio.Future[MachineIndex | MetadataError]
        confirmed = asyncio.get_running_loop().create_future()

        def done(outcome: MachineIndex | MetadataError) -> None:
            if not confirmed.done():  # else the caller has given up
                confirmed.set_result(outcome)

        self._log.confirm(done)
        outcome = await confirmed
        if isinstance(outcome, MetadataError):
            raise outcome

    def _led(self) -> ControllerEpoch:
        """Return the term that this process leads in. Raises NotActiveController."""
        leadership = self._log.leadership
        if not leadership.is_leader:
            raise NotActiveController(leadership.leader_id)
        return leadership.term

    def _propose(self, records: tuple[MetadataRecord, ...]) -> None:
        entry = encode_records(records, self._controller.image.metadata_level)
        if len(entry) > ENTRY_BYTES_MAX:
            raise MetadataPolicyViolation(
                f"The change takes {len(entry)} bytes, more than {ENTRY_BYTES_MAX}: ask for fewer"
                " topics or partitions at a time."
            )
        in_flight = self._in_flight = asyncio.get_running_loop().create_future()
        self.stats.proposals += 1

        def done(outcome: MachineIndex | MetadataError) -> None:
            if not in_flight.done():  # else leadership was lost before
                self._resolve(outcome)

        self._log.propose(entry, done)

    def _resolve(self, outcome: MachineIndex | MetadataError) -> None:
        if self._in_flight is not None and not self._in_flight.done():
            if isinstance(outcome, MetadataError):
                self.stats.proposals_failed += 1
            self._in_flight.set_result(outcome)

    async def _settle(self) -> MachineIndex | MetadataError | None:
        """Wait for the entry in flight. Cancelling the wait leaves the entry in flight."""
        if self._in_flight is None:
            return None
        outcome = await asyncio.shield(self._in_flight)
        self._in_flight = None
        return outcome

    # --- state machine of the log --------------------------------------------------------------

    def restore(self, index: MachineIndex, snapshot: Buffer) -> None:
        """Begin with a snapshot."""
        self._controller.replay(decode_records(snapshot))
        self._note_applied(index)

    def install_snapshot(
        self, index: MachineIndex, snapshot: Buffer, done: Callable[[], None]
    ) -> None:
        """Replace the image by a snapshot: the leader no longer has the entries."""
        if self._writing is not None:
            self._writing.cancel()

        def finish(installation: Installation) -> None:
            self._installing = None
            done()
            self._controller.finish_install(installation)
            self.stats.snapshots_installed += 1
            self._note_applied(index)

        self._installing = ImageInstalling(self._controller.image, snapshot, finish)
        self._installing.go_on()

    def abandon_install(self) -> None:
        """Keep the image as it is."""
        if self._installing is not None:
            self._installing.cancel()

    def apply(self, index: MachineIndex, payload: Buffer) -> None:
        """Replay one committed entry."""
        level = self._controller.image.metadata_level
        self._controller.replay(decode_records(payload))
        if self._controller.image.metadata_level < level:
            self._is_level_lowered = True
        self.stats.entries_applied += 1
        self._note_applied(index)
        if self._is_started:
            self._maybe_snapshot(index)

    def _note_applied(self, index: MachineIndex) -> None:
        self._applied_index = max(self._applied_index, index)
        while self._watchers and self._watchers[0][0] <= index:
            _, _, applied = heapq.heappop(self._watchers)
            if not applied.done():
                applied.set_result(None)

    def _maybe_snapshot(self, index: MachineIndex | None = None) -> None:
        """Begin a snapshot that stands for `index`, just applied; without one, make it now."""
        if not (self._log.wants_snapshot or self._is_level_lowered):
            return
        is_at_once = self._is_level_lowered or index is None
        if self._writing is not None and not self._writing.is_over:
            if not is_at_once:
                return
            self._writing.cancel()
        # An earlier release must not find an entry of the higher level, here or at its peers.
        replace = self._log.forget if self._is_level_lowered else self._log.trim
        self._is_level_lowered = False
        stands_for = self._log.applied_index if index is None else index
        self._writing = ImageWriting(self._controller.image, partial(replace, stands_for))
        if is_at_once:
            self._writing.write_all()
        else:
            self._writing.go_on()
