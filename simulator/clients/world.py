"""The state that all clients of a run share: brokers, virtual time, randomness, when to stop."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, Protocol

from penstock.controller.topic_config.local import LOCAL_BYTES, REMOTE
from penstock.protocol.api_keys import ApiKey
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.history import Poll, Rules, Send
from simulator.run.topology import GRPC_PORT, KAFKA_PORT, REMOTING_PORT, TOPIC

METADATA_VERSION = 9
PAUSE_SECONDS = (0.02, 0.15)
STEPS_PAUSED = 3
NO_LEADER = -1

Step = Callable[[], Awaitable[None]]
"""What an operator does next. May raise LinkFailed."""


class Draws(Protocol):
    """Where clients have their randomness from."""

    def random(self, name: str, /) -> Random: ...


class Refusal(NamedTuple):
    """An answer that no broker may give, unless it does not know yet that it stood still."""

    text: str
    told_by: str
    at_ns: int


@dataclass(slots=True, kw_only=True)
class ClientWorld:
    """One run's clients: what they know, and what they have noted."""

    brokers: dict[int, str]
    """Broker id -> host."""
    partitions: int
    addresses: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Where Kafka clients reach hosts; else by their name, at the port of the simulation."""
    remoting: tuple[str, ...] = ()
    """Where remoting clients reach brokers; empty: likewise."""
    grpc: tuple[str, ...] = ()
    """Where gRPC clients do."""
    apart: Mapping[str, str] = field(default_factory=dict)
    """Settings of topics whose records may be in the object store alone."""
    is_stopping: bool = False
    """Nothing new is written; what is under way is brought to its end."""
    is_over: bool = False
    """Nobody asks anything any more."""
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    """Answers that no broker may give."""
    woken: list[tuple[str, int, int]] = field(default_factory=list)
    """As in Rules; known in the end."""

    @property
    def rules(self) -> Rules:
        """What brokers may tell, apart from what the shape of the run says."""
        return Rules(woken=self.woken)

    @property
    def remoting_addresses(self) -> tuple[str, ...]:
        """Where remoting clients reach brokers."""
        return self.remoting or tuple(f"{host}:{REMOTING_PORT}" for host in self.brokers.values())

    @property
    def grpc_addresses(self) -> tuple[str, ...]:
        """Where gRPC clients reach brokers."""
        return self.grpc or tuple(f"{host}:{GRPC_PORT}" for host in self.brokers.values())

    def refuse(self, text: str, told_by: str = "") -> None:
        """Note an answer that may not be given, and which host gave it just now."""
        self.refusals.append(Refusal(text, told_by, now_ns()))


def apart_settings(local_bytes: int) -> dict[str, str]:
    """Return the settings of a topic of which disks keep so much when it is copied; -1: none."""
    return {} if local_bytes < 0 else {REMOTE: "true", LOCAL_BYTES: str(local_bytes)}


def now_ns() -> int:
    """Return virtual time in nanoseconds."""
    return round(asyncio.get_running_loop().time() * 1e9)


async def pause(draw: Random) -> None:
    """Wait a little before something is tried again."""
    await asyncio.sleep(draw.uniform(*PAUSE_SECONDS))


async def attempt(step: Step, draw: Random) -> None:
    """Take one step of an operator, and pause; a link that fails is no news."""
    try:
        await step()
    except LinkFailed:
        await pause(draw)
    for _ in range(STEPS_PAUSED):
        await pause(draw)


async def open_link(world: ClientWorld, broker_id: int) -> BrokerLink:
    """Connect to a broker. Raises LinkFailed."""
    host = world.brokers.get(broker_id)
    if host is None:
        raise LinkFailed(f"broker {broker_id} is not known")
    return await BrokerLink.open(*world.addresses.get(host, (host, KAFKA_PORT)))


async def open_any(world: ClientWorld, draw: Random) -> BrokerLink:
    """Connect to any broker. Raises LinkFailed."""
    return await open_link(world, draw.choice(list(world.brokers)))


async def find_leader(
    world: ClientWorld, draw: Random, partition: int, *, topic: str = TOPIC
) -> int:
    """Look up the partition's leader through any broker. Raises LinkFailed if there is none."""
    link = await open_any(world, draw)
    try:
        answer = await link.call(
            ApiKey.METADATA,
            METADATA_VERSION,
            {
                "topics": [{"name": topic}],
                "allow_auto_topic_creation": False,
                "include_cluster_authorized_operations": False,
                "include_topic_authorized_operations": False,
            },
        )
    finally:
        link.close()
    return _leader_in(answer, partition)


def _leader_in(answer: Any, partition: int) -> int:
    for topic in answer.topics:
        for one in topic.partitions:
            if one.partition_index == partition and one.leader_id != NO_LEADER:
                return int(one.leader_id)
    raise LinkFailed(f"nobody leads partition {partition}")
