"""A set whose masters change, its copiers, their metadata and a bad store, in random steps.

    masters     append, confirm, raise log starts, free disks; elections, some of them unclean;
                resumptions
    copiers     the production code; those of deposed masters go on, those of dead ones do not
    commands    wait to be applied, come late, come after their sender has died; answers are lost
    puts        land, land and are not answered, land late, never land
    readers     use a manifest for as long as their lease
    merges      of any runs of the store, read as they lie there then
    sweeper     deletes what is due, and does not always hear that it was done

After every step `check` looks whether what must always hold does. `settle` ends all faults.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.tier.copies.copier import Copier, Step
from penstock.tier.copies.effects import (
    Ask,
    Effect,
    Look,
    Upload,
)
from penstock.tier.errors import PreconditionFailed
from penstock.tier.metadata.commands import (
    Command,
    Commit,
    Committed,
    Fence,
    Swept,
    Tick,
)
from penstock.tier.metadata.manifest import Kind, Snapshot
from penstock.tier.metadata.objects import State
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName
from penstock.tier.port import Capabilities, Plain
from penstock.tier.retention import first_offset
from simulator.kernel.object_store import Bucket, Put
from tests.extents.files import CLUSTER
from tests.tier.world_logs import (
    KEYS,
    Content,
    Master,
    RandomMergers,
    Records,
    as_bytes,
    built,
    rows_of,
)

SET = 7
TIMES = TierTimes(upload_ms=100, skew_ms=50, lease_ms=200, grace_ms=300)


class Violated(AssertionError):
    """Something that must always hold does not."""


class Sent(NamedTuple):
    """A command on its way."""

    copier: Copier
    command: Command


class Transfer(NamedTuple):
    """An upload that a copier has asked for."""

    copier: Copier
    master: Master
    effect: Upload


class Reader(NamedTuple):
    """Somebody who has read a manifest, and what the objects in it had then."""

    until_ms: int
    snapshot: Snapshot
    contents: Mapping[ObjectName, bytes]


class LatePut(NamedTuple):
    """A put that has failed for its writer and may land until `until_ms`."""

    until_ms: int
    put: Put


class World:
    """All of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        creates = self.random.random() < 0.5
        self.is_calm = seed % 2 == 1
        """Whether masterships last for long enough to copy much, and to merge it."""
        self.bucket = Bucket(Capabilities(creates=creates, swaps=False))
        self.metadata = TierMetadata(CLUSTER, TIMES)
        self.now_ms = 1000
        self.master = Master(0, {one: [] for one in KEYS})
        self.copiers: list[tuple[Copier, Master]] = []
        self.sent: list[Sent] = []
        self.transfers: list[Transfer] = []
        self.looks: list[tuple[Copier, Look]] = []
        self.late: list[LatePut] = []
        self.readers: list[Reader] = []
        self.mergers: list[RandomMergers] = []
        self.merge_count = 0
        self.committed: dict[ObjectName, bytes] = {}
        self.made: dict[tuple[int, int], bytes] = {}
        """What the copier with a number has built under an object id."""
        self.has_faults = True
        self._values = 0
        self._nonces = 0
        self._begin_copier()

    # Steps

    def step(self) -> None:
        """Do one thing at random."""
        steps: list[tuple[float, Callable[[], None]]] = [
            (6, self._append),
            (14, self._take),
            (14, self._deliver),
            (10, self._upload),
            (5, self._look),
            (4, self._land),
            (1.5 if self.is_calm else 4, self._pass_time),
            (4, self._sweep),
            (3, self._read),
            (2, self._raise_log_start),
            (2, self._free),
            (0.3 if self.is_calm else 2, self._elect),
            (1, self._renew),
        ]
        weights, actions = zip(*steps, strict=True)
        self.random.choices(actions, weights)[0]()

    def settle(self) -> None:
        """End all faults; then everything gets its time, and the store must be in order."""
        self.has_faults = False
        for one in self.mergers:
            one.is_at_rest = True
        for _ in range(400):
            self._renew()
            for copier, _ in list(self.copiers):
                self._run(copier)
            for action in (self._deliver, self._upload, self._look, self._land, self._sweep):
                action()
            self.check()
        for _ in range(20):
            self._pass_time()
            self._land()
            self._sweep()
            self.check()
        self.check_at_rest()

    def _append(self) -> None:
        """Write some records, confirm some of them."""
        one = self.random.choice(KEYS)
        for _ in range(self.random.randint(0, 4)):
            self._values += 1
            self.master.logs[one].append((self.master.leader_epoch, self._values))
        end = len(self.master.logs[one])
        self.master.confirmed[one] = self.random.randint(self.master.confirmed[one], end)

    def _raise_log_start(self) -> None:
        one = self.random.choice(KEYS)
        tier_end = self.metadata.manifest(one).end_offset
        low = self.master.log_starts[one]
        high = min(max(low, tier_end), self.master.confirmed[one])
        if low < high:
            self.master.log_starts[one] = self.random.randint(low, high)

    def _free(self) -> None:
        """Free the disks of the present master, up to the end of a run."""
        copier, master = self.copiers[-1] if self.copiers else (None, None)
        one = self.random.choice(KEYS)
        if copier is None or master is not self.master or not copier.is_open:
            return
        ends = [run.end_offset for run in copier.manifests[one].runs]
        ends = [end for end in ends if end > master.local_starts[one] and copier.may_free(one, end)]
        if ends:
            master.local_starts[one] = self.random.choice(ends)

    def _elect(self) -> None:
        """Change masters, or let one resume; the old copier goes on, or dies."""
        old = self.master
        resumes = self.random.random() < 0.2
        if resumes or self.random.random() < 0.3:
            self._kill(self.copiers[-1][0])
        if resumes:  # the same mastership, another process
            self._begin_copier()
            return
        logs, confirmed = {}, {}
        is_clean = self.random.random() < 0.6
        for one in KEYS:
            low = old.confirmed[one] if is_clean else max(old.log_starts[one], 0)
            low = max(low, old.log_starts[one])
            end = self.random.randint(min(low, len(old.logs[one])), len(old.logs[one]))
            logs[one] = old.logs[one][:end]
            confirmed[one] = min(old.confirmed[one], end)
        self.master = Master(old.leader_epoch + self.random.randint(1, 2), logs)
        self.master.confirmed = confirmed
        if is_clean:
            self.master.local_starts = dict(old.local_starts)
        self.master.log_starts = {one: min(old.log_starts[one], len(logs[one])) for one in KEYS}
        self._begin_copier()

    def _begin_copier(self) -> None:
        self._nonces += 1
        fence = Fence(SET, LeaderEpoch(self.master.leader_epoch), self._nonces.to_bytes(4, "big"))
        mergers = RandomMergers(self.random, self.master)
        self.mergers.append(mergers)
        self.copiers.append((Copier(fence, CLUSTER, self.master, TIMES, mergers), self.master))

    def _renew(self) -> None:
        """Begin anew where a fence of a dead process of the same mastership came late."""
        if self.copiers[-1][0].step is Step.DEPOSED:
            self._begin_copier()

    def _kill(self, dead: Copier) -> None:
        """Forget a copier; what it has sent is still on its way, and so are its puts."""
        self.copiers = [one for one in self.copiers if one[0] is not dead]
        for transfer in [one for one in self.transfers if one.copier is dead]:
            if self.random.random() < 0.5:
                self._leave_late(transfer)
        self.transfers = [one for one in self.transfers if one.copier is not dead]

    def _take(self) -> None:
        if self.is_calm and self._happens(0.8):
            self._run(self.copiers[-1][0])
        elif self.copiers:
            self._run(self.random.choice(self.copiers)[0])

    def _run(self, copier: Copier) -> None:
        for effect in copier.take(self.now_ms):
            self._begin(copier, effect)

    def _begin(self, copier: Copier, effect: Effect) -> None:
        match effect:
            case Ask(command):
                self.sent.append(Sent(copier, command))
            case Upload():
                master = next(one for other, one in self.copiers if other is copier)
                self.transfers.append(Transfer(copier, master, effect))
            case Look():
                self.looks.append((copier, effect))

    def _deliver(self) -> None:
        """Let a command be applied, or get lost, or its answer."""
        if not self.sent:
            return
        copier, command = self.sent.pop(self._any(self.sent))
        if self._happens(0.1):
            copier.unanswered()
            return
        if self._happens(0.1):
            self.sent.append(Sent(copier, command))  # it comes twice
        before = self._objects_of(command)
        answer = self.metadata.apply(command, self.now_ms)
        if isinstance(command, Commit) and isinstance(answer, Committed):
            self._note_commit(copier, command, before)
        if self._happens(0.15):
            copier.unanswered()
        else:
            copier.answered(command, answer)

    def _objects_of(self, command: Command) -> list[ObjectName]:
        if not isinstance(command, Commit):
            return []
        return [run.name for _, group in command.events for run in group.runs]

    def _note_commit(self, copier: Copier, command: Commit, names: list[ObjectName]) -> None:
        self.merge_count += any(one.group.kind is Kind.REPLACE for one in command.events)
        for name in names:
            self.committed.setdefault(name, self.made[id(copier), name.object_id])

    def _upload(self) -> None:
        """Build an object and put it; the put has one of many fates."""
        if not self.transfers:
            return
        transfer = self.transfers.pop(self._any(self.transfers))
        copier, _, (name, _, until_ms, merge) = transfer
        content = self._content_of(transfer)
        if self.now_ms >= until_ms or content is None:
            copier.failed(name.object_id, None)
            return
        data, told = as_bytes(content), built(content, merge)
        self.made[id(copier), name.object_id] = data
        condition = Plain.ABSENT if self.bucket.capabilities.creates else Plain.ALWAYS
        if self._happens(0.25):
            if self._happens(0.7):
                self.late.append(LatePut(until_ms + TIMES.skew_ms, Put(str(name), data, condition)))
            copier.failed(name.object_id, told)
            return
        try:
            self.bucket.land(Put(str(name), data, condition))
        except PreconditionFailed:
            copier.failed(name.object_id, told)
            return
        if self._happens(0.2):
            if self._happens(0.3):  # the client has sent it twice, and the other one is slow
                self.late.append(LatePut(until_ms + TIMES.skew_ms, Put(str(name), data, condition)))
            copier.failed(name.object_id, told)
        else:
            copier.put(name.object_id, told)

    def _leave_late(self, transfer: Transfer) -> None:
        """Leave the put of a copier that dies under way."""
        name, until_ms = transfer.effect.name, transfer.effect.until_ms
        content = self._content_of(transfer)
        if self.now_ms < until_ms and content is not None:
            put = Put(str(name), as_bytes(content))
            self.late.append(LatePut(until_ms + TIMES.skew_ms, put))

    def _content_of(self, transfer: Transfer) -> Content | None:
        """Return what goes into an object; None: a run of the store that it needs is gone."""
        _, master, effect = transfer
        if not effect.merge:
            return master.content(effect.plan)
        content = {}
        for replaced in effect.merge:
            key, first, _ = replaced.part
            records: Records = []
            for run in replaced.runs:
                held = self.bucket.objects.get(str(run.name))
                if held is None:
                    return None
                records += [
                    record
                    for partition, offset, record in rows_of(held[0])
                    if partition == key.partition and run.first_offset <= offset < run.end_offset
                ]
            content[key] = first, records
        return content

    def _look(self) -> None:
        if not self.looks:
            return
        copier, (name,) = self.looks.pop(self._any(self.looks))
        held = self.bucket.objects.get(str(name))
        size = None if held is None or self._happens(0.1) else len(held[0])
        copier.looked(name.object_id, size)

    def _land(self) -> None:
        """Let a put land that was thought to have failed; one that is too old never will."""
        self.late = [one for one in self.late if self.now_ms < one.until_ms]
        if self.late:
            self.bucket.late.append(self.late.pop(self._any(self.late)).put)
            self.bucket.land_late()

    def _pass_time(self) -> None:
        self.now_ms += self.random.randint(1, 60)
        self.metadata.apply(Tick(), self.now_ms)
        for one in [one for one in self.transfers if one.effect.until_ms <= self.now_ms]:
            self.transfers.remove(one)
            one.copier.failed(one.effect.name.object_id, None)

    def _sweep(self) -> None:
        for name, due_ms in self.metadata.due():
            if self._happens(0.2):
                continue
            self.bucket.objects.pop(str(name), None)
            if not self._happens(0.2):
                self.metadata.apply(Swept(name.object_id, due_ms), self.now_ms)

    def _read(self) -> None:
        """Begin to read a partition."""
        snapshot = self.metadata.manifest(self.random.choice(KEYS)).snapshot()
        contents = {run.name: self.committed[run.name] for run in snapshot.runs}
        self.readers.append(Reader(self.now_ms + TIMES.lease_ms, snapshot, contents))

    def _any(self, things: Sequence[object]) -> int:
        """Return a place in a list: the oldest, once there are no faults."""
        return self.random.randrange(len(things)) if self.has_faults else 0

    def _happens(self, probability: float) -> bool:
        return self.has_faults and self.random.random() < probability

    # What must hold

    def check(self) -> None:
        """Raise Violated if something is wrong now."""
        for row in self.metadata.objects.rows.values():
            if row.state is State.LIVE:
                self._check_object(row.name, self.committed[row.name], "a live object")
        for one in KEYS:
            self._check_ranges(one)
        self.readers = [reader for reader in self.readers if self.now_ms < reader.until_ms]
        for reader in self.readers:
            for name, data in reader.contents.items():
                self._check_object(name, data, "a reader's object")
        self._check_against_log()
        self._check_local_starts()

    def _check_local_starts(self) -> None:
        """What disks were freed of can be read: the tier goes on below the local start."""
        copier, master = self.copiers[-1] if self.copiers else (None, None)
        if copier is None or master is not self.master or not copier.is_open:
            return
        for one in KEYS:
            manifest, start = self.metadata.manifest(one), master.local_starts[one]
            is_known = manifest.runs and start <= manifest.end_offset
            if is_known and first_offset(manifest, start) > manifest.start_offset:
                raise Violated(f"{one} was freed up to {start}, within a run")

    def _check_object(self, name: ObjectName, data: bytes, what: str) -> None:
        held = self.bucket.objects.get(str(name))
        if held is None or held[0] != data:
            raise Violated(f"{what}, {name}, {'is gone' if held is None else 'is another one'}")

    def _check_ranges(self, one: TopicPartition) -> None:
        manifest = self.metadata.manifest(one)
        ends = [run.end_offset for run in manifest.runs]
        starts = [run.first_offset for run in manifest.runs]
        if starts[1:] != ends[:-1] or (ends and ends[-1] != manifest.end_offset):
            raise Violated(f"{one} has runs from {starts} to {ends}")

    def _check_against_log(self) -> None:
        """Once the present master's copier is open, the tier has nothing but its log."""
        for copier, master in self.copiers:
            if master is not self.master or not copier.is_open or copier is not self.copiers[-1][0]:
                continue
            for one in KEYS:
                self._check_records(one, master.logs[one])

    def _check_records(self, one: TopicPartition, log: Records) -> None:
        for run in self.metadata.manifest(one).runs:
            for partition, offset, record in rows_of(self.committed[run.name]):
                is_of_it = partition == one.partition and offset < run.end_offset
                if is_of_it and log[offset : offset + 1] != [record]:
                    raise Violated(f"{one} has what its log has not at {offset}")

    def check_at_rest(self) -> None:
        """Raise Violated unless the store has what the metadata has, and that is everything."""
        live = {str(row.name) for row in self.metadata.objects.rows.values()}
        if live != self.bucket.objects.keys():
            raise Violated(f"orphans or losses: {live ^ self.bucket.objects.keys()}")
        for one in KEYS:
            manifest, start = self.metadata.manifest(one), self.master.log_starts[one]
            end, confirmed = manifest.end_offset, self.master.confirmed[one]
            # What was cut and then deleted from the log is not to be copied again.
            is_empty = confirmed <= start and not manifest.runs
            if end != max(confirmed, start) and not is_empty:
                raise Violated(f"{one} ends at {end} in the tier")
        if self.copiers[-1][0].step is not Step.IDLE:
            raise Violated(f"the last copier is at {self.copiers[-1][0].step}")
