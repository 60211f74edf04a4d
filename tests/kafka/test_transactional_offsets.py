"""AddOffsetsToTxn and TxnOffsetCommit, from request bytes to answer bytes, on a running node."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from penstock.groups.config import GroupConfig
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.handlers.transactions.txn_offset_commit import FEW
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.batch import CONTROL, TRANSACTIONAL
from penstock.record.read import iter_batches
from tests.broker.cluster import fetch_fields
from tests.kafka.test_produce_fetch import create
from tests.live_node import RawClient, running_node

NAME, GROUP, TOPIC = "x", "readers", "events"
MANY = 2 * FEW + 1
UNTIL_SECONDS = 60.0


class Client:
    """A producer with its id, as a client of each version."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw
        fields = {
            "transactional_id": NAME,
            "transaction_timeout": datetime.timedelta(minutes=1),
            "producer_id": -1,
            "producer_epoch": -1,
        }
        assert wait_until(lambda: self._begin(fields), UNTIL_SECONDS)

    def _begin(self, fields: dict[str, Any]) -> bool:
        self.raw.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": [NAME]})
        told = self.raw.ask(ApiKey.INIT_PRODUCER_ID, 4, fields)
        self.producer_id, self.epoch = told.producer_id, told.producer_epoch
        return told.error_code == Code.NONE

    def named(self, **changed: Any) -> dict[str, Any]:
        fields = {"transactional_id": NAME, "group_id": GROUP}
        fields |= {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        return fields | changed

    def add(self, version: int, **changed: Any) -> Code:
        answer = self.raw.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, self.named(**changed))
        return Code(answer.error_code)

    def adds(self, version: int) -> bool:
        """Add the group, perhaps once the last transaction has ended in all partitions."""
        return wait_until(lambda: self.add(version) is Code.NONE, UNTIL_SECONDS)

    def commit(self, version: int, *partitions: int, **changed: Any) -> set[Code]:
        """Commit offset 5 of some partitions; returns which codes were told."""
        place: dict[str, Any] = {"committed_offset": 5, "committed_metadata": ""}
        if version >= 2:
            place["committed_leader_epoch"] = -1
        named = [{"partition_index": each, **place} for each in partitions or (0,)]
        fields = self.named(topics=[{"name": TOPIC, "partitions": named}], **changed)
        if version >= 3:
            member = {"generation_id": -1, "member_id": "", "group_instance_id": None}
            fields = member | fields
        answer = self.raw.ask(ApiKey.TXN_OFFSET_COMMIT, version, fields)
        return {Code(each.error_code) for one in answer.topics for each in one.partitions}

    def end(self, version: int) -> None:
        fields = {"transactional_id": NAME, "committed": True}
        fields |= {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        told = self.raw.ask(ApiKey.END_TXN, version, fields)
        assert told.error_code == Code.NONE
        if version >= 5:
            self.producer_id, self.epoch = told.producer_id, told.producer_epoch

    def committed(self, *partitions: int) -> set[tuple[int, Code]]:
        topics = [{"name": TOPIC, "partition_indexes": list(partitions or (0,))}]
        fields = {"group_id": GROUP, "topics": topics, "require_stable": True}
        answer = self.raw.ask(ApiKey.OFFSET_FETCH, 7, fields)
        return {
            (each.committed_offset, Code(each.error_code))
            for one in answer.topics
            for each in one.partitions
        }


def positions_in_batches(raw: RawClient) -> list[int]:
    """Return how many positions the batches of transactions in the group's partition have."""
    wanted = fetch_fields(INTERNAL_TOPIC, 0, 0, -1, -1)
    plain = wanted["topics"][0]["partitions"][0]
    every = [plain | {"partition": number} for number in range(GroupConfig().partition_count)]
    wanted["topics"] = [{"topic": INTERNAL_TOPIC, "partitions": every}]
    answer = raw.ask(ApiKey.FETCH, 12, wanted)
    read = [bytes(one.records or b"") for one in answer.responses[0].partitions]
    headers = [header for data in read for header, _ in iter_batches(memoryview(data))]
    return [
        header.record_count
        for header in headers
        if header.attributes & TRANSACTIONAL and not header.attributes & CONTROL
    ]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with running_node(tmp_path) as node:
        create(node, TOPIC, MANY)
        raw = node.connect()
        yield Client(raw)
        raw.close()


def test_positions_go_the_whole_way_of_a_transaction(client: Client) -> None:
    for version in range(5):
        assert client.adds(version)
        assert client.commit(version) == {Code.NONE}
        assert client.committed() == {(-1, Code.UNSTABLE_OFFSET_COMMIT)}
        client.end(2)
        assert wait_until(lambda: client.committed() == {(5, Code.NONE)}, UNTIL_SECONDS)


def test_from_version_5_on_the_commit_adds_the_partition_itself(client: Client) -> None:
    assert client.commit(3) == {Code.INVALID_TXN_STATE}
    assert client.commit(4) == {Code.TRANSACTION_ABORTABLE}
    assert client.commit(5) == {Code.NONE}
    described = client.raw.ask(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [NAME]}
    ).transaction_states[0]
    assert [one.topic for one in described.topics] == [INTERNAL_TOPIC]
    client.end(5)
    assert wait_until(lambda: client.committed() == {(5, Code.NONE)}, UNTIL_SECONDS)


def test_who_is_not_the_producer_adds_nothing(client: Client) -> None:
    assert client.add(2, producer_epoch=client.epoch + 1) is Code.PRODUCER_FENCED
    assert client.add(1, producer_epoch=client.epoch + 1) is Code.INVALID_PRODUCER_EPOCH
    assert client.add(4, producer_id=client.producer_id + 1) is Code.INVALID_PRODUCER_ID_MAPPING
    assert client.add(4, transactional_id="other") is Code.INVALID_PRODUCER_ID_MAPPING
    fenced = client.commit(5, producer_epoch=client.epoch + 1)
    assert fenced == {Code.INVALID_PRODUCER_EPOCH}
    unknown = client.commit(5, producer_id=client.producer_id + 1)
    assert unknown == {Code.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("version", [3, 5])
def test_many_positions_are_one_batch(client: Client, version: int) -> None:
    every = range(MANY)
    if version < 5:
        assert client.adds(2)
    assert client.commit(version, *every) == {Code.NONE}
    assert positions_in_batches(client.raw) == [MANY]
    client.end(5)
    assert wait_until(lambda: client.committed(*every) == {(5, Code.NONE)}, UNTIL_SECONDS)
