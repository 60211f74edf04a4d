"""The tier's port of a store through `obstore`: S3 and what speaks it, and a local directory.

    open_s3(S3Settings)      requests with time limits and a few retries of the library's own
    open_directory(path)     files below a directory; synced, with their directories, before a put
                             is answered, which the library does not do
    azure_store.py           Azure Blob Storage

`obstore` is an optional package (MIT licence, 16 MB, Rust, threads of its own); it is imported when
a store is opened. Its other stores are not offered, since nothing here was tried on them.

What its errors are is told by their types, and by the status in their text where the type says
nothing: requests that are throttled come as a GenericError, like all of a list. A put that was
retried within the library may be told that its own first try is in the way.

Parts of a large put that was broken off stay in a bucket, unseen, until a rule of the bucket takes
them. A process ends its uploads before it ends: an interpreter was seen to abort that did not.

Source: docs/adr/0117; the port, tier/port.py.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.errors import ConfigError
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
    TierError,
)
from penstock.tier.port import (
    DELETE_NAMES_MAX,
    PAGE_NAMES,
    PART_BYTES,
    PARTS_MAX,
    PUT_BYTES_MAX,
    Condition,
    Plain,
    Stat,
    Version,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Library

PARTS_AT_ONCE = 3
"""Of one large put: what it holds in memory is this many parts."""
THROTTLED = frozenset({429, 503})
CREDENTIALS = frozenset({401, 403})
EXPIRED = re.compile(r"<Code>(?:ExpiredToken|InvalidToken|TokenRefreshRequired)</Code>")
NO_RANGE = "InvalidRange"
"""In the text: the object ends before the range begins."""
NO_BUCKET = re.compile(
    r"<Code>(?:NoSuchBucket|ContainerNotFound)</Code>|The specified container does not exist"
)
STATUS = re.compile(r"status code: (\d{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSettings:
    """A bucket, what of it, and for how long it is asked."""

    bucket: str
    endpoint: str
    """With its scheme; plain HTTP only if it says so."""
    prefix: str = ""
    """Of all names in the bucket."""
    connect_ms: int = 2_000
    request_ms: int = 30_000
    """Of one try of one request, its body included."""
    retries: int = 2
    retry_ms: int = 60_000
    """No try begins later than this after the first."""

    def asked(self) -> dict[str, Any]:
        """Return how the library asks."""
        return {
            "prefix": self.prefix or None,
            "client_options": {
                "allow_http": self.endpoint.startswith("http://"),
                "connect_timeout": f"{self.connect_ms}ms",
                "timeout": f"{self.request_ms}ms",
            },
            "retry_config": {
                "max_retries": self.retries,
                "retry_timeout": timedelta(milliseconds=self.retry_ms),
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings(BucketSettings):
    """A bucket of S3, and who asks."""

    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)


def open_s3(settings: S3Settings) -> "ObjectStoreByLibrary":
    """Return a bucket as a store. Nothing is asked of it yet. Raises ConfigError."""
    require()
    from obstore.store import S3Store  # noqa: PLC0415  only who uses a store has the package

    library = S3Store(
        settings.bucket,
        endpoint=settings.endpoint,
        region=settings.region,
        access_key_id=settings.access_key_id,
        secret_access_key=settings.secret_access_key,
        **settings.asked(),
    )
    return ObjectStoreByLibrary(library)


def open_directory(path: Path) -> "DirectoryStore":
    """Return a directory as a store; it is made if it is not there. Raises ConfigError."""
    require()
    from obstore.store import LocalStore  # noqa: PLC0415  as above

    try:
        return DirectoryStore(LocalStore(path, mkdir=True), path)
    except OSError as error:
        raise ConfigError(f"{path} can not be made a directory: {error}") from error


def require() -> None:
    """Raise ConfigError where the library is not installed."""
    if find_spec("obstore") is None:
        raise ConfigError(
            "the tier needs the package obstore: install penstock[tier], or obstore itself"
        )


class ObjectStoreByLibrary:
    """A store of the library's."""

    def __init__(self, library: "Library") -> None:
        import obstore  # noqa: PLC0415  as above

        self._library = library
        self._api: Any = obstore

    async def put(
        self, name: str, chunks: Sequence[Buffer], condition: Condition = Plain.ALWAYS
    ) -> Version:
        """As the port says."""
        assert sum(map(len, chunks)) <= PUT_BYTES_MAX, "more than one request takes"
        mode = _mode(condition)
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        with told(name):
            done = await self._api.put_async(
                self._library, name, data, mode=mode, use_multipart=False
            )
        await self._settle(name)
        return Version(done["e_tag"] or "")

    async def put_large(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        """As the port says."""
        with told(name):
            await self._api.put_async(
                self._library,
                name,
                _bounded(parts),
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )
        await self._settle(name)

    async def _settle(self, name: str) -> None:
        """Make a put durable, where the library has not. Raises StoreError."""

    async def read(self, name: str, position: int, length: int) -> memoryview:
        """As the port says."""
        return (await self.read_many(name, [(position, length)]))[0]

    async def read_many(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """As the port says. Ranges that lie close together are one request."""
        wanted = [one for one in ranges if one[1]]  # the library refuses empty ones
        found: list[Any] = []
        if wanted:
            with told(name):
                found = await self._api.get_ranges_async(
                    self._library,
                    name,
                    starts=[at for at, _ in wanted],
                    lengths=[length for _, length in wanted],
                )
        parts = iter(found)
        return [_whole(name, at, length, next(parts) if length else b"") for at, length in ranges]

    async def look(self, name: str) -> Stat:
        """As the port says."""
        with told(name):
            meta = await self._api.head_async(self._library, name)
        return _stat(meta)

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Stat]]:
        """As the port says."""
        stream = self._api.list(self._library, prefix=prefix, chunk_size=PAGE_NAMES)
        while True:
            with told(prefix):
                page = await anext(aiter(stream), None)
            if page is None:
                return
            yield [_stat(meta) for meta in page]

    async def delete(self, names: Sequence[str]) -> None:
        """As the port says."""
        assert len(names) <= DELETE_NAMES_MAX, "more than one request takes"
        if not names:
            return
        try:
            with told(names[0]):
                await self._api.delete_async(self._library, list(names))
        except ObjectNotFound as error:  # of names the store would not say that: of the bucket
            raise StoreUnavailable(names[0], error.reason) from error


class DirectoryStore(ObjectStoreByLibrary):
    """Files below a directory. After a sync that failed it does nothing any more."""

    def __init__(self, library: "Library", path: Path) -> None:
        super().__init__(library)
        self._path = path
        self._failed: str | None = None

    async def _settle(self, name: str) -> None:
        await self._off_loop(name, self._sync)

    async def look(self, name: str) -> Stat:
        """As the port says."""
        if self._failed is not None:  # what is there may not be on the disk
            raise StoreUnavailable(name, self._failed)
        return await super().look(name)

    async def delete(self, names: Sequence[str]) -> None:
        """As the port says; with what a put has left that died under way."""
        for name in names:
            await self._off_loop(name, self._remove)

    async def _off_loop(self, name: str, work: Any) -> None:
        if self._failed is not None:
            raise StoreUnavailable(name, self._failed)
        try:
            await asyncio.to_thread(work, name)
        except OSError as error:
            raise StoreUnavailable(name, str(error)) from error

    def _sync(self, name: str) -> None:
        """Sync a file, and the directories that lead to it."""
        path = self._path / name
        try:
            for one in [path, *path.parents]:
                _sync_one(one)
                if one == self._path:
                    break
        except OSError as error:
            self._failed = f"a sync failed earlier: {error}"
            raise

    def _remove(self, name: str) -> None:
        path = self._path / name
        staged = [one for one in path.parent.glob(f"{path.name}#*") if _is_staged(one, path.name)]
        for one in [path, *staged]:
            one.unlink(missing_ok=True)
        if path.parent.exists():
            _sync_one(path.parent)


def _is_staged(path: Path, name: str) -> bool:
    """Whether this is where the library writes a file before it gets its name."""
    return path.name.removeprefix(f"{name}#").isdigit()


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


async def _bounded(parts: AsyncIterator[Buffer]) -> AsyncIterator[Buffer]:
    """Pass the pieces of a large object on, as long as they are not too many bytes."""
    size = 0
    async for part in parts:
        size += len(part)
        assert size <= PARTS_MAX * PART_BYTES, "more than a large put takes"
        yield part


def _mode(condition: Condition) -> Any:
    match condition:
        case Plain.ALWAYS:
            return "overwrite"
        case Plain.ABSENT:
            return "create"
        case Version(tag):
            return {"e_tag": tag}


def _stat(meta: Any) -> Stat:
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    return Stat(meta["path"], meta["size"], Version(meta["e_tag"] or ""), modified_ms)


def _whole(name: str, position: int, length: int, data: Any) -> memoryview:
    view = memoryview(data)
    if len(view) != length:
        raise LyingObject(name, position, f"{len(view)} of {length} bytes are there")
    return view


@contextmanager
def told(name: str) -> Iterator[None]:
    """Let errors of the library be those of the port."""
    from obstore import exceptions  # noqa: PLC0415  as above

    try:
        yield
    except (exceptions.BaseError, FileNotFoundError, NotImplementedError, OSError) as error:
        raise _as_port_has_it(name, error) from error


def _as_port_has_it(name: str, error: Exception) -> TierError:
    from obstore import exceptions  # noqa: PLC0415  as above

    text = str(error)
    reason = text.partition("\n")[0]
    if isinstance(error, FileNotFoundError) and not NO_BUCKET.search(text):
        return ObjectNotFound(name, reason)
    if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
        return PreconditionFailed(name, reason)
    if isinstance(error, NotImplementedError | exceptions.NotSupportedError):
        return StoreCanNot(name, reason)
    if NO_RANGE in text:
        return LyingObject(name, 0, reason)
    return _by_status(text)(name, reason)


def _by_status(text: str) -> type[StoreError]:
    """Return what the status in an error's text stands for, where its type says nothing."""
    found = STATUS.search(text)
    status = int(found[1]) if found else 0
    if status in CREDENTIALS or EXPIRED.search(text):
        return CredentialsRefused
    return StoreThrottled if status in THROTTLED else StoreUnavailable
