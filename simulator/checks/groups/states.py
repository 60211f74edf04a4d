"""Check: a coordinator answers with the positions that a replay of its log gives.

    log of an internal partition ─► the last record of each key ─► positions == those answered
      records of transactions       ─► by producer, until a marker: then they are like others,
                                       unless one behind them, in the log, came to count first

Checked when a run is idle at its end and operators have moved masterships once more. The records
are reduced here independently: the last record of a key counts, and a tombstone removes it. A
partition that is being written, or is not confirmed to its end, is checked again later.

Positions of a later version, which can not be read, are checked in newer_records.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.base.errors import PlatformError
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import COPIED, UnreadRecord
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.records import OffsetKey, TopicKey, decode_key, decode_offset_value
from penstock.node.node import Node
from simulator.checks.groups.internal_partitions import journal_of, master_of
from simulator.run.server import Server
from simulator.run.topology import PARTITIONS

Positions = dict[str, dict[TopicKey, int]]
"""Group -> partition -> offset."""
Place = tuple[str, TopicKey]
"""A group, and the partition of a position."""


class GroupStates:
    """See the module. `look` until it returns False, then `findings`."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers
        self._replays: dict[int, _Replay] = {}

    def look(self) -> bool:
        """Compare what was not yet; returns whether that goes on."""
        for partition in range(PARTITIONS):
            replay = self._replays.get(partition)
            if replay is None or replay.is_void:
                self._begin(partition)
        return any(not one.is_done for one in self._replays.values())

    def _begin(self, partition: int) -> None:
        place = master_of(self._servers, partition)
        self._replays.pop(partition, None)
        if place is None:
            return
        server, hosted = place
        journal = journal_of(server)
        assert journal is not None
        assert server.process is not None
        replay = self._replays[partition] = _Replay(server, hosted, partition)
        server.process.call_soon(journal.load, hosted, replay, replay.end)

    def findings(self) -> Iterator[str]:
        """Name the positions that differ."""
        for partition, replay in self._replays.items():
            for text in replay.differences:
                yield f"{replay.server.name}: internal partition {partition}: {text}"


@dataclass(slots=True)
class _Replay:
    """One partition, read from beginning to end."""

    server: Server
    hosted: HostedPartition
    partition: int
    positions: Positions = field(default_factory=dict)
    waiting: dict[int, dict[Place, tuple[int, int]]] = field(default_factory=dict)
    """Producer -> group and partition -> place in the log, offset."""
    places: dict[Place, int] = field(default_factory=dict)
    """Where in the log a position comes from."""
    unknown: set[tuple[str, TopicKey]] = field(default_factory=set)
    differences: list[str] = field(default_factory=list)
    is_done: bool = False
    is_void: bool = False
    _end: int = 0
    _read: int = 0

    def __post_init__(self) -> None:
        self._end = self.hosted.log.log_end_offset

    def record(self, record: UnreadRecord) -> None:
        """Take the next record."""
        self._read += 1
        place = _place(record)
        if place is None:
            return
        self.unknown.discard(place)
        if COPIED not in record.headers:
            self.places[place] = self._read
        if record.value is None:
            self._put(place, None)
            for waiting in self.waiting.values():
                waiting.pop(place, None)
            return
        try:
            self._put(place, decode_offset_value(record.value).offset)
        except MalformedRecord:
            self._put(place, None)
            self.unknown.add(place)

    def pending(self, writer: Writer, record: UnreadRecord) -> None:
        """Take the next record of a transaction."""
        self._read += 1
        place = _place(record)
        if place is None or record.value is None:
            return
        try:
            offset = decode_offset_value(record.value).offset
        except MalformedRecord:
            return
        self.waiting.setdefault(writer.producer_id, {})[place] = (self._read, offset)

    def ended(self, writer: Writer, *, is_commit: bool) -> None:
        """Take a marker."""
        self._read += 1
        for place, (read, offset) in self.waiting.pop(writer.producer_id, {}).items():
            if is_commit and read > self.places.get(place, 0):
                self.places[place] = read
                self._put(place, offset)

    def unread_batch(self, reason: str) -> None:
        """Take no notice of a control batch of another kind."""
        del reason

    def _put(self, place: Place, offset: int | None) -> None:
        group_id, key = place
        offsets = self.positions.setdefault(group_id, {})
        offsets.pop(key, None)
        if offset is not None:
            offsets[key] = offset

    def end(self, error: PlatformError | None) -> None:
        """Compare, in the coordinator's own process, unless the log went on meanwhile."""
        member = self.hosted.member
        is_calm = member.confirm_position == member.log.end_position
        node = self.server.node
        is_same = self.hosted.log.log_end_offset == self._end and isinstance(node, Node)
        if error is not None or not is_calm or not is_same or not isinstance(node, Node):
            self.is_void = True
            return
        told = node.groups
        if told.is_loading:
            self.is_void = True
            return
        ids = dict.fromkeys([*self.positions, *told.reading.group_ids()])
        for group_id in ids:
            if partition_of(group_id, PARTITIONS) == self.partition:
                self._compare(group_id, _told(told, group_id))
        self.is_done = True

    def _compare(self, group_id: str, told: dict[TopicKey, int]) -> None:
        logged = self.positions.get(group_id, {})
        for key in dict.fromkeys([*logged, *told]):
            if (group_id, key) not in self.unknown and logged.get(key) != told.get(key):
                self.differences.append(
                    f"{group_id} stands at {told.get(key)} in {key}, and the log says"
                    f" {logged.get(key)}"
                )


def _place(record: UnreadRecord) -> Place | None:
    """Return the group and the partition of a position; None for any other record."""
    try:
        name = None if record.key is None else decode_key(record.key)
    except MalformedRecord:
        return None
    if not isinstance(name, OffsetKey):
        return None
    return name.group_id, TopicKey(name.topic, name.partition)


def _told(groups: GroupCoordinator, group_id: str) -> dict[TopicKey, int]:
    """Return the positions that a client would be answered now."""
    offsets = groups.reading.fetch_offsets(group_id, None).offsets
    return {key: offset.committed.offset for key, offset in offsets.items() if offset.committed}
