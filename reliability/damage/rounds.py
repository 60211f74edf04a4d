"""Rounds of damage over many sets at once, and the judgement of each.

    quiet, all equal ─► truth = every byte of every log ─► one damage in each set, on one member
      ─► stopped: the member starts again │ running: clients read, the scrub passes
      ─► all whole again ─► verdict of each damage; all logs the truth and what came after it

Nothing that a reader got may differ from the truth, whatever else happens. A damage must have been
found, unless it lies where nobody ever looks: then its class says so (byte_classes.UNUSED), or the
file has been written anew before anybody looked, or it says the same as before.
"""

import asyncio
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

from harness.log_world import batches_of, make_batch, partition_number
from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, ReplicaSetId
from penstock.record.batch import read_header
from penstock.storage.commit_log.set_log import Chunk, SetLog
from penstock.storage.errors import SegmentNotReady
from penstock.storage.index.partition_log import PartitionLog
from reliability.damage.brokers import NodeCluster
from reliability.damage.byte_classes import UNUSED, Classes, classes_of
from reliability.damage.damage import Damage, draw

PARTITIONS = 3
SETTLE_LOOKS = 150
RUNNING_CLASSES = ("frame", "batch", "segment", "index:", "snapshot:", "cut: segment", "cut: index")
"""Files that a running process looks at again; the others are read by starts only."""
REPAIRED, REBUILT = "repaired from a peer", "made anew"
UNUSED_BYTES, REPLACED, SAME = "never looked at", "replaced unread", "says the same"


class Verdict(NamedTuple):
    """What became of one damage."""

    name: str
    mode: str
    outcome: str


class Tally:
    """Verdicts added up, and what was found wrong."""

    def __init__(self) -> None:
        self.verdicts: Counter[Verdict] = Counter()
        self.wrong: list[str] = []
        self.records_read = 0
        self.reads_refused = 0

    def add(self, other: "Tally") -> None:
        """Add what another run has found."""
        self.verdicts += other.verdicts
        self.wrong += other.wrong
        self.records_read += other.records_read
        self.reads_refused += other.reads_refused

    @property
    def position_count(self) -> int:
        return sum(self.verdicts.values())


class Rounds:
    """One cluster under damage."""

    def __init__(self, cluster: NodeCluster, rng: Random, tally: Tally) -> None:
        self.cluster = cluster
        self.rng = rng
        self.tally = tally
        self.truth: dict[int, bytes] = {}
        self.log_ids: dict[tuple[int, int], str] = {}
        self.damages: list[Damage] = []
        self._sequence = 0

    async def fill(self) -> None:
        """Append to every set, some of them over a segment's end, and wait until all is equal."""
        for set_id in self.cluster.set_ids:
            for _ in range(self.rng.choice((3, 10, 30))):
                await self.append(set_id)
        await self.cluster.whole()

    async def append(self, set_id: int) -> None:
        """Append one batch as master, to one of the set's partitions."""
        rng, broker = self.rng, self.cluster[self.cluster.master(set_id)]
        self._sequence += 1
        size = rng.choice((70, 200, 900, 5000))
        batch = make_batch(size=size, fill=self._sequence % 251, timestamp=self._sequence)
        key = partition_number(rng.randrange(PARTITIONS))
        while True:
            log = broker.member(set_id).log
            try:
                log.append(log.open_partition(key), batch, read_header(batch))
            except SegmentNotReady:
                await asyncio.sleep(0.001)
                continue
            return

    # --- rounds --------------------------------------------------------------------------------

    async def stopped(self) -> None:
        """A member is stopped, cleanly or not, damaged in every set, and started again."""
        cluster, rng = self.cluster, self.rng
        victim = rng.choice((1, 2, 3))
        self._learn()
        await cluster.ends(victim, is_clean=rng.random() < 0.3)
        damages = self.damages = [self._damage(set_id, victim) for set_id in cluster.set_ids]
        if rng.random() < 0.5:
            await self._led_without(victim)
            for set_id in cluster.set_ids:
                await self.append(set_id)
        await cluster[victim].start(is_registering=False)
        await cluster.whole()
        rebuilt = {
            set_id: " ".join(cluster[victim].member(set_id).log.recovery.damaged_files)
            for set_id in cluster.set_ids
        }
        await self._scrubbed(victim)
        await cluster.whole()
        await self._settled(damages, rebuilt)
        self._judge(damages, "stopped", rebuilt)
        await self._read_everything()

    async def running(self) -> None:
        """Every set is damaged on a running member; then it is read, and scrubbed."""
        cluster, rng = self.cluster, self.rng
        self._learn()
        damages = self.damages = [
            self._damage(set_id, rng.choice((1, 2, 3))) for set_id in cluster.set_ids
        ]
        if rng.random() < 0.7:
            await self._read_everything(is_damaged=True)
        if rng.random() < 0.5:
            await cluster.whole()
            for set_id in cluster.set_ids:
                await self.append(set_id)
        for broker_id in (1, 2, 3):
            await self._scrubbed(broker_id)
        await cluster.whole()
        await self._settled(damages)
        self._judge(damages, "running", {})
        await self._read_everything()

    def _learn(self) -> None:
        cluster = self.cluster
        for set_id in cluster.set_ids:
            copies = {one: cluster.frames(one, set_id) for one in (1, 2, 3)}
            if len(set(copies.values())) != 1:
                self._wrong(set_id, "replicas differ before the round")
            self.truth[set_id] = copies[1]
            for one in (1, 2, 3):
                self.log_ids[one, set_id] = (
                    cluster[one].manager.drivers[ReplicaSetId(set_id)].log_id
                )

    def _damage(self, set_id: int, broker_id: int) -> Damage:
        broker = self.cluster[broker_id]
        classes = classes_of(broker.directory / f"set-{set_id}")
        if broker.is_running:
            classes = _looked_at_again(classes)
        return draw(self.rng, classes, set_id=set_id, broker_id=broker_id)

    async def _led_without(self, broker_id: int) -> None:
        cluster = self.cluster

        def is_led(set_id: int) -> bool:
            master = cluster.master(set_id)
            if master in {-1, broker_id}:
                return False
            member = cluster[master].manager.members.get(ReplicaSetId(set_id))
            return member is not None and member.is_master

        await cluster.until(lambda: all(is_led(one) for one in cluster.set_ids), "led without one")

    async def _scrubbed(self, broker_id: int) -> None:
        """Let the scrub look at every set of a broker once."""
        scrubber = self.cluster[broker_id].manager.scrubber
        for set_id in self.cluster.set_ids:
            scrubber.hurry(ReplicaSetId(set_id))
        await self.cluster.until(lambda: scrubber.is_at_rest, "the scrub has looked at everything")

    async def _settled(self, damages: list[Damage], rebuilt: dict[int, str] | None = None) -> None:
        """Wait for what the scrub has asked for: a new snapshot is written when there is time."""
        known = rebuilt or {}
        for _ in range(SETTLE_LOOKS):
            if all(self._outcome(damage, known.get(damage.set_id, "")) for damage in damages):
                return
            await asyncio.sleep(0.02)

    # --- judgement -----------------------------------------------------------------------------

    def _judge(self, damages: list[Damage], mode: str, rebuilt: dict[int, str]) -> None:
        for damage in damages:
            outcome = self._outcome(damage, rebuilt.get(damage.set_id, ""))
            if outcome is None:
                self._wrong(damage.set_id, f"not found: {_text(damage)} ({mode})")
            self.tally.verdicts[Verdict(damage.name, mode, outcome or "MISSED")] += 1
        for damage in damages:
            truth = self.truth[damage.set_id]
            for broker_id in (1, 2, 3):
                found = self.cluster.frames(broker_id, damage.set_id)
                if found[: len(truth)] != truth:
                    text = f"broker {broker_id} does not hold what was acknowledged: {len(found)}"
                    self._wrong(damage.set_id, f"{text} of {len(truth)} bytes; {_text(damage)}")

    def _outcome(self, damage: Damage, rebuilt: str) -> str | None:
        """Return what became of it; None where nobody has noticed."""
        driver = self.cluster[damage.broker_id].manager.drivers[ReplicaSetId(damage.set_id)]
        if driver.log_id != self.log_ids[damage.broker_id, damage.set_id]:
            return REPAIRED
        if damage.path.name in rebuilt:
            return REBUILT
        if damage.name in UNUSED:
            return UNUSED_BYTES
        if damage.path.name == "replica.json" and _says(damage.after) == _says(damage.before):
            return SAME
        now = damage.path.read_bytes() if damage.path.exists() else None
        if damage.path.suffix in {".idx", ".snap"} and now == damage.before:
            return REBUILT
        is_derived = damage.path.suffix in {".idx", ".snap"} or damage.path.name == "durable"
        return REPLACED if is_derived and now != damage.after else None

    def _wrong(self, set_id: int, text: str) -> None:
        self.tally.wrong.append(f"set {set_id}: {text}")

    # --- reading -------------------------------------------------------------------------------

    async def _read_everything(self, *, is_damaged: bool = False) -> None:
        """Read all sets from all members, as clients would."""
        cluster = self.cluster
        for set_id in cluster.set_ids:
            for broker_id in (1, 2, 3):
                member = cluster[broker_id].manager.members.get(ReplicaSetId(set_id))
                if member is None or member.log.is_busy:
                    continue
                for key in range(PARTITIONS):
                    partition = member.log.partitions.get(partition_number(key))
                    if partition is not None:
                        await self._read(set_id, member.log, partition, is_damaged=is_damaged)

    async def _read(
        self, set_id: int, log: SetLog, partition: PartitionLog, *, is_damaged: bool
    ) -> None:
        expected = self._expected(set_id, partition.topic_partition.partition)
        offset, end = partition.log_start_offset, partition.log_end_offset
        got: list[bytes] = []
        while offset < end:
            try:
                data = await _chunk(log, partition, offset)
            except PlatformError as error:
                self.tally.reads_refused += 1
                if not is_damaged:
                    self._wrong(set_id, f"offset {offset} can not be read: {error}")
                return
            if not data:
                break  # what follows is not durable yet
            bodies = [(header.base_offset, body) for header, body in batches_of(data)]
            for base, body in bodies:
                if base != len(got) or (base < len(expected) and body != expected[base]):
                    self._wrong(set_id, f"a reader got something else at offset {base}")
                got.append(body)
            self.tally.records_read += len(bodies)
            offset = Offset(len(got))
        if not is_damaged and len(got) < len(expected):
            self._wrong(set_id, f"{len(got)} of {len(expected)} batches are left")

    def _expected(self, set_id: int, partition: int) -> list[bytes]:
        """Return what was acknowledged in a partition, one record in each batch."""
        return _batches(self.truth[set_id], partition)


_KNOWN: dict[tuple[int, int], tuple[bytes, list[bytes]]] = {}


def _batches(frames: bytes, partition: int) -> list[bytes]:
    """Return the batches of a partition without what the broker stamps, from a log's bytes."""
    key = (id(frames), partition)
    known = _KNOWN.get(key)
    if known is not None and known[0] is frames:
        return known[1]
    found, at, view = [], 0, memoryview(frames)
    while at < len(frames):
        length = int.from_bytes(frames[at + 8 : at + 12])
        if frames[at + 7] == 1 and int.from_bytes(frames[at + 28 : at + 32]) == partition:
            found += [body for _, body in batches_of(view[at + 48 : at + length])]
        at += length
    _KNOWN[key] = (frames, found)
    return found


async def _chunk(log: SetLog, partition: PartitionLog, offset: int) -> memoryview:
    """Read as a fetch does. Raises PlatformError."""
    found = log.read(partition, Offset(offset), 1 << 16, log.durable_position)
    if isinstance(found, Chunk):
        return found.data
    answer: asyncio.Future[Chunk] = asyncio.get_running_loop().create_future()

    def loaded(chunk: Chunk | None, error: PlatformError | None) -> None:
        if error is not None:
            answer.set_exception(error)
        elif chunk is not None:
            answer.set_result(chunk)

    found.load(loaded)
    return (await answer).data


def _looked_at_again(classes: Classes) -> Classes:
    kept = {
        name: places
        for name, places in classes.items()
        if any(part in name for part in RUNNING_CLASSES)
    }
    return {name: places for name, places in kept.items() if not name.startswith("segment: next")}


def _says(data: bytes) -> tuple[object, ...] | None:
    try:
        fields = json.loads(data)
        return fields["format_version"], fields["log_id"]
    except (ValueError, TypeError, KeyError):
        return None


def _text(damage: Damage) -> str:
    what = f"{damage.length} bytes changed" if damage.length else "cut"
    path = Path(*damage.path.parts[-4:])
    return f"{damage.name}, {path} ({len(damage.before)} bytes) at {damage.at}, {what}"
