"""A store of objects as bad as real ones are: it loses answers, and writes land late.

    Bucket         what lies there, and what is still under way
    ModelledStore  the port of the tier over a bucket; a plan says what becomes of each request

A put whose fate is LATE has failed for its caller, and takes effect when `Bucket.land` is called:
perhaps after a delete of the same name, perhaps after its writer has died.

Source: docs/adr/0117; what was measured of real stores there.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from enum import Enum
from typing import NamedTuple

from penstock.base.ports import Buffer
from penstock.tier.errors import (
    CredentialsRefused,
    LyingObject,
    ObjectNotFound,
    PreconditionFailed,
    StoreCanNot,
    StoreError,
    StoreThrottled,
    StoreUnavailable,
)
from penstock.tier.port import (
    DELETE_NAMES_MAX,
    PAGE_NAMES,
    PUT_BYTES_MAX,
    Capabilities,
    Condition,
    Plain,
    Stat,
    Version,
)

FULL = Capabilities(creates=True, swaps=True)


class Fate(Enum):
    """What becomes of a request."""

    DONE = "done"
    LOST_ANSWER = "done, and the answer is lost"
    LATE = "fails, and a put is done later"
    FAILED = "fails, and nothing is done"
    THROTTLED = "too many requests"
    REFUSED = "credentials expired"


class Put(NamedTuple):
    """A put that has not taken effect yet."""

    name: str
    data: bytes
    condition: Condition = Plain.ALWAYS


class Bucket:
    """The objects of a store. `capabilities`: what it does with conditions."""

    def __init__(self, capabilities: Capabilities = FULL) -> None:
        self.capabilities = capabilities
        self.objects: dict[str, tuple[bytes, Version]] = {}
        self.late: list[Put] = []
        self.now_ms = 0
        """The store's clock, which stands still unless it is moved."""
        self.modified: dict[str, int] = {}
        self._versions = 0

    def land(self, put: Put) -> Version:
        """Let a put take effect now. Raises PreconditionFailed, StoreCanNot."""
        name, data, condition = put
        held = self.objects.get(name)
        if condition is Plain.ABSENT and held is not None and self.capabilities.creates:
            raise PreconditionFailed(name, "it is there already")
        if isinstance(condition, Version):
            if not self.capabilities.swaps:
                raise StoreCanNot(name, "no put by version")
            if held is None or held[1] != condition:
                raise PreconditionFailed(name, "it is another one")
        self._versions += 1
        version = Version(str(self._versions))
        self.objects[name] = data, version
        self.modified[name] = self.now_ms
        return version

    def land_late(self, at: int = 0) -> None:
        """Let a put take effect that is under way; its condition may not hold any more."""
        put = self.late.pop(at)
        try:
            self.land(put)
        except StoreError:
            return

    def stat(self, name: str) -> Stat:
        """Return what the store tells of an object. Raises ObjectNotFound."""
        data, version = self.get(name)
        return Stat(name, len(data), version, self.modified.get(name, 0))

    def get(self, name: str) -> tuple[bytes, Version]:
        """Return an object. Raises ObjectNotFound."""
        if name not in self.objects:
            raise ObjectNotFound(name, "no such object")
        return self.objects[name]


def _always(_operation: str, _name: str) -> Fate:
    return Fate.DONE


class ModelledStore:
    """The port over a bucket. `fate_of` is asked with the operation's name and the object's."""

    def __init__(self, bucket: Bucket, fate_of: Callable[[str, str], Fate] = _always) -> None:
        self.bucket = bucket
        self._fate_of = fate_of

    async def put(
        self, name: str, chunks: Sequence[Buffer], condition: Condition = Plain.ALWAYS
    ) -> Version:
        """As the port says."""
        data = b"".join(chunks)
        assert len(data) <= PUT_BYTES_MAX, "more than one request takes"
        fate = self._begin("put", name)
        put = Put(name, data, condition)
        if fate is Fate.LATE:
            self.bucket.late.append(put)
            raise StoreUnavailable(name, "no answer")
        version = self.bucket.land(put)
        self._end(fate, name)
        return version

    async def put_large(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        """As the port says."""
        await self.put(name, [bytes(part) async for part in parts])

    async def read(self, name: str, position: int, length: int) -> memoryview:
        """As the port says."""
        return (await self.read_many(name, [(position, length)]))[0]

    async def read_many(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """As the port says."""
        self._end(self._begin("read", name), name)
        data = self.bucket.get(name)[0]
        for position, length in ranges:
            if position + length > len(data):
                raise LyingObject(name, position, f"it ends at {len(data)}")
        return [memoryview(data)[at : at + length] for at, length in ranges]

    async def look(self, name: str) -> Stat:
        """As the port says."""
        self._end(self._begin("look", name), name)
        return self.bucket.stat(name)

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Stat]]:
        """As the port says."""
        begin = f"{prefix}/" if prefix else ""
        names = sorted(name for name in self.bucket.objects if name.startswith(begin))
        for at in range(0, len(names), PAGE_NAMES):
            self._end(self._begin("list", prefix), prefix)
            there = [one for one in names[at : at + PAGE_NAMES] if one in self.bucket.objects]
            yield [self.bucket.stat(one) for one in there]

    async def delete(self, names: Sequence[str]) -> None:
        """As the port says."""
        assert len(names) <= DELETE_NAMES_MAX, "more than one request takes"
        fate = self._begin("delete", "")
        for name in names:
            self.bucket.objects.pop(name, None)
        self._end(fate, "")

    def _begin(self, operation: str, name: str) -> Fate:
        fate = self._fate_of(operation, name)
        if fate is Fate.FAILED or (fate is Fate.LATE and operation != "put"):
            raise StoreUnavailable(name, "the connection broke")
        if fate is Fate.THROTTLED:
            raise StoreThrottled(name, "slow down")
        if fate is Fate.REFUSED:
            raise CredentialsRefused(name, "the token has expired")
        return fate

    def _end(self, fate: Fate, name: str) -> None:
        if fate is Fate.LOST_ANSWER:
            raise StoreUnavailable(name, "the answer was lost")
