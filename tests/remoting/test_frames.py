"""Frames and headers: both serialisations come back, and what is malformed is refused."""

import json
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.remoting.errors import MalformedFrame
from penstock.remoting.wire.codes import LANGUAGES, RequestCode, ResponseCode
from penstock.remoting.wire.command import ANSWER, ONE_WAY, Command, Serialisation
from penstock.remoting.wire.frame import FIELDS_MAX, HEADER_BYTES_MAX, decode_frame, encode_frame

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
COMMANDS = st.builds(
    Command,
    code=st.integers(-(1 << 15), (1 << 15) - 1),
    fields=st.dictionaries(TEXT, TEXT, max_size=8),
    body=st.binary(max_size=60),
    opaque=INT32,
    flag=INT32,
    remark=st.none() | TEXT.filter(bool),
    language=st.sampled_from(LANGUAGES),
    version=st.integers(0, (1 << 15) - 1),
    serialisation=st.sampled_from(Serialisation),
)


def frame_of(header: bytes, body: bytes = b"", *, kind: int = 0) -> memoryview:
    """A frame without its length field."""
    return memoryview(pack(">I", kind << 24 | len(header)) + header + body)


@given(COMMANDS)
def test_commands_come_back_from_either_serialisation(command: Command) -> None:
    encoded = encode_frame(command)
    assert int.from_bytes(encoded[:4]) == len(encoded) - 4
    assert decode_frame(memoryview(encoded)[4:]) == command


def test_a_header_of_the_java_client_is_read() -> None:
    header = json.dumps(
        {
            "code": 310,
            "extFields": {"a": "group", "e": 3, "m": False, "x": None},
            "flag": 2,
            "language": "JAVA",
            "opaque": 7,
            "serializeTypeCurrentRPC": "JSON",
            "version": 479,
            "unknown": {"skipped": [1, 2]},
        }
    )
    command = decode_frame(frame_of(header.encode(), b"body"))
    assert command.code == RequestCode.SEND_MESSAGE_V2
    assert command.fields == {"a": "group", "e": "3", "m": "false"}
    assert (command.is_one_way, command.is_answer) == (True, False)
    assert (command.language, command.version, command.opaque) == ("JAVA", 479, 7)
    assert command.body == b"body"


@pytest.mark.parametrize("serialisation", Serialisation)
def test_an_answer_is_written_as_its_request_was(serialisation: Serialisation) -> None:
    request = Command(code=310, opaque=9, flag=ONE_WAY, serialisation=serialisation)
    answer = request.answer(ResponseCode.SUCCESS, {"queueId": "1"}, body=b"b", remark="r")
    assert (answer.opaque, answer.flag, answer.serialisation) == (9, ANSWER, serialisation)
    assert decode_frame(memoryview(encode_frame(answer))[4:]) == answer


@pytest.mark.parametrize(
    ("told", "language"), [(9, "GO"), (99, "OTHER"), (-1, "OTHER"), ("ZIG", "OTHER"), ("GO", "GO")]
)
def test_languages_are_numbers_or_names_and_unknown_ones_are_other(
    told: int | str, language: str
) -> None:
    header = json.dumps({"code": 34, "language": told}).encode()
    assert decode_frame(frame_of(header)).language == language


def test_an_unknown_language_of_a_binary_header_is_other() -> None:
    header = pack(">hBhiiII", 34, 200, 1, 2, 3, 0, 0)
    assert decode_frame(frame_of(header, kind=1)).language == "OTHER"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0",
        pack(">I", 1),
        frame_of(b"{}", kind=2),
        frame_of(b""),
        frame_of(b"{}"),
        frame_of(b"null"),
        frame_of(b'{"code": "310"}'),
        frame_of(b'{"code": 2147483648}'),
        frame_of(b'{"code": 1, "opaque": -2147483649}'),
        frame_of(b'{"code": 1, "extFields": {"a": {}}}'),
        frame_of(b'{"code": 1, "remark": "\xff"}'),
        frame_of(b'{"code": 1, "a": ' + b"[" * 100_000),
        frame_of(b'{"code": 1}' + b" " * HEADER_BYTES_MAX),
        frame_of(b"", kind=1),
        frame_of(pack(">hBhiiI", 1, 0, 0, 0, 0, 0), kind=1),
        frame_of(pack(">hBhiiII", 1, 0, 0, 0, 0, 1, 0), kind=1),
        frame_of(pack(">hBhiiII", 1, 0, 0, 0, 0, 0xFFFFFFFF, 0), kind=1),
        frame_of(pack(">hBhiiII", 1, 0, 0, 0, 0, 0, 1), kind=1),
        frame_of(pack(">hBhiiII", 1, 0, 0, 0, 0, 0, 0) + b"x", kind=1),
        frame_of(pack(">hBhiiIIH", 1, 0, 0, 0, 0, 0, 2, 0), kind=1),
        frame_of(pack(">hBhiiIIHI", 1, 0, 0, 0, 0, 0, 6, 0, 1), kind=1),
        frame_of(pack(">hBhiiIIHcI", 1, 0, 0, 0, 0, 0, 7, 1, b"\xff", 0), kind=1),
    ],
)
def test_malformed_frames_are_refused(frame: bytes | memoryview) -> None:
    with pytest.raises(MalformedFrame):
        decode_frame(memoryview(frame))


@pytest.mark.parametrize("serialisation", Serialisation)
def test_a_header_has_a_largest_number_of_fields(serialisation: Serialisation) -> None:
    fields = {str(number): "" for number in range(FIELDS_MAX)}
    most = Command(code=1, fields=fields, serialisation=serialisation)
    assert len(decode_frame(memoryview(encode_frame(most))[4:]).fields) == FIELDS_MAX
    more = most._replace(fields=fields | {"more": ""})
    with pytest.raises(MalformedFrame, match="129 fields"):
        decode_frame(memoryview(encode_frame(more))[4:])


@given(st.binary(max_size=80), st.sampled_from((0, 1, 2)))
def test_any_header_is_a_command_or_malformed(header: bytes, kind: int) -> None:
    _is_command_or_malformed(frame_of(header, b"rest", kind=kind))


@given(COMMANDS, st.data())
def test_any_change_of_a_frame_is_a_command_or_malformed(
    command: Command, data: st.DataObject
) -> None:
    frame = bytearray(encode_frame(command)[4:])
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(frame)))
    _is_command_or_malformed(memoryview(frame)[:end])


def _is_command_or_malformed(frame: memoryview) -> None:
    try:
        command = decode_frame(frame)
    except MalformedFrame:
        return
    text = "".join((*command.fields, *command.fields.values(), command.remark or ""))
    assert text.encode().decode() == text, "what was read can be written"
