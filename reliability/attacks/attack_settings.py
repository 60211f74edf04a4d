"""Attacks by changes of metadata: what a change costs is paid by the loop of every process.

settings        fifty topics are given every setting and lose it again, then lists of 32 kB that
                grow by APPEND and shrink by SUBTRACT
drafts          CreateTopics that only validates: twenty topics of 10,000 partitions, named in a
                request of 400 bytes
"""

import contextlib
from collections.abc import Iterator

from penstock.protocol.api_keys import ApiKey
from reliability.attacks.attack_frames import Aim, Attack, asking, request

TOPICS = 50
TAKEN = {
    "retention.ms": "1000000",
    "retention.bytes": "-1",
    "max.message.bytes": "1000000",
    "compression.type": "producer",
    "cleanup.policy": "delete",
    "segment.bytes": "1048576",
    "segment.ms": "1000000",
    "flush.messages": "1000000",
    "flush.ms": "1000000",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000000",
    "delete.retention.ms": "1000000",
}
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
LIST_ITEMS = 3_500
SET, DELETE, APPEND, SUBTRACT = range(4)
DRAFTS, DRAFT_PARTITIONS = 20, 10_000


def _change(operation: int, values: dict[str, str]) -> bytes:
    configs = [
        {
            "name": key,
            "config_operation": operation,
            "value": None if operation == DELETE else value,
        }
        for key, value in values.items()
    ]
    resources = [
        {"resource_type": 2, "resource_name": f"settings-{one}", "configs": configs}
        for one in range(TOPICS)
    ]
    fields = {"resources": resources, "validate_only": False}
    return request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields)


def topics_created(prefix: str, count: int, partitions: int, *, validate_only: bool) -> bytes:
    plain = {
        "num_partitions": partitions,
        "replication_factor": -1,
        "assignments": [],
        "configs": [],
    }
    topics = [plain | {"name": f"{prefix}-{one}"} for one in range(count)]
    fields = {"topics": topics, "timeout": 30_000, "validate_only": validate_only}
    return request(ApiKey.CREATE_TOPICS, 5, fields)


def _list(broker: int) -> dict[str, str]:
    items = ",".join(f"{partition}:{broker}" for partition in range(LIST_ITEMS))
    return dict.fromkeys(LISTS, items)


@contextlib.contextmanager
def _settings(aim: Aim) -> Iterator[None]:
    changes = [
        [topics_created("settings", TOPICS, 1, validate_only=False)],
        [_change(SET, TAKEN), _change(DELETE, TAKEN)],
        [_change(SET, _list(1)), _change(APPEND, _list(2)), _change(SUBTRACT, _list(1))],
    ]
    with asking(aim.kafka, changes, connections=2):
        yield


def _drafts(aim: Aim) -> contextlib.AbstractContextManager[object]:
    draft = topics_created("draft", DRAFTS, DRAFT_PARTITIONS, validate_only=True)
    return asking(aim.kafka, [[draft] * 4], connections=2)


SETTINGS: dict[str, Attack] = {"settings": _settings, "drafts": _drafts}
