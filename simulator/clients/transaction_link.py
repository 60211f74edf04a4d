"""A producer's side of transactions, of either version: each request until it has an answer.

    coordinator ─► id and epoch ─► partitions ─► batches, positions ─► commit or abort
          ▲                                                        │ fenced, or too late
          └────────────────────────────────────────────────────────┘

Positions go to the coordinator of their group. They have no sequence: if the answer is missing they
may be written at any later time, perhaps in another transaction of this epoch. So the instance ends
(NoAnswer), and the next one has another epoch.

Source: KIP-98, KIP-447, KIP-890; Kafka's TransactionManager.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response, encode_request
from penstock.record.batch import TRANSACTIONAL
from penstock.record.build import Record, build_batch
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, open_any, open_link, pause

TIMEOUT_MS = 3_000
FIND_VERSION, INIT_VERSION, ADD_VERSION, ADD_OFFSETS_VERSION = 3, 4, 3, 3
END_VERSION = {1: 3, 2: 5}
PRODUCE_VERSION = {1: 9, 2: 12}
OFFSETS_VERSION = {1: 3, 2: 5}
GROUP_KEY, TRANSACTION_KEY = 0, 1
TRIES_MAX = 400
NOWHERE = -1

_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class Fenced(Exception):
    """This instance can not go on."""


class Refused(Exception):
    """The transaction has to be aborted."""


class NoAnswer(Fenced):
    """This instance must not go on: what it has asked for may still happen."""


@dataclass(slots=True)
class Instance:
    """What a producer has: its id, its epoch, and the next sequence of each partition."""

    producer_id: int
    epoch: int
    sequences: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class TransactionLink:
    """One transactional id. Everything raises Fenced, or Refused."""

    world: ClientWorld
    name: str
    random: Random
    version: int
    last_error: str = ""

    async def begin(self) -> Instance:
        """Become the one instance; what the one before has left open is aborted."""
        fields = {
            "transactional_id": self.name,
            "transaction_timeout": TIMEOUT_MS,
            "transaction_timeout_ms": TIMEOUT_MS,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        answer = await self._ask(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, fields, _codes_of_whole)
        return Instance(int(answer.producer_id), int(answer.producer_epoch))

    async def add(self, instance: Instance, topic: str, partitions: Iterable[int]) -> None:
        """Add partitions to the transaction, where batches do not do so."""
        if self.version > 1:
            return
        fields = {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": instance.producer_id,
            "v3_and_below_producer_epoch": instance.epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [*partitions]}],
        }
        await self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, fields, _codes_of_added)

    async def end(self, instance: Instance, *, commits: bool, is_asked_once: bool = False) -> None:
        """Commit or abort. With `is_asked_once` an instance of version 1 ends without an answer:
        the request may otherwise end its next transaction.
        """
        fields = {**self._who(instance), "committed": commits}
        version = END_VERSION[self.version]
        try:
            answer = await self._ask(
                ApiKey.END_TXN,
                version,
                fields,
                _codes_of_whole,
                is_asked_once=is_asked_once and self.version == 1,
            )
        except Refused as error:
            raise Fenced(f"not ended: {error}") from error
        if self.version > 1:
            instance.producer_id, instance.epoch = int(answer.producer_id), answer.producer_epoch
            instance.sequences.clear()

    async def move(self, instance: Instance, group: str, topic: str, to: Mapping[int, int]) -> None:
        """Put positions of a group into the transaction. Raises NoAnswer, too."""
        asked = {**self._who(instance), "group_id": group}
        if self.version == 1:
            await self._ask(ApiKey.ADD_OFFSETS_TO_TXN, ADD_OFFSETS_VERSION, asked, _codes_of_whole)
        partitions = [
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": "x",
            }
            for partition, offset in to.items()
        ]
        fields = {
            **asked,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": partitions}],
        }
        await self._ask(
            ApiKey.TXN_OFFSET_COMMIT,
            OFFSETS_VERSION[self.version],
            fields,
            _codes_of_positions,
            at=lambda: self._coordinator(group, GROUP_KEY),
            is_asked_once=True,
        )

    async def produce(
        self, instance: Instance, topic: str, partition: int, values: list[bytes]
    ) -> int:
        """Append one batch, and return its offset; it is sent again until it is there."""
        sequence = instance.sequences.get(partition, 0)
        instance.sequences[partition] = sequence + len(values)
        batch = build_batch(
            [Record(None, value) for value in values],
            producer_id=instance.producer_id,
            producer_epoch=instance.epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        for _ in range(TRIES_MAX):
            try:
                leader = await find_leader(self.world, self.random, partition, topic=topic)
                link = await open_link(self.world, leader)
                code, offset = await self._send(link, topic, partition, batch)
            except LinkFailed as error:
                self.last_error = str(error)
                code, offset = ErrorCode.REQUEST_TIMED_OUT, NOWHERE
            if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
                return offset
            self._heed(code)
            if self.world.is_over:
                raise Fenced("the run is over")
            await pause(self.random)
        raise Fenced("tried for too long")

    async def _send(
        self, link: BrokerLink, topic: str, partition: int, batch: bytes
    ) -> tuple[ErrorCode, int]:
        version = PRODUCE_VERSION[self.version]
        fields = {
            "transactional_id": self.name,
            "acks": -1,
            "timeout": 1_000,
            "timeout_ms": 1_000,
            "topic_data": [
                {"name": topic, "partition_data": [{"index": partition, "records": batch}]}
            ],
        }
        try:
            link.send(ApiKey.PRODUCE, version, encode_request(ApiKey.PRODUCE, version, fields))
            frame, at = await link.receive()
        finally:
            link.close()
        answer = decode_response(ApiKey.PRODUCE, version, frame, at)
        told = answer.responses[0].partition_responses[0]
        return ErrorCode(told.error_code), int(told.base_offset)

    def _heed(self, code: ErrorCode) -> None:
        self.last_error = code.name
        if code in _FENCED:
            raise Fenced(code.name)
        if code not in _AGAIN:
            raise Refused(code.name)

    async def _ask(
        self,
        key: ApiKey,
        version: int,
        fields: Mapping[str, Any],
        codes: Callable[[Any], ErrorCode],
        *,
        at: Callable[[], Awaitable[BrokerLink]] | None = None,
        is_asked_once: bool = False,
    ) -> Any:
        """Ask the coordinator of the transaction, or the one that `at` connects to, until it has an
        answer; with `is_asked_once` only as long as there are answers.
        """
        for _ in range(TRIES_MAX):
            is_sent = False
            try:
                link = await (self._coordinator() if at is None else at())
                is_sent = True
                try:
                    answer = await link.call(key, version, fields)
                finally:
                    link.close()
            except LinkFailed as error:
                self.last_error = f"{key.name}: {error}"
                if is_sent and is_asked_once:
                    raise NoAnswer(self.last_error) from error
            else:
                told = codes(answer)
                if told is ErrorCode.NONE:
                    return answer
                self._heed(told)
                self.last_error = f"{key.name}: {told.name}"
            if self.world.is_over:
                raise Fenced("the run is over")
            await pause(self.random)
        raise Fenced("tried for too long")

    async def _coordinator(self, key: str = "", key_type: int = TRANSACTION_KEY) -> BrokerLink:
        """Connect to the coordinator of this id, or of a group. Raises LinkFailed."""
        link = await open_any(self.world, self.random)
        try:
            fields = {"key": key or self.name, "key_type": key_type}
            answer = await link.call(ApiKey.FIND_COORDINATOR, FIND_VERSION, fields)
        finally:
            link.close()
        if answer.error_code != ErrorCode.NONE:
            raise LinkFailed(f"no coordinator: {ErrorCode(answer.error_code).name}")
        return await open_link(self.world, int(answer.node_id))

    def _who(self, instance: Instance) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": instance.producer_id,
            "producer_epoch": instance.epoch,
        }


def _codes_of_whole(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


def _codes_of_added(answer: Any) -> ErrorCode:
    """Return the code of the partitions that could not be added, if there are some."""
    codes = {
        ErrorCode(each.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    } - {ErrorCode.NONE}
    telling = codes - {ErrorCode.OPERATION_NOT_ATTEMPTED}
    return next(iter(telling or codes), ErrorCode.NONE)


def _codes_of_positions(answer: Any) -> ErrorCode:
    """Return the code of the positions that were not written, if there are some."""
    codes = {ErrorCode(each.error_code) for one in answer.topics for each in one.partitions}
    return min(codes - {ErrorCode.NONE}, default=ErrorCode.NONE)
