"""Turns the input of `penstock produce` into keys and values.

    lines   one record per line, without its line end; `--key-separator` splits a key off
    json    one JSON document per line, sent unchanged; `--key-field` names the key's field
    csv     a header line, then one record per row, sent as a JSON object of strings
    file    every file is one record; its key is the path
    record  one JSON document per line as `penstock consume --format json` prints it: key, value and
            headers of the record; key_base64 and value_base64 for bytes that are not text

Files are read in pieces, and lines have a maximum length, so that a file without line ends can not
fill the memory.
"""

import base64
import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from penstock.base.errors import ConfigError

Header = tuple[str, bytes | None]

LINE_BYTES_MAX = 64 << 20
FILE_BYTES_MAX = 64 << 20
STDIN = "-"
NOT_TEXT = "half of a surrogate pair can not be stored as UTF-8"
"""Of JSON such as "\\ud800"."""


class Format(StrEnum):
    """The formats of the input."""

    LINES = "lines"
    JSON = "json"
    CSV = "csv"
    FILE = "file"
    RECORD = "record"


class InputRecord(NamedTuple):
    """One record to send; `place` names its input and line."""

    key: bytes | None
    value: bytes | None
    place: str = ""
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChoice:
    """The source of keys; at most one field is set. `none`: no keys, not even a file's path."""

    field: str | None = None
    separator: str | None = None
    none: bool = False

    def check(self, form: Format) -> None:
        """Raise ConfigError for invalid combinations."""
        if (self.field is not None) + (self.separator is not None) + self.none > 1:
            raise ConfigError("choose one of --key-field, --key-separator and --key-none")
        if self.field is not None and form not in {Format.JSON, Format.CSV}:
            raise ConfigError("--key-field needs --format json or csv")
        if self.separator is not None and form is not Format.LINES:
            raise ConfigError("--key-separator needs --format lines")
        if self.separator == "":
            raise ConfigError("--key-separator is empty: give the text between key and value")


def read_records(
    names: Sequence[str],
    form: Format,
    key: KeyChoice,
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[InputRecord]:
    """Yield the records of all inputs in order; `advance` is called with the bytes read.

    No names, or `-`, mean stdin. Raises ConfigError, naming input and line, if it can not be read.
    """
    key.check(form)
    readers = {
        Format.LINES: _lines,
        Format.JSON: _json,
        Format.CSV: _csv,
        Format.FILE: _file,
        Format.RECORD: _record,
    }
    for name in names or [STDIN]:
        with ExitStack() as stack:
            try:
                shown = "stdin" if name == STDIN else name
                file = _open(name, stack)
                yield from readers[form](_Input(shown, file, advance), key)
            except OSError as error:
                if isinstance(error, BrokenPipeError):
                    raise
                raise ConfigError(f"{name} can not be read: {error.strerror}") from error


def _open(name: str, stack: ExitStack) -> BinaryIO:
    if name != STDIN:
        return stack.enter_context(Path(name).open("rb"))
    try:
        # A separate reader: at exit Python locks sys.stdin's, which the reading thread may hold.
        return stack.enter_context(os.fdopen(os.dup(sys.stdin.fileno()), "rb"))
    except io.UnsupportedOperation:
        return sys.stdin.buffer


class _Input(NamedTuple):
    name: str
    file: BinaryIO
    advance: Callable[[int], None]

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (number, line without its end)."""
        number = 0
        while line := self.file.readline(LINE_BYTES_MAX + 1):
            number += 1
            if len(line) > LINE_BYTES_MAX:
                raise self.wrong(number, f"longer than {LINE_BYTES_MAX} bytes")
            self.advance(len(line))
            yield number, line.rstrip(b"\r\n")
            if not line.endswith(b"\n"):
                return  # the last line: reading a terminal again would wait for another Ctrl-D

    def place(self, number: int) -> str:
        return f"{self.name}, line {number}"

    def wrong(self, number: int, why: str) -> ConfigError:
        return ConfigError(f"{self.place(number)}: {why}")


def _lines(source: _Input, key: KeyChoice) -> Iterator[InputRecord]:
    separator = None
    if key.separator is not None:
        separator = key.separator.replace(r"\t", "\t").encode()
    for number, line in source.lines():
        if separator is None:
            yield InputRecord(None, line, source.place(number))
            continue
        before, found, after = line.partition(separator)
        if not found:
            shown = separator.decode().replace("\t", r"\t")
            raise source.wrong(number, f"no '{shown}' between key and value")
        yield InputRecord(before, after, source.place(number))


def _json(source: _Input, key: KeyChoice) -> Iterator[InputRecord]:
    for number, line in source.lines():
        if not line.strip():
            continue
        document = _parsed(source, number, line)
        found = _field_key(source, number, document, key.field)
        yield InputRecord(found, line, source.place(number))


def _csv(source: _Input, key: KeyChoice) -> Iterator[InputRecord]:
    text = io.TextIOWrapper(source.file, encoding="utf-8", newline="")
    csv.field_size_limit(LINE_BYTES_MAX)
    rows = csv.DictReader(_counted(text, source), restkey="")
    try:
        if key.field is not None and key.field not in (rows.fieldnames or ()):
            columns = ", ".join(rows.fieldnames or ())
            raise source.wrong(1, f"no column {key.field}; there are: {columns}")
        for row in rows:
            if "" in row or None in row.values():
                raise source.wrong(rows.line_num, "more or fewer cells than the header line")
            value = json.dumps(row, ensure_ascii=False).encode()
            found = _field_key(source, rows.line_num, row, key.field)
            yield InputRecord(found, value, source.place(rows.line_num))
    except (csv.Error, UnicodeDecodeError) as error:
        raise source.wrong(rows.line_num + 1, f"not CSV in UTF-8: {error}") from error
    finally:
        text.detach()


def _counted(text: io.TextIOWrapper, source: _Input) -> Iterator[str]:
    number = 0
    while line := text.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise source.wrong(number, f"longer than {LINE_BYTES_MAX} characters")
        source.advance(len(line))
        yield line
        if not line.endswith(("\n", "\r")):
            return


def _file(source: _Input, key: KeyChoice) -> Iterator[InputRecord]:
    content = source.file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(f"{source.name} is longer than {FILE_BYTES_MAX} bytes")
    source.advance(len(content))
    yield InputRecord(None if key.none else source.name.encode(), content, source.name)


def _record(source: _Input, key: KeyChoice) -> Iterator[InputRecord]:
    for number, line in source.lines():
        if not line.strip():
            continue
        document = _parsed(source, number, line)
        try:
            headers = _headers(document)
            found = None if key.none else _bytes_of(document, "key")
            value = _bytes_of(document, "value")
        except (ValueError, TypeError) as error:
            why = NOT_TEXT if isinstance(error, UnicodeEncodeError) else error
            raise source.wrong(number, f"not a record as consume prints it: {why}") from error
        yield InputRecord(found, value, source.place(number), headers)


def _parsed(source: _Input, number: int, line: bytes) -> Any:
    """Return the document of a line; an error names the column only, since the place has the line.

    What it is nested in and its numbers have bounds: those of Python's parser.
    """
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise source.wrong(number, f"not JSON: {error.msg}, column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise source.wrong(number, f"not JSON: {error}") from error
    except RecursionError as error:
        raise source.wrong(number, "the JSON is nested too deeply") from error
    except ValueError as error:  # of a number: Python's text says how to change its settings
        digits = sys.get_int_max_str_digits()
        raise source.wrong(number, f"a number in the JSON has above {digits} digits") from error


def _headers(document: object) -> tuple[Header, ...]:
    """Return the headers of a record. Raises ValueError, TypeError."""
    if not isinstance(document, dict):
        raise TypeError("it is no object with key and value")
    given = document.get("headers", [])
    is_right = isinstance(given, list) and all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in given
    )
    if not is_right:
        raise TypeError("headers is no list of objects with a name and a value")
    for one in given:
        one["name"].encode()
    return tuple((one["name"], _bytes_of(one, "value")) for one in given)


def _bytes_of(document: dict[str, Any], name: str) -> bytes | None:
    """Return the bytes under `name` or `name`_base64; a value other than a string as JSON text."""
    encoded = document.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    value = document.get(name)
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()


def _field_key(source: _Input, number: int, document: object, field: str | None) -> bytes | None:
    if field is None:
        return None
    if not isinstance(document, dict) or field not in document:
        raise source.wrong(number, f"no field {field} for the key")
    value = document[field]
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise source.wrong(number, f"field {field}: {NOT_TEXT}") from error
