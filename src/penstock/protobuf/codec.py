"""Reads and writes messages of protobuf whose fields are declared on frozen dataclasses.

    @message
    class Resource:
        name: str = field(2, Kind.TEXT, default="")

A field that is missing has its default, as proto3 has it: 0, "", an empty message's None, (). What
is not declared is skipped. Reading is bounded: a message has so many fields, so many with those of
messages within it, and so many values of one field, whatever its length permits.

Source: ours; the encoding page of Protocol Buffers. A message without its unknown fields is what
its users need: they pass nothing on.
"""

import dataclasses
from enum import Enum, auto
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar, cast, dataclass_transform

from penstock.protobuf.errors import MalformedMessage, TooManyFields
from penstock.protobuf.wire import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    add_field,
    add_varint,
    read_length,
    read_varint,
    signed,
    skip,
)

T = TypeVar("T")
FIELDS_MAX: Final = 4_096
"""Of one message, those that are skipped among them; messages within it count by themselves."""
ALL_FIELDS_MAX: Final = 8_192
"""Of a message and of all within it, with the numbers of packed fields: each takes a microsecond of
the turn in which it is read. 128 messages may have 60 each, 18 properties among them."""
NUMBER_MAX: Final = (1 << 29) - 1
VALUES_MAX: Final = 1_024
"""Of one repeated field."""


class Kind(Enum):
    """What a field holds."""

    INT = auto()
    """int32, int64, bool and enumerations."""
    FLOAT = auto()
    DOUBLE = auto()
    FIXED = auto()
    """fixed64."""
    SIGNED_FIXED = auto()
    """sfixed64."""
    TEXT = auto()
    BYTES = auto()
    MESSAGE = auto()
    """A map is a repeated message, too: its entries."""


_FIXED: Final = {
    Kind.FLOAT: Struct("<f"),
    Kind.DOUBLE: Struct("<d"),
    Kind.FIXED: Struct("<Q"),
    Kind.SIGNED_FIXED: Struct("<q"),
}
_WIRE: Final = {Kind.INT: VARINT, Kind.FLOAT: FIXED32} | dict.fromkeys(
    (Kind.DOUBLE, Kind.FIXED, Kind.SIGNED_FIXED), FIXED64
)


class Declared(NamedTuple):
    """One field."""

    number: int
    name: str
    kind: Kind
    of: type[Any] | None
    is_repeated: bool
    is_optional: bool
    """Whether what protobuf has for missing is written, too: here None says that it is."""


_FIELDS: Final[dict[type[Any], dict[int, Declared]]] = {}


def field(number: int, kind: Kind, of: type[Any] | None = None, *, default: Any) -> Any:
    """Declare a field; `of` is the message that it holds.

    `default` says what it is where it is missing, and so whether it is repeated: () is.
    """
    told = {"number": number, "kind": kind, "of": of}
    return dataclasses.field(default=default, metadata=told)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def message(declared: type[T]) -> type[T]:
    """Make a message of a class with declared fields."""
    made: Any = dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(declared)
    fields = {}
    for one in dataclasses.fields(made):
        number, kind, of = (one.metadata[name] for name in ("number", "kind", "of"))
        assert number not in fields, one.name
        assert (kind is Kind.MESSAGE) is (of is not None), one.name
        many, optional = one.default == (), one.default is None
        fields[number] = Declared(number, one.name, kind, of, many, optional)
    _FIELDS[made] = fields
    return cast("type[T]", made)


def decode(kind: type[T], data: bytes, fields_max: int = ALL_FIELDS_MAX) -> T:
    """Return the message that bytes are; `fields_max` with those within it.

    Raises MalformedMessage.
    """
    try:
        return _Reading(data, fields_max).message(kind, 0, len(data))
    except UnicodeDecodeError as error:
        raise MalformedMessage("a text that is not UTF-8") from error


class _Reading:
    """The bytes of one message, and how many fields it may have yet."""

    __slots__ = ("_data", "_left", "_most")

    def __init__(self, data: bytes, fields_max: int) -> None:
        self._data = data
        self._most = self._left = fields_max

    def message(self, kind: type[T], at: int, end: int) -> T:
        """Read a message, or one within it."""
        known, data = _FIELDS[kind], self._data
        values: dict[str, Any] = {}
        count = 0
        while at < end:
            count += 1
            if count > FIELDS_MAX:
                raise TooManyFields(f"a message of more than {FIELDS_MAX} fields")
            self._count()
            tag, at = read_varint(data, at, end)
            wire = tag & 7
            declared = known.get(tag >> 3)
            if not 0 < tag >> 3 <= NUMBER_MAX:
                raise MalformedMessage("a field with a number that there is not")
            if declared is None:
                at = skip(data, wire, at, end)
            elif wire == LENGTH:
                start, at = read_length(data, at, end)
                _take(values, declared, self._value(declared, start, at))
            elif wire == _WIRE.get(declared.kind):
                value, at = _number(declared.kind, data, at, end)
                _take(values, declared, [value] if declared.is_repeated else value)
            else:
                raise MalformedMessage(f"the field {declared.name} is of another type")
        return kind(**values)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooManyFields(f"more than {self._most} fields, with those within others")

    def _value(self, declared: Declared, start: int, end: int) -> Any:
        """Return what a field of the type LENGTH holds; a list of it where it is repeated."""
        kind = declared.kind
        if kind in _WIRE:
            if not declared.is_repeated:
                raise MalformedMessage(f"the field {declared.name} is of another type")
            return self._packed(kind, start, end)
        value: Any
        if kind is Kind.TEXT:
            value = self._data[start:end].decode()
        elif kind is Kind.BYTES:
            value = self._data[start:end]
        else:
            assert declared.of is not None
            value = self.message(declared.of, start, end)
        return [value] if declared.is_repeated else value

    def _packed(self, kind: Kind, at: int, end: int) -> list[int | float]:
        values: list[int | float] = []
        while at < end:
            self._count()
            value, at = _number(kind, self._data, at, end)
            values.append(value)
            if len(values) > VALUES_MAX:
                raise TooManyFields(f"a field of more than {VALUES_MAX} values")
        return values


def _number(kind: Kind, data: bytes, at: int, end: int) -> tuple[int | float, int]:
    if kind is Kind.INT:
        value, at = read_varint(data, at, end)
        return signed(value), at
    after = skip(data, _WIRE[kind], at, end)
    (number,) = _FIXED[kind].unpack_from(data, at)
    return cast("int | float", number), after


def _take(values: dict[str, Any], declared: Declared, value: Any) -> None:
    """Take a value: the last one counts, those of repeated fields all do."""
    if declared.is_repeated:
        taken = values.setdefault(declared.name, [])
        taken += value
    else:
        values[declared.name] = value
        return
    if len(taken) > VALUES_MAX:
        raise TooManyFields(f"the field {declared.name} has more than {VALUES_MAX} values")


def encode(made: Any) -> bytes:
    """Return the bytes of a message."""
    out = bytearray()
    for declared in _FIELDS[type(made)].values():
        value = getattr(made, declared.name)
        if value is None or (not value and not declared.is_optional):
            continue
        if not declared.is_repeated:
            _add(out, declared, value)
        elif declared.kind in _WIRE:
            packed = bytearray()
            for one in value:
                _add_number(packed, declared.kind, one)
            add_field(out, declared.number, packed)
        else:
            for one in value:
                _add(out, declared, one)
    return bytes(out)


def _add(out: bytearray, declared: Declared, value: Any) -> None:
    kind, number = declared.kind, declared.number
    wire = _WIRE.get(kind)
    if wire is not None:
        add_varint(out, number << 3 | wire)
        _add_number(out, kind, value)
    elif kind is Kind.TEXT:
        add_field(out, number, value.encode())
    elif kind is Kind.BYTES:
        add_field(out, number, value)
    else:
        add_field(out, number, encode(value))


def _add_number(out: bytearray, kind: Kind, value: Any) -> None:
    if kind is Kind.INT:
        add_varint(out, int(value))
    else:
        out += _FIXED[kind].pack(value)
