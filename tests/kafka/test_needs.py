"""Each permission of the table is taken away from a real broker, one by one.

A row is what kafka/needs.py says of an API. The cases of gate_cases.py and gate_members.py ask each
API; here the rules allow everything but one thing.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.access.authoriser import AclAuthoriser, Asker
from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.broker.access import OPERATIONS_ON, Operation, Resource
from penstock.kafka.needs import EITHER, NEEDS, Need
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import OPEN, Case
from tests.kafka.gate_cases import CASES
from tests.kafka.gate_members import MEMBER_CASES, prepare
from tests.kafka.test_gate import World, new_world

REFUSAL = {
    Resource.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    Resource.USER: Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
LEFT_OUT = {
    (ApiKey.METADATA, (Operation.DESCRIBE, Resource.TOPIC)),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, (Operation.DESCRIBE, Resource.TOPIC)),
    (ApiKey.OFFSET_FETCH, (Operation.DESCRIBE, Resource.TOPIC)),
    (ApiKey.LIST_GROUPS, (Operation.DESCRIBE, Resource.GROUP)),
    (ApiKey.LIST_GROUPS, (Operation.DESCRIBE, Resource.CLUSTER)),
    (ApiKey.LIST_TRANSACTIONS, (Operation.DESCRIBE, Resource.TRANSACTIONAL_ID)),
    (ApiKey.DESCRIBE_TRANSACTIONS, (Operation.DESCRIBE, Resource.TOPIC)),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, (Operation.DESCRIBE, Resource.DELEGATION_TOKEN)),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, (Operation.DESCRIBE_TOKENS, Resource.USER)),
}
"""Where answers leave out what is not permitted, if the request asks for all there is."""
TOLD_AS_BITS = {
    (ApiKey.DESCRIBE_CLUSTER, (Operation.DESCRIBE, Resource.CLUSTER)),
    (ApiKey.METADATA, (Operation.DESCRIBE, Resource.CLUSTER)),
}
"""Where nothing but the operations is hidden."""
UNCOUNTED = (ApiKey.CREATE_TOPICS, (Operation.DESCRIBE_CONFIGS, Resource.TOPIC))
"""The topic is created, and its configuration left out of the answer."""
NAME_ONLY = (ApiKey.DELETE_TOPICS, (Operation.DESCRIBE, Resource.TOPIC))
"""Whoever may not delete a topic that it names by id hears its name if it may describe it."""


def a_rule(need: Need, permission: AclPermission) -> Rule:
    operation, resource = need
    return Rule(
        resource_type=AclResource(resource),
        resource_name="kafka-cluster" if resource is Resource.CLUSTER else "*",
        pattern=AclPattern.LITERAL,
        principal="User:*",
        host="127.0.0.1",
        operation=AclOperation(operation),
        permission=permission,
    )


class Recording(AclAuthoriser):
    """Remembers what was asked."""

    def __init__(self, config: AccessConfig) -> None:
        super().__init__(config)
        self.asked = set[Need]()

    def permits(self, who: Asker, operation: int, resource: int, name: str) -> bool:
        self.asked.add((Operation(operation), Resource(resource)))
        return super().permits(who, operation, resource, name)

    def permits_some(self, who: Asker, operation: int, resource: int) -> bool:
        self.asked.add((Operation(operation), Resource(resource)))
        return super().permits_some(who, operation, resource)


def allow_all_but(world: World, *missing: Need) -> Recording:
    """Let rules decide: each operation is allowed, and what is missing is denied too."""
    made = Recording(AccessConfig(authorizer=AuthoriserKind.ACL, super_users=("User:root",)))
    kept = [
        a_rule((operation, resource), AclPermission.ALLOW)
        for resource, operations in OPERATIONS_ON.items()
        for operation in operations
    ]
    kept += [a_rule(need, AclPermission.DENY) for need in missing]
    made.change([(repr(rule).encode(), rule) for rule in kept], [])
    world.node.broker.authoriser = made
    return made


Single = tuple[Case, Need]


def single(cases: Iterable[Case]) -> list[Single]:
    found = [(case, need) for case in cases for need in sorted(case.needs)]
    return [one for one in found if (one[0].key, one[1]) != NAME_ONLY]


def name_of(value: Case | Need) -> str:
    if isinstance(value, Case):
        return f"{value.key.name.lower()}-{value.version}"
    return "-".join(part.name.lower() for part in value)


def test_every_api_that_is_advertised_has_a_row_and_no_other() -> None:
    assert set(NEEDS) == {ApiKey(key) for key in load_apis()}
    assert all(set(pair) <= NEEDS[key] for key, pair in EITHER.items())


@pytest.mark.parametrize("key", NEEDS, ids=lambda key: key.name.lower())
def test_a_row_says_what_the_cases_of_its_api_need(key: ApiKey) -> None:
    asked = set[Need]().union(*(case.needs for case in (*CASES, *MEMBER_CASES) if case.key is key))
    assert asked == NEEDS[key]


@pytest.mark.parametrize(("case", "need"), single(CASES), ids=name_of)
def test_without_one_permission_an_api_refuses_or_leaves_out(
    tmp_path: Path, case: Case, need: Need
) -> None:
    with new_world(tmp_path) as world:
        is_refused(world, case, need)


@pytest.mark.parametrize(("case", "need"), single(MEMBER_CASES), ids=name_of)
def test_where_members_and_transactions_are_an_api_refuses_or_leaves_out_too(
    tmp_path: Path, case: Case, need: Need
) -> None:
    with new_world(tmp_path) as world:
        prepare(world)
        is_refused(world, case, need)


def is_refused(world: World, case: Case, need: Need) -> None:
    """Ask without a permission, and without another that would do as well."""
    fields, pair = case.fields(world.id_of), EITHER.get(case.key, ())
    missing = pair if need in pair and set(pair) <= case.needs else (need,)
    rules = allow_all_but(world, *missing)
    codes = case.codes(world.ask(case, fields))
    assert need in rules.asked
    assert rules.asked <= NEEDS[case.key]
    told = (case.key, need)
    if told in TOLD_AS_BITS:
        assert set(codes) == {0}
        return
    if told in LEFT_OUT and not case.names_hidden:
        assert Code.NONE not in [code for key, code in codes.items() if key != OPEN]
        return
    refused = {REFUSAL[resource] for _, resource in missing}
    assert refused & set(codes.values())
    expected = {**case.if_hidden, **case.if_nothing}
    for key, code in codes.items():
        assert code != Code.NONE or expected.get(key) not in refused, key
    assert world.node.broker.denials.counts or told == UNCOUNTED


@pytest.mark.parametrize(
    ("key", "need"), [(key, need) for key, pair in EITHER.items() for need in pair], ids=str
)
def test_where_either_of_two_suffices_one_may_miss(tmp_path: Path, key: ApiKey, need: Need) -> None:
    fitting = [
        one for one in (*CASES, *MEMBER_CASES) if one.key is key and set(EITHER[key]) <= one.needs
    ]
    with new_world(tmp_path) as world:
        fields = fitting[0].fields(world.id_of)
        allow_all_but(world, need)
        codes = fitting[0].codes(world.ask(fitting[0], fields))
        assert not set(REFUSAL.values()) & set(codes.values())
