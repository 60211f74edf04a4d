"""Every command, answer and metadata error arrives as it was sent."""

import collections.abc
import inspect
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.endpoints import NamedEndpoint
from penstock.base.ids import BrokerId
from penstock.controller import errors as e
from penstock.controller.commands import codec
from penstock.controller.commands import command as c
from penstock.controller.commands.codec import (
    ASSIGNMENT_BYTES_MAX,
    COMMANDS,
    ELEMENTS_MAX,
    ERRORS,
    FIELDS_MAX,
    NESTED_MAX,
    UNCOUNTED_BYTES,
    decode_answer,
    decode_command,
    decode_error,
    encode_answer,
    encode_command,
    encode_error,
)


def _sample(wanted: Any) -> Any:
    """Return a value of the type that differs from every default."""
    wanted = getattr(wanted, "__supertype__", wanted)
    if wanted is AckPolicy:
        return AckPolicy(kind=PolicyKind.ADAPTIVE, required=3, minimum=2)
    if wanted is e.MetadataError:
        return e.InvalidConfig("key", "reason")
    if is_dataclass(wanted) and isinstance(wanted, type):
        hints = get_type_hints(wanted)
        return wanted(**{field.name: _sample(hints[field.name]) for field in fields(wanted)})
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return list(wanted)[-1]
    if wanted is NamedEndpoint:
        return NamedEndpoint("outside", "fd00::1", 9095)
    plain = {int: 2**40, str: "tëxt", bool: True, bytes: bytes(range(16)), NoneType: None}
    return plain[wanted] if wanted in plain else _sample_of(get_origin(wanted), get_args(wanted))


def _sample_of(origin: Any, args: tuple[Any, ...]) -> Any:
    if origin in {Union, UnionType}:
        return _sample(next(arg for arg in args if arg is not NoneType))
    if origin is tuple:
        return tuple(_sample(arg) for arg in (args[:1] if args[-1] is Ellipsis else args))
    assert origin is collections.abc.Mapping
    return {_sample(args[0]): _sample(args[1])}


def _by_text(value: object) -> str:
    """Errors compare by identity; their class and text are what counts."""
    return repr(value)


def _every_command() -> list[type[c.Command[Any]]]:
    found = [
        cls
        for _, cls in inspect.getmembers(c, inspect.isclass)
        if issubclass(cls, c.Command) and cls is not c.Command
    ]
    assert len(found) > 20
    return found


@pytest.mark.parametrize("command_class", _every_command())
def test_every_command_and_its_answer_arrive_as_they_were_sent(
    command_class: type[c.Command[Any]],
) -> None:
    command = _sample(command_class)
    assert decode_command(encode_command(command)) == command
    answer = _sample(COMMANDS[command_class])
    assert _by_text(decode_answer(command, encode_answer(answer))) == _by_text(answer)


@pytest.mark.parametrize("error_class", ERRORS.values())
def test_every_error_arrives_with_its_class_its_fields_and_its_text(
    error_class: type[e.MetadataError],
) -> None:
    hints = get_type_hints(error_class.__init__) if "__init__" in vars(error_class) else {"": str}
    hints.pop("return", None)
    error = error_class(*(_sample(hint) for hint in hints.values()))
    again = decode_error(encode_error(error))
    assert type(again) is error_class
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_an_error_of_another_release_keeps_its_text_and_whether_to_try_again() -> None:
    lasting = msgspec.msgpack.encode(["Unheard", "no", False, [1]])
    passing = msgspec.msgpack.encode(["MetadataTimeout", "later", True, []])
    assert type(decode_error(lasting)) is e.RefusedCommand
    assert str(decode_error(lasting)) == "no"
    assert type(decode_error(passing)) is e.MetadataUnavailable


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode(["Unheard", {}]),
        msgspec.msgpack.encode(["SetFailover", {}]),
        msgspec.msgpack.encode(["SetFailover", {"is_enabled": 1}]),
        msgspec.msgpack.encode(["SetDefaultPolicy", {"policy": {"required": 0}}]),
        msgspec.msgpack.encode(["SetDefaultPolicy", {"policy": {"kind": "x"}}]),
    ],
)
def test_bytes_that_are_no_command_are_refused(data: bytes) -> None:
    with pytest.raises(e.MalformedCommand):
        decode_command(data)
    with pytest.raises(e.MalformedCommand):
        decode_error(data)
    with pytest.raises(e.MalformedCommand):
        decode_answer(c.SetFailover(is_enabled=True), b"\xc1")


@pytest.mark.parametrize("start", [b"", b"\x92\xa1a", b"\x92\xacCreateTopics\x81\xa6topics"])
def test_arrays_in_each_other_without_end_are_refused(start: bytes) -> None:
    data = start + b"\x91" * 100_000
    with pytest.raises(e.MalformedCommand):
        decode_command(data)
    with pytest.raises(e.MalformedCommand):
        decode_error(data)
    with pytest.raises(e.MalformedCommand):
        decode_answer(c.AllocateProducerIds(broker_id=BrokerId(1)), data)


def test_fields_that_another_release_knows_take_their_defaults_or_are_passed_over() -> None:
    short = msgspec.msgpack.encode(["DrainBroker", {"broker_id": 1, "newer": 5}])
    assert decode_command(short) == c.DrainBroker(broker_id=BrokerId(1))


def _largest(count: int) -> list[c.Command[Any]]:
    names = [f"topic-{number}" for number in range(count)]
    return [
        c.CreateTopics(topics=tuple(c.NewTopic(name=name) for name in names)),
        c.DeleteTopics(topics=tuple(c.TopicReference(name=name) for name in names)),
        c.AlterConfigs(
            resources=tuple(
                c.ResourceEdits(resource_type=2, resource_name=name, edits=()) for name in names
            )
        ),
        c.CreateReplicaSets(members=(as_brokers(1, 2),) * count, set_count=0),
    ]


@pytest.mark.parametrize("count", [ELEMENTS_MAX + 1, 70_000])
def test_more_elements_than_one_turn_has_time_for_are_refused_unbuilt(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """17,000 names of topics held the loop of the active controller for 34 ms."""
    built: list[Any] = []
    monkeypatch.setattr(codec, "_decode", lambda body, wanted: built.append(wanted))
    for command in _largest(count):
        data = encode_command(command)
        with pytest.raises(e.MalformedCommand, match=f"at most {ELEMENTS_MAX} .*, not {count}"):
            decode_command(data)
    assert not built


@pytest.mark.parametrize(
    "command",
    [
        c.CreateTopics(
            topics=(c.NewTopic(name="t", configs=dict.fromkeys(map(str, range(NESTED_MAX + 1)))),)
        ),
        c.CreateTopics(
            topics=(c.NewTopic(name="t", configs=dict.fromkeys(map(str, range(101)))),) * 199
        ),
        c.CreateTopics(
            topics=(
                c.NewTopic(name="t", assignments={0: as_brokers(1) * (2 * ASSIGNMENT_BYTES_MAX)}),
            )
        ),
        c.CreatePartitions(
            topics=(
                c.MorePartitions(
                    name="t",
                    partition_count=1,
                    assignments=(as_brokers(1) * 500, as_brokers(1)),
                ),
            )
        ),
        c.AlterConfigs(
            resources=(
                c.ResourceEdits(
                    resource_type=2,
                    resource_name="t",
                    edits=(c.ConfigEdit(key="k", operation=0, value="v"),) * (NESTED_MAX + 1),
                ),
            )
        ),
        c.CreateReplicaSets(members=(as_brokers(1) * 5_000,) * 5, set_count=0),
    ],
)
def test_elements_with_more_of_their_own_than_a_turn_has_time_for_are_refused_unbuilt(
    command: c.Command[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "UNCOUNTED_BYTES", 0)
    monkeypatch.setattr(codec, "_decode", lambda _body, _wanted: pytest.fail("it is built"))
    with pytest.raises(e.MalformedCommand, match=r"of its own|too many brokers"):
        decode_command(encode_command(command))


def test_a_long_command_is_counted_without_being_told_to() -> None:
    configs = dict.fromkeys(map(str, range(UNCOUNTED_BYTES // 2)))
    command = c.CreateTopics(topics=(c.NewTopic(name="t", configs=configs),))
    with pytest.raises(e.MalformedCommand, match="of its own"):
        decode_command(encode_command(command))


def test_what_a_broker_passes_of_a_single_topic_arrives() -> None:
    placed = dict.fromkeys(range(10000), as_brokers(1, 2, 3))
    configs = {f"key{number}": "x" * 32_000 for number in range(100)}
    command = c.CreateTopics(topics=(c.NewTopic(name="t", assignments=placed, configs=configs),))
    assert decode_command(encode_command(command)) == command
    everywhere = (as_brokers(1, 2, 3),) * 10_000
    more = c.MorePartitions(name="t", partition_count=10_000, assignments=everywhere)
    grown = c.CreatePartitions(topics=(more,))
    assert decode_command(encode_command(grown)) == grown


def test_as_many_elements_as_there_may_be_arrive() -> None:
    for command in _largest(ELEMENTS_MAX):
        assert decode_command(encode_command(command)) == command


def test_a_field_that_is_repeated_is_refused() -> None:
    """Each of them would be built, and only the last one be kept."""
    field = msgspec.msgpack.encode({"broker_id": 1})[1:]
    head = msgspec.msgpack.encode(["DrainBroker", None])[:-1]
    assert decode_command(head + b"\x81" + field) == c.DrainBroker(broker_id=BrokerId(1))
    with pytest.raises(e.MalformedCommand, match="once"):
        decode_command(head + b"\x82" + 2 * field)
    assert decode_command(_drain(FIELDS_MAX - 1)) == c.DrainBroker(broker_id=BrokerId(1))
    with pytest.raises(e.MalformedCommand, match=f"{FIELDS_MAX} fields"):
        decode_command(_drain(FIELDS_MAX))


def _drain(others: int) -> bytes:
    newer = {f"newer-{number}": number for number in range(others)}
    return msgspec.msgpack.encode(["DrainBroker", {"broker_id": 1, **newer}])
