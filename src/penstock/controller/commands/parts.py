"""Cuts a command of many topics into commands that each hold the loop for a few milliseconds.

A broker of this release sends them in parts that are that small. What a process of another release
sends, or a peer that lies, may name 1,000 topics with 30 settings each: 0.4 s of one turn of the
loop in every process, since what one command changes is one entry of the log.

Source: our own (ADR 0033): outcomes are given topic by topic, so one half of a command may be
carried out and the other not.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

from penstock.controller.commands import command as c
from penstock.controller.commands.access import commands as a

R = TypeVar("R")

PART_STEPS = 300
"""Of one part: 4 ms, and some more where there are few. An element that takes more is a part of its
own. A step is 12 us, in which a setting is checked and encoded, or replayed."""
ELEMENT_STEPS = 6
"""A topic: the 50 that a broker passes at once stay one command."""
VALUE_BYTES_OF_A_STEP = 150
PARTITIONS_OF_A_STEP = 20


def parts_of(command: c.Command[R]) -> Iterator[c.Command[R]]:
    """Yield commands whose answers, one behind the other, are the answer to `command`.

    Elements of one name stay together, so that one that is named twice is refused as before.
    Anything but a command of several topics or ACLs is yielded as it is.
    """
    cut = _CUTS.get(type(command))
    if cut is None or len(getattr(command, cut.field)) < 2:
        yield command
        return
    taken: list[Any] = []
    steps = 0
    for same in _together(getattr(command, cut.field), cut.key):
        more = sum(ELEMENT_STEPS + cut.steps(one) for one in same)
        if taken and steps + more > PART_STEPS:
            yield _with(command, cut.field, taken)
            taken, steps = [], 0
        taken += same
        steps += more
    yield _with(command, cut.field, taken)


class _Cut(NamedTuple):
    """How the commands of a class are cut: the field, an element's identity and own steps."""

    field: str
    key: Callable[[Any], object]
    steps: Callable[[Any], int]


def _with(command: c.Command[R], field: str, elements: list[Any]) -> c.Command[R]:
    return cast("c.Command[R]", replace(cast("Any", command), **{field: tuple(elements)}))


def _together(elements: Iterable[Any], key: Callable[[Any], object]) -> Iterable[list[Any]]:
    found: dict[object, list[Any]] = {}
    for element in elements:
        found.setdefault(key(element), []).append(element)
    return found.values()


def _steps_of_settings(values: Iterable[str | None]) -> int:
    return sum(1 + len(value or "") // VALUE_BYTES_OF_A_STEP for value in values)


def _steps_of_topic(topic: c.NewTopic) -> int:
    partitions = max(topic.partition_count, len(topic.assignments))
    return partitions // PARTITIONS_OF_A_STEP + _steps_of_settings(topic.configs.values())


def _steps_of_growth(topic: c.MorePartitions) -> int:
    return topic.partition_count // PARTITIONS_OF_A_STEP


def _steps_of_edits(resource: c.ResourceEdits) -> int:
    return _steps_of_settings(edit.value for edit in resource.edits)


_CUTS: dict[type[Any], _Cut] = {
    c.CreateTopics: _Cut("topics", lambda one: one.name, _steps_of_topic),
    c.CreatePartitions: _Cut("topics", lambda one: one.name, _steps_of_growth),
    c.DeleteTopics: _Cut("topics", lambda one: (one.name, one.topic_id), lambda _: 0),
    c.AlterConfigs: _Cut(
        "resources", lambda one: (one.resource_type, one.resource_name), _steps_of_edits
    ),
    a.AddAcls: _Cut("acls", lambda one: one, lambda _: 0),
    a.RemoveAcls: _Cut("acl_ids", lambda one: one, lambda _: 0),
}
