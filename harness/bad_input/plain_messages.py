"""Valid messages between peers with random plain values, made from their classes' fields."""

import dataclasses
import json
import random
import struct
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Union

import msgspec

from penstock.base.ids import LeaderEpoch, Position
from penstock.controller.commands.codec import COMMANDS as _COMMAND_TYPES
from penstock.controller.metadata.record_codec import SHAPES as _RECORD_SHAPES
from penstock.raft.messages import Message
from penstock.replication.alignment import LogShape
from penstock.replication.epochs import EpochStart
from penstock.replication.messages import HaMessage, Reason
from penstock.replication.wire import encode
from penstock.runtime.calls.messages import KINDS
from penstock.runtime.session.messages import SessionMessage

_NUMBERS = (-1, 900, 901, 1 << 33)
"""Not the ids of anything that a cluster in a test has: a message that is good by chance is an
order of somebody who may give it."""
_TEXTS = ("", "a", "topic-1", "master", "žluťoučký kůň")


def _members(union: Any) -> list[type[Any]]:
    return sorted(typing.get_args(union), key=lambda cls: cls.__name__)


RAFT_MESSAGES = _members(Message)
SESSION_MESSAGES = _members(SessionMessage)
CALL_MESSAGES = sorted(KINDS.values(), key=lambda cls: cls.__name__)
HA_MESSAGES = _members(HaMessage)
_FOR_THE_CLUSTER = {
    "CreateCluster",
    "SetDefaultPolicy",
    "SetFailover",
    "DeleteTopics",
    "RegisterBroker",
}
"""Commands that do something whatever ids they name; a broker that registers gets replica sets."""
COMMANDS = sorted(
    (cls for cls in _COMMAND_TYPES if cls.__name__ not in _FOR_THE_CLUSTER),
    key=lambda cls: cls.__name__,
)


def plain_message(cls: type[Any], rng: random.Random) -> dict[str, Any]:
    """Return random values for all fields of a dataclass, as a map of plain values."""
    hints = typing.get_type_hints(cls)
    return {name: _plain(hints[name], rng) for name in _names(cls)}


def _names(cls: type[Any]) -> tuple[str, ...]:
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls) if field.init)
    return typing.cast("tuple[str, ...]", cls._fields)


def _plain(kind: Any, rng: random.Random) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _plain(arguments[0], rng)
    if origin in {Union, types.UnionType}:
        return _plain(rng.choice(arguments), rng)
    if origin is not None:
        return _container(origin, arguments, rng)
    if isinstance(kind, typing.NewType):
        return _plain(kind.__supertype__, rng)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return plain_message(kind, rng)
    return _leaf(kind, rng)


def _container(origin: Any, arguments: tuple[Any, ...], rng: random.Random) -> Any:
    count = rng.choice((0, 1, 1, 3))
    if origin is tuple and (len(arguments) != 2 or arguments[1] is not ...):
        return [_plain(argument, rng) for argument in arguments]
    if len(arguments) == 2 and arguments[1] is not ...:
        return {_plain(arguments[0], rng): _plain(arguments[1], rng) for _ in range(count)}
    return [_plain(arguments[0], rng) for _ in range(count)]


def _leaf(kind: Any, rng: random.Random) -> Any:
    if kind in _LEAVES:
        return _LEAVES[kind](rng)
    if hasattr(kind, "__members__"):
        return rng.choice(list(kind.__members__.values())).value
    if hasattr(kind, "_fields"):  # a NamedTuple is an array
        return list(plain_message(kind, rng).values())
    raise TypeError(f"no value for {kind}")


def _bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((0, 5, 60)))


_LEAVES: dict[Any, Callable[[random.Random], Any]] = {
    int: lambda rng: rng.choice(_NUMBERS),
    bool: lambda rng: rng.random() < 0.5,
    float: lambda rng: float(rng.choice(_NUMBERS)),
    str: lambda rng: rng.choice(_TEXTS),
    bytes: _bytes,
    type(None): lambda _: None,
}


def encoded_command(cls: type[Any], rng: random.Random) -> bytes:
    """Return a command as it travels, with random values."""
    return msgspec.msgpack.encode([cls.__name__, plain_message(cls, rng)])


def encoded_ha(cls: type[Any], rng: random.Random) -> bytes:
    """Return a replication message as it travels, with random values."""
    values: list[Any] = [_ha_value(name, rng) for name in cls._fields]
    return b"".join(map(bytes, encode(cls(*values))))


def _shape(rng: random.Random) -> LogShape:
    epochs = [EpochStart(LeaderEpoch(at), Position(9 * at)) for at in range(rng.randrange(4))]
    return LogShape(epochs, Position(0), Position(rng.choice((27, 100))), Position(0))


def _position(rng: random.Random) -> int:
    return rng.choice((0, 1, 100, 1 << 20))


_HA_VALUES: dict[str, Callable[[random.Random], Any]] = {
    "shape": _shape,
    "reason": lambda rng: rng.choice(list(Reason)),
    "data": _bytes,
    "encoded": _bytes,
    "incarnation": lambda rng: rng.choice(_TEXTS),
    "text": lambda rng: rng.choice(_TEXTS),
    "newest_only": lambda rng: rng.random() < 0.5,
    "file_base": lambda _: 0,
    "file_end": lambda _: 1 << 25,
    "bytes_max": lambda rng: rng.choice((0, 1, 1 << 20, 2**32 - 1)),
    "position": _position,
    "confirm_position": _position,
    "whole_from": _position,
}


def _ha_value(name: str, rng: random.Random) -> Any:
    make = _HA_VALUES.get(name)
    return rng.choice((-1, 0, 1, 2, 5, 2**31 - 1)) if make is None else make(rng)


def plain_metadata(rng: random.Random) -> Iterator[bytes]:
    """Yield log entries with one record of each kind."""
    for cls, shape in sorted(_RECORD_SHAPES.items(), key=lambda item: item[0].__name__):
        fields = plain_message(cls, rng)
        values = {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in fields.items()
            if name in shape.versions[-1]
        }
        body = json.dumps(values, separators=(",", ":"), sort_keys=True).encode()
        yield struct.pack(">HHI", cls.KIND, len(shape.versions), len(body)) + body
