"""What an application is made of: subtopologies, their topics, and which of these go together.

    subtopology ── reads source topics (by name, by regular expression) and repartition topics
                ── writes repartition topics (its sinks)
                ── keeps state, of which each store has a changelog topic
    copartition group: topics of a subtopology that must have equally many partitions

Repartition topics and changelogs are internal topics of the application: the coordinator has them
created with the configuration that the application gives.

Source: KIP-1071; Kafka, StreamsGroupTopologyValue.json.
"""

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from penstock.assignors.partitions import NO_TAGS, compact_strings, read_strings
from penstock.base.ids import TopologyEpoch
from penstock.coordinator import wire

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_TOPIC_BYTES_MIN, _CONFIG_BYTES_MIN, _PLACES_BYTES_MIN, _SUBTOPOLOGY_BYTES_MIN = 9, 3, 4, 8
_TOPIC_OVERHEAD = 100
T = TypeVar("T")


class InternalTopic(NamedTuple):
    """A topic that the application owns; 0 partitions or replicas mean: as the coordinator finds
    right.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Places in the arrays of a subtopology."""

    source_topics: tuple[int, ...]
    source_regexes: tuple[int, ...]
    repartition_sources: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of an application whose tasks are assigned on their own."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_regexes: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """All names of topics in it."""
        internal = (*self.changelogs, *self.repartition_sources)
        own = tuple(topic.name for topic in internal)
        return (*self.source_topics, *self.repartition_sinks, *own)

    @property
    def size_bytes(self) -> int:
        """Approximate memory of what it says."""
        texts = [self.subtopology_id, *self.source_topics, *self.source_regexes]
        texts += self.repartition_sinks
        for topic in (*self.changelogs, *self.repartition_sources):
            texts += (topic.name, *(text for pair in topic.configs for text in pair))
        places = sum(len(some) for group in self.copartition_groups for some in group)
        return sum(len(text) + _TOPIC_OVERHEAD for text in texts) + places * _INT32.size


class Topology(NamedTuple):
    """An application at an epoch; subtopologies in the order of their ids."""

    epoch: TopologyEpoch
    subtopologies: tuple[Subtopology, ...]

    @property
    def size_bytes(self) -> int:
        """Approximate memory of what it says."""
        return sum(one.size_bytes for one in self.subtopologies)

    @property
    def source_topics(self) -> frozenset[str]:
        """The names of topics that the application reads, repartition topics among them."""
        return frozenset(
            name
            for one in self.subtopologies
            for name in (*one.source_topics, *(topic.name for topic in one.repartition_sources))
        )

    @property
    def regexes(self) -> tuple[str, ...]:
        """The regular expressions in it, each once."""
        return tuple(dict.fromkeys(r for one in self.subtopologies for r in one.source_regexes))


def encode_topology(said: Topology) -> bytes:
    """Return the value without its version."""
    return _INT32.pack(said.epoch) + _array(_encode_subtopology, said.subtopologies) + NO_TAGS


def decode_topology(reader: wire.Reader) -> Topology:
    """Read it. Raises MalformedRecord."""
    said = Topology(
        TopologyEpoch(reader.int32()),
        _read_array(reader, _decode_subtopology, _SUBTOPOLOGY_BYTES_MIN),
    )
    reader.tags()
    return said


def _encode_subtopology(said: Subtopology) -> bytes:
    return b"".join(
        (
            wire.compact_string(said.subtopology_id),
            compact_strings(said.source_topics),
            compact_strings(said.source_regexes),
            _array(_encode_topic, said.changelogs),
            compact_strings(said.repartition_sinks),
            _array(_encode_topic, said.repartition_sources),
            _array(_encode_group, said.copartition_groups),
            NO_TAGS,
        )
    )


def _decode_subtopology(reader: wire.Reader) -> Subtopology:
    said = Subtopology(
        subtopology_id=reader.string(compact=True),
        source_topics=read_strings(reader),
        source_regexes=read_strings(reader),
        changelogs=_read_array(reader, _decode_topic, _TOPIC_BYTES_MIN),
        repartition_sinks=read_strings(reader),
        repartition_sources=_read_array(reader, _decode_topic, _TOPIC_BYTES_MIN),
        copartition_groups=_read_array(reader, _decode_group, _PLACES_BYTES_MIN),
    )
    reader.tags()
    return said


def _encode_topic(said: InternalTopic) -> bytes:
    head = wire.compact_string(said.name) + struct.pack(
        ">ih", said.partitions, said.replication_factor
    )
    return head + encode_pairs(said.configs) + NO_TAGS


def _decode_topic(reader: wire.Reader) -> InternalTopic:
    name, partitions, factor = reader.string(compact=True), reader.int32(), reader.int16()
    said = InternalTopic(name, partitions, factor, read_pairs(reader))
    reader.tags()
    return said


def encode_pairs(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return a compact array of keys with their values."""
    encoded = [wire.compact_string(key) + wire.compact_string(value) for key, value in pairs]
    return _joined([one + NO_TAGS for one in encoded])


def read_pairs(reader: wire.Reader) -> tuple[tuple[str, str], ...]:
    """Read one. Raises MalformedRecord."""
    return _read_array(reader, _read_pair, _CONFIG_BYTES_MIN)


def _read_pair(reader: wire.Reader) -> tuple[str, str]:
    pair = reader.string(compact=True), reader.string(compact=True)
    reader.tags()
    return pair


def _encode_group(said: CopartitionGroup) -> bytes:
    return b"".join(_joined([_INT16.pack(n) for n in some]) for some in said) + NO_TAGS


def _decode_group(reader: wire.Reader) -> CopartitionGroup:
    said = CopartitionGroup(*(_read_array(reader, _place, _INT16.size) for _ in range(3)))
    reader.tags()
    return said


def _place(reader: wire.Reader) -> int:
    return reader.int16()


def _array(encode: Callable[[T], bytes], items: Iterable[T]) -> bytes:
    return _joined([encode(item) for item in items])


def _joined(encoded: list[bytes]) -> bytes:
    return wire.varint(len(encoded) + 1) + b"".join(encoded)


def _read_array(
    reader: wire.Reader, read: Callable[[wire.Reader], T], bytes_min: int
) -> tuple[T, ...]:
    return tuple(read(reader) for _ in range(reader.compact_count(bytes_min)))
