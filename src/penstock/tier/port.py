"""The port of a store of objects: named byte strings that are put whole and never changed.

    put(name, chunks, ABSENT)   one request; refused if the name is taken, where the store can tell
    put_large(name, parts)      in parts, of any length; visible when all is there; no condition
    read, read_many             exactly the bytes asked for
    look, pages, delete         size and version; names in order; names that are gone are no error

Every call ends within the store's own time limits, in an answer or in a StoreError. A call that is
cancelled, or that fails, may still have its effect at the store, and later.

Source: docs/adr/0117. S3's PutObject with If-None-Match and If-Match; HDFS has no such conditions,
so that nothing that matters may rest on them.
"""

from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from penstock.base.ports import Buffer

PUT_BYTES_MAX = 1 << 30
"""Of one request. S3 takes 5 GiB; this much is held in memory."""
PART_BYTES = 8 << 20
"""Of a large put; S3 takes no smaller parts than 5 MiB but the last."""
PARTS_MAX = 10_000
"""S3 takes no more."""
READ_BYTES_MAX = 256 << 20
"""Of one range; bounds what is allocated because of a number in the metadata."""
DELETE_NAMES_MAX = 1000
"""Of one request; S3 takes no more."""
PAGE_NAMES = 1000
"""Of one page of a list; S3 gives no more."""


class Plain(Enum):
    """Conditions of a put without a version."""

    ALWAYS = "always"
    ABSENT = "absent"
    """Only if no object has the name."""


class Version(NamedTuple):
    """What an object was when it was looked at; a put may ask that it is still so."""

    tag: str


Condition = Plain | Version


class Stat(NamedTuple):
    """An object as the store tells of it."""

    name: str
    size_bytes: int
    version: Version
    modified_ms: int
    """When it was put, by the store's clock: ms since 1970."""


class Capabilities(NamedTuple):
    """What a store was found to do when it was tried."""

    creates: bool
    """It refuses a put of a name that is taken."""
    swaps: bool
    """It refuses a put where another version stands than was expected."""


class ObjectStore(Protocol):
    """A store, below one prefix of it. Names have parts with slashes between them."""

    async def put(
        self, name: str, chunks: Sequence[Buffer], condition: Condition = Plain.ALWAYS
    ) -> Version:
        """Put an object of at most PUT_BYTES_MAX bytes; durable when this returns.

        Raises StoreError; PreconditionFailed only where the store can tell. StoreCanNot: it can not
        compare versions.
        """

    async def put_large(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        """Put an object of any length, of which a few parts are held at a time.

        At most PARTS_MAX parts of PART_BYTES; the iterator's pieces may have any size. Raises
        StoreError; what the iterator raises is raised, and then there is no object.
        """

    async def read(self, name: str, position: int, length: int) -> memoryview:
        """Return exactly these bytes. Raises StoreError; LyingObject: the object ends before."""

    async def read_many(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return several (position, length) of an object, in their order. Raises as `read`."""

    async def look(self, name: str) -> Stat:
        """Return size and version of an object. Raises StoreError."""

    def pages(self, prefix: str) -> AsyncIterator[Sequence[Stat]]:
        """Yield the objects whose names begin with the parts of `prefix`; empty: all, in pages.

        Objects that come or go meanwhile may be among them or not. Raises StoreError.
        """

    async def delete(self, names: Sequence[str]) -> None:
        """Delete objects; those that are not there are no error. Raises StoreError."""
