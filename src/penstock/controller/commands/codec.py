"""Commands, their answers and metadata errors as bytes, to and from the active controller.

    command   MessagePack array [name, fields]
    answer    MessagePack, of the type that the command's class names
    error     MessagePack array [name, constructor's arguments]

`COMMANDS` lists the commands that can be sent, each with the type of its answer. An error is
identified by the name of its class and rebuilt from its constructor's arguments; an error class of
a newer release arrives as a plain RefusedCommand or MetadataUnavailable with its text.

Source: our own; MessagePack as msgspec reads and writes it. Nothing here is kept on disk: releases
that talk to each other must agree on field names, and a missing field takes its default.
"""

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar, cast, get_args

import msgspec

from penstock.base.errors import ConfigError
from penstock.base.ports import Buffer
from penstock.controller import errors as e
from penstock.controller.commands import command as c
from penstock.controller.commands.access import commands as a
from penstock.controller.commands.delegation import commands as t
from penstock.controller.commands.reassignment import commands as m

R = TypeVar("R")

ELEMENTS_MAX = 1_000
"""Elements of an array or map of a command that arrives, such as its topics. All are decoded in one
turn of the loop: 1,000 topics take 2 ms. Processes of this release send 100 at most; commands with
more, such as the masterships after a failure, are of the controller itself and are not sent."""
NESTED_MAX = 20_000
"""Elements of arrays and maps in those, all together, such as settings of topics: 5 ms. A broker
passes at most 10,000 assignments, or 1,000 settings, of a topic."""
ASSIGNMENT_BYTES_MAX = 64
"""Of a partition with its brokers, on an average: they are counted by their bytes."""
UNCOUNTED_BYTES = 256 << 10
"""A command of fewer bytes can not have so many that it matters, 5 ms; to count them takes as long.
A broker passes fewer, unless it is all settings of one topic."""
_SHORT_BYTES = 100
FIELDS_MAX = 64
"""Fields of a command that arrives, with those of another release."""


def _answer_type(command_class: type[c.Command[Any]]) -> Any:
    """Return R of the class's base Command[R]."""
    return get_args(command_class.__orig_bases__[0])[0]  # type: ignore[attr-defined]


COMMANDS: Mapping[type[c.Command[Any]], Any] = {
    cls: _answer_type(cls)
    for cls in (
        c.CreateTopics,
        c.DeleteTopics,
        c.CreatePartitions,
        c.PlaceInternal,
        c.AlterConfigs,
        a.AddAcls,
        a.RemoveAcls,
        a.AlterScram,
        a.AlterQuotas,
        t.CreateToken,
        t.RenewToken,
        t.ExpireToken,
        c.AllocateProducerIds,
        c.CreateCluster,
        c.RegisterBroker,
        c.RegisterReplica,
        c.ForgetIdentity,
        c.RemoveBroker,
        c.DrainBroker,
        c.LeaveSyncStateSets,
        c.BeginMasterships,
        c.FenceBrokers,
        c.CreateReplicaSet,
        c.CreateReplicaSets,
        c.AddReplica,
        c.RemoveReplica,
        m.Reassign,
        c.SetAckPolicy,
        c.SetDefaultPolicy,
        c.SetUncleanElection,
        c.SetFailover,
        c.ChangeFeatureLevel,
        c.BeginMastership,
        c.EndMastership,
        c.ChangeSyncStateSet,
    )
}
_COMMANDS_BY_NAME = {cls.__name__: cls for cls in COMMANDS}


def _subclasses(root: type[e.MetadataError]) -> list[type[e.MetadataError]]:
    found = [root]
    for cls in root.__subclasses__():
        found += _subclasses(cls)
    return found


ERRORS: Mapping[str, type[e.MetadataError]] = {
    cls.__name__: cls for cls in _subclasses(e.MetadataError) if cls.__module__ == e.__name__
}


def _argument_names(cls: type[e.MetadataError]) -> tuple[str, ...]:
    """Return the constructor's arguments, kept as attributes; () for a plain text."""
    if "__init__" not in cls.__dict__:
        return ()
    return tuple(inspect.signature(cls).parameters)


_ARGUMENTS = {cls: _argument_names(cls) for cls in ERRORS.values()}


def encode_command(command: c.Command[Any]) -> bytes:
    """Return the bytes of a command that is in COMMANDS."""
    assert type(command) in COMMANDS
    return _ENCODER.encode([type(command).__name__, command])


def decode_command(data: Buffer) -> c.Command[Any]:
    """Return the command. Raises MalformedCommand; only its form is checked.

    An array of more than ELEMENTS_MAX elements is refused before the first of them is built, as are
    elements that have more than NESTED_MAX of their own, all together, in a long command.
    """
    try:
        name, body = msgspec.msgpack.decode(data, type=tuple[str, msgspec.Raw])
        command_class = _COMMANDS_BY_NAME.get(name)
        if command_class is None:
            raise e.MalformedCommand(f"This release knows no command {name[:50]!r}.")
        _check_lengths(body)
        return cast("c.Command[Any]", _decode(body, command_class))
    except (*_UNREADABLE, ConfigError) as error:
        raise e.MalformedCommand(f"Not a command: {error}") from error


def _check_lengths(body: msgspec.Raw) -> None:
    is_counted = len(memoryview(body)) > UNCOUNTED_BYTES
    nested = 0
    for name, value in _fields(body).items():
        length = max(_length(value, _ARRAY), _length(value, _MAP))
        if length > ELEMENTS_MAX:
            raise e.MalformedCommand(
                f"A command has at most {ELEMENTS_MAX} {name[:50]!r}, not {length}."
            )
        if is_counted and _length(value, _ARRAY):
            nested += sum(map(_nested, msgspec.msgpack.decode(value, type=list[msgspec.Raw])))
    if nested > NESTED_MAX:
        raise e.MalformedCommand(
            f"What a command names has at most {NESTED_MAX} elements of its own, not {nested}."
        )


def _fields(body: msgspec.Raw) -> dict[str, msgspec.Raw]:
    count = _length(body, _MAP)
    if count > FIELDS_MAX:
        raise e.MalformedCommand(f"A command has at most {FIELDS_MAX} fields, not {count}.")
    fields = msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw])
    if len(fields) < count:  # one that is there a thousand times would be built as often
        raise e.MalformedCommand("A command has each field once.")
    return fields


def _nested(element: msgspec.Raw) -> int:
    """Return how many elements the arrays and maps in an element have; it may be one itself.

    Short ones are not counted: to look takes longer than to build them.
    """
    if len(memoryview(element)) <= _SHORT_BYTES:
        return 0
    if not _length(element, _MAP):
        return _length(element, _ARRAY)
    nested = 0
    for name, value in _fields(element).items():
        size = len(memoryview(value))
        if size <= _SHORT_BYTES:
            continue
        length = max(_length(value, _ARRAY), _length(value, _MAP))
        if name == "assignments" and size > ASSIGNMENT_BYTES_MAX * (length + 1):
            raise e.MalformedCommand(f"{length} assignments in {size} bytes name too many brokers.")
        nested += length
    return nested


def _length(value: msgspec.Raw, kind: tuple[int, int]) -> int:
    """Return the length of an array or a map from its header, 0 if it is of another kind."""
    short, long = kind
    head = bytes(memoryview(value)[:5])
    if head[0] & 0xF0 == short:
        return head[0] & 0x0F
    if head[0] == long:
        return int.from_bytes(head[1:3], "big")
    return int.from_bytes(head[1:5], "big") if head[0] == long + 1 else 0


def encode_answer(answer: object) -> bytes:
    """Return the bytes of a command's answer."""
    return _ENCODER.encode(answer)


def decode_answer(command: c.Command[R], data: Buffer) -> R:
    """Return the answer to `command`. Raises MalformedCommand."""
    try:
        return cast("R", _decode(data, COMMANDS[type(command)]))
    except _UNREADABLE as error:
        raise e.MalformedCommand(f"Not an answer: {error}") from error


def encode_error(error: e.MetadataError) -> bytes:
    """Return the bytes of an error."""
    return _ENCODER.encode(_error_fields(error))


def decode_error(data: Buffer) -> e.MetadataError:
    """Return the error. Raises MalformedCommand."""
    try:
        return _error(msgspec.msgpack.decode(data))
    except _UNREADABLE as error:
        raise e.MalformedCommand(f"Not an error: {error}") from error


def _error_fields(error: object) -> list[object]:
    """Return [class name, text, whether asking again may help, arguments].

    For other types msgspec expects NotImplementedError of its hooks.
    """
    if not isinstance(error, e.MetadataError):
        raise NotImplementedError(f"{type(error).__name__} can not be sent")
    names = _ARGUMENTS.get(type(error), ())
    arguments = [getattr(error, name) for name in names]
    is_transient = isinstance(error, e.MetadataUnavailable)
    return [type(error).__name__, str(error), is_transient, arguments]


def _error(fields: object) -> e.MetadataError:
    match fields:
        case [str(name), str(text), bool(is_transient), list(arguments)]:
            try:
                cls = ERRORS[name]
                return cls(*arguments) if _ARGUMENTS[cls] else cls(text)
            except (KeyError, TypeError, AttributeError):  # of another release
                return e.MetadataUnavailable(text) if is_transient else e.RefusedCommand(text)
        case _:
            raise msgspec.ValidationError("an error is a name, a text, a flag and arguments")


def _read_error(wanted: type, value: object) -> object:
    """Return the error; a hook as above."""
    if wanted is e.MetadataError:
        return _error(value)
    raise NotImplementedError(f"{wanted.__name__} can not be received")


def _decode(data: Buffer | msgspec.Raw, wanted: Any) -> Any:
    return msgspec.msgpack.decode(data, type=wanted, dec_hook=_read_error)


_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What msgspec raises for invalid bytes, or for bytes that nest too deeply."""

_ARRAY = (0x90, 0xDC)
_MAP = (0x80, 0xDE)
"""MessagePack: first byte of those with up to 15 elements, and of those with a 16-bit length; the
next byte is for a 32-bit length."""

_ENCODER = msgspec.msgpack.Encoder(enc_hook=_error_fields)
