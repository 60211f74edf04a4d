"""The files of one node of `penstock up`: settings, process id, bounded log.

DIR/up.lock                 held while a launcher runs on DIR
DIR/node-<id>/node.toml     settings, written at every start
DIR/node-<id>/pid           process id, while the process exists; <id> is the broker id
DIR/node-<id>/data/         the data directory
DIR/node-<id>/log/node.log  what the node wrote to stderr; node.log.1 is the older half
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

LOG_BYTES_MAX = 16 << 20
"""At most two files of this size are kept for a node."""

SETTINGS_HEADER = "# Written by `penstock up` at every start; give changes with --set.\n"


def settings_toml(values: Mapping[str, Mapping[str, object]]) -> str:
    """Return a settings file with these values."""
    sections = (
        f"\n[{section}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())
        for section, keys in values.items()
    )
    return SETTINGS_HEADER + "".join(sections)


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return '"' + "".join(map(_toml_character, value)) + '"'
        case Iterable():
            return "[" + ", ".join(_toml(item) for item in value) + "]"
        case _:
            raise TypeError(f"no TOML form for {value!r}")


def _toml_character(character: str) -> str:
    plain = character.isprintable() and character not in '"\\'
    return character if plain else f"\\U{ord(character):08x}"


def write_whole(path: Path, text: str) -> None:
    """Replace a file atomically: a reader sees the old content or the new, never a part."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically with one that its owner alone can read, durable at the return."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(path)


class BoundedLog:
    """Appends lines to a file; a full one is renamed to `<name>.1` and a new one begun."""

    def __init__(self, path: Path, *, bytes_max: int = LOG_BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self._size = os.fstat(self._file).st_size

    def write(self, line: bytes) -> None:
        """Append one line, with its line end."""
        if self._size and self._size + len(line) > self._bytes_max:
            self.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
            self._size = 0
        self._size += os.write(self._file, line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
