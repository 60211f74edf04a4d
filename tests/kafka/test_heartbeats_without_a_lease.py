"""A coordinator that may have a successor confirms no member's share of the work.

It can be partitioned from its replicas: what it knows may be what another coordinator has changed.
"""

from typing import Any

import pytest

from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.gate_asks import ms, play
from tests.live_node import LiveNode, RawClient

MEMBER = {"group_id": "g", "member_id": "m", "member_epoch": 3}
HEARTBEATS: dict[ApiKey, tuple[int, dict[str, Any]]] = {
    ApiKey.HEARTBEAT: (4, {"group_id": "g", "generation_id": 3, "member_id": "m"}),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        1,
        {**MEMBER, "rebalance_timeout": ms(-1), "topic_partitions": None},
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, {**MEMBER, "subscribed_topic_names": None}),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, {**play("g", "t"), **MEMBER, "topology": None}),
}


@pytest.mark.parametrize("key", HEARTBEATS)
def test_a_heartbeat_is_answered_only_while_no_other_coordinator_can_be_active(
    node: LiveNode, client: RawClient, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = {"key_type": 0, "coordinator_keys": ["g"]}
    (found,) = client.ask(ApiKey.FIND_COORDINATOR, 6, find).coordinators
    assert found.error_code == ErrorCode.NONE
    version, fields = HEARTBEATS[key]

    def answered() -> ErrorCode:
        return ErrorCode(client.ask(key, version, fields).error_code)

    def hosted() -> Any:
        groups = node.broker.groups
        return node.broker.partitions.find(INTERNAL_TOPIC, groups.partition_of("g"))

    assert wait_until(lambda: answered() != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, UNTIL_SECONDS)
    known = answered()
    assert known in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
    member = node.call(lambda: hosted().member)
    node.call(lambda: monkeypatch.setattr(member, "may_read", lambda: False))
    assert answered() == ErrorCode.NOT_COORDINATOR
    node.call(monkeypatch.undo)
    assert answered() == known
