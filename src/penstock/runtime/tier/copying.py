"""Copies the log of one mastership into the tier, until that ends: does what its copier wants.

    copier ─ what is to be done ─► metadata asked, objects put, sizes looked at ─► outcomes
       nothing to do ─► what is due is deleted ─► a pause, or until somebody knocks

Whatever fails is tried again after a pause, which grows; a command that had no answer is asked
again as it is, an object that failed has a new id. Nothing of an upload is under way here behind
its deadline. Who ends the mastership cancels `run`; what is under way at the store then may land
late, which the metadata knows how to handle.

Source: docs/adr/0117; Kafka's RemoteLogManager has a task for each partition, this one is for a
replica set.

Deliberately not here: what is worth copying and how it is read, when a mastership begins and ends.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from annotated_types import Ge, Le

from penstock.base.errors import PlatformError
from penstock.base.ports import Clock
from penstock.coordinator.unwritten import Unwritten
from penstock.runtime.tier.asking import AskedMetadata
from penstock.runtime.tier.merging import Merging
from penstock.tier.copies.copier import Copier, Step
from penstock.tier.copies.counters import CopyCounters
from penstock.tier.copies.effects import Ask, Built, Effect, Look, Upload
from penstock.tier.copies.source import Image, Source
from penstock.tier.copies.transfer import put_object, size_of, sweep
from penstock.tier.envelope import ENVELOPE_BYTES
from penstock.tier.errors import StoreError
from penstock.tier.metadata.commands import Command, Commit, Committed, Reason, Refused
from penstock.tier.metadata.manifest import Kind
from penstock.tier.port import Capabilities, ObjectStore

log = logging.getLogger("penstock.tier")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyConfig:
    """How a mastership copies. Times in ms."""

    pause_ms: Annotated[int, Ge(10), Le(3_600_000)] = 10_000
    """Between two looks at a log that had nothing to copy."""

    retry_ms: Annotated[int, Ge(1), Le(60_000)] = 1_000
    """Before the first repetition of what failed; each further pause is twice as long."""

    retry_ms_max: Annotated[int, Ge(1), Le(3_600_000)] = 300_000
    """The longest pause."""

    uploads_at_once: Annotated[int, Ge(1), Le(8)] = 2
    """Objects that are in memory at a time."""

    look_ms_max: Annotated[int, Ge(1), Le(600_000)] = 60_000
    """How long the size of an object is asked for, before it is given up."""


class Surroundings(NamedTuple):
    """What lies between a log and the tier."""

    source: Source
    metadata: AskedMetadata
    store: ObjectStore
    capabilities: Capabilities
    """What the store was found to do."""
    clock: Clock
    merging: Merging | None = None
    """Does what the copier wants merged; None: that wants nothing."""


class Copying:
    """One mastership's copying."""

    def __init__(
        self,
        copier: Copier,
        between: Surroundings,
        *,
        config: CopyConfig,
        counters: CopyCounters,
        room: asyncio.Semaphore | None = None,
    ) -> None:
        """`room` is for so many objects in memory, of all that share it."""
        self._copier = copier
        self._source, self._metadata, self._store, self._capabilities, self._clock = between[:5]
        self._merging = between.merging
        self._merges: dict[int, Upload] = {}
        """By object: at most one is under way, until the copier has heard what became of it."""
        self._tasks_beside: set[asyncio.Task[None]] = set()
        self._config = config
        self._counters = counters
        self._room = room or asyncio.Semaphore(config.uploads_at_once)
        self._knocked = asyncio.Event()
        self._swept_ms = -config.pause_ms
        self._pauses_in_row = 0
        self._has_failed = False
        """Since the last pause."""
        self.trouble: str | None = None
        """What failed in the newest round that had a failure; None: the last round had none."""

    def knock(self) -> None:
        """Say that there may be something to copy, or to delete."""
        self._knocked.set()

    async def run(self) -> None:
        """Copy until another mastership has begun, or until it is cancelled."""
        async with asyncio.TaskGroup() as beside:
            await self._run(beside)
            for task in self._tasks_beside:
                task.cancel()
        log.info("another mastership copies into the tier: this one ends")

    async def _run(self, beside: asyncio.TaskGroup) -> None:
        while self._copier.step is not Step.DEPOSED:
            now_ms = self._clock.monotonic_ms()
            effects = self._copier.take(now_ms)
            async with asyncio.TaskGroup() as group:
                for effect in effects:
                    if self._is_of_merge(effect):
                        self._begin_beside(beside, effect)
                    else:
                        group.create_task(self._do(effect))
            if not effects or now_ms >= self._swept_ms + self._config.pause_ms:
                self._swept_ms = now_ms
                await self._sweep()
            await self._rest(is_idle=not effects)

    def _is_of_merge(self, effect: Effect) -> bool:
        match effect:
            case Upload(merge=plan):
                return bool(plan)
            case Look(name):
                return name.object_id in self._merges
            case _:
                return False

    def _begin_beside(self, beside: asyncio.TaskGroup, effect: Effect) -> None:
        """Begin what nothing waits for; the copier is asked what is next when it has ended."""
        assert isinstance(effect, Upload | Look)
        todo = self._merge(effect) if isinstance(effect, Upload) else self._look(effect)
        task = beside.create_task(todo)
        self._tasks_beside.add(task)
        task.add_done_callback(self._tasks_beside.discard)
        task.add_done_callback(lambda _task: self.knock())

    async def _rest(self, *, is_idle: bool) -> None:
        """Pause after a failure, or if there was nothing to do.

        What was put is committed first: its id has a deadline.
        """
        if self._copier.step is Step.UPLOAD or self._copier.has_commit:
            return
        if self._has_failed:
            pause_ms = self._config.retry_ms << min(self._pauses_in_row, 20)
            self._pauses_in_row += 1
            self._has_failed = False
            await asyncio.sleep(min(pause_ms, self._config.retry_ms_max) / 1000)
            return
        self.trouble = None
        if is_idle:
            self._pauses_in_row = 0
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._config.pause_ms / 1000):
                await self._knocked.wait()
        except TimeoutError:
            pass
        self._knocked.clear()

    async def _do(self, effect: Effect) -> None:
        match effect:
            case Ask(command):
                await self._ask(command)
            case Upload():
                await self._upload(effect)
            case Look():
                await self._look(effect)

    async def _ask(self, command: Command) -> None:
        answer = await self._metadata.ask(command)
        if isinstance(answer, Unwritten):
            self._note_failure(f"the tier's metadata: {answer.value}")
            self._copier.unanswered()
            return
        if isinstance(answer, Refused) and answer.reason is not Reason.FENCED:
            self._note_failure(f"the tier's metadata refuses: {answer.reason.value}")
        if isinstance(answer, Committed):
            self._pauses_in_row = 0
            self._count_merge(command)
        self._copier.answered(command, answer)

    def _count_merge(self, command: Command) -> None:
        """Count what took the place of others."""
        if isinstance(command, Commit) and command.events[0].group.kind is Kind.REPLACE:
            merge = self._merges.pop(command.objects[0].object_id).merge
            self._counters.merges += 1
            self._counters.merged_runs += sum(len(one.runs) for one in merge)

    async def _upload(self, upload: Upload) -> None:
        """Build an object and put it, all of it before its deadline."""
        object_id, built = upload.name.object_id, None
        try:
            async with asyncio.timeout(self._seconds_until(upload.until_ms)), self._room:
                image = await self._source.build(upload.plan)
                built = _built(image)
                await put_object(self._store, self._capabilities, upload.name, image.file)
        except (PlatformError, TimeoutError) as error:
            self._note_failure(f"object {upload.name} is not uploaded: {_text(error)}")
            self._copier.failed(object_id, built)
            return
        self._note_put(built)
        self._copier.put(object_id, built)

    async def _merge(self, upload: Upload) -> None:
        """Build an object out of others and put it, before its deadline."""
        assert self._merging is not None
        object_id, built = upload.name.object_id, None
        self._merges = {object_id: upload}

        async def put(image: Image) -> None:
            nonlocal built
            built = _built(image)
            await put_object(self._store, self._capabilities, upload.name, image.file)

        try:
            async with asyncio.timeout(self._seconds_until(upload.until_ms)):
                await self._merging.put(upload.merge, put)
        except (PlatformError, TimeoutError) as error:
            self._counters.merge_failures += 1
            log.warning("object %s is not merged: %s", upload.name, _text(error))
            self._merging.failed(upload.merge, error)
            self._copier.failed(object_id, built)
            return
        assert built is not None
        self._note_put(built)
        self._copier.put(object_id, built)

    def _note_put(self, built: Built) -> None:
        self._counters.objects += 1
        self._counters.object_bytes += built.object_bytes

    def _seconds_until(self, until_ms: int) -> float:
        return max(until_ms - self._clock.monotonic_ms(), 0) / 1000

    async def _look(self, look: Look) -> None:
        """Find out the size of an object; what can not be found out counts as not there."""
        size: int | None = None
        try:
            async with asyncio.timeout(self._config.look_ms_max / 1000):
                size = await self._size_of(look)
        except TimeoutError:
            self._note_failure(f"nobody knows whether object {look.name} is there")
        self._copier.looked(look.name.object_id, size)

    async def _size_of(self, look: Look) -> int | None:
        while True:
            try:
                return await size_of(self._store, look.name)
            except StoreError as error:
                self._note_failure(str(error))
                await asyncio.sleep(self._config.retry_ms / 1000)

    async def _sweep(self) -> None:
        """Delete what is due, and tell the metadata; what fails is due again."""
        due = await self._metadata.due()
        if isinstance(due, Unwritten):
            self._note_failure(f"the tier's metadata: {due.value}")
            return
        if not due:
            return
        try:
            swept = await sweep(self._store, due)
        except StoreError as error:
            self._note_failure(f"objects are not deleted: {error}")
            return
        for one in swept:
            if isinstance(await self._metadata.ask(one), Unwritten):
                self._note_failure("the tier's metadata did not hear of a delete")
                return
            self._counters.deleted += 1

    def _note_failure(self, reason: str) -> None:
        self._counters.failures += 1
        if not self._pauses_in_row and not self._has_failed:
            log.warning("%s; tried again", reason)
        self._has_failed = True
        self.trouble = reason


def _built(image: Image) -> Built:
    size = ENVELOPE_BYTES + sum(len(chunk) for chunk in image.file)
    return Built(image.entries, image.epochs, size)


def _text(error: Exception) -> str:
    return str(error) or "it takes too long"
