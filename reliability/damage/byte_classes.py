"""Which bytes of a replica set's directory are what: the classes that damage is drawn from.

A class is a name and its places (file, first byte, length). Files are read as they lie there, with
the layouts of docs/formats/commit-log.md written down a second time, so that a class is not what
the code under test takes it for.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import unpack_from
from typing import NamedTuple

FRAME_FIELDS = (
    ("checksum", 0, 4), ("magic", 4, 2), ("version", 6, 1), ("kind", 7, 1), ("length", 8, 4),
    ("leader epoch", 12, 4), ("position", 16, 8), ("claim", 24, 4), ("partition", 28, 4),
    ("topic id", 32, 16),
)  # fmt: skip
BATCH_FIELDS = (
    ("base offset", 0, 8), ("length", 8, 4), ("leader epoch", 12, 4), ("magic", 16, 1),
    ("checksum", 17, 4), ("counts and times", 21, 40),
)  # fmt: skip
KINDS = {1: "batch", 2: "log start", 3: "epoch", 4: "end marker"}

UNUSED = frozenset(
    {
        "segment: behind the end marker",
        "segment: allocated ahead",
        "segment: next file",
        "segment: spare",
        "side file: not in use",
        "cut: segment, behind its frames",
        "cut: side file, not in use",
    }
)
"""Bytes that no start, read or copy ever looks at, or that are written over before they count."""


class Place(NamedTuple):
    """A run of bytes of one class."""

    path: Path
    at: int
    length: int


Classes = dict[str, list[Place]]


def classes_of(directory: Path) -> Classes:
    """Return the classes of one set's directory, `set-<id>`."""
    found: Classes = {}
    in_use = _newest_snapshot(directory)
    for path in sorted(one for one in directory.rglob("*") if one.is_file()):
        if path.suffix in {".tmp", ".new"}:
            continue
        with suppress(FileNotFoundError):  # a running process removes files
            for name, at, length in _of_file(path, in_use):
                if length > 0:
                    found.setdefault(name, []).append(Place(path, at, length))
    return found


def _of_file(path: Path, in_use: tuple[int, int, int]) -> Iterator[tuple[str, int, int]]:
    data = path.read_bytes()
    match path.suffix:
        case ".log":
            yield from _segment(data, int(path.stem))
        case ".idx":
            yield from _index(data)
        case ".side":
            yield from _side(path, data, in_use)
        case ".snap":
            yield from _snapshot(data)
        case ".spare":
            yield "segment: spare", 0, len(data)
        case _:
            yield f"{path.name}", 0, len(data)


def _segment(data: bytes, base: int) -> Iterator[tuple[str, int, int]]:
    at, is_ended = 0, False
    while len(data) - at >= 48 and not is_ended:
        magic, kind = data[at + 4 : at + 6], data[at + 7]
        length, position = unpack_from(">I4xQ", data, at + 8)
        if magic != b"PS" or position != base + at:
            break
        what = KINDS[kind]
        for name, start, size in FRAME_FIELDS:
            yield f"{what} frame: {name}", at + start, size
        if kind == 1:
            for name, start, size in BATCH_FIELDS:
                yield f"batch: {name}", at + 48 + start, size
            yield "batch: records", at + 48 + 61, length - 48 - 61
        else:
            yield f"{what} frame: payload", at + 48, length - 48
        at += length
        is_ended = kind == 4
    if not at:
        yield "segment: next file", 0, len(data)
    elif is_ended or len(data) - at < 48:
        yield "segment: behind the end marker", at, len(data) - at
    else:
        yield "segment: allocated ahead", at, len(data) - at
    if at:
        yield "cut: segment, in its frames", 0, at
        yield "cut: segment, behind its frames", at, len(data) - at


def _index(data: bytes) -> Iterator[tuple[str, int, int]]:
    (count,) = unpack_from(">I", data, 24)
    yield "index: header", 0, 64
    yield "index: directory", 64, 72 * count
    yield "index: blocks", 64 + 72 * count, len(data) - 64 - 72 * count
    yield "cut: index", 0, len(data)


def _side(path: Path, data: bytes, in_use: tuple[int, int, int]) -> Iterator[tuple[str, int, int]]:
    base, side_number, size = in_use
    named = tuple(int(part) for part in path.stem.split("-"))
    used = size if named == (base, side_number) else 0
    yield "side file: pieces", 0, used
    yield "side file: not in use", used, len(data) - used
    yield "cut: side file" if used else "cut: side file, not in use", 0, used or len(data)


def _snapshot(data: bytes) -> Iterator[tuple[str, int, int]]:
    segments, epochs, partitions = unpack_from(">III", data, 40)
    at = 64
    yield "snapshot: header", 0, 64
    for name, size in (
        ("segments", 8 * segments),
        ("epochs", 12 * epochs),
        ("partitions", 72 * partitions),
    ):
        yield f"snapshot: {name}", at, size
        at += size
    yield "snapshot: producers", at, len(data) - 4 - at
    yield "snapshot: trailer", len(data) - 4, 4
    yield "cut: snapshot", 0, len(data)


def _newest_snapshot(directory: Path) -> tuple[int, int, int]:
    """Return (active base, side file number, side bytes) of the newest snapshot."""
    snapshots = sorted((directory / "snapshot").glob("*.snap"))
    if not snapshots:
        return 0, 0, 0
    base, side_number, size = unpack_from(">qIQ", snapshots[-1].read_bytes(), 16)
    return int(base), int(side_number), int(size)
