"""Has damaged extent files written anew, with the help of the set's other members.

    every second: a file of which damage is known ─► written anew, a part at a time
        own bytes that are whole ─► copied;  the rest ─► asked of the master, then of those in step,
                                             then of the tier, where this member leads
      ─► put in the place of the damaged one in one step; until then reads of the damage fail
    what is damaged was cleaned ─► a range is taken from one member (range_repairs.py)
    nobody has it: told once, counted, tried again after RETRY_MS, then later each time

One file of the node at a time. All else of the file, and of the log, stays readable meanwhile. A
log that was opened anew has another `damage`: what was being written is dropped with it.

Source: docs/adr/0109, 0114, 0121; ADR 0020 is about the log itself.
"""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, ReplicaSetId, TopicPartition
from penstock.broker.broker import Broker
from penstock.broker.sets.outcome import outcome
from penstock.broker.sets.range_repairs import ANSWER_MS, NobodyHasIt, RangeRepairs
from penstock.coordinator.calls.asking import Caller, CallError
from penstock.coordinator.calls.extents import BatchesCode, BatchesRequest
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.errors import BadBatches, LogBusy, RangeRewritten
from penstock.storage.second_level.damage import ExtentDamage, Repair
from penstock.storage.second_level.rebuild import Missing
from penstock.storage.second_level.split import Identity
from penstock.tier.errors import TierError

RETRY_MS = 1_000
RETRY_MS_MAX = 300_000

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]
"""Runs a named coroutine under supervision."""
File = tuple[ReplicaSetId, int]

log = logging.getLogger(__name__)


class CleanedElsewhere(NobodyHasIt):
    """Nobody has the batches, and a member has cleaned them: what it has left can be taken."""

    def __init__(self, topic_partition: TopicPartition, reason: str) -> None:
        super().__init__(reason)
        self.topic_partition = topic_partition


@dataclass(slots=True)
class RepairStats:
    """Counters for the metrics page."""

    found: int = 0
    """Damaged files."""
    repaired: int = 0
    ranges: int = 0
    """Of partitions, that were taken from another member as its cleaning has left them."""
    failures: int = 0
    fetched_bytes: int = 0
    """That came from other members, or from the tier, in files that were repaired."""


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
        self._ranges = RangeRepairs(calls, self._new_name)
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
        what = "asked of the tier" if self._broker.tier is not None else "lost: no member has it"
        if self._peers(file[0]):
            what = "asked of the other members"
        text = "set=%d second level damaged: %s; what is damaged is %s, the rest is served"
        log.critical(text, file[0], reason, what)

    def _peers(self, replica_set_id: ReplicaSetId) -> list[BrokerId]:
        """Return the other members that have all that is confirmed, the master first."""
        image = self._broker.metadata.replica_sets.get(replica_set_id)
        if image is None:
            return []
        in_step = dict.fromkeys((image.master, *image.sync_state_set))
        return [one for one in in_step if one != self._broker.broker_id and one >= 0]

    def _new_name(self, member: ReplicaSetMember) -> str:
        self._file_count += 1
        return f"{member.log.directory}/second/repair-{self._file_count}.tmp"

    async def _repair(self, member: ReplicaSetMember, number: int) -> None:
        """Repair one file."""
        set_id = member.replica_set_id
        extents = member.log.splitting.damage.extents_in(number)
        rewritten = next((one for one in extents if one.is_rewritten), None)
        try:
            if not extents:
                return  # it is about to be removed
            if rewritten is not None:
                fetched = await self._repair_range(member, number, rewritten.entry.topic_partition)
            else:
                fetched = await self._repair_file(member, number)
        except PlatformError as error:
            self._note_failure((set_id, number), error)
        else:
            self.stats.repaired += 1
            self.stats.fetched_bytes += fetched
            text = "set=%d second level repaired: bytes=%d from elsewhere"
            log.warning(text, set_id, fetched)
        finally:
            self._is_at_work = False

    async def _repair_file(self, member: ReplicaSetMember, number: int) -> int:
        """Write one file anew and put it in the place of the old one; return the fetched bytes.

        Where a partition's damaged batches are cleaned everywhere else, a range of it is taken
        first: the rest of the file comes with another repair, if it is still held.
        """
        splitting, name = member.log.splitting, self._new_name(member)
        repair = splitting.damage.repair(number, name, self._identity(member))
        try:
            await self._write(member, splitting.damage, repair)
            await outcome(lambda done: splitting.put_instead(number, name, lambda e: done(None, e)))
        except PlatformError as error:
            repair.abandon()
            member.log.splitting.discard(name)
            if isinstance(error, CleanedElsewhere):
                return await self._repair_range(member, number, error.topic_partition)
            raise
        return repair.fetched_bytes

    async def _repair_range(
        self, member: ReplicaSetMember, number: int, key: TopicPartition
    ) -> int:
        """Take what another member's cleaning has left of a partition; return its bytes."""
        extents = member.log.splitting.damage.extents_in(number)
        end = max(one.end_offset for one in extents if one.entry.topic_partition == key)
        peers = self._peers(member.replica_set_id)
        fetched = await self._ranges.repair(member, key, end, peers, self._identity(member))
        self.stats.ranges += 1
        return fetched

    def _identity(self, member: ReplicaSetMember) -> Identity:
        return self._cluster_id, int(member.replica_set_id)

    async def _write(self, member: ReplicaSetMember, damage: ExtentDamage, repair: Repair) -> None:
        batches: memoryview | None = None
        while True:
            if member.log.splitting.damage is not damage or member.log.is_busy:
                raise LogBusy(member.log.directory)
            given = batches
            step = await outcome(lambda done: repair.go_on(given, done))  # noqa: B023
            if isinstance(step, Missing):
                batches = await self._fetch(member, step)
            elif step:
                batches = None
            else:
                return

    async def _fetch(self, member: ReplicaSetMember, missing: Missing) -> memoryview:
        """Return batches of another member, or of the tier, the missing one first.

        Raises NobodyHasIt kinds.
        """
        set_id = member.replica_set_id
        said: list[str] = []
        is_cleaned = False
        for broker_id in self._peers(set_id):
            try:
                return await self._fetch_from(broker_id, member, missing)
            except RangeRewritten as error:
                is_cleaned = True
                said.append(f"broker {broker_id}: {error}")
            except (CallError, BadBatches) as error:
                said.append(f"broker {broker_id}: {error}")
        if (tier := self._broker.tier) is not None:
            try:
                return await tier.read(member, missing.topic_partition, missing.start_offset)
            except TierError as error:
                said.append(f"the tier: {error}")
        where = f"offsets [{missing.start_offset}, {missing.end_offset}) of partition"
        key = missing.topic_partition
        text = f"{where} {key.partition} of topic {key.topic_id.hex()}: "
        text += "; ".join(said) or "there is no other member in step"
        raise CleanedElsewhere(key, text) if is_cleaned else NobodyHasIt(text)

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
            if answer.code == BatchesCode.REWRITTEN:
                raise RangeRewritten(
                    "it has cleaned them: its batches are not those that were here"
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
    BatchesCode.UNREADABLE: "it can not read them either",
}
