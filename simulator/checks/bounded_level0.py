"""Check: level 0 keeps its bound, so that the disk holds what retention allows and little more.

    a retention pass has ended ─► which closed segments below the bound does a partition keep?
      seen for the first time    the next file is to have it, or as many later as are before it
      these files were made      the first pass that began then has released it, or: finding

The bound of a log of which files are made is `level0_bytes` before its end, as far as the set has
confirmed it and this disk has it. What is kept there is moved by one file for each SEGMENTS_MAX
segments, the oldest first, in turn with cleaned and with shrunk files; the time that takes
is the housekeeper's, and so the check counts files and passes and no seconds. What only compacted
partitions keep comes behind all others, and is not judged. A log that is opened anew begins again,
and so does one whose last job failed: until it is tried again there may be any number of cleanings.

It goes by what the pass itself says of each segment, and by whether its file is on the disk. That
nothing else lies there is checked at the end of a run (remains.py).

Source: docs/adr/0104; docs/reliability.md, "level 0 keeps its bound".
"""

from penstock.base.ids import Position
from penstock.node.node import Node
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.commit_log.pins import Pin, SegmentPins
from penstock.storage.commit_log.segments import segment_path
from penstock.storage.second_level.planning import SEGMENTS_MAX
from penstock.storage.second_level.splitting import Splitting
from simulator.run.server import Server


class _Seen:
    """What was seen of one opening of a log."""

    def __init__(self, splitting: Splitting) -> None:
        self.splitting = splitting
        self.passes = 0
        self.bound = -1
        """Segments that end at or below it had to be moved when the last pass ended."""
        self.due: dict[int, int] = {}
        """Base of a kept segment below the bound -> number of the file from which on it is not."""


class BoundedLevel0:
    """See the module. One for all logs of a run."""

    def __init__(self) -> None:
        self.checks = 0
        """How often a segment was looked at that files were made of."""
        self._seen: dict[int, _Seen] = {}
        """By identity of the member."""

    def look(self, server: Server, member: ReplicaSetMember) -> str:
        """Look at one member; return what is wrong."""
        log = member.log
        if log.config.level0_bytes < 0 or log.is_busy or log.is_fenced:
            return ""
        seen = self._seen.get(id(member))
        if seen is None or seen.splitting is not log.splitting:
            seen = self._seen[id(member)] = _Seen(log.splitting)
        if log.pins.number == seen.passes:
            return ""
        seen.passes = log.pins.number
        pins = [one for one in log.pins.segments if _is_kept(one, seen.bound)]
        kept = [one for one in pins if not _is_compacted(server, one)]
        if _has_failed(server, member):
            seen.due.clear()
        wrong = self._judge(seen, member, kept, _logs_of(server))
        durable = min(log.parts.writer.flushed_position, member.confirm_position)
        seen.bound = min(log.end_position - log.config.level0_bytes, durable)
        if wrong is None or not _is_there(server, member, wrong):
            return ""
        return (
            f"{server.name}: set {member.replica_set_id} keeps segment {wrong.base} for"
            f" {wrong.partitions} below the bound of level 0, though a file was made of it"
        )

    def _judge(
        self, seen: _Seen, member: ReplicaSetMember, kept: list[SegmentPins], logs: int
    ) -> SegmentPins | None:
        """Return the oldest segment that the last pass ought to have released."""
        made = seen.splitting._planned_before  # noqa: SLF001  number of the next file as it began
        next_number = member.log.parts.second_level.next_number
        # Logs take turns, and between two of them a partition is cleaned, and a file is shrunk,
        # maybe always of this one.
        turns = 1 + 2 * logs
        for index, segment in enumerate(kept):
            due = seen.due.setdefault(
                segment.base, next_number + turns * (index // SEGMENTS_MAX + 1)
            )
            if made >= due:
                return segment
            self.checks += 1
        return None


def _is_kept(segment: SegmentPins, bound: int) -> bool:
    return segment.pin is Pin.PARTITIONS and segment.base + segment.size_bytes <= bound


def _logs_of(server: Server) -> int:
    node = server.node
    return 1 if not isinstance(node, Node) or node.manager is None else len(node.manager.members)


def _has_failed(server: Server, member: ReplicaSetMember) -> bool:
    """Whether the last job of the log has failed, and is to be tried again."""
    housekeeping = getattr(server.node, "housekeeping", None)
    splits = None if housekeeping is None else housekeeping.splits
    return splits is not None and member.replica_set_id in splits.failing


def _is_compacted(server: Server, segment: SegmentPins) -> bool:
    """Whether only compacted partitions are known to keep it."""
    if server.node is None:
        return False
    topics = server.node.image.topics_by_id
    found = [topics.get(key.topic_id) for key in segment.partitions]
    return all(topic is not None and topic.settings.is_compacted for topic in found)


def _is_there(server: Server, member: ReplicaSetMember, segment: SegmentPins) -> bool:
    return segment_path(member.log.directory, Position(segment.base)) in server.disk.names
