"""Has damaged extent files written anew, with the help of the set's other members.

    every second: a file of which damage is known ─► written anew, a part at a time
        own bytes that are whole ─► copied;  the rest ─► asked of the master, then of those in step
      ─► put in the place of the damaged one in one step; until then reads of the damage fail
    nobody has it: told once, counted, tried again after RETRY_MS, then later each time

One file of the node at a time. All else of the file, and of the log, stays readable meanwhile. A
log that was opened anew has another `damage`: what was being written is dropped with it.

Source: docs/adr/0109; ADR 0020 is about the log itself.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.broker.broker import Broker
from penstock.coordinator.calls import Caller, CallError
from penstock.coordinator.extent_calls import BatchesCode, BatchesRequest
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.errors import BadBatches, LogBusy
from penstock.storage.second_level.damage import ExtentDamage, Repair
from penstock.storage.second_level.rebuild import Missing

RETRY_MS = 1_000
RETRY_MS_MAX = 300_000
ANSWER_MS = 10_000
"""A piece is read from a disk that may be busy."""

T = TypeVar("T")
Spawn = Callable[[str, Coroutine[Any, Any, None]], None]
"""Runs a named coroutine under supervision."""
File = tuple[ReplicaSetId, int]

log = logging.getLogger(__name__)


class NobodyHasIt(PlatformError):
    """No other member of the set gives batches that are damaged here."""


@dataclass(slots=True)
class RepairStats:
    """Counters for the metrics page."""

    found: int = 0
    """Damaged files."""
    repaired: int = 0
    failures: int = 0
    fetched_bytes: int = 0
    """Of batches that came from other members, in files that were repaired."""


@dataclass(slots=True)
class _Damaged:
    """A damaged file, and how often its repair has failed."""

    failures: int = 0
    not_before_ms: int = 0


class ExtentRepairs:
    """Repairs the second levels of one node. `cluster_id` has 16 bytes."""

    def __init__(self, broker: Broker, calls: Caller, spawn: Spawn, cluster_id: bytes) -> None:
        self._broker = broker
        self._calls = calls
        self._spawn = spawn
        self._cluster_id = cluster_id
        self._known: dict[File, _Damaged] = {}
        self._is_at_work = False
        self._file_count = 0
        self.stats = RepairStats()

    def look(self) -> None:
        """Note damage that is new, and begin a repair if none is under way; about every second."""
        members = self._broker.members
        now_ms = self._broker.clock.monotonic_ms()
        found = {
            (set_id, number): reason
            for set_id, member in members.items()
            for number, reason in member.log.splitting.damage.files.items()
        }
        self._known = {file: each for file, each in self._known.items() if file in found}
        for file, reason in found.items():
            if file not in self._known:
                self._note(file, reason)
        due = [file for file, each in self._known.items() if each.not_before_ms <= now_ms]
        for set_id, number in sorted(due):
            member = members[set_id]
            if not (self._is_at_work or member.log.is_busy or member.log.is_fenced):
                self._is_at_work = True
                self._spawn(f"repair-of-set-{set_id}", self._repair(member, number))

    def _note(self, file: File, reason: str) -> None:
        self._known[file] = _Damaged()
        self.stats.found += 1
        what = "asked of the other members" if self._peers(file[0]) else "lost: no member has it"
        text = "set=%d second level damaged: %s; what is damaged is %s, the rest is served"
        log.critical(text, file[0], reason, what)

    def _peers(self, replica_set_id: ReplicaSetId) -> list[BrokerId]:
        """Return the other members that have all that is confirmed, the master first."""
        image = self._broker.metadata.replica_sets.get(replica_set_id)
        if image is None:
            return []
        in_step = dict.fromkeys((image.master, *image.sync_state_set))
        return [one for one in in_step if one != self._broker.broker_id and one >= 0]

    async def _repair(self, member: ReplicaSetMember, number: int) -> None:
        """Write one file anew and put it in the place of the old one."""
        self._file_count += 1
        splitting, file = member.log.splitting, (member.replica_set_id, number)
        name = f"{member.log.directory}/second/repair-{self._file_count}.tmp"
        identity = self._cluster_id, int(member.replica_set_id)
        repair = splitting.damage.repair(number, name, identity)
        try:
            await self._write(member, splitting.damage, repair)
            await _outcome(
                lambda done: splitting.put_instead(number, name, lambda e: done(None, e))
            )
        except PlatformError as error:
            repair.abandon()
            member.log.splitting.discard(name)
            self._note_failure(file, error)
        else:
            self.stats.repaired += 1
            self.stats.fetched_bytes += repair.fetched_bytes
            fetched = repair.fetched_bytes
            log.warning(
                "set=%d second level repaired: bytes=%d from other members", file[0], fetched
            )
        finally:
            self._is_at_work = False

    async def _write(self, member: ReplicaSetMember, damage: ExtentDamage, repair: Repair) -> None:
        batches: memoryview | None = None
        while True:
            if member.log.splitting.damage is not damage or member.log.is_busy:
                raise LogBusy(member.log.directory)
            given = batches
            step = await _outcome(lambda done: repair.go_on(given, done))  # noqa: B023
            if isinstance(step, Missing):
                batches = await self._fetch(member, step)
            elif step:
                batches = None
            else:
                return

    async def _fetch(self, member: ReplicaSetMember, missing: Missing) -> memoryview:
        """Return batches of another member, the missing one first. Raises NobodyHasIt."""
        set_id = member.replica_set_id
        said: list[str] = []
        for broker_id in self._peers(set_id):
            try:
                return await self._fetch_from(broker_id, member, missing)
            except (CallError, BadBatches) as error:
                said.append(f"broker {broker_id}: {error}")
        where = f"offsets [{missing.start_offset}, {missing.end_offset}) of partition"
        key = missing.topic_partition
        text = f"{where} {key.partition} of topic {key.topic_id.hex()}: "
        raise NobodyHasIt(text + ("; ".join(said) or "there is no other member in step"))

    async def _fetch_from(
        self, broker_id: BrokerId, member: ReplicaSetMember, missing: Missing
    ) -> memoryview:
        """Return whole batches of one member, put together from pieces."""
        key = missing.topic_partition
        got = b""
        while True:
            answer = await self._calls.ask(
                broker_id,
                BatchesRequest(
                    replica_set_id=member.replica_set_id,
                    leader_epoch=member.leader_epoch,
                    topic_id=key.topic_id,
                    partition=key.partition,
                    offset=missing.start_offset,
                    end_offset=missing.end_offset,
                    skip=len(got),
                ),
                timeout_ms=ANSWER_MS,
            )
            if answer.code != BatchesCode.OK or not answer.batches:
                raise BadBatches(_SAID.get(answer.code, f"code {answer.code}"))
            got += answer.batches
            if len(got) >= answer.total_bytes:
                return memoryview(got)

    def _note_failure(self, file: File, error: PlatformError) -> None:
        self.stats.failures += 1
        damaged = self._known.get(file)
        if damaged is None:
            return
        damaged.failures += 1
        wait_ms = min(RETRY_MS << min(damaged.failures - 1, 16), RETRY_MS_MAX)
        damaged.not_before_ms = self._broker.clock.monotonic_ms() + wait_ms
        level = logging.ERROR if damaged.failures == 1 else logging.DEBUG
        text = "set=%d second level can not be repaired: %s; it is tried again"
        log.log(level, text, file[0], error)


_SAID: dict[int, str] = {
    BatchesCode.NOT_HERE: "it does not have them, or not yet",
    BatchesCode.REWRITTEN: "it has cleaned them: its batches are not those that were here",
    BatchesCode.UNREADABLE: "it can not read them either",
}


async def _outcome(begin: Callable[[Callable[[Any, PlatformError | None], None]], None]) -> Any:
    """Return the result of work that tells it to a callback, or raise its error."""
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(result: Any, error: PlatformError | None) -> None:
        if told.done():
            return
        if error is None:
            told.set_result(result)
        else:
            told.set_exception(error)

    begin(done)
    return await told
