"""The topics of a topology as they have to be: how many partitions, which are missing.

    source topics ──► repartition topics (of what writes them) ──► copartition groups level out
                                                    └─► tasks and changelogs of each subtopology

A subtopology has as many tasks as the largest of its source topics has partitions, and so many
partitions has each of its changelogs. Whatever is wrong becomes a status that members are told, and
until it is mended nobody has a task.

Source: Kafka, InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer and
ChangelogTopics of group-coordinator; KIP-1071. There a regular expression matches no topic yet.
"""

from collections.abc import Generator, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from penstock.base.ids import TopologyEpoch
from penstock.groups.streams.status import Status, StatusCode
from penstock.groups.streams.topology import InternalTopic, Subtopology, Topology

Counts = dict[str, int]
"""Partitions by topic."""
NAMES_TOLD = 10
"""Most topics that a text names."""
SOURCES_MAX = 50_000
"""Topics that all subtopologies read: an expression of two characters may match any number, in each
of 500 subtopologies."""
_TOGETHER, _MADE_TOGETHER = 50, 5
"""Names that are looked at, and topics that are made, for a unit of portions."""


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with its topics; internal ones with as many partitions as they need."""

    subtopology_id: str
    task_count: int
    sources: tuple[str, ...]
    """Topics that it reads and that are not its own, those of regular expressions among them."""
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, of which others can keep a copy."""
        return bool(self.changelogs)


class Configured(NamedTuple):
    """A topology with its topics; no subtopologies if these can not be made right."""

    topology_epoch: TopologyEpoch
    subtopologies: tuple[ConfiguredSubtopology, ...] = ()
    missing: tuple[InternalTopic, ...] = ()
    status: Status | None = None
    counts: Mapping[str, int] = {}
    """Partitions of all topics that tasks read."""

    @property
    def is_ready(self) -> bool:
        """Whether tasks may be assigned."""
        return self.status is None


class _Wrong(Exception):
    """Topics are not as they have to be."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


Made = Generator[int, None, Configured]


def configure(
    topology: Topology,
    counts: Mapping[str, int],
    matches: Mapping[str, tuple[str, ...]],
    *,
    tasks_max: int,
) -> Made:
    """Return the topology with its topics.

    `counts` are the partitions of those of its topics that exist, `matches` the topics of its
    regular expressions. The steps go by subtopologies, of which there are some hundred at most.
    """
    try:
        sources = yield from _all_sources(topology, matches)
        _check_sources(topology, sources, counts)
        decided = yield from _repartition_counts(topology, sources, counts)
        for one in topology.subtopologies:
            yield from _level_groups(one, matches, counts, decided)
        found = {**decided, **counts}
        made: list[ConfiguredSubtopology] = []
        for one in topology.subtopologies:
            made.append(_configured(one, sources[one.subtopology_id], found, decided))
            yield 1 + (len(one.repartition_sources) + len(one.changelogs)) // _MADE_TOGETHER
        _check_tasks(made, tasks_max)
        missing = _missing(made, counts)
    except _Wrong as wrong:
        return Configured(topology.epoch, status=wrong.status)
    status = None
    if missing:
        text = f"Internal topics are missing: {told(topic.name for topic in missing)}"
        status = Status(StatusCode.MISSING_INTERNAL_TOPICS, text)
    return Configured(topology.epoch, tuple(made), missing, status, found)


def told(names: Iterable[str]) -> str:
    """Return names for a text, the first of them if there are many."""
    ordered = sorted(names)
    some = ", ".join(ordered[:NAMES_TOLD])
    more = len(ordered) - NAMES_TOLD
    return f"[{some}]" if more <= 0 else f"[{some} and {more} more]"


def _sources(one: Subtopology, matches: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the topics that a subtopology reads, without its repartition topics."""
    own = {topic.name for topic in one.repartition_sources}
    matched = (name for regex in one.source_regexes for name in matches.get(regex, ()))
    names = dict.fromkeys((*one.source_topics, *matched))
    return tuple(name for name in names if name not in own)


def _all_sources(
    topology: Topology, matches: Mapping[str, tuple[str, ...]]
) -> Generator[int, None, dict[str, tuple[str, ...]]]:
    sources: dict[str, tuple[str, ...]] = {}
    left = SOURCES_MAX
    for one in topology.subtopologies:
        sources[one.subtopology_id] = found = _sources(one, matches)
        left -= len(found)
        if left < 0:
            text = f"The application reads more than {SOURCES_MAX} topics in its subtopologies."
            raise _Wrong(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
        yield 1 + len(found) // _TOGETHER
    return sources


def _check_sources(
    topology: Topology, sources: Mapping[str, tuple[str, ...]], counts: Mapping[str, int]
) -> None:
    """Every source topic must be there, unless it is a repartition topic of the application."""
    own = {topic.name for one in topology.subtopologies for topic in one.repartition_sources}
    missing = {name for names in sources.values() for name in names if name not in counts} - own
    if missing:
        raise _Wrong(
            StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {told(missing)} are missing."
        )
    for one in topology.subtopologies:
        if not sources[one.subtopology_id] and not one.repartition_sources:
            text = f"No topic matches a source of subtopology {one.subtopology_id}."
            raise _Wrong(StatusCode.MISSING_SOURCE_TOPICS, text)


def _repartition_counts(
    topology: Topology, sources: Mapping[str, tuple[str, ...]], counts: Mapping[str, int]
) -> Generator[int, None, Counts]:
    """Return the partitions of every repartition topic: its own number, or the most partitions of
    what is read where it is written. What is read may be such a topic too.
    """
    topics = {
        topic.name: topic for one in topology.subtopologies for topic in one.repartition_sources
    }
    decided = {name: topic.partitions for name, topic in topics.items() if topic.partitions}
    waiting = _Waiting(topics.keys() - decided.keys(), {**counts, **decided})
    for one in topology.subtopologies:
        own = (topic.name for topic in one.repartition_sources)
        read = {*sources[one.subtopology_id], *own}
        waiting.add(read, {*one.repartition_sinks})
        yield 1 + len(read) // _TOGETHER
    yield from waiting.decide(decided)
    left = [name for name in topics if name not in decided]
    if left:
        text = f"Failed to compute number of partitions for repartition topics {told(left)}"
        raise _Wrong(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
    return decided


class _Waiting:
    """Topics that have as many partitions as the most of what is read where they are written.

    That is the largest number that reaches a topic from one that has its own. So the largest is
    handed on first, and what it has reached is decided, also where subtopologies read what each
    other writes, as those of a join by a foreign key. Each name is looked at once for each
    subtopology that reads or writes it, whatever the order.
    """

    def __init__(self, undecided: Iterable[str], known: Counts) -> None:
        self._undecided = frozenset(undecided)
        self._known = known
        self._readers: dict[str, list[int]] = {}
        self._most: list[int] = []
        """Of what a subtopology reads and is known."""
        self._sinks: list[set[str]] = []

    def add(self, read: set[str], written: set[str]) -> None:
        """Add a subtopology by the topics that it reads and writes."""
        number = len(self._sinks)
        for name in read & self._undecided:
            self._readers.setdefault(name, []).append(number)
        self._most.append(max((self._known.get(name, 0) for name in read), default=0))
        self._sinks.append(written & self._undecided)

    def decide(self, decided: Counts) -> Generator[int, None, None]:
        """Add to `decided` whatever can be."""
        reached = [(-most, number) for number, most in enumerate(self._most) if most]
        heapify(reached)
        while reached:
            negative, number = heappop(reached)
            sinks, self._sinks[number] = self._sinks[number], set()
            for name in sinks - decided.keys():
                decided[name] = -negative
                for reader in self._readers.get(name, ()):
                    heappush(reached, (negative, reader))
            yield 1 + len(sinks) // _TOGETHER


def _level_groups(
    one: Subtopology,
    matches: Mapping[str, tuple[str, ...]],
    counts: Mapping[str, int],
    decided: Counts,
) -> Generator[int, None, None]:
    fixed = {topic.name: topic.partitions for topic in one.repartition_sources if topic.partitions}
    matched: dict[str, Counts] = {}
    for group in one.copartition_groups:
        given: Counts = {}
        for place in dict.fromkeys(group.source_regexes):
            regex = one.source_regexes[place]
            if regex not in matched:
                matched[regex] = _by_count(matches.get(regex, ()), counts, decided)
                yield 1 + len(matches.get(regex, ())) // _TOGETHER
            given |= matched[regex]
        names = (one.source_topics[place] for place in group.source_topics)
        given |= {name: decided[name] if name in decided else counts[name] for name in names}
        own = dict.fromkeys(one.repartition_sources[n].name for n in group.repartition_sources)
        _level(given, own, fixed, decided)
        yield 1 + len(own) // _TOGETHER


def _by_count(names: Iterable[str], counts: Mapping[str, int], decided: Counts) -> Counts:
    """Return one topic for each number of partitions."""
    found: dict[int, str] = {}
    for name in names:
        found.setdefault(decided[name] if name in decided else counts[name], name)
    return {name: count for count, name in found.items()}


def _level(given: Counts, own: Iterable[str], fixed: Mapping[str, int], decided: Counts) -> None:
    """Let all topics of a copartition group have equally many partitions."""
    given |= {name: fixed[name] for name in own if name in fixed}
    wanted = {*given.values()} or {max((decided[name] for name in own), default=0)}
    if len(wanted) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(given.items())[:NAMES_TOLD])
        text = f"Following topics do not have the same number of partitions: [{listed}]"
        raise _Wrong(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
    count = wanted.pop()
    for name in own:
        decided[name] = count


def _configured(
    one: Subtopology, sources: tuple[str, ...], found: Mapping[str, int], decided: Counts
) -> ConfiguredSubtopology:
    repartitions = tuple(
        _with_partitions(topic, decided[topic.name]) for topic in one.repartition_sources
    )
    read = (*sources, *(topic.name for topic in repartitions))
    task_count = max(decided.get(name, found.get(name, 0)) for name in read)
    return ConfiguredSubtopology(
        subtopology_id=one.subtopology_id,
        task_count=task_count,
        sources=sources,
        repartition_sources=repartitions,
        changelogs=tuple(
            _with_partitions(topic, task_count)
            for topic in one.changelogs
            if topic.name not in sources  # a store may be restored from the topic that is read
        ),
        repartition_sinks=one.repartition_sinks,
    )


def _with_partitions(topic: InternalTopic, count: int) -> InternalTopic:
    return InternalTopic(topic.name, count, topic.replication_factor, topic.configs)


def _check_tasks(made: Iterable[ConfiguredSubtopology], tasks_max: int) -> None:
    tasks = sum(one.task_count for one in made)
    if tasks > tasks_max:
        text = f"The application has {tasks} tasks, at most {tasks_max} are assigned."
        raise _Wrong(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)


def _missing(
    made: Iterable[ConfiguredSubtopology], counts: Mapping[str, int]
) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist; those that do must have the right number."""
    wanted = {
        topic.name: topic for one in made for topic in (*one.repartition_sources, *one.changelogs)
    }
    for name, topic in sorted(wanted.items()):
        found = counts.get(name, topic.partitions)
        if found != topic.partitions:
            text = (
                f"Existing topic {name} has different number of partitions: "
                f"expected {topic.partitions}, found {found}"
            )
            raise _Wrong(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
    return tuple(topic for name, topic in sorted(wanted.items()) if name not in counts)
