"""The state machine of the tier's metadata: commands in order, each with its time.

    fence    a newer tenure of a set ends the one before, and what that had reserved
    commit   tenure current, objects reserved, event ids in step, ranges that follow: or nothing

It is the same wherever the same commands are applied, so that a replicated log can carry it. Time
never goes back: that of a command counts from the newest before it.

Source: spec of the tier T-2 to T-4; docs/adr/0117.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, assert_never

from penstock.base.ids import TopicPartition
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
from penstock.tier.metadata.objects import Due, Objects
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName

RESERVED_MAX = 1024
"""Ids of one command; bounds what one command puts into the rows."""
SWEEP_MAX = 1000
"""Objects that a sweep is told of at once: what a store deletes by one request."""


class _Held(NamedTuple):
    """The present tenure of a set and the last answer within it."""

    tenure: Tenure
    nonce: bytes
    request_id: int = 0
    answer: Answer = Done()


class TierMetadata:
    """The metadata of one cluster's tier."""

    def __init__(self, cluster_id: bytes, times: TierTimes) -> None:
        self.cluster_id = cluster_id
        self.objects = Objects(times)
        self._manifests: dict[TopicPartition, Manifest] = {}
        self._sets: dict[int, _Held] = {}
        self._now_ms = 0

    def manifest(self, topic_partition: TopicPartition) -> Manifest:
        """Return a partition as it is now; an empty one if nothing was ever copied."""
        return self._manifests.get(topic_partition) or Manifest()

    def partitions(self) -> Sequence[TopicPartition]:
        """Return the partitions of which something is or was in the tier, sorted."""
        return sorted(self._manifests)

    def due(self) -> list[Due]:
        """Return what the store is to delete now."""
        return self.objects.due(self._now_ms, SWEEP_MAX)

    def restore(self, topic_partition: TopicPartition, manifest: Manifest) -> None:
        """Put in a partition whose metadata was lost; see read/rebuild.py."""
        self._manifests[topic_partition] = manifest

    def restore_epoch(self, replica_set_id: int, leader_epoch: int) -> None:
        """Let no leader epoch below this one of a set begin a tenure."""
        held = self._sets.get(replica_set_id)
        if held is None or held.tenure.leader_epoch < leader_epoch:
            self._sets[replica_set_id] = _Held(Tenure(replica_set_id, leader_epoch, 0), b"")

    def apply(self, command: Command, now_ms: int) -> Answer:
        """Apply the next command; return its answer."""
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
        self._sets[set_id] = _Held(tenure, nonce)
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
        manifest = self._manifests.setdefault(group.topic_partition, Manifest())
        for run in manifest.apply(group):
            self.objects.release(run.name.object_id, self._now_ms)

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
