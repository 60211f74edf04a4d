"""The object store as a driver or an executor reaches it: the nodes' library, own credentials.

A process has one loop, on a thread of its own, and one reader for each store that it reads from:
workers run one task after another. What a reader keeps (summaries, not blocks) is bounded.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from penstock.base.errors import ConfigError
from penstock.client.tier import StorePlace
from penstock.runtime.io.object_store import S3Settings, open_directory, open_s3
from penstock.spark.tier.options import TierOptions
from penstock.tier.hdfs_place import HdfsPlace, hdfs_place
from penstock.tier.port import ObjectStore
from penstock.tier.read.reader import TierReader

OF_S3 = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
OF_AZURE = "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"
"""Who asks, and the secret, in the environment of driver and executors."""
SUMMARIES_BYTES_MAX = 16 << 20
"""Of each reader: 36 bytes for each MiB of data."""
READERS_MAX = 4

T = TypeVar("T")


def open_store(told: StorePlace, options: TierOptions) -> ObjectStore:
    """Return a store to read from. Nothing is asked of S3 yet. Raises ConfigError."""
    url = urlsplit(options.url or told.url)
    if url.scheme == "file" and not url.netloc:
        if not Path(url.path).is_dir():
            raise ConfigError(f"there is no directory {url.path} here")
        return open_directory(Path(url.path))
    if url.scheme == "hdfs":
        return _open_hdfs(hdfs_place(url, options.endpoint or told.endpoint))
    if url.scheme not in {"s3", "az"} or not url.netloc:
        text = options.url or told.url
        raise ConfigError(
            "tierUrl is s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, hdfs://HOST:PORT/DIRECTORY or"
            f" file:///DIRECTORY, and not {text!r}"
        )
    endpoint = options.endpoint or told.endpoint
    if url.scheme == "az":
        return _open_azure(url, endpoint, _credentials(options, OF_AZURE))
    access_key_id, secret = _credentials(options, OF_S3)
    return open_s3(
        S3Settings(
            bucket=url.netloc,
            endpoint=endpoint,
            region=options.region or told.region,
            access_key_id=access_key_id,
            secret_access_key=secret,
            prefix=url.path.strip("/"),
        )
    )


def _open_hdfs(place: HdfsPlace) -> ObjectStore:
    from penstock.runtime.io.hdfs_store import (  # noqa: PLC0415  few jobs have it
        HdfsSettings,
        open_hdfs,
    )

    return open_hdfs(HdfsSettings(place=place))


def _open_azure(url: SplitResult, endpoint: str, credentials: tuple[str, str]) -> ObjectStore:
    from penstock.runtime.io.azure_store import (  # noqa: PLC0415  as above
        AzureSettings,
        open_azure,
    )

    account, account_key = credentials
    return open_azure(
        AzureSettings(
            bucket=url.netloc,
            endpoint=endpoint,
            account=account,
            account_key=account_key,
            prefix=url.path.strip("/"),
        )
    )


def _credentials(options: TierOptions, variables: tuple[str, str]) -> tuple[str, str]:
    if options.access_key_id:
        try:
            secret = Path(options.secret_key_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"tierSecretKeyFile can not be read: {error}") from error
        return options.access_key_id, secret
    who, secret = (os.environ.get(name, "") for name in variables)
    if not (who and secret):
        raise ConfigError(
            f"no credentials: set {' and '.join(variables)} in the environment, or the options"
            " tierAccessKeyId and tierSecretKeyFile"
        )
    return who, secret


class _Loop:
    """An event loop on a thread of its own, which ends with the process."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.readers: dict[tuple[StorePlace, TierOptions], TierReader] = {}
        threading.Thread(target=self.loop.run_forever, name="penstock tier", daemon=True).start()


_LOOPS: list[_Loop] = []
"""One at most; that of a parent is of no use behind a fork."""


def _loop() -> _Loop:
    if _LOOPS and _LOOPS[0].process_id != os.getpid():
        _LOOPS.clear()
    if not _LOOPS:
        _LOOPS.append(_Loop())
    return _LOOPS[0]


def shared_reader(told: StorePlace, options: TierOptions) -> TierReader:
    """Return the reader of this process for a store. Raises ConfigError."""
    readers = _loop().readers
    key = told, options
    if key not in readers:
        while len(readers) >= READERS_MAX:
            del readers[next(iter(readers))]
        readers[key] = TierReader(open_store(told, options), SUMMARIES_BYTES_MAX)
    return readers[key]


def begin(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Have something done on the loop."""
    return asyncio.run_coroutine_threadsafe(work, _loop().loop)


def call(work: Coroutine[Any, Any, T]) -> T:
    """Have something done on the loop; return what it returns, or raise what it raises."""
    return begin(work).result()
