"""Ownership of a data directory: the lock against a second process, and the identity file.

Layout of a data directory:

    penstock.lock       held by flock while a node runs; holds its process id for the reader
    identity.json       {"format_version", "cluster_id", "broker_id", "directory_id", "check"}
    <everything else>   logs, made by storage

The identity is written first, so a directory with files and without an identity is not Penstock's
and is refused. A directory of another broker or cluster, or of a newer format, is refused as well:
opening it would mix two histories. A missing directory is refused and never created: for a node
that ran before it means a disk that is not mounted, and a new directory there would look like a
log that lost everything.

The lock is an flock: the kernel releases it with the process, so no stale lock stays after kill -9.
"""

import contextlib
import fcntl
import json
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from crc32c import crc32c

from penstock.base.errors import ConfigError
from penstock.raft.ids import DirectoryId

FORMAT_VERSION = 1
LOCK_NAME = "penstock.lock"
IDENTITY_NAME = "identity.json"
IGNORED_NAMES = frozenset({LOCK_NAME, f"{IDENTITY_NAME}.new", "lost+found"})
"""Files that a directory without an identity may contain; any other file is foreign data."""

IDENTITY_BYTES_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The owner of a data directory; never changes after the first start."""

    format_version: int
    cluster_id: str
    broker_id: int
    directory_id: DirectoryId


@dataclass(slots=True, kw_only=True)
class DataDirectory:
    """A locked data directory and its identity. `close` releases the lock."""

    path: Path
    identity: Identity
    lock: int

    def close(self) -> None:
        """Release the lock."""
        os.close(self.lock)


def open_data_directories(
    paths: Sequence[Path], *, broker_id: int, cluster_id: str = ""
) -> list[DataDirectory]:
    """Lock every directory and read or create its identity.

    An empty `cluster_id` takes the one in the directories, or a new one if all are empty.
    Raises ConfigError, with all locks released, if this broker cannot use one of them.
    """
    assert paths
    with contextlib.ExitStack() as opened:
        locks = []
        for path in paths:
            lock = _lock(path)
            opened.callback(os.close, lock)
            locks.append(lock)
        found = [_read_identity(path) for path in paths]
        owner = _agreed_cluster_id(paths, found, broker_id=broker_id, cluster_id=cluster_id)
        identities = [
            identity or _write_identity(path, broker_id=broker_id, cluster_id=owner)
            for path, identity in zip(paths, found, strict=True)
        ]
        opened.pop_all()
    return [
        DataDirectory(path=path, identity=identity, lock=lock)
        for path, identity, lock in zip(paths, identities, locks, strict=True)
    ]


def _lock(path: Path) -> int:
    with _one_line(path):
        if not path.exists():
            raise ConfigError(absence(path))
        if not path.is_dir():
            raise ConfigError(f"data directory {path} is not a directory: name another path")
        lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise ConfigError(
            f"data directory {path} is in use by another node (process {holder}): "
            "stop it, or give this node its own directory"
        ) from None
    with _one_line(path):
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _read_identity(path: Path) -> Identity | None:
    with _one_line(path):
        names = {entry.name for entry in path.iterdir()}
        if IDENTITY_NAME not in names:
            if names - IGNORED_NAMES:
                raise ConfigError(
                    f"data directory {path} holds files that are not Penstock's: "
                    "name an empty directory"
                )
            return None
        content = (path / IDENTITY_NAME).read_bytes()[:IDENTITY_BYTES_MAX]
    try:
        fields = json.loads(content)
        identity = Identity(
            format_version=int(fields["format_version"]),
            cluster_id=str(fields["cluster_id"]),
            broker_id=int(fields["broker_id"]),
            directory_id=DirectoryId(str(fields["directory_id"])),
        )
        is_whole = fields.get("check") in {None, _check(identity)}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(path) from error
    if identity.format_version > FORMAT_VERSION:
        raise ConfigError(
            f"data directory {path} has format {identity.format_version}; this version reads up "
            f"to {FORMAT_VERSION}: install a newer Penstock"
        )
    if not is_whole:
        raise _damaged(path)
    return identity


def _check(identity: Identity) -> int:
    """Return the crc32c of all fields, as `name=value` in their order; absent in older files."""
    text = ",".join(f"{name}={value}" for name, value in asdict(identity).items())
    return int(crc32c(text.encode()))


def _damaged(path: Path) -> ConfigError:
    return ConfigError(
        f"{path / IDENTITY_NAME} is damaged: restore it from another data directory of this "
        "broker or from a backup"
    )


def _agreed_cluster_id(
    paths: Sequence[Path],
    found: Sequence[Identity | None],
    *,
    broker_id: int,
    cluster_id: str,
) -> str:
    for path, identity in zip(paths, found, strict=True):
        if identity is None:
            continue
        if identity.broker_id != broker_id:
            raise ConfigError(
                f"data directory {path} belongs to broker {identity.broker_id}, and "
                f"node.broker_id is {broker_id}: correct one of them"
            )
        if cluster_id and identity.cluster_id != cluster_id:
            raise ConfigError(
                f"data directory {path} belongs to cluster {identity.cluster_id}, not "
                f"{cluster_id}: correct node.cluster_id or node.data_directories"
            )
        cluster_id = identity.cluster_id
    return cluster_id or new_cluster_id()


def absence(path: Path) -> str:
    """Return what to say of a data directory that is not there."""
    return (
        f"data directory {path} does not exist: make it (mkdir -p {path}), or mount the disk it "
        "belongs to"
    )


def check_cluster_is_named(cluster_id: str, voters: Collection[object]) -> None:
    """Refuse a process of a cluster that does not say of which one. Raises ConfigError."""
    if voters and not cluster_id:
        raise ConfigError(
            "cluster.voters is given and node.cluster_id is not: all processes of a cluster have "
            f"the same one, such as {new_cluster_id()}"
        )


def new_cluster_id() -> str:
    """Return 128 random bits as 22 characters of URL-safe base64, as Kafka's cluster ids are."""
    return urlsafe_b64encode(secrets.token_bytes(16)).decode("ascii").rstrip("=")


def _write_identity(path: Path, *, broker_id: int, cluster_id: str) -> Identity:
    identity = Identity(
        format_version=FORMAT_VERSION,
        cluster_id=cluster_id,
        broker_id=broker_id,
        directory_id=DirectoryId(new_cluster_id()),
    )
    with _one_line(path):
        fresh = path / f"{IDENTITY_NAME}.new"
        with fresh.open("w", encoding="utf-8") as file:
            fields = {**asdict(identity), "check": _check(identity)}
            file.write(json.dumps(fields, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path / IDENTITY_NAME)
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    return identity


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"data directory {path} can not be used: {error.strerror or error}: "
            "check its owner, its mode and the space left"
        ) from error
