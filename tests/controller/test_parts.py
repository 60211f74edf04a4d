"""A command of many topics is cut into commands that are short."""

from typing import Any

import pytest

from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.controller.commands import command as c
from penstock.controller.commands.access import commands as a
from penstock.controller.commands.parts import ELEMENT_STEPS, PART_STEPS, parts_of
from tests.controller.cluster import Cluster

TOGETHER = PART_STEPS // ELEMENT_STEPS


def cut(command: c.Command[Any], field: str = "topics") -> list[int]:
    """How many elements each part has; all are there, in their order."""
    parts = list(parts_of(command))
    joined = [one for part in parts for one in getattr(part, field)]
    assert joined == list(getattr(command, field))
    assert all(type(part) is type(command) for part in parts)
    return [len(getattr(part, field)) for part in parts]


def topics(count: int, **fields: Any) -> tuple[c.NewTopic, ...]:
    return tuple(c.NewTopic(name=f"t{number}", **fields) for number in range(count))


def test_short_commands_and_those_of_no_topics_stay_whole() -> None:
    for command in (
        c.CreateCluster(cluster_id="c"),
        c.CreateTopics(topics=()),
        c.CreateTopics(topics=topics(1)),
        c.CreateTopics(topics=topics(TOGETHER)),
    ):
        assert list(parts_of(command)) == [command]


def test_a_thousand_topics_are_parts_of_as_many_as_a_turn_has_time_for() -> None:
    command = c.CreateTopics(topics=topics(1_000), internal=True, validate_only=True)
    assert cut(command) == [TOGETHER] * (1_000 // TOGETHER)
    assert all(part.internal and part.validate_only for part in parts_of(command))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "together"),
    [
        ({"partition_count": 10_000}, 1),
        ({"configs": {f"key{number}": "1" for number in range(34)}}, 7),
        ({"configs": {"key": "x" * 9_000}}, 4),
        ({"assignments": dict.fromkeys(range(2_000), (0,))}, 2),
    ],
)
def test_what_a_topic_brings_with_it_counts(fields: dict[str, Any], together: int) -> None:
    assert cut(c.CreateTopics(topics=topics(2 * together, **fields))) == [together, together]


def test_other_commands_of_topics_are_cut_too() -> None:
    names = [f"t{number}" for number in range(2 * TOGETHER)]
    assert cut(c.DeleteTopics(topics=tuple(c.TopicReference(name=name) for name in names))) == [
        TOGETHER,
        TOGETHER,
    ]
    grown = tuple(c.MorePartitions(name=name, partition_count=10_000) for name in names[:2])
    assert cut(c.CreatePartitions(topics=grown)) == [1, 1]
    edits = tuple(c.ConfigEdit(key=f"k{at}", operation=0, value="1") for at in range(134))
    resources = tuple(
        c.ResourceEdits(resource_type=2, resource_name=name, edits=edits) for name in names[:4]
    )
    assert cut(c.AlterConfigs(resources=resources, replace=True), "resources") == [2, 2]


def test_a_topic_that_is_named_twice_is_refused_in_parts_too() -> None:
    twice = (c.NewTopic(name="t0"), *topics(1_000))
    cluster = Cluster()
    answers = [cluster.submit(part) for part in parts_of(c.CreateTopics(topics=twice))]
    assert len(answers) > 1
    errors = {one.name: one.error for answer in answers for one in answer}
    assert errors.pop("t0") is not None
    assert not any(errors.values())
    assert len(errors) == 999


def test_commands_of_rules_are_cut_too() -> None:
    acls = tuple(
        Rule(
            resource_type=AclResource.TOPIC,
            resource_name=f"t{number}",
            pattern=AclPattern.LITERAL,
            principal="User:u",
            host="*",
            operation=AclOperation.READ,
            permission=AclPermission.ALLOW,
        )
        for number in range(2 * TOGETHER)
    )
    assert cut(a.AddAcls(acls=acls), "acls") == [TOGETHER, TOGETHER]
    ids = tuple(number.to_bytes(16, "big") for number in range(2 * TOGETHER))
    assert cut(a.RemoveAcls(acl_ids=ids), "acl_ids") == [TOGETHER, TOGETHER]
    assert list(parts_of(a.RemoveAcls(acl_ids=()))) == [a.RemoveAcls(acl_ids=())]
