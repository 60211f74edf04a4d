"""A message of RocketMQ as a record, and a record as a message.

    message              record
    body                 value; null is shown as an empty body with the property KAFKA_NULL=1
    message group        key, if it is UTF-8 of fewer than 64 bytes, else header rmq.group
    KEYS                 header rmq.keys; a record of a Kafka producer shows its key, if printable
    TAGS                 header rmq.tag
    UNIQ_KEY             header rmq.id; without it a derived id is shown (ids.py)
    born ms              timestamp; header rmq.born where that is of delivery (later/delayed.py)
    born host            header rmq.bh
    flag, reconsumed     headers rmq.flag, rmq.times, unless 0
    other system names   header rmq. and the name (system_names.py)
    user properties      headers of the same name

A header of a Kafka producer is shown as a property if there is one of its name: doubled ones show
the first value, what is not text or has a separator is shown in base64 as NAME.b64, empty and null
ones can not be shown. Properties that exceed the 32 KiB of a message are left out, and counted in
KAFKA_LEFT_OUT.

A message that comes back is as it was sent, but for what belongs to sending (NOT_KEPT). Source:
ours; RocketMQ's `MessageConst` for the names. docs/formats/rocketmq-mapping.md has it for readers.
It deliberately does not know compression, topics and queues.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple

from penstock.record.build import Header, Record
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.system_names import (
    BORN_HEADER,
    BORN_HOST_HEADER,
    FLAG_HEADER,
    GROUP,
    GROUP_HEADER,
    HEADER_OF,
    KAFKA_NULL,
    KEPT,
    KEYS,
    LEFT_OUT,
    NOT_KEPT,
    PREFIX,
    TIMES_HEADER,
    TRANSIENT_PREFIX,
    UNIQ_KEY,
)
from penstock.remoting.wire.message import NO_HOST, Host
from penstock.remoting.wire.properties import PROPERTIES_BYTES_MAX, can_be_told, told_bytes

GROUP_BYTES_MAX: Final = 63
"""Longest message group that is a key, and longest key that is a message group: RocketMQ's own
limit of a group is 64 characters."""
_LEFT_OUT_BYTES: Final = told_bytes(LEFT_OUT, "99999999")
_BASE64: Final = ".b64"
_TIME_DIGITS_MAX: Final = 18
"""Fewer than an int64 may have."""
_HOST_CHARS_MAX: Final = 64
"""Of an address and a port. What is longer is none, and nothing that is remembered."""
_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_NAME_OF: Final = {header: name for name, header in HEADER_OF.items()} | {GROUP_HEADER: GROUP}
SYSTEM: Final = KEPT | NOT_KEPT | HEADER_OF.keys() | {GROUP}


class Mapped(NamedTuple):
    """What a message and a record have in common; the rest says where they are."""

    body: bytes
    properties: Mapping[str, str]
    flag: int = 0
    born_ms: int = 0
    born_host: Host = NO_HOST
    reconsume_times: int = 0


def to_record(message: Mapped) -> Record:
    """Return the record of a message that a client sends.

    Raises IllegalMessage for an empty body, and for a user property of the front's own names.
    """
    if not message.body:
        raise IllegalMessage("the body is empty")
    key = None
    headers: list[Header] = []
    for name, value in message.properties.items():
        if name == GROUP:
            raw = value.encode()
            if len(raw) <= GROUP_BYTES_MAX:
                key = raw
            else:
                headers.append((GROUP_HEADER, raw))
        elif name not in NOT_KEPT and not name.startswith(TRANSIENT_PREFIX):
            headers.append((_header_of(name), value.encode()))
    headers.append((BORN_HOST_HEADER, _host_text(message.born_host).encode()))
    if message.flag:
        headers.append((FLAG_HEADER, b"%d" % message.flag))
    if message.reconsume_times:
        headers.append((TIMES_HEADER, b"%d" % message.reconsume_times))
    return Record(key, message.body, tuple(headers), message.born_ms)


def to_message(record: Record, derived_id: str) -> Mapped:
    """Return a record as a message; `derived_id` is its id if its producer gave it none."""
    own: dict[str, str] = {}
    users: dict[str, str] = {}
    for name, value in record.headers:
        if name.startswith(PREFIX):
            _add_own(own, name, value)
        elif value and name not in SYSTEM:
            _add_shown(users, name, value)
    host, flag, times, born = (own.pop(one, "") for one in _FIELDS)
    if record.key:
        _add_key(own, record.key, is_kafkas=not host)
    own.setdefault(UNIQ_KEY, derived_id)
    if record.value is None:
        own[KAFKA_NULL] = "1"
    return Mapped(
        body=record.value or b"",
        properties=_fitting([*own.items(), *users.items()]),
        flag=_int32(flag),
        born_ms=_time(born, record.timestamp_ms),
        born_host=host_of(host),
        reconsume_times=max(_int32(times), 0),
    )


_FIELDS: Final = (BORN_HOST_HEADER, FLAG_HEADER, TIMES_HEADER, BORN_HEADER)


def _header_of(name: str) -> str:
    """Return the header for a property. Raises IllegalMessage."""
    if name.startswith(PREFIX):
        raise IllegalMessage(f"properties whose names begin with {PREFIX} are the server's")
    return HEADER_OF.get(name) or (PREFIX + name if name in KEPT else name)


def _add_own(own: dict[str, str], header: str, value: bytes | None) -> None:
    """Note the first header of a name of the front's; anyone may have written it."""
    rest = header[len(PREFIX) :]
    name = _NAME_OF.get(header) or (rest if rest in KEPT else header if header in _FIELDS else None)
    text = _text(value) if value else None
    if name is not None and text is not None:
        own.setdefault(name, text)


def _add_shown(users: dict[str, str], name: str, value: bytes) -> None:
    text = _text(value)
    if text is None:
        name, text = name + _BASE64, b64encode(value).decode()
    if can_be_told(name):
        users.setdefault(name, text)


def _add_key(own: dict[str, str], key: bytes, *, is_kafkas: bool) -> None:
    text = _text(key)
    if text is None:
        return
    if len(key) <= GROUP_BYTES_MAX:
        own.setdefault(GROUP, text)
    if is_kafkas and text.isprintable():
        own.setdefault(KEYS, text)


def _text(value: bytes) -> str | None:
    """Return a value as text; None if it is none, or has a separator."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if can_be_told(text) else None


def _fitting(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the properties, without those that exceed what a message may have."""
    left = PROPERTIES_BYTES_MAX - _LEFT_OUT_BYTES
    fitting: dict[str, str] = {}
    left_out = 0
    for name, value in pairs:
        size = told_bytes(name, value)
        if size > left:
            left_out += 1
        elif name not in fitting:
            fitting[name] = value
            left -= size
    if left_out:
        fitting[LEFT_OUT] = str(left_out)
    return fitting


def _int32(text: str) -> int:
    """Return the number in a header of the front's; 0 if anyone has written none there."""
    if not text:
        return 0
    try:
        number = int(text) if len(text) <= len(str(_INT32_MIN)) else 0
    except ValueError:
        return 0
    return number if _INT32_MIN <= number <= _INT32_MAX else 0


def _time(text: str, otherwise: int) -> int:
    """Return the time in a header of the front's, in ms."""
    is_time = text.isascii() and text.isdecimal() and len(text) <= _TIME_DIGITS_MAX
    return int(text) if is_time else otherwise


def _host_text(host: Host) -> str:
    return f"{ip_address(host.address)} {host.port}"


def host_of(text: str) -> Host:
    """Return the host that a header tells; none where anyone has written something else there."""
    return _read_host(text) if 0 < len(text) <= _HOST_CHARS_MAX else NO_HOST


@lru_cache(maxsize=1_024)
def _read_host(text: str) -> Host:
    """Return a host; there are few, and reading one takes microseconds."""
    address, _, port = text.partition(" ")
    try:
        packed = ip_address(address).packed
    except ValueError:
        return NO_HOST
    return Host(packed, max(_int32(port), 0))
