"""How a record is declared: its fields, which version has added each, and what reads them.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class BrokerDrained:
        KIND: ClassVar = RecordKind.BROKER_DRAINED     number in the envelope
        broker_id: BrokerId                                 of version 1
        reason: str = since(2, "")                     added in version 2, "" in older records

`Shape` derives from this what a codec needs: a reader of each field from its annotation, the fields
of each version, and the level at which a version may be written. A record class may also have

    LEVEL      the metadata level that its kind needs (FIRST_LEVEL where it says none)
    OLDER      {version: OlderForm} where a field of that version held something else
    needs      a property: the level that this one record needs, where its values decide

Source: Kafka's message definitions (`versions`, `taggedVersions`), as Python annotations; the
formats are docs/formats/metadata-log.md's. It reads and writes no bytes: that is record_codec.
"""

import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from penstock.base.ids import TopicId
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.controller.metadata.levels import FIRST_LEVEL

T = TypeVar("T")

_WHOLE_FLOAT_MAX = 1 << 53
"""Whole numbers up to here are all decimal numbers too."""

Reader = Callable[[object], object]
"""Makes a field's value of what stood in JSON. Raises CorruptMetadata, UnsupportedMetadata."""


class Since(NamedTuple):
    """Which version has added a field, and the level that this version needs."""

    version: int
    level: int = FIRST_LEVEL
    is_sparse: bool = False


class OlderForm(NamedTuple):
    """How a version is read whose fields held something else: other readers, then a conversion."""

    readers: Mapping[str, Reader]
    convert: Callable[[dict[str, Any]], dict[str, Any]]
    """Returns the fields that differ from what was read."""


def since(version: int, default: T, *, level: int = FIRST_LEVEL, is_sparse: bool = False) -> T:
    """Declare a field that `version` has added; in older records it has its default.

    `is_sparse`: while all that the version has added is at its default, the version before is
    written, which earlier releases read. `level`: the metadata level that the version needs.
    """
    assert version > 1, "what has no default is of version 1"
    return field(default=default, metadata={"since": Since(version, level, is_sparse)})


def _since(one: "Field[Any]") -> Since:
    found = one.metadata.get("since")
    assert (found is None) == (one.default is MISSING), f"{one.name}: since() or no default"
    return Since(1) if found is None else found


class Shape:
    """What a codec knows of one record class."""

    __slots__ = ("added", "has_one_form", "kind", "level", "record_class", "versions")

    def __init__(self, record_class: type[Any]) -> None:
        self.record_class = record_class
        self.kind: int = record_class.KIND
        self.level: int = getattr(record_class, "LEVEL", FIRST_LEVEL)
        hints = typing.get_type_hints(record_class)
        declared = {one.name: _since(one) for one in fields(record_class)}
        newest = max(one.version for one in declared.values())
        self.versions = [
            {name: reader_of(hints[name]) for name, one in declared.items() if one.version <= at}
            for at in range(1, newest + 1)
        ]
        """Readers by field for each version; version 1 comes first."""
        self.added = [
            [(one.name, one.default, declared[one.name]) for one in fields(record_class)
             if declared[one.name].version == at]
            for at in range(1, newest + 1)
        ]  # fmt: skip
        assert all(self.added), f"{record_class.__name__}: every version has added a field"
        self.has_one_form = (
            self.level == FIRST_LEVEL
            and not hasattr(record_class, "needs")
            and all(one == Since(one.version) for one in declared.values())
        )
        """Whether every record may be written at any level, and in the newest version."""
        for version, form in getattr(record_class, "OLDER", {}).items():
            self.versions[version - 1] |= form.readers

    def level_of(self, record: object) -> int:
        """Return the lowest metadata level at which this record may be written as it is."""
        if self.has_one_form:
            return FIRST_LEVEL
        needed = max(self.level, getattr(record, "needs", FIRST_LEVEL))
        for added in self.added[1:]:
            for name, default, declared in added:
                if declared.level > needed and getattr(record, name) != default:
                    needed = declared.level
        return needed

    def version_of(self, record: object, level: int) -> int:
        """Return the newest version that `level` allows and that is worth writing."""
        version = len(self.versions)
        if self.has_one_form:
            return version
        while version > 1 and self._is_left_out(record, version, level):
            version -= 1
        return version

    def _is_left_out(self, record: object, version: int, level: int) -> bool:
        added = self.added[version - 1]
        return any(one.level > level for _, _, one in added) or all(
            one.is_sparse and getattr(record, name) == default for name, default, one in added
        )

    def make(self, version: int, found: Mapping[str, object]) -> Any:
        """Return the record whose fields of that version are `found`, as JSON has them.

        Raises:
            CorruptMetadata: other fields, or values that can not be.
            UnsupportedMetadata: a value of a newer release.
        """
        readers = self.versions[version - 1]
        if found.keys() != readers.keys():
            raise CorruptMetadata(f"record of kind {self.kind} has the wrong fields")
        values = {name: read(found[name]) for name, read in readers.items()}
        form = getattr(self.record_class, "OLDER", {}).get(version)
        if form is not None:
            values |= form.convert(values)
        return self.record_class(**values)


def read_int(value: object) -> int:
    """Read a whole number."""
    if type(value) is not int:
        raise CorruptMetadata(f"expected a number, found {value!r}")
    return value


def read_float(value: object) -> float:
    """Read a number that may have decimals."""
    if type(value) is int and abs(value) <= _WHOLE_FLOAT_MAX:
        return float(value)
    if type(value) is not float or not math.isfinite(value):
        raise CorruptMetadata(f"expected a decimal number, found {value!r}")
    return value


def read_str(value: object) -> str:
    """Read a text; JSON may name half a character, which no text can hold."""
    if type(value) is not str:
        raise CorruptMetadata(f"expected a text, found {value!r}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise CorruptMetadata(f"expected a text, found {value!r}") from error
    return value


def read_bool(value: object) -> bool:
    """Read true or false."""
    if type(value) is not bool:
        raise CorruptMetadata(f"expected true or false, found {value!r}")
    return value


def read_bytes(value: object) -> bytes:
    """Read bytes from their lower-case hex digits."""
    text = read_str(value)
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = None
    if found is None or found.hex() != text:
        raise CorruptMetadata(f"expected hex digits, found {value!r}")
    return found


def _read_topic_id(value: object) -> TopicId:
    try:
        raw = bytes.fromhex(read_str(value))
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise CorruptMetadata(f"expected a topic id of 32 hex digits, found {value!r}")
    return TopicId(raw)


_READERS: dict[Any, Reader] = {
    int: read_int,
    float: read_float,
    str: read_str,
    bool: read_bool,
    bytes: read_bytes,
    TopicId: _read_topic_id,
}


def reader_of(annotation: Any) -> Reader:
    """Return the reader of a field with this annotation. Raises TypeError where there is none."""
    if annotation in _READERS:
        return _READERS[annotation]
    if isinstance(annotation, typing.NewType):
        return reader_of(annotation.__supertype__)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is types.UnionType and len(arguments) == 2 and arguments[1] is type(None):
        return _optional(reader_of(arguments[0]))
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return _list(reader_of(arguments[0]))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _enum(annotation)
    if isinstance(annotation, type) and hasattr(annotation, "_fields"):
        hints = typing.get_type_hints(annotation)
        return _row(annotation, [reader_of(hints[name]) for name in annotation._fields])
    raise TypeError(f"no reader for a field of {annotation}")


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _list(read: Reader) -> Reader:
    def read_list(value: object) -> object:
        if type(value) is not list:
            raise CorruptMetadata(f"expected a list, found {value!r}")
        return tuple([read(item) for item in value])

    return read_list


def _row(made: type[Any], readers: list[Reader]) -> Reader:
    def read_row(value: object) -> object:
        if type(value) is not list or len(value) != len(readers):
            raise CorruptMetadata(f"expected a list of {len(readers)}, found {value!r}")
        return made(*[read(item) for read, item in zip(readers, value, strict=True)])

    return read_row


def _enum(made: type[Enum]) -> Reader:
    read = read_int if issubclass(made, int) else read_str

    def read_enum(value: object) -> object:
        plain = read(value)
        try:
            return made(plain)
        except ValueError as error:
            raise UnsupportedMetadata(
                f"a {made.__name__} {plain!r} of a newer release; start that release again"
            ) from error

    return read_enum
