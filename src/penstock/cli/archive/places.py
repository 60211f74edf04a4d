"""Where an archive is, as written on a command line: a directory, or a bucket and a prefix."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from penstock.base.errors import ConfigError
from penstock.cli.values import quoted

if TYPE_CHECKING:
    from penstock.archive.files import ArchiveFiles
    from penstock.archive.ledger import Ledger

S3_KEYS = ("endpoint", "region", "access-key-id", "secret-key-file")
PACKAGES = ("obstore", "pyarrow")


def placed(text: str) -> str:
    """Return the place. Raises BadParameter for an empty one."""
    if not text:
        raise typer.BadParameter("it is empty; write . for this directory")
    return text


ArchiveArgument = Annotated[
    str,
    typer.Argument(metavar="ARCHIVE", help="A directory, or s3://BUCKET/PREFIX.", callback=placed),
]
StoreOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Of S3: endpoint, region, access-key-id or secret-key-file; repeatable.",
    ),
]


@contextmanager
def opened(place: str, store: list[str] | None, *, may_be_new: bool) -> Iterator["Ledger"]:
    """Yield the ledger of an archive, not read yet. Raises ConfigError, NoArchive."""
    from penstock.archive.errors import NoArchive
    from penstock.archive.ledger import Ledger

    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"archives need {missing[0]}: pip install 'penstock[archive]'")
    with _files(place, store or [], may_be_new=may_be_new) as files:
        try:
            yield Ledger(files)
        except NoArchive:
            raise NoArchive(f"{place} holds no archive: {_made_by(place)}") from None


def _files(place: str, store: list[str], *, may_be_new: bool) -> "ArchiveFiles":
    from penstock.archive.errors import NoArchive
    from penstock.archive.files import ArchiveFiles
    from penstock.runtime.io.object_store import open_directory

    if place.startswith("s3://"):
        return _bucket(place, dict(map(_pair, store)))
    if "://" in place:
        raise ConfigError(f"{place} is no place of an archive: write a directory, or s3://...")
    if store:
        raise ConfigError("--store is for buckets: write s3://BUCKET/PREFIX, or leave it out")
    path = Path(place).absolute()
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{place} is no directory")
    if not path.exists() and not may_be_new:
        raise NoArchive(f"{place} does not exist: {_made_by(place)}")
    return ArchiveFiles(open_directory(path), path)


def _made_by(place: str) -> str:
    return f"penstock archive run TOPIC --to {place} makes it"


def _bucket(place: str, keys: dict[str, str]) -> "ArchiveFiles":
    from penstock.archive.files import ArchiveFiles
    from penstock.node.access.files import read_private
    from penstock.runtime.io.object_store import S3Settings, open_s3

    for name in ("endpoint", "access-key-id", "secret-key-file"):
        if not keys.get(name):
            raise ConfigError(f"{place} is in S3: say --store {name}=...")
    parts = urlsplit(place)
    if not parts.netloc:
        raise ConfigError(f"{place} names no bucket: write s3://BUCKET/PREFIX")
    secret = read_private("--store secret-key-file", keys["secret-key-file"]).strip()
    settings = S3Settings(
        bucket=parts.netloc,
        endpoint=keys["endpoint"],
        region=keys.get("region", "us-east-1"),
        access_key_id=keys["access-key-id"],
        secret_access_key=secret,
        prefix=parts.path.strip("/"),
    )
    return ArchiveFiles(open_s3(settings))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in S3_KEYS:
        keys = ", ".join(S3_KEYS)
        raise ConfigError(f"--store {quoted(text)}: write KEY=VALUE, with one of {keys}")
    return name, value
