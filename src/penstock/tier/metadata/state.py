"""The state machine of the tier's metadata: commands in order, each with its time.

    fence    a newer tenure of a set ends the one before, and what that had reserved
    commit   tenure current, objects reserved, event ids in step, ranges that follow: or nothing

It is the same wherever the same commands are applied, so that a replicated log can carry it. Time
never goes back: that of a command counts from the newest before it.

Source: docs/requirements.md T-2 to T-4; docs/adr/0117.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, assert_never

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.tier.metadata.commands import (
    Adopt,
    Answer,
    Command,
    Commit,
    Committed,
    Done,
    Expected,
    Fence,
    Fenced,
    Manifests,
    Read,
    Reason,
    Refused,
    Reserve,
    Reserved,
    Swept,
    Tenure,
    Tick,
)
from penstock.tier.metadata.manifest import EventGroup, Manifest, Run
from penstock.tier.metadata.noted import Noted
from penstock.tier.metadata.objects import Due, ObjectRow, Objects
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName

RESERVED_MAX = 1024
"""Ids of one command; bounds what one command puts into the rows."""
RUNS_MAX = 100_000
"""Of all partitions: 1.1 KB of memory each. They stand for 6 TiB where each has 64 MiB; ids are
refused from there on, so that what is under way still goes in."""
SWEEP_MAX = 1000
"""Objects that a sweep is told of at once: what a store deletes by one request."""


class Held(NamedTuple):
    """The present tenure of a set and the last answer within it."""

    tenure: Tenure
    nonce: bytes
    request_id: int = 0
    answer: Answer = Done()


class Before(NamedTuple):
    """What the last command has changed, as it was before; None: it was not there."""

    next_id: int
    rows: Mapping[int, ObjectRow | None]
    tenures: Mapping[int, Held | None]
    manifests: Mapping[TopicPartition, Manifest | None]

    @property
    def is_anything(self) -> bool:
        """Whether the command has changed anything; time alone is nothing."""
        return bool(self.rows or self.tenures or self.manifests)


class TierMetadata:
    """The metadata of one cluster's tier."""

    def __init__(self, cluster_id: bytes, times: TierTimes, runs_max: int = RUNS_MAX) -> None:
        self.cluster_id = cluster_id
        self._runs_max = runs_max
        self.objects = Objects(times)
        self._manifests: Noted[TopicPartition, Manifest] = Noted()
        self._sets: Noted[int, Held] = Noted()
        self._now_ms = 0
        self._next_id_before = self.objects.next_id

    def manifest(self, topic_partition: TopicPartition) -> Manifest:
        """Return a partition as it is now; an empty one if nothing was ever copied."""
        return self._manifests.get(topic_partition) or Manifest()

    def partitions(self) -> Sequence[TopicPartition]:
        """Return the partitions of which something is or was in the tier, sorted."""
        return sorted(self._manifests)

    @property
    def now_ms(self) -> int:
        """The time of the newest command."""
        return self._now_ms

    @property
    def tenures(self) -> Mapping[int, Held]:
        """The present tenure of each set."""
        return self._sets

    def before(self) -> Before:
        """Return what the last command has changed."""
        changed = self.objects.rows.before, self._sets.before, self._manifests.before
        return Before(self._next_id_before, *changed)

    def take_back(self, before: Before) -> None:
        """Make undone what the last command has changed; but for the time, which never goes back.

        Invariant: no command came after it.
        """
        self.objects.put_back(before.rows, before.next_id)
        self._sets.put_back(before.tenures)
        self._manifests.put_back(before.manifests)

    @property
    def run_count(self) -> int:
        """How many runs all partitions have together."""
        return sum(len(one.runs) for one in self._manifests.values())

    def due(self) -> list[Due]:
        """Return what the store is to delete now."""
        return self.objects.due(self._now_ms, SWEEP_MAX)

    def restore(self, topic_partition: TopicPartition, manifest: Manifest) -> None:
        """Put in a partition that was kept, or made anew."""
        self._manifests[topic_partition] = manifest

    def restore_epoch(self, replica_set_id: int, leader_epoch: LeaderEpoch) -> None:
        """Let no leader epoch below this one of a set begin a tenure."""
        held = self._sets.get(replica_set_id)
        if held is None or held.tenure.leader_epoch < leader_epoch:
            self._sets[replica_set_id] = Held(Tenure(replica_set_id, leader_epoch, 0), b"")

    def restore_tenure(self, held: Held) -> None:
        """Put in a tenure that was kept."""
        self._sets[held.tenure.replica_set_id] = held

    def restore_counters(self, next_id: int, now_ms: int) -> None:
        """Go on from the next id, and from the time, that were kept."""
        self.objects.next_id = max(self.objects.next_id, next_id)
        self._now_ms = max(self._now_ms, now_ms)

    def apply(self, command: Command, now_ms: int) -> Answer:
        """Apply the next command; return its answer."""
        self._begin()
        self._now_ms = max(self._now_ms, now_ms)
        self.objects.expire(self._now_ms)
        match command:
            case Fence():
                return self._fence(command)
            case Read(partitions):
                return Manifests({key: self.manifest(key).snapshot() for key in partitions})
            case Reserve() | Commit():
                return self._write(command)
            case Swept(object_id, due_ms):
                self.objects.swept(object_id, due_ms)
            case Adopt(name):
                is_known = self.objects.adopt(name, self._now_ms)
                return Done() if is_known else Refused(Reason.TAKEN)
            case Tick():
                pass
            case _:
                assert_never(command)
        return Done()

    def _begin(self) -> None:
        """Note what the next command changes."""
        self._next_id_before = self.objects.next_id
        self.objects.rows.begin()
        self._sets.begin()
        self._manifests.begin()

    def _fence(self, command: Fence) -> Answer:
        set_id, epoch, nonce = command
        assert nonce, "a fence without its nonce"
        held = self._sets.get(set_id)
        if held is not None and held.tenure.leader_epoch > epoch:
            return Refused(Reason.FENCED)
        if held is not None and (held.tenure.leader_epoch, held.nonce) == (epoch, nonce):
            return Fenced(held.tenure)
        tenure = Tenure(set_id, epoch, held.tenure.number + 1 if held else 1)
        self.objects.abort_of_set(set_id, self._now_ms)
        self._sets[set_id] = Held(tenure, nonce)
        return Fenced(tenure)

    def _write(self, command: Reserve | Commit) -> Answer:
        """Do a write once, and only one of the present tenure."""
        held = self._sets.get(command.tenure.replica_set_id)
        if held is None or held.tenure != command.tenure:
            return Refused(Reason.FENCED)
        if command.request_id <= held.request_id:
            is_last = command.request_id == held.request_id
            return held.answer if is_last else Refused(Reason.REPEATED)
        answer = self._reserve(command) if isinstance(command, Reserve) else self._commit(command)
        self._sets[command.tenure.replica_set_id] = held._replace(
            request_id=command.request_id, answer=answer
        )
        return answer

    def _reserve(self, command: Reserve) -> Answer:
        if self.run_count >= self._runs_max and not command.is_to_replace:
            return Refused(Reason.FULL)
        count = min(command.object_count, RESERVED_MAX)
        return Reserved(self.objects.reserve(self._prototype(command.tenure), count, self._now_ms))

    def _prototype(self, tenure: Tenure) -> ObjectName:
        return ObjectName(self.cluster_id, tenure.replica_set_id, tenure.leader_epoch, 0)

    def _commit(self, command: Commit) -> Answer:
        reason = self._reason_against(command)
        if reason is not None:
            return Refused(reason)
        runs = Counter(run.name.object_id for run in _runs_of(command.events))
        for object_id, object_bytes in command.objects:
            name = self._prototype(command.tenure)._replace(object_id=object_id)
            self.objects.commit(name, object_bytes, runs[object_id])
        for _, group in command.events:
            self._apply(group)
        return Committed()

    def _apply(self, group: EventGroup) -> None:
        manifest = self.manifest(group.topic_partition).copy()
        for run in manifest.apply(group):
            self.objects.release(run.name.object_id, self._now_ms)
        self._manifests[group.topic_partition] = manifest

    def _reason_against(self, command: Commit) -> Reason | None:
        names = {run.name for run in _runs_of(command.events)}
        prototype = self._prototype(command.tenure)
        written = [prototype._replace(object_id=one.object_id) for one in command.objects]
        if sorted(names) != sorted(written) or not all(map(self.objects.is_reserved, written)):
            return Reason.UNKNOWN_OBJECT
        keys = [group.topic_partition for _, group in command.events]
        if len(set(keys)) != len(keys):
            return Reason.DOES_NOT_FOLLOW
        for expected, group in command.events:
            manifest = self.manifest(group.topic_partition)
            if expected != manifest.last_event_id:
                return Reason.STALE
            if manifest.problem_with(group) is not None:
                return Reason.DOES_NOT_FOLLOW
        return None


def _runs_of(events: Sequence[Expected]) -> list[Run]:
    return [run for _, group in events for run in group.runs]
