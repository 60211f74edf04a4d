"""Fetches of many partitions above their quota: answered empty, at once, without a new session."""

from contextlib import closing
from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.test_long_fetch import VERSION, fields, wide
from tests.live_node import LiveNode

__all__ = ["wide"]


def ask(node: LiveNode, key: ApiKey, version: int, body: dict[str, Any]) -> Any:
    """Ask by a connection of its own: one that is over its quota is muted for days."""
    with closing(node.connect()) as client:
        return client.ask(key, version, body)


@pytest.fixture
def over(wide: LiveNode) -> LiveNode:
    """Its client has fetched more than its quota lets it."""
    entity = [{"entity_type": "client-id", "entity_name": "raw-client"}]
    op = {"key": "consumer_byte_rate", "value": 1.0, "remove": False}
    entries = {"entries": [{"entity": entity, "ops": [op]}], "validate_only": False}
    (entry,) = ask(wide, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries).entries
    assert entry.error_code == ErrorCode.NONE
    first = ask(wide, ApiKey.FETCH, VERSION, fields("wide", count=1))
    assert first.throttle_time.total_seconds() > 0
    return wide


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_long_fetch_over_the_quota_is_answered_empty(over: LiveNode, session_epoch: int) -> None:
    sessions = len(over.front.fetch_sessions)
    body = fields("wide", wait_ms=30_000, session_epoch=session_epoch)
    answer = ask(over, ApiKey.FETCH, VERSION, body)
    assert (answer.error_code, answer.responses, answer.session_id) == (ErrorCode.NONE, (), 0)
    assert answer.throttle_time.total_seconds() > 0
    assert len(over.front.fetch_sessions) == sessions
