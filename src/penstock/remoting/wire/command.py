"""A command of the remoting protocol, request or answer, apart from how it is written.

Requests go both ways on a connection. An answer has the request's `opaque`, is written as the
request was, and may overtake others.

Source: RocketMQ `RemotingCommand`.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.base.ports import Buffer
from penstock.remoting.wire.codes import VERSION

ANSWER: Final = 1
ONE_WAY: Final = 2
OWN_LANGUAGE: Final = "PYTHON"
_NO_FIELDS: Final[Mapping[str, str]] = {}


class Serialisation(IntEnum):
    """How a header is written; the number is the first byte of the header's length field."""

    JSON = 0
    BINARY = 1


class Command(NamedTuple):
    """One command; the body may be a view of a receive buffer."""

    code: int
    fields: Mapping[str, str] = _NO_FIELDS
    body: Buffer = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: str = OWN_LANGUAGE
    version: int = VERSION
    serialisation: Serialisation = Serialisation.JSON

    @property
    def is_answer(self) -> bool:
        """Whether this answers a request of the other side."""
        return self.flag & ANSWER != 0

    @property
    def is_one_way(self) -> bool:
        """Whether the sender wants no answer."""
        return self.flag & ONE_WAY != 0

    def answer(
        self,
        code: int,
        fields: Mapping[str, str] = _NO_FIELDS,
        *,
        body: Buffer = b"",
        remark: str | None = None,
    ) -> "Command":
        """Return the answer to this request."""
        return Command(
            code=code,
            fields=fields,
            body=body,
            opaque=self.opaque,
            flag=ANSWER,
            remark=remark,
            serialisation=self.serialisation,
        )
