"""Servers that clean compacted topics, or have an object store: settings, and how far they are.

Both stores are directories of the same file system. Files are small on both sides, since only
closed ones are cleaned or copied, and so that the log has several of them.
"""

from pathlib import Path
from typing import Final

from benchmarks.parts.nodes import with_a_store
from benchmarks.parts.second_level import CLEANING, SEGMENT_BYTES, UNBOUND
from benchmarks.peers.model import CanNotRun, Spec
from harness.node import SettingsOf

KAFKA_STORE_CLASS: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
CHECKPOINT: Final = "cleaner-offset-checkpoint"


def penstock_settings(spec: Spec, directory: Path) -> tuple[SettingsOf, ...]:
    """Return what a node is told; its store is in this directory."""
    settings: list[SettingsOf] = []
    if spec.has_store:
        store = directory / "store"
        store.mkdir()
        settings.append(with_a_store(store))
    if spec.has_cleaner:
        settings += [CLEANING, UNBOUND]
    return tuple(settings)


def kafka_lines(spec: Spec, directory: Path) -> tuple[str, ...]:
    """Return lines for the properties of each node; its store is in this directory."""
    lines: list[str] = []
    if spec.has_cleaner or spec.has_store:
        lines.append(f"log.segment.bytes={SEGMENT_BYTES}")
    if spec.has_cleaner:
        lines.append("log.cleaner.backoff.ms=1000")
    if spec.has_store:
        lines += [
            "remote.log.storage.system.enable=true",
            f"remote.log.storage.manager.class.name={KAFKA_STORE_CLASS}",
            f"rsm.config.dir={directory}",
            "remote.log.metadata.manager.listener.name=PLAINTEXT",
            "rlmm.config.remote.log.metadata.topic.replication.factor=1",
            "remote.log.manager.task.interval.ms=1000",
            "log.retention.check.interval.ms=1000",
        ]
    return tuple(lines)


class KafkaProgress:
    """How far Kafka's cleaner is in partition 0 of a topic, from the files of its log directory."""

    def __init__(self, data: Path, topic: str) -> None:
        self._checkpoint = data / CHECKPOINT
        self._topic = topic
        bases = sorted(int(file.stem) for file in (data / f"{topic}-0").glob("*.log"))
        if len(bases) < 2:
            raise CanNotRun(f"{topic} has no closed segment")
        self.end_offset = bases[-1]
        """Where the segment that is written begins: it is not cleaned (exclusive)."""
        self._cleaned = 0

    def look(self) -> float:
        """See Progress."""
        if self._checkpoint.exists():
            text = self._checkpoint.read_text(encoding="ascii")
            self._cleaned = cleaned_offset(text, self._topic)
        return self._cleaned

    @property
    def is_done(self) -> bool:
        """See Progress."""
        return self._cleaned >= self.end_offset

    @property
    def done_at(self) -> float:
        """See Progress. The checkpoint is written when a log was cleaned."""
        return self._checkpoint.stat().st_mtime


def cleaned_offset(checkpoint: str, topic: str) -> int:
    """Return up to where partition 0 of a topic was cleaned (exclusive), 0 if it was not.

    The file has its version, a count, and so many lines of topic, partition and offset.
    """
    for line in checkpoint.splitlines()[2:]:
        name, _, rest = line.rpartition(" ")[0].rpartition(" ")
        if (name, rest) == (topic, "0"):
            return int(line.rpartition(" ")[2])
    return 0
