"""A master that writes into the tier's metadata through its coordinator, a clock in its hand."""

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.coordinator.journal import Journal
from penstock.coordinator.outbox import Later
from penstock.coordinator.unwritten import Unwritten
from penstock.extents.layout import Entry
from penstock.tier.metadata.commands import (
    Answer,
    Command,
    Commit,
    Expected,
    Fence,
    Reserve,
    Swept,
    Tenure,
    Written,
)
from penstock.tier.metadata.manifest import EventGroup, Kind, Run
from penstock.tier.metadata.objects import Due, State
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName
from penstock.tier.service.config import TierServiceConfig
from penstock.tier.service.coordinator import TierCoordinator
from tests.extents.files import CLUSTER, SET, key
from tests.groups.world import HandClock

KEYS = (key(1, 0), key(2, 5))
TIMES = TierTimes(upload_ms=100, skew_ms=50, lease_ms=200, grace_ms=300)


class Clerk:
    """Asks, and keeps what it is told. What it has to know it reads from the metadata itself."""

    def __init__(
        self, journal: Journal, later: Later | None = None, runs_max: int = 100_000
    ) -> None:
        self.clock = HandClock()
        self.answers: list[Answer | Unwritten] = []
        self.coordinator = TierCoordinator(
            self.clock,
            journal,
            cluster_id=CLUSTER,
            config=TierServiceConfig(times=TIMES, runs_max=runs_max),
            later=later,
        )

    @property
    def metadata(self) -> TierMetadata:
        return self.coordinator._shard.by_partition[0].metadata

    def ask(self, command: Command) -> None:
        self.coordinator.ask(0, command, self.answers.append)

    def fence(self, leader_epoch: int, nonce: bytes = b"n") -> None:
        self.ask(Fence(SET, LeaderEpoch(leader_epoch), nonce))

    def reserve(self, count: int = 1) -> None:
        if (held := self._tenure()) is not None:
            self.ask(Reserve(held[0], held[1], count))

    def copy(self, which: int, records: int) -> None:
        """Commit the oldest object that is reserved, with one run of a partition, if there is."""
        held, rows = self._tenure(), self.metadata.objects.rows
        reserved = sorted(one for one, row in rows.items() if row.state is State.RESERVED)
        if held is None or not reserved:
            return
        one, name = KEYS[which], rows[reserved[0]].name
        first = self.metadata.manifest(one).end_offset
        run = self.run(name, one, first, first + records)
        written = (Written(name.object_id, 10 * records),)
        event = self._expected(EventGroup(Kind.COPY, one, (run,)))
        self.ask(Commit(held[0], held[1], written, (event,)))

    @staticmethod
    def run(name: ObjectName, one: TopicPartition, first: int, end: int) -> Run:
        entry = Entry(*one, 0, first, end, *[0] * 11)
        return Run(name, entry, ((name.leader_epoch, first),), end)

    def shorten(self, which: int, *, from_end: bool, count: int) -> None:
        """Let the tier begin later, or end earlier, by so many records."""
        held, one = self._tenure(), KEYS[which]
        if held is None:
            return
        manifest = self.metadata.manifest(one)
        end, start = max(manifest.end_offset - count, 0), manifest.start_offset + count
        kind, offset = (Kind.CUT, end) if from_end else (Kind.DELETE, start)
        event = self._expected(EventGroup(kind, one, offset=offset))
        self.ask(Commit(held[0], held[1], (), (event,)))

    def give_up(self, which: int) -> None:
        """Take from the tier what is left, or else count that its topic has given up its copies."""
        held, one = self._tenure(), KEYS[which]
        if held is None:
            return
        manifest = self.metadata.manifest(one)
        if manifest.runs:
            group = EventGroup(Kind.CUT, one, offset=manifest.runs[0].first_offset)
        else:
            group = EventGroup(Kind.GIVE_UP, one, give_ups=manifest.give_ups + 1)
        self.ask(Commit(held[0], held[1], (), (self._expected(group),)))

    def sweep(self) -> None:
        """Say that all is deleted that is due now."""
        found: list[Due] = []
        self.coordinator.due(0, lambda due: found.extend(() if isinstance(due, Unwritten) else due))
        for name, due_ms in found:
            self.ask(Swept(name.object_id, due_ms))

    def _tenure(self) -> tuple[Tenure, int] | None:
        """Return the present tenure and the number of its next request; None before a fence."""
        held = self.metadata.tenures.get(SET)
        return None if held is None else (held.tenure, held.request_id + 1)

    def _expected(self, group: EventGroup) -> Expected:
        return Expected(self.metadata.manifest(group.topic_partition).last_event_id, group)


def everything_of(metadata: TierMetadata) -> object:
    """Return all that the metadata has, but for the time."""
    return (
        metadata.objects.next_id,
        dict(metadata.objects.rows),
        dict(metadata.tenures),
        {one: metadata.manifest(one).snapshot() for one in metadata.partitions()},
    )
