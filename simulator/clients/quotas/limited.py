"""A client that sets itself a quota at the broker it asks, and takes more than that.

    a round    a client id of its own ─► its quota, acknowledged by the leader of a partition ─►
               produces or fetches there ─► another quota ─► goes on ─► perhaps none any more
    or         a client id of before, whose quota has to be there after any failover, once this
               broker says that it knows it
    beside     a client without a quota does the same at the same broker, and is never told to wait

Some rounds obey the delays that they are told, others send at once and are kept waiting; some send
several requests together. A round is one connection, and so one process. What is judged stands in
history/quotas.py.

Simulated handlers take no time of a processor: a quota of request time is set and never reached.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from penstock.quotas.keys import QuotaKey
from simulator.clients.quotas.book import Entry, described, draw_entity
from simulator.clients.quotas.taking import Fetching, Producing, Taking
from simulator.clients.transactions import create_topic
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, open_link, pause
from simulator.history.quotas import Meter

TOPIC = "limited"
PARTITIONS = 2
QUOTAS = (1_500, 4_000, 12_000)
"""Bytes a second."""
FACTORS = (0.5, 0.8, 1.5, 3.0)
"""What a quota is multiplied by when it changes."""
BURSTS = (4, 9)
BURST = (1, 1, 1, 3)
"""Requests that are sent together."""
OBEDIENT_SHARE = 0.5
AGAIN_SHARE = 0.3
KEPT_SHARE = 0.5
REQUEST_SHARE = 0.3
PERCENTS = (0.01, 1.0, 200.0)
DELAY_SECONDS_MAX = 4.0
"""Longer delays are not waited for."""
REST_SECONDS = (0.1, 0.6)
LOOK_SECONDS = 0.3


@dataclass(slots=True, kw_only=True)
class Limited:
    """See the module."""

    world: ClientWorld
    name: str
    random: Random
    entries: list[Entry] = field(default_factory=list)
    judged: int = 0
    """Answers under a quota."""
    delayed: int = 0
    """Of these, with a delay."""
    left: dict[str, str] = field(default_factory=dict)
    """Hosts of brokers that do not say at the end what they should, and what they say."""
    _is_done: bool = False

    def __post_init__(self) -> None:
        """Nobody has been looked at."""
        self.left = dict.fromkeys(self.world.brokers.values(), "not looked at")

    def behind(self) -> Iterator[str]:
        """Name the brokers that do not know the quotas yet."""
        for host, why in self.left.items():
            yield f"quotas of {self.name} at {host}: {why}"

    async def run(self) -> None:
        """Take turns until told to stop."""
        await create_topic(self.world, self.random, TOPIC, PARTITIONS)
        while not self.world.is_stopping and not self.world.is_over:
            try:
                await self._round()
            except LinkFailed:
                await pause(self.random)
            await asyncio.sleep(self.random.uniform(*REST_SECONDS))
        self._is_done = True

    async def look(self) -> None:
        """Once nobody changes quotas any more: look at each broker until it knows them all."""
        while self.left and not self.world.is_over:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._is_done:
                continue
            for broker_id, host in self.world.brokers.items():
                if host not in self.left:
                    continue
                self.left[host] = await self._missing(broker_id)
                if not self.left[host]:
                    del self.left[host]

    async def _missing(self, broker_id: int) -> str:
        try:
            link = await open_link(self.world, broker_id)
            told = await described(link)
            link.close()
        except LinkFailed as error:
            return repr(error)
        for entry in self.entries:
            entity, values = told.get(entry.client_id, (entry.entity, {}))
            if entry.is_certain and (entity, values) != (entry.entity, entry.values):
                return f"{entry.client_id} has {values} as {entity}, not {entry.values}"
        return ""

    # --- a round -------------------------------------------------------------------------------

    async def _round(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        leader = await find_leader(self.world, self.random, partition, topic=TOPIC)
        link = await open_link(self.world, leader)
        free = None
        try:
            free = await open_link(self.world, leader)
            free.client_id = f"{self.name}-free"
            taking = self.random.choice((Producing, Fetching))(TOPIC, partition, self.random)
            await self._measured(link, free, taking)
        finally:
            link.close()
            if free is not None:
                free.close()

    async def _measured(self, link: BrokerLink, free: BrokerLink, taking: Taking) -> None:
        entry, meter = await self._limit(link, taking.key)
        if meter is None:
            return
        link.client_id = entry.client_id
        await self._take(link, free, taking, meter)
        quota = float(round(meter.quota * self.random.choice(FACTORS)))
        # Asked for beside the connection that is to be measured: a delay would hold it up.
        if not await entry.alter(free, {taking.key: quota}):
            return
        meter.change(quota)
        await self._take(link, free, taking, meter)
        if self.random.random() >= KEPT_SHARE and await entry.alter(
            free, dict.fromkeys(entry.values)
        ):
            await self._take_freely(link, taking, "has no quota any more")

    async def _limit(self, link: BrokerLink, key: QuotaKey) -> tuple[Entry, Meter | None]:
        """Return a client id with its meter; None if it has no quota here and now."""
        known = [one for one in self.entries if one.is_certain and key in one.values]
        if known and self.random.random() < AGAIN_SHARE:
            entry = self.random.choice(known)
            told = await described(link)
            if told.get(entry.client_id) != (entry.entity, entry.values):
                return entry, None  # the broker has not followed yet; it has to in the end
            return entry, Meter(quota=entry.values[key], is_fresh=False)
        name = f"{self.name}-{len(self.entries)}"
        entry = Entry(name, draw_entity(name, self.random))
        self.entries.append(entry)
        quota = float(self.random.choice(QUOTAS))
        values: dict[str, float | None] = {key: quota}
        if self.random.random() < REQUEST_SHARE:
            values[QuotaKey.REQUEST] = self.random.choice(PERCENTS)
        if not await entry.alter(link, values):
            return entry, None
        told = await described(link)
        if told.get(name) != (entry.entity, entry.values):
            self.world.refuse(f"{name} has {told.get(name)} at {link.host}, not {entry.values}")
        return entry, Meter(quota=quota)

    async def _take(self, link: BrokerLink, free: BrokerLink, taking: Taking, meter: Meter) -> None:
        is_obedient = self.random.random() < OBEDIENT_SHARE
        for _ in range(self.random.randint(*BURSTS)):
            if self.world.is_stopping:
                raise LinkFailed("the round ends early")
            burst = await taking.ask(link, self.random.choice(BURST), DELAY_SECONDS_MAX)
            self.judged += len(burst)
            told_ms = max(one.told_ms for one in burst)
            self.delayed += told_ms > 0
            for wrong in meter.add(burst):
                self.world.refuse(f"{link.client_id} {wrong} at {link.host}")
            if told_ms > DELAY_SECONDS_MAX * 1_000:
                raise LinkFailed("too long a delay to wait for")
            await self._take_freely(free, taking, "has no quota")
            await asyncio.sleep(told_ms / 1_000 if is_obedient else 0.01)

    async def _take_freely(self, link: BrokerLink, taking: Taking, why: str) -> None:
        """Take as much without a quota."""
        for one in await taking.ask(link, 1, DELAY_SECONDS_MAX):
            if one.told_ms:
                self.world.refuse(f"{link.client_id} is told {one.told_ms} ms and {why}")
