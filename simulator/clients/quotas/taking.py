"""What a client with a quota takes: produce requests that it sends, answers to its fetches.

    several are sent together ─► answered in order ─► bytes that counted, the delay that was told

Source: KIP-219; `quotas/keys.py` says which bytes count.
"""

import asyncio
import struct
from random import Random
from typing import Protocol

from penstock.client.errors import ClientError
from penstock.client.fetch import FetchOptions, FetchWant, encode_fetch, parse_fetch
from penstock.client.produce_request import encode_produce
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import decode_response
from penstock.quotas.keys import QuotaKey
from penstock.record.build import Record, build_batch
from simulator.clients.producer import BROKER_TIMEOUT_MS, PRODUCE_VERSION
from simulator.clients.readers import FETCH_VERSION
from simulator.clients.wire import ANSWER_SECONDS, BrokerLink
from simulator.history.quotas import Taken

VALUE_BYTES = (100, 4_000)
FETCH_BYTES = (2_000, 12_000)
_MILLISECONDS = struct.Struct(">i")


class Taking(Protocol):
    """See the module."""

    key: QuotaKey

    async def ask(self, link: BrokerLink, count: int, wait_s: float) -> list[Taken]:
        """Send so many requests at once; return what they came to. Raises LinkFailed.

        `wait_s`: they may be held up for so long beside what answers take.
        """


class Producing:
    """Sends records."""

    key = QuotaKey.PRODUCE

    def __init__(self, topic: str, partition: int, draw: Random) -> None:
        self._place = topic, partition
        self._random = draw

    async def ask(self, link: BrokerLink, count: int, wait_s: float) -> list[Taken]:
        """Send some batches."""
        clock = asyncio.get_running_loop().time
        sent_s, taken = clock(), []
        sizes = [self._send(link) for _ in range(count)]
        for size in sizes:
            frame, at = await link.receive(wait_s + ANSWER_SECONDS)
            answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame, at)
            told_ms = answer.throttle_time.total_seconds() * 1_000
            taken.append(Taken(sent_s, clock(), size, told_ms))
        return taken

    def _send(self, link: BrokerLink) -> int:
        value = b"x" * self._random.randint(*VALUE_BYTES)
        data = bytes(build_batch([Record(None, value)]))
        body = encode_produce({self._place: data}, BROKER_TIMEOUT_MS)
        return link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)


class Fetching:
    """Reads from the beginning, again and again: what counts is how much comes."""

    key = QuotaKey.FETCH

    def __init__(self, topic: str, partition: int, draw: Random) -> None:
        self._want = FetchWant(topic, partition, 0)
        self._random = draw

    async def ask(self, link: BrokerLink, count: int, wait_s: float) -> list[Taken]:
        """Fetch some times."""
        clock = asyncio.get_running_loop().time
        sent_s, taken = clock(), []
        for _ in range(count):
            most = self._random.randint(*FETCH_BYTES)
            options = FetchOptions(partition_bytes_max=most, bytes_min=0, wait_ms=0)
            body = encode_fetch(FETCH_VERSION, [self._want], options)
            link.send(ApiKey.FETCH, FETCH_VERSION, body)
        for _ in range(count):
            frame, at = await link.receive(wait_s + ANSWER_SECONDS)
            try:
                parts = parse_fetch(FETCH_VERSION, frame, at)
            except ClientError as error:
                raise link.broken(str(error)) from error
            (told_ms,) = _MILLISECONDS.unpack_from(frame, at)
            # Beyond its quota a client is not even told the partitions that it asked for.
            size, is_full = len(frame) - at, any(len(part.data) for part in parts)
            taken.append(Taken(sent_s, clock(), size, told_ms, is_let_through=is_full))
        return taken
