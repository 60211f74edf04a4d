"""Headers in JSON, which most clients write.

    {"code": 310, "extFields": {"a": "group"}, "flag": 0, "language": "JAVA", "opaque": 7,
     "remark": "…", "serializeTypeCurrentRPC": "JSON", "version": 479}

Source: RocketMQ `RemotingSerializable` (fastjson): unknown members are skipped, and values of
fields that are numbers or booleans are taken as text. Departure: a language that is not known is
OTHER, as clients of this protocol are written in more of them than it has numbers for.
"""

from typing import Annotated, Final

import msgspec

from penstock.base.ports import Buffer
from penstock.remoting.errors import MalformedFrame
from penstock.remoting.wire.codes import LANGUAGES
from penstock.remoting.wire.command import Command, Serialisation

_Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_Value = str | bool | int | float | None
_OTHER: Final = "OTHER"


class _Header(msgspec.Struct, rename={"fields": "extFields"}):
    code: _Int32
    opaque: _Int32 = 0
    flag: _Int32 = 0
    version: _Int32 = 0
    language: str | int | None = None
    remark: str | None = None
    fields: dict[str, _Value] | None = None


_decode: Final = msgspec.json.Decoder(_Header).decode
_encode: Final = msgspec.json.Encoder().encode


def read_json(header: memoryview, body: Buffer) -> Command:
    """Return the command of a header in JSON. Raises MalformedFrame."""
    try:
        read = _decode(header)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedFrame("a header that is not the JSON of a command") from error
    return Command(
        code=read.code,
        fields=_texts(read.fields or {}),
        body=body,
        opaque=read.opaque,
        flag=read.flag,
        remark=read.remark,
        language=_language(read.language),
        version=read.version,
        serialisation=Serialisation.JSON,
    )


def write_json(command: Command) -> bytes:
    """Return the header of a command in JSON."""
    header: dict[str, object] = {
        "code": command.code,
        "flag": command.flag,
        "language": command.language,
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is not None:
        header["remark"] = command.remark
    if command.fields:
        header["extFields"] = command.fields
    return _encode(header)


def _texts(fields: dict[str, _Value]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else _text(value)
        for name, value in fields.items()
        if value is not None
    }


def _text(value: bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _language(told: str | int | None) -> str:
    if isinstance(told, int):
        return LANGUAGES[told] if 0 <= told < len(LANGUAGES) else _OTHER
    return told if told in LANGUAGES else _OTHER
