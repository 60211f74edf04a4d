r"""The input: every file below a directory, or every line of a file, as JSON records.

A directory (the default is /usr) gives one record per regular file in it: path, size, mode, mtime,
owner. A file gives one record per line, whatever it holds: CSV, JSON lines, a log, prose; a line
longer than LINE_BYTES_MAX becomes several records. Bytes that are not UTF-8 are shown as \xNN.

Every record carries `id`, its number in the input, and `seq`, its number in its partition. They
are what the check at the end goes by. The partition follows from the key: the directory of a file,
the thousand of a line.
"""

import json
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from demo.errors import InputError

PARTITIONS = 4
RECORDS_MAX = 500_000
INPUT_BYTES_MAX = 512 << 20
LINE_BYTES_MAX = 64 << 10
LINES_PER_KEY = 1000

FILES_DDL = "id long, seq long, path string, size long, mode string, mtime timestamp, owner string"
LINES_DDL = "id long, seq long, line long, text string"


class Record(NamedTuple):
    """One record as it is sent."""

    record_id: int
    partition: int
    key: bytes
    value: bytes


@dataclass(slots=True, kw_only=True)
class Source:
    """An input that was found readable, and how many records it has."""

    path: Path
    is_tree: bool
    records: int
    is_cut: bool
    """The input has more than the demo takes."""
    files: list[tuple[bytes, os.stat_result]]

    @property
    def noun(self) -> str:
        """Return what a record stands for."""
        return "files" if self.is_tree else "lines"

    @property
    def ddl(self) -> str:
        """Return the columns of a record's value."""
        return FILES_DDL if self.is_tree else LINES_DDL

    def __iter__(self) -> Iterator[Record]:
        next_seq = [0] * PARTITIONS
        keyed = _files(self.files) if self.is_tree else _lines(self.path)
        for record_id, (key, fields) in enumerate(keyed):
            if record_id >= self.records:
                return
            partition = crc32(key) % PARTITIONS
            numbered = {"id": record_id, "seq": next_seq[partition], **fields}
            next_seq[partition] += 1
            yield Record(record_id, partition, key, json.dumps(numbered).encode())


def open_source(path: Path) -> Source:
    """Look at the input. Raises InputError with one line if there is nothing to read in it."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            files = list(_walk(os.fsencode(path)))
            is_cut = len(files) > RECORDS_MAX
            del files[RECORDS_MAX:]
            count = len(files)
        elif stat.S_ISREG(mode):
            files = []
            count, is_cut = _count_lines(path)
        else:
            raise InputError(f"{path} is neither a file nor a directory: name another INPUT")
    except OSError as error:
        raise InputError(f"{path} can not be read: {error.strerror}: name another INPUT") from error
    if count == 0:
        what = "holds no readable files" if stat.S_ISDIR(mode) else "is empty"
        raise InputError(f"{path} {what}: name another INPUT")
    is_tree = stat.S_ISDIR(mode)
    return Source(path=path, is_tree=is_tree, records=count, is_cut=is_cut, files=files)


def _walk(top: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yield regular files below `top` on its file system, one more than RECORDS_MAX at most."""
    os.scandir(top).close()  # an unreadable top is an error; unreadable parts below are left out
    device = Path(os.fsdecode(top)).stat().st_dev
    left = RECORDS_MAX + 1
    waiting = [top]
    while waiting and left > 0:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                waiting.append(entry.path)
            elif stat.S_ISREG(status.st_mode) and left > 0:
                left -= 1
                yield entry.path, status


def _files(
    files: list[tuple[bytes, os.stat_result]],
) -> Iterator[tuple[bytes, dict[str, object]]]:
    for path, status in files:
        fields: dict[str, object] = {
            "path": _shown(path),
            "size": status.st_size,
            "mode": stat.filemode(status.st_mode),
            "mtime": _timestamp(status.st_mtime_ns),
            "owner": _owner(status.st_uid),
        }
        yield path.rpartition(b"/")[0], fields


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, object]]]:
    for number, piece in enumerate(_pieces(path)):
        key = b"%d" % (number // LINES_PER_KEY)
        yield key, {"line": number + 1, "text": _shown(piece.rstrip(b"\r\n"))}


def _pieces(path: Path) -> Iterator[bytes]:
    taken = 0
    with path.open("rb") as file:
        while taken < INPUT_BYTES_MAX and (piece := file.readline(LINE_BYTES_MAX)):
            taken += len(piece)
            yield piece


def _count_lines(path: Path) -> tuple[int, bool]:
    count = size = 0
    for piece in _pieces(path):
        count += 1
        size += len(piece)
        if count == RECORDS_MAX:
            break
    return count, size < path.stat().st_size


def _shown(text: bytes) -> str:
    return text.decode("utf-8", errors="backslashreplace")


def _timestamp(time_ns: int) -> str:
    """Return ISO time in UTC; times no calendar holds are shown as the beginning of Unix time."""
    try:
        return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "1970-01-01T00:00:00Z"


@lru_cache(maxsize=1024)
def _owner(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)
