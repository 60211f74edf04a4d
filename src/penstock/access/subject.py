r"""The subject of a certificate as text: its distinguished name, last part first.

    CN=reader,OU=Sales\, EMEA,O=Example,C=DE

It is read from the certificate's bytes: the text that OpenSSL gives for them has lost which string
is of which type. Attributes that RFC 2253 names have its keywords; others have their numbers and
their bytes, `1.2.840.113549.1.9.1=#1609…`, as in Kafka. Letters of other scripts stand as they are.

Source: RFC 2253; X.690 (DER); RFC 5280 4.1; Java `X500Principal.getName`, which Kafka's principals
are. Departure: as RFC 2253 and OpenSSL do, = is not escaped, and # only at
the beginning.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.access.errors import MalformedName

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_CHARACTERS = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""Encodings of DER's string types, by tag."""
_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_ESCAPED = frozenset(',+"\\<>;')
_LENGTH_BYTES_MAX = 4


class _Element(NamedTuple):
    """One element of DER: its tag, its content, and all its bytes."""

    tag: int
    content: memoryview
    whole: memoryview


def subject_name(certificate: bytes) -> str:
    """Return the subject of a DER certificate. Raises MalformedName."""
    try:
        (outer,) = _elements(memoryview(certificate))
        to_be_signed = next(_elements(_of(outer, _SEQUENCE)))
        fields = [one for one in _elements(_of(to_be_signed, _SEQUENCE)) if one.tag != _VERSION]
        names = list(_elements(_of(fields[4], _SEQUENCE)))  # after number, algorithm, issuer, dates
        return ",".join(_relative_name(one) for one in reversed(names))
    except (IndexError, ValueError, StopIteration) as error:
        raise MalformedName(f"a certificate whose subject can not be read: {error}") from error


def _relative_name(element: _Element) -> str:
    return "+".join(_attribute(one) for one in _elements(_of(element, _SET)))


def _attribute(element: _Element) -> str:
    kind, value = _elements(_of(element, _SEQUENCE))
    number = _dotted(bytes(_of(kind, _OID)))
    keyword, encoding = _KEYWORDS.get(number), _CHARACTERS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={escaped(bytes(value.content).decode(encoding))}"


def escaped(text: str) -> str:
    """Return a value with what has a meaning in names escaped (RFC 2253 2.4)."""
    last = len(text) - 1
    return "".join(
        _escape(letter, is_first=at == 0, is_last=at == last) for at, letter in enumerate(text)
    )


def _escape(letter: str, *, is_first: bool, is_last: bool) -> str:
    if letter in _ESCAPED or (letter == " " and (is_first or is_last)):
        return f"\\{letter}"
    if letter == "#" and is_first:
        return "\\#"
    return f"\\{ord(letter):02X}" if letter < " " or letter == "\x7f" else letter


def _dotted(content: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _of(element: _Element, tag: int) -> memoryview:
    if element.tag != tag:
        raise ValueError(f"tag {element.tag:#x} where {tag:#x} is due")
    return element.content


def _elements(data: memoryview) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        start, tag, length = at, data[at], data[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            if not 0 < count <= _LENGTH_BYTES_MAX:
                raise ValueError("a length of another form")
            length = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + length > len(data):
            raise ValueError("an element that ends too late")
        yield _Element(tag, data[at : at + length], data[start : at + length])
        at += length
