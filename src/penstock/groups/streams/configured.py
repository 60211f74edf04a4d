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
from typing import NamedTuple

from penstock.groups.streams.status import Status, StatusCode
from penstock.groups.streams.topology import InternalTopic, Subtopology, Topology

Counts = dict[str, int]
"""Partitions by topic."""
NAMES_TOLD = 10
"""Most topics that a text names."""


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

    topology_epoch: int
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
        sources = {one.subtopology_id: _sources(one, matches) for one in topology.subtopologies}
        yield 1 + len(sources)
        _check_sources(topology, sources, counts)
        decided = yield from _repartition_counts(topology, sources, counts)
        for one in topology.subtopologies:
            for group in one.copartition_groups:
                _level(
                    one,
                    _named(one, group.source_topics, group.source_regexes, matches),
                    [one.repartition_sources[n].name for n in group.repartition_sources],
                    counts,
                    decided,
                )
            yield 1 + len(one.copartition_groups)
        found = {**decided, **counts}
        made = [
            _configured(one, sources[one.subtopology_id], found, decided)
            for one in topology.subtopologies
        ]
        yield 1 + len(made)
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


def _named(
    one: Subtopology,
    topics: Iterable[int],
    regexes: Iterable[int],
    matches: Mapping[str, tuple[str, ...]],
) -> list[str]:
    names = [one.source_topics[n] for n in topics]
    return names + [name for n in regexes for name in matches.get(one.source_regexes[n], ())]


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
    writers: dict[str, list[Subtopology]] = {}
    for one in topology.subtopologies:
        for sink in one.repartition_sinks:
            writers.setdefault(sink, []).append(one)
    left = [name for name in topics if name not in decided]
    while left:
        known: Counts = {}
        for name in left:
            upstream = [
                decided.get(source, counts.get(source))
                for one in writers.get(name, ())
                for source in (
                    *sources[one.subtopology_id],
                    *(topic.name for topic in one.repartition_sources),
                )
            ]
            if upstream and None not in upstream:
                known[name] = max(count for count in upstream if count is not None)
        yield 1 + len(left)
        if not known:
            text = f"Failed to compute number of partitions for repartition topics {told(left)}"
            raise _Wrong(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
        decided.update(known)
        left = [name for name in left if name not in decided]
    return decided


def _level(
    one: Subtopology,
    sources: Iterable[str],
    repartitions: Iterable[str],
    counts: Mapping[str, int],
    decided: Counts,
) -> None:
    """Let all topics of a copartition group have equally many partitions."""
    fixed = {topic.name: topic.partitions for topic in one.repartition_sources if topic.partitions}
    own = [*repartitions]
    given = {name: decided[name] if name in decided else counts[name] for name in sources}
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
        topic._replace(partitions=decided[topic.name]) for topic in one.repartition_sources
    )
    read = (*sources, *(topic.name for topic in repartitions))
    task_count = max(decided.get(name, found.get(name, 0)) for name in read)
    return ConfiguredSubtopology(
        subtopology_id=one.subtopology_id,
        task_count=task_count,
        sources=sources,
        repartition_sources=repartitions,
        changelogs=tuple(
            topic._replace(partitions=task_count)
            for topic in one.changelogs
            if topic.name not in sources  # a store may be restored from the topic that is read
        ),
        repartition_sinks=one.repartition_sinks,
    )


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
