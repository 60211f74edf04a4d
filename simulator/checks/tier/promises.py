"""Check: what masters are told of the tier's metadata is one history, and all of it is true.

    fence answered      the tenure of a set, for this process
    ids answered        which tenure may put which objects
    read answered       an event of a partition leaves one manifest, whoever reads it; none is lost
    commit answered     its objects are in the store, whole, under names of this very tenure
                        its runs follow what was there, and have what the log has (contents.py)
                        no later tenure has read the partition before: its master is not deposed
                        nothing is cut but what its topic has given up: the newest image says so
                        a replacement has the same batches, and tells of the same transactions

Answers count, since no failover undoes what was answered (ADR 0121). An answer may be heard late:
a master that stood still is told of a commit after the next one has gone on. So tenures and events
are compared by their numbers and not by the time at which they are heard.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.base.ids import TopicPartition
from penstock.coordinator.unwritten import Unwritten
from penstock.replica.replica_set import ReplicaSetMember
from penstock.runtime.tier.masterships import TierMasterships
from penstock.tier.metadata.commands import (
    Answer,
    Command,
    Commit,
    Committed,
    Expected,
    Fenced,
    Manifests,
    Reserve,
    Reserved,
    Tenure,
)
from penstock.tier.metadata.manifest import Kind, Manifest, Run, Snapshot
from penstock.tier.names import ObjectName
from penstock.tier.service.coordinator import TierCoordinator
from simulator.checks.patched import patched
from simulator.checks.tier.contents import TierContents, problems_of
from simulator.kernel.distant_store import SharedStore
from simulator.kernel.process import current_process


@dataclass(slots=True)
class Told:
    """What was told of one partition."""

    snapshots: dict[int, Snapshot] = field(default_factory=lambda: {0: Snapshot()})
    """By the number of the last event."""
    first_reads: dict[Tenure, int] = field(default_factory=dict)
    """Event that each tenure has begun behind."""
    commits: dict[int, Tenure] = field(default_factory=dict)


class TierPromises:
    """See the module."""

    def __init__(self, store: SharedStore, found: Callable[[str], None]) -> None:
        self.contents = TierContents(store)
        self.give_ups: Callable[[TopicPartition], int] = lambda _: 0
        """How often the copies of a partition were given up, as the newest image says."""
        self.masterships: dict[int, TierMasterships] = {}
        """By the number of the process."""
        self.told: dict[TopicPartition, Told] = {}
        self.commit_count = 0
        self.merge_count = 0
        """Runs that took the place of others."""
        self._store = store
        self._found = found
        self._tenures: dict[tuple[int, int], Tenure] = {}
        """By process and internal partition."""
        self._reserved: dict[tuple[int, int], Tenure] = {}
        """By set and id."""
        self._seen: set[tuple[ObjectName, int]] = set()
        """Runs that were read from the store, by object and place."""

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Hear every answer for as long as this lasts."""

        def asked(
            real: Callable[..., None],
            coordinator: TierCoordinator,
            partition: int,
            command: Command,
            reply: Callable[[Answer | Unwritten], None],
        ) -> None:
            process = current_process()

            def told(answer: Answer | Unwritten) -> None:
                if not isinstance(answer, Unwritten):
                    self._hear((process.number, partition), command, answer)
                reply(answer)

            real(coordinator, partition, command, told)

        def listens(
            real: Callable[..., None], masterships: TierMasterships, member: ReplicaSetMember
        ) -> None:
            self.masterships[current_process().number] = masterships
            real(masterships, member)

        with patched(TierCoordinator, "ask", asked), patched(TierMasterships, "listen_to", listens):
            yield

    def _hear(self, place: tuple[int, int], command: Command, answer: Answer) -> None:
        if isinstance(answer, Fenced):
            self._tenures[place] = answer.tenure
        elif isinstance(answer, Manifests) and place in self._tenures:
            for key, snapshot in answer.snapshots.items():
                self.read(self._tenures[place], key, snapshot)
        elif isinstance(command, Reserve) and isinstance(answer, Reserved):
            self.reserved(command.tenure, answer)
        elif isinstance(command, Commit) and isinstance(answer, Committed):
            self.committed(command)

    # --- what was told -------------------------------------------------------------------------

    def read(self, tenure: Tenure, key: TopicPartition, snapshot: Snapshot) -> None:
        """A tenure was told of a partition."""
        told = self.told.setdefault(key, Told())
        self._one_manifest(told, key, snapshot)
        for run in snapshot.runs:
            self._look_into(run)
        if tenure in told.first_reads:
            return
        told.first_reads[tenure] = snapshot.last_event_id
        for event, earlier in told.commits.items():
            if earlier < tenure and event > snapshot.last_event_id:
                self._found(f"{tenure} does not see event {event}, which {earlier} was told of")

    def reserved(self, tenure: Tenure, answer: Reserved) -> None:
        """A tenure was given ids."""
        for object_id in answer.object_ids:
            place = tenure.replica_set_id, object_id
            if self._reserved.setdefault(place, tenure) != tenure:
                self._found(f"id {object_id} was given to {self._reserved[place]} and to {tenure}")

    def committed(self, command: Commit) -> None:
        """A tenure was told that its commit is in the metadata."""
        self.commit_count += 1
        for object_id, size in command.objects:
            if self._reserved.get((command.tenure.replica_set_id, object_id)) != command.tenure:
                self._found(
                    f"{command.tenure} commits object {object_id}, which it did not reserve"
                )
            self._look_for(command, object_id, size)
        for expected in command.events:
            self._event(command.tenure, expected)

    def _look_for(self, command: Commit, object_id: int, size: int) -> None:
        """Look whether an object that counts from now on is in the store."""
        runs = [run for _, group in command.events for run in group.runs]
        names = {str(run.name) for run in runs if run.name.object_id == object_id}
        for name in sorted(names):
            there = self._store.bucket.objects.get(name)
            if there is None or len(there[0]) != size:
                what = "not there" if there is None else f"of {len(there[0])} bytes"
                self._found(f"{name} is committed with {size} bytes, and is {what}")

    def _event(self, tenure: Tenure, expected: Expected) -> None:
        before, group = expected
        key, event = group.topic_partition, before + 1
        told = self.told.setdefault(key, Told())
        where = f"event {event} of {key.partition} in {bytes(key.topic_id).hex()}, by {tenure}"
        told.commits[event] = tenure
        for later, first in told.first_reads.items():
            if later > tenure and event > first:
                self._found(f"{where}: it counts, and {later} has begun behind event {first}")
        self._giving_up(told, expected, where)
        for run in group.runs:
            if run.name[1:3] != tenure[:2]:
                self._found(f"{where}: it names {run.name}")
            self._look_into(run)
        if before not in told.snapshots:
            self._found(f"{where}: nobody was told of the event before")
            return
        manifest = Manifest(told.snapshots[before])
        if (problem := manifest.problem_with(group)) is not None:
            self._found(f"{where}: {problem}")
            return
        gone = manifest.apply(group)
        if group.kind is Kind.REPLACE:
            self.merge_count += 1
            for text in self.contents.replaced(gone, group.runs):
                self._found(f"{where}: {text}")
        self._one_manifest(told, key, manifest.snapshot())

    def _giving_up(self, told: Told, expected: Expected, where: str) -> None:
        """Look whether what was confirmed is cut only where its topic has given it up."""
        group, count = expected.group, self.give_ups(expected.group.topic_partition)
        before = told.snapshots.get(expected.last_event_id, Snapshot())
        if group.kind is Kind.CUT and before.give_ups >= count:
            self._found(f"{where}: it cuts what was confirmed, from offset {group.offset} on")
        if group.kind is Kind.GIVE_UP and group.give_ups > count:
            self._found(f"{where}: {group.give_ups} give-ups, and the image says {count}")

    def _one_manifest(self, told: Told, key: TopicPartition, snapshot: Snapshot) -> None:
        event = snapshot.last_event_id
        if told.snapshots.setdefault(event, snapshot) != snapshot:
            self._found(f"event {event} of {key.partition} leaves two manifests")
        if event == max(told.snapshots):
            self._store.told[key] = snapshot
        for text in problems_of(key, snapshot):
            self._found(text)

    def _look_into(self, run: Run) -> None:
        place = run.name, run.entry.summary_at
        if place not in self._seen and str(run.name) not in self._store.damaged:
            self._seen.add(place)
            for text in self.contents.take(run):
                self._found(text)
