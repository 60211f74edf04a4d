"""Headers in RocketMQ's own binary form.

    bytes  field
    2      code, i16
    1      language
    2      version, i16
    4      opaque, i32
    4      flag, i32
    4 + n  remark
    4 + n  fields: each 2 + n bytes of name, 4 + n bytes of value

Lengths count bytes of UTF-8. Codes from 32,768 on, those of pop, do not fit: such requests come in
JSON.

Source: RocketMQ `RocketMQSerializable`. Departures: text has to be UTF-8, and lengths are not
negative; RocketMQ replaces what is not text, and fails on most negative lengths.
"""

from struct import Struct
from struct import error as StructError
from typing import Final

from penstock.base.ports import Buffer
from penstock.remoting.errors import MalformedFrame
from penstock.remoting.wire.codes import LANGUAGES
from penstock.remoting.wire.command import Command, Serialisation

_FIXED = Struct(">hBhii")
_INT16, _INT32 = Struct(">H"), Struct(">I")
_OTHER: Final = LANGUAGES.index("OTHER")


def read_binary(header: memoryview, body: Buffer) -> Command:
    """Return the command of a binary header. Raises MalformedFrame."""
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, at = _text(header, _FIXED.size, _INT32)
        (size,) = _INT32.unpack_from(header, at)
        at += _INT32.size
        if at + size != len(header):
            raise MalformedFrame(f"fields of {size} bytes in {len(header) - at}")
        fields = {}
        while at < len(header):
            name, at = _text(header, at, _INT16)
            fields[name], at = _text(header, at, _INT32)
    except (StructError, UnicodeError) as error:
        raise MalformedFrame("a binary header that is cut off, or is no text") from error
    return Command(
        code=code,
        fields=fields,
        body=body,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        language=LANGUAGES[language if language < len(LANGUAGES) else _OTHER],
        version=version,
        serialisation=Serialisation.BINARY,
    )


def write_binary(command: Command) -> bytes:
    """Return the binary header of a command, whose code has to fit."""
    language = LANGUAGES.index(command.language)
    head = _FIXED.pack(command.code, language, command.version, command.opaque, command.flag)
    remark = (command.remark or "").encode()
    fields = bytearray()
    for name, value in command.fields.items():
        raw_name, raw_value = name.encode(), value.encode()
        fields += _INT16.pack(len(raw_name)) + raw_name + _INT32.pack(len(raw_value)) + raw_value
    return b"".join((head, _INT32.pack(len(remark)), remark, _INT32.pack(len(fields)), fields))


def _text(header: memoryview, at: int, length: Struct) -> tuple[str, int]:
    """Return the text whose length is at byte `at`, and where it ends.

    Raises MalformedFrame, struct.error, UnicodeError.
    """
    (size,) = length.unpack_from(header, at)
    at += length.size
    end = at + size
    if end > len(header):
        raise MalformedFrame(f"a text of {size} bytes in {len(header) - at}")
    return str(header[at:end], "utf-8"), end
