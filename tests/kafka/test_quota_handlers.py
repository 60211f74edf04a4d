"""AlterClientQuotas and DescribeClientQuotas: Kafka's rules of entities and filters."""

from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.live_node import RawClient

EVERYBODY = {"user": None}
ALICE = {"user": "alice"}
ALICES_APP = {"client-id": "app", "user": "alice"}
ANY_APP_OF_ALICE = {"client-id": None, "user": "alice"}
HOST = {"ip": "10.0.0.1"}
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def altered(
    client: RawClient, *entries: Any, version: int = 1, validate_only: bool = False
) -> list[tuple[Code, str | None]]:
    """Change quotas; an entry is (entity, values by key, None to take one away)."""
    told = [
        {
            "entity": [{"entity_type": one, "entity_name": name} for one, name in parts.items()],
            "ops": [
                {"key": key, "value": value or 0.0, "remove": value is None}
                for key, value in values.items()
            ],
        }
        for parts, values in entries
    ]
    fields = {"entries": told, "validate_only": validate_only}
    answer = client.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, fields)
    named = [{one.entity_type: one.entity_name for one in entry.entity} for entry in answer.entries]
    assert named == [parts for parts, _ in entries]
    return [(entry.error_code, entry.error_message) for entry in answer.entries]


def described(
    client: RawClient,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
) -> Any:
    told = [
        {"entity_type": kind, "match_type": match, "match": name}
        for kind, match, name in components
    ]
    return client.ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, version, {"components": told, "strict": strict}
    )


def found(client: RawClient, *components: tuple[str, int, str | None], **how: Any) -> Any:
    answer = described(client, *components, **how)
    assert answer.error_code == Code.NONE, answer.error_message
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {one.key: one.value for one in entry.values},
        )
        for entry in answer.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_described_and_taken_away(client: RawClient, version: int) -> None:
    values = {"consumer_byte_rate": 5.0, "producer_byte_rate": 10.0}
    entries = [(ALICES_APP, values), (EVERYBODY, {"request_percentage": 0.5})]
    assert altered(client, *entries, version=version) == [(Code.NONE, None)] * 2
    assert found(client, version=version) == entries
    gone = [(ALICES_APP, {"producer_byte_rate": None}), (EVERYBODY, {"request_percentage": None})]
    assert altered(client, *gone, version=version) == [(Code.NONE, None)] * 2
    assert found(client, version=version) == [(ALICES_APP, {"consumer_byte_rate": 5.0})]


ALL = [EVERYBODY, ALICE, ALICES_APP, ANY_APP_OF_ALICE]


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [*ALL, HOST]),
        ([], True, []),
        ([("user", EXACT, "alice")], False, [ALICE, ALICES_APP, ANY_APP_OF_ALICE]),
        ([("user", EXACT, "alice")], True, [ALICE]),
        ([("user", DEFAULT, None)], False, [EVERYBODY]),
        ([("user", SPECIFIED, None)], False, ALL),
        ([("user", SPECIFIED, None)], True, [EVERYBODY, ALICE]),
        ([("client-id", DEFAULT, None)], False, [ANY_APP_OF_ALICE]),
        (
            [("client-id", SPECIFIED, None), ("user", EXACT, "alice")],
            True,
            [ALICES_APP, ANY_APP_OF_ALICE],
        ),
        ([("client-id", EXACT, "app"), ("user", EXACT, "bob")], False, []),
        ([("ip", SPECIFIED, None)], True, [HOST]),
    ],
)
def test_a_filter_finds_what_it_names(
    client: RawClient, components: Any, strict: bool, expected: list[dict[str, str | None]]
) -> None:
    altered(client, *[(one, {"producer_byte_rate": 1.0}) for one in ALL])
    altered(client, (HOST, {"connection_creation_rate": 1.0}))
    assert [entity for entity, _ in found(client, *components, strict=strict)] == expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("user", EXACT, None)], Code.INVALID_REQUEST),
        ([("user", DEFAULT, "alice")], Code.INVALID_REQUEST),
        ([("user", SPECIFIED, "alice")], Code.INVALID_REQUEST),
        ([("user", 3, None)], Code.INVALID_REQUEST),
        ([("", EXACT, "alice")], Code.INVALID_REQUEST),
        ([("user", EXACT, "alice"), ("user", DEFAULT, None)], Code.INVALID_REQUEST),
        ([("ip", DEFAULT, None), ("user", DEFAULT, None)], Code.INVALID_REQUEST),
        ([("group", EXACT, "g")], Code.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(
    client: RawClient, components: Any, code: Code
) -> None:
    answer = described(client, *components)
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({}, {"producer_byte_rate": 1.0}),
        ({"group": "g"}, {"producer_byte_rate": 1.0}),
        ({"user": ""}, {"producer_byte_rate": 1.0}),
        ({"user": "alice", "ip": "::1"}, {"connection_creation_rate": 1.0}),
        ({"ip": "nowhere"}, {"connection_creation_rate": 1.0}),
        (ALICE, {"connection_creation_rate": 1.0}),
        (HOST, {"producer_byte_rate": 1.0}),
        (ALICE, {"producer_byte_rate": 1.5}),
    ],
)
def test_what_can_not_be_limited_is_refused_alone(
    client: RawClient, entity: dict[str, str | None], values: dict[str, float]
) -> None:
    good = (ALICES_APP, {"producer_byte_rate": 2.0})
    (refused, taken) = altered(client, (entity, values), good)
    assert refused[0] == Code.INVALID_REQUEST
    assert refused[1]
    assert taken == (Code.NONE, None)
    assert found(client) == [good]


def test_an_entity_or_a_key_that_is_there_twice_is_refused(client: RawClient) -> None:
    first = (ALICE, {"producer_byte_rate": 1.0})
    (good, again) = altered(client, first, (ALICE, {"consumer_byte_rate": 1.0}))
    assert good == (Code.NONE, None)
    assert again[0] == Code.INVALID_REQUEST
    assert found(client) == [first]
    entity = [{"entity_type": "user", "entity_name": "bob"}]
    op = {"key": "producer_byte_rate", "value": 1.0, "remove": False}
    fields = {"entries": [{"entity": entity, "ops": [op, op]}], "validate_only": False}
    answer = client.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, fields)
    assert answer.entries[0].error_code == Code.INVALID_REQUEST


def test_a_trial_changes_nothing(client: RawClient) -> None:
    entry = (ALICE, {"producer_byte_rate": 1.0})
    assert altered(client, entry, validate_only=True) == [(Code.NONE, None)]
    assert found(client) == []


def test_many_entries_are_cut_into_slices_and_joined(client: RawClient) -> None:
    entries = [({"user": f"u-{number:03}"}, {"producer_byte_rate": 1.0}) for number in range(230)]
    assert altered(client, *entries) == [(Code.NONE, None)] * 230
    assert found(client) == entries
