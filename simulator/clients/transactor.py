"""A producer of transactions, of either version, that keeps track of how each of them ended.

    coordinator ─► id and epoch ─► partitions ─► batches ─► commit, abort, or neither
          ▲                                                        │ fenced, or too late
          └────────────────────────────────────────────────────────┘

Everything without an answer is sent again. At times it is replaced by itself: a new instance takes
the id, and the old one tries to go on, which nobody may let it.

Source: KIP-98, KIP-890; Kafka's TransactionManager.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response, encode_request
from penstock.record.batch import TRANSACTIONAL
from penstock.record.build import Record, build_batch
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, open_any, open_link, pause

TOPIC = "in-transactions"
PARTITIONS = 3
TIMEOUT_MS = 3_000
FIND_VERSION, INIT_VERSION, ADD_VERSION = 3, 4, 3
END_VERSION = {1: 3, 2: 5}
PRODUCE_VERSION = {1: 9, 2: 12}
TRANSACTION_KEY = 1
IDLE_SECONDS = (0.01, 0.15)
REPLACED_SHARE, ABORTED_SHARE, SLOW_SHARE = 0.06, 0.25, 0.04
TRIES_MAX = 400

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


class Outcome(StrEnum):
    """How a transaction has ended, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Fenced(Exception):
    """This instance can not go on."""


class Refused(Exception):
    """The transaction has to be aborted."""


@dataclass(slots=True)
class Told:
    """One transaction."""

    partitions: tuple[int, ...]
    outcome: Outcome = Outcome.UNKNOWN
    may_commit: bool = False
    """Whether its commit was ever asked for."""


@dataclass(slots=True)
class Instance:
    """What a producer has: its id, its epoch, and the next sequence of each partition."""

    producer_id: int
    epoch: int
    sequences: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Transactor:
    """One transactional id."""

    world: ClientWorld
    name: str
    random: Random
    version: int
    told: dict[str, Told] = field(default_factory=dict)
    last_error: str = ""
    is_idle: bool = True

    async def run(self) -> None:
        """Write transactions until asked to stop, and bring the last one to its end."""
        self.is_idle = False
        while not self.world.is_over and not self.world.is_stopping:
            try:
                instance = await self._begin()
                while not self.world.is_stopping:
                    await self._one(instance)
                    await asyncio.sleep(self.random.uniform(*IDLE_SECONDS))
                    if self.random.random() < REPLACED_SHARE:
                        await self._replace(instance)
                        break
            except Fenced as error:
                self.last_error = str(error)
        self.is_idle = True

    async def _begin(self) -> Instance:
        fields = {
            "transactional_id": self.name,
            "transaction_timeout": TIMEOUT_MS,
            "transaction_timeout_ms": TIMEOUT_MS,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        answer = await self._ask(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, fields, _codes_of_whole)
        for one in self.told.values():
            if one.outcome is Outcome.UNKNOWN and not one.may_commit:
                one.outcome = Outcome.ABORTED
        return Instance(int(answer.producer_id), int(answer.producer_epoch))

    async def _one(self, instance: Instance) -> None:
        """Write one transaction. Raises Fenced."""
        partitions = tuple(self.random.sample(range(PARTITIONS), self.random.randint(1, 3)))
        name = f"{self.name}-{len(self.told)}"
        one = self.told[name] = Told(partitions)
        try:
            if self.version == 1:
                await self._add(instance, partitions)
            for partition in partitions:
                await self._produce(instance, partition, name)
        except Refused:
            await self._end(instance, one, commits=False)
            return
        if self.random.random() < SLOW_SHARE:
            await asyncio.sleep(self.random.uniform(0.5, 1.5) * TIMEOUT_MS / 1_000)
        await self._end(instance, one, commits=self.random.random() >= ABORTED_SHARE)

    async def _replace(self, old: Instance) -> None:
        """Leave a transaction open, let another instance take the id, and try to go on."""
        partition = self.random.randrange(PARTITIONS)
        name = f"{self.name}-{len(self.told)}"
        one = self.told[name] = Told((partition,))
        try:
            if self.version == 1:
                await self._add(old, (partition,))
            await self._produce(old, partition, name)
        except Refused:
            return
        await self._begin()
        try:
            await self._end(old, one, commits=True)
        except Fenced:
            one.outcome = Outcome.ABORTED
        else:
            self.world.refuse(f"{self.name} could commit {name} after it was replaced")

    async def _add(self, instance: Instance, partitions: tuple[int, ...]) -> None:
        fields = {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": instance.producer_id,
            "v3_and_below_producer_epoch": instance.epoch,
            "v3_and_below_topics": [{"name": TOPIC, "partitions": partitions}],
        }
        await self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, fields, _codes_of_added)

    async def _end(self, instance: Instance, one: Told, *, commits: bool) -> None:
        one.may_commit = one.may_commit or commits
        fields = {
            "transactional_id": self.name,
            "producer_id": instance.producer_id,
            "producer_epoch": instance.epoch,
            "committed": commits,
        }
        version = END_VERSION[self.version]
        try:
            answer = await self._ask(ApiKey.END_TXN, version, fields, _codes_of_whole)
        except Refused as error:
            raise Fenced(f"not ended: {error}") from error
        one.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        if self.version > 1:
            instance.producer_id, instance.epoch = int(answer.producer_id), answer.producer_epoch
            instance.sequences.clear()

    async def _produce(self, instance: Instance, partition: int, name: str) -> None:
        """Append one batch; it is sent again until it is there. Raises Fenced, Refused."""
        count = self.random.randint(1, 3)
        sequence = instance.sequences.get(partition, 0)
        instance.sequences[partition] = sequence + count
        batch = build_batch(
            [Record(None, f"{name}/{at}/{count}".encode()) for at in range(count)],
            producer_id=instance.producer_id,
            producer_epoch=instance.epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        for _ in range(TRIES_MAX):
            try:
                leader = await find_leader(self.world, self.random, partition, topic=TOPIC)
                link = await open_link(self.world, leader)
                code = await self._send(link, partition, batch)
            except LinkFailed as error:
                self.last_error = str(error)
                code = ErrorCode.REQUEST_TIMED_OUT
            if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
                return
            self._heed(code)
            if self.world.is_over:
                raise Fenced("the run is over")
            await pause(self.random)
        raise Fenced("tried for too long")

    async def _send(self, link: BrokerLink, partition: int, batch: bytes) -> ErrorCode:
        version = PRODUCE_VERSION[self.version]
        fields = {
            "transactional_id": self.name,
            "acks": -1,
            "timeout": 1_000,
            "timeout_ms": 1_000,
            "topic_data": [
                {"name": TOPIC, "partition_data": [{"index": partition, "records": batch}]}
            ],
        }
        try:
            link.send(ApiKey.PRODUCE, version, encode_request(ApiKey.PRODUCE, version, fields))
            frame, at = await link.receive()
        finally:
            link.close()
        answer = decode_response(ApiKey.PRODUCE, version, frame, at)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def _heed(self, code: ErrorCode) -> None:
        self.last_error = code.name
        if code in _FENCED:
            raise Fenced(code.name)
        if code not in _AGAIN:
            raise Refused(code.name)

    async def _ask(self, key: ApiKey, version: int, fields: Mapping[str, Any], codes: Any) -> Any:
        """Ask the coordinator until it has an answer. Raises Fenced, Refused."""
        for _ in range(TRIES_MAX):
            try:
                link = await self._coordinator()
                try:
                    answer = await link.call(key, version, fields)
                finally:
                    link.close()
            except LinkFailed as error:
                self.last_error = f"{key.name}: {error}"
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

    async def _coordinator(self) -> BrokerLink:
        """Connect to the coordinator. Raises LinkFailed."""
        link = await open_any(self.world, self.random)
        try:
            fields = {"key": self.name, "key_type": TRANSACTION_KEY}
            answer = await link.call(ApiKey.FIND_COORDINATOR, FIND_VERSION, fields)
        finally:
            link.close()
        if answer.error_code != ErrorCode.NONE:
            raise LinkFailed(f"no coordinator: {ErrorCode(answer.error_code).name}")
        return await open_link(self.world, int(answer.node_id))


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
