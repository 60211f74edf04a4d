"""Header blocks: what a client's HEADERS and CONTINUATION frames hold, and those of answers.

A decoder keeps the table that the client fills; it is the client's encoder that decides what goes
in. Answers use the static table alone, so they are constant bytes and nothing is kept for them.

Source: RFC 7541. What is decoded is bounded by the size of the list that RFC 9113 6.5.2 counts: the
bytes of names and values, and 32 for each header. A block that refers to one large header a
thousand times (CVE-2016-6581) ends there.
"""

from collections import deque
from typing import Final

from penstock.http2.codes import ErrorCode
from penstock.http2.errors import ConnectionFault, TooMuch
from penstock.http2.huffman import decode_huffman

Header = tuple[bytes, bytes]
TABLE_BYTES_MAX: Final = 4_096
"""What a client's table may have; the default, so nobody has to be told."""
ENTRY_BYTES: Final = 32
"""What a header counts beside its name and its value."""
_INTEGER_MAX: Final = 1 << 24
"""Above all that a block has room for."""
_UPDATES_MAX: Final = 2
"""Changes of the table's size at the beginning of a block (RFC 7541 4.2)."""


def _header(text: str) -> Header:
    name, _, value = text[1:].partition("=")
    return (text[:1] + name).encode(), value.replace("gzip,", "gzip, ").encode()


STATIC: Final = tuple(
    map(
        _header,
        """
        :authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https
        :status=200 :status=204 :status=206 :status=304 :status=400 :status=404 :status=500
        accept-charset accept-encoding=gzip,deflate accept-language accept-ranges accept
        access-control-allow-origin age allow authorization cache-control content-disposition
        content-encoding content-language content-length content-location content-range content-type
        cookie date etag expect expires from host if-match if-modified-since if-none-match if-range
        if-unmodified-since last-modified link location max-forwards proxy-authenticate
        proxy-authorization range referer refresh retry-after server set-cookie
        strict-transport-security transfer-encoding user-agent vary via www-authenticate
        """.split(),  # noqa: SIM905  a list of names reads worse
    )
)
assert len(STATIC) == 61


class HeaderDecoder:
    """The table of one connection, and blocks read by it."""

    __slots__ = ("_bytes", "_bytes_max", "_list_bytes_max", "_table")

    def __init__(self, list_bytes_max: int) -> None:
        self._table: deque[Header] = deque()
        """Newest first."""
        self._bytes = 0
        self._bytes_max = TABLE_BYTES_MAX
        self._list_bytes_max = list_bytes_max

    def decode(self, block: bytes) -> list[Header]:
        """Return the headers of a block, in order. Raises ConnectionFault.

        After that the table is not what the client takes it for: the connection has to end.
        """
        try:
            return self._decode(block)
        except IndexError as error:
            raise _bad("a header block that is cut off") from error

    def _decode(self, block: bytes) -> list[Header]:
        at = self._updates(block)
        end = len(block)
        headers: list[Header] = []
        size = 0
        while at < end:
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                header = self._entry(index)
            elif first & 0x40:
                header, at = self._literal(block, at, 6)
                self._add(header)
            elif first & 0x20:
                raise _bad("the size of the table changes in the middle of a block")
            else:
                header, at = self._literal(block, at, 4)
            size += len(header[0]) + len(header[1]) + ENTRY_BYTES
            if size > self._list_bytes_max:
                raise TooMuch(f"headers of more than {self._list_bytes_max} bytes")
            headers.append(header)
        return headers

    def _updates(self, block: bytes) -> int:
        """Take the changes of the table's size, and return where the headers begin."""
        at = count = 0
        while at < len(block) and block[at] & 0xE0 == 0x20:
            size, at = _integer(block, at, 5)
            count += 1
            if size > TABLE_BYTES_MAX or count > _UPDATES_MAX:
                raise _bad("the table of headers is made too large, or too often")
            self._bytes_max = size
            self._fit()
        return at

    def _entry(self, index: int) -> Header:
        if 0 < index <= len(STATIC):
            return STATIC[index - 1]
        at = index - len(STATIC) - 1
        if not 0 <= at < len(self._table):
            raise _bad(f"no header has the index {index}")
        return self._table[at]

    def _literal(self, block: bytes, at: int, bits: int) -> tuple[Header, int]:
        index, at = _integer(block, at, bits)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        return (name, value), at

    def _add(self, header: Header) -> None:
        self._table.appendleft(header)
        self._bytes += len(header[0]) + len(header[1]) + ENTRY_BYTES
        self._fit()

    def _fit(self) -> None:
        while self._bytes > self._bytes_max:
            name, value = self._table.pop()
            self._bytes -= len(name) + len(value) + ENTRY_BYTES


def encode_headers(headers: list[Header]) -> bytes:
    """Return a block of headers that leaves the table of the peer as it is."""
    block = bytearray()
    for header in headers:
        if header in STATIC:
            _add_integer(block, STATIC.index(header) + 1, 7, 0x80)
            continue
        name, value = header
        _add_integer(block, 0, 4, 0)
        for text in (name, value):
            _add_integer(block, len(text), 7, 0)
            block += text
    return bytes(block)


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return a number and where it ends. Raises IndexError, ConnectionFault."""
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if value > _INTEGER_MAX or shift > 28:
            raise _bad("a number in a header block is too large")
        if not byte & 0x80:
            return value, at
        shift += 7


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    is_huffman = block[at] & 0x80
    length, at = _integer(block, at, 7)
    end = at + length
    if end > len(block):
        raise _bad("a header block that is cut off")
    data = block[at:end]
    return (decode_huffman(data) if is_huffman else data), end


def _add_integer(block: bytearray, value: int, bits: int, first: int) -> None:
    most = (1 << bits) - 1
    if value < most:
        block.append(first | value)
        return
    block.append(first | most)
    value -= most
    while value >= 0x80:
        block.append(value & 0x7F | 0x80)
        value >>= 7
    block.append(value)


def _bad(reason: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.COMPRESSION_ERROR, reason)
