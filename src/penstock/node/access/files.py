"""Files with secrets: read only where not everybody can, and read again when they change."""

import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from penstock.base.errors import ConfigError

FILE_BYTES_MAX = 16 << 20
"""A users' file of 16 MiB has half a million users."""

T = TypeVar("T")
Signature = tuple[tuple[int, int, int] | None, ...]

log = logging.getLogger(__name__)


def check_private(setting: str, path: str) -> None:
    """Raise ConfigError if everybody on this machine can read or write the file."""
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise ConfigError(f"{setting} {path} can not be read: {error.strerror}") from error
    if stat.S_ISREG(mode) and mode & stat.S_IRWXO:
        raise ConfigError(
            f"{setting} {path} can be read or written by everybody on this machine:"
            f" chmod 600 {path}"
        )


def read_private(setting: str, path: str) -> str:
    """Return the text of a file with secrets. Raises ConfigError."""
    check_private(setting, path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{setting} {path} has more than {FILE_BYTES_MAX} bytes")
        return data.decode()
    except OSError as error:
        raise ConfigError(f"{setting} {path} can not be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{setting} {path} is not UTF-8 text") from error


def read_users(setting: str, path: str) -> dict[str, str]:
    """Return passwords by user, of lines `user:password`; # begins a comment line."""
    found: dict[str, str] = {}
    for number, user, password in user_lines(setting, path):
        if user in found:
            raise ConfigError(f"{setting} {path}: line {number} has a user that was there before")
        found[user] = password
    return found


def user_lines(setting: str, path: str) -> Iterator[tuple[int, str, str]]:
    """Yield (number from 1, user, password) of the lines `user:password`. Raises ConfigError."""
    for number, line in enumerate(read_private(setting, path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, password = line.partition(":")
        if not (user and colon and password):
            raise ConfigError(f"{setting} {path}: line {number} is no user:password")
        yield number, user, password


class Watched(Generic[T]):
    """What files contain, as long as it can be read: a broken change is said and left out."""

    def __init__(self, name: str, paths: tuple[str, ...], load: Callable[[], T]) -> None:
        """Load it. Raises ConfigError."""
        self._name = name
        self._paths = paths
        self._load = load
        self._signature = _signature(paths)
        self.value = load()

    def look(self) -> None:
        """Load it again if a file has changed since the last look."""
        signature = _signature(self._paths)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self.value = self._load()
        except ConfigError as error:
            text = "%s: a changed file is not used, what was there before is: %s"
            log.error(text, self._name, error)  # noqa: TRY400  the operator's mistake, not ours
        else:
            log.info("%s: read again after a change", self._name)


def _signature(paths: tuple[str, ...]) -> Signature:
    return tuple(_identity(path) for path in paths)


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
