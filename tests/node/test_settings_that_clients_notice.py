"""Settings as a file gives them, and what a client hears of them, in a whole node."""

from pathlib import Path
from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.broker.fetches import SIZE, counts, create, fill, request
from tests.live_node import RawClient, running_node

pytestmark = pytest.mark.timeout(600)


def join(client: RawClient, **fields: Any) -> int:
    base = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    return int(client.ask(ApiKey.JOIN_GROUP, 4, {**base, **fields}).error_code)


PROTOCOLS = [{"name": name, "metadata": b""} for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("setting", "fields", "error"),
    [
        (
            "groups.session_timeout_min_ms=9000",
            {"session_timeout": 8_999},
            ErrorCode.INVALID_SESSION_TIMEOUT,
        ),
        (
            "groups.session_timeout_max_ms=11000",
            {"session_timeout": 11_001},
            ErrorCode.INVALID_SESSION_TIMEOUT,
        ),
        ("groups.group_id_bytes_max=8", {"group_id": "123456789"}, ErrorCode.INVALID_GROUP_ID),
        (
            "groups.member_protocols_max=2",
            {"protocols": PROTOCOLS},
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_a_bound_on_joins_is_the_one_that_is_set(
    tmp_path: Path, setting: str, fields: dict[str, Any], error: ErrorCode
) -> None:
    with running_node(tmp_path, setting) as node:
        client = node.connect()
        assert join(client, **fields) == error
        assert join(client) == ErrorCode.MEMBER_ID_REQUIRED
        client.close()


def test_an_answer_of_a_fetch_holds_what_is_set_at_most(tmp_path: Path) -> None:
    with running_node(tmp_path, f"broker.fetch_max_bytes={3 * SIZE + 10}") as node:
        create(node)
        client = node.connect()
        fill(client, 9)
        answer = client.ask(ApiKey.FETCH, 11, request(1))
        assert counts(answer) == {0: 3}
        client.close()


def test_without_room_for_sessions_of_fetches_there_are_none(tmp_path: Path) -> None:
    with running_node(tmp_path, "broker.fetch_sessions_max=0") as node:
        create(node)
        client = node.connect()
        assert client.ask(ApiKey.FETCH, 11, request(1, session_epoch=0)).session_id == 0
        client.close()


def test_clients_are_told_the_advertised_port(tmp_path: Path) -> None:
    with running_node(tmp_path, "node.advertised_port=12345") as node:
        client = node.connect()
        answer = client.ask(ApiKey.METADATA, 4, {"topics": [], "allow_auto_topic_creation": False})
        assert [broker.port for broker in answer.brokers] == [12345]
        client.close()
