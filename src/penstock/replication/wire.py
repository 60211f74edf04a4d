"""The bytes of replication messages: a head of 12 bytes, fields of fixed size, then payload.

    at  bytes  field
     0      1  version       2
     1      1  kind          see Kind
     2      2  zero
     4      4  replica set   -1 in a KeepAlive
     8      4  leader epoch  the mastership; -1 in a KeepAlive
    12         fields of the kind, then payload to the end of the frame

All integers are big-endian and signed, except counts. Payload is never copied: `encode` returns the
head and the caller's buffer separately, `decode` a view into the frame. The link adds and removes
the lengths of frames. Invalid bytes raise InvalidHaMessage.

Source: docs/formats/ha-link.md has every kind; RocketMQ's transfer header for the fields of a run.
"""

from collections.abc import Callable, Generator, Sequence
from enum import IntEnum
from itertools import pairwise
from struct import Struct
from struct import error as StructError

from penstock.base.ids import LeaderEpoch, Position, ReplicaId, ReplicaSetId
from penstock.base.ports import Buffer
from penstock.replication.alignment import LogShape
from penstock.replication.epochs import EpochStart
from penstock.replication.errors import InvalidHaMessage
from penstock.replication.messages import (
    NOT_SAID,
    Acknowledge,
    BaseBytes,
    BaseBytesWanted,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    KeepAlive,
    LogRun,
    Manifest,
    ManifestWanted,
    Reason,
    Refused,
)

VERSION = 2
"""Since version 2 a Hello names the process."""
EPOCHS_MAX = 65_536
"""Masterships in one message; a log with more sends the newest ones."""
LONG_BYTES = 32 << 10
"""Longer lists of masterships are read in slices; no other message of that size costs as much."""
SLICE = 1_000
"""Masterships between two turns of the loop."""
TEXT_BYTES_MAX = 500
INCARNATION_BYTES_MAX = 255


class Kind(IntEnum):
    """The number of each message on the wire."""

    HELLO = 1
    HELLO_ANSWER = 2
    REFUSED = 3
    BEGIN = 4
    LOG_RUN = 5
    ACKNOWLEDGE = 6
    GOODBYE = 7
    MANIFEST_WANTED = 8
    MANIFEST = 9
    BASE_BYTES_WANTED = 10
    BASE_BYTES = 11
    KEEP_ALIVE = 12


_HEAD = Struct(">BBHii")
_REPLICA = Struct(">iB")
_SHAPE = Struct(">qqqI")
_EPOCH = Struct(">iq")
_REFUSED = Struct(">Bi")
_BEGIN = Struct(">qq")
_RUN = Struct(">BBHii" + "iqqqq")
_POSITION = Struct(">q")
_TIME = Struct(">q")
_ACKNOWLEDGE = Struct(">qq")
_MANIFEST_WANTED = Struct(">B")
_BASE_BYTES_WANTED = Struct(">qI")

HEAD_BYTES = _HEAD.size
SLAVE_FRAME_BYTES_MAX = (
    HEAD_BYTES + _REPLICA.size + INCARNATION_BYTES_MAX + _SHAPE.size + EPOCHS_MAX * _EPOCH.size
)
"""Largest message of a slave, which is a Hello; masters send log bytes and manifests."""
RUN_HEAD_BYTES = _RUN.size

assert HEAD_BYTES == 12
assert RUN_HEAD_BYTES == 48


def encode_run(run: LogRun) -> tuple[bytes, Buffer]:
    """Return the head of a run, and its data uncopied."""
    return (
        _RUN.pack(
            VERSION,
            Kind.LOG_RUN,
            0,
            run.replica_set_id,
            run.leader_epoch,
            run.frames_epoch,
            run.position,
            run.confirm_position,
            run.file_base,
            run.file_end,
        ),
        run.data,
    )


def encode(message: HaMessage) -> tuple[Buffer, ...]:  # noqa: C901, PLR0911  a line a kind
    """Return the buffers of one frame."""
    match message:
        case LogRun():
            return encode_run(message)
        case Acknowledge():
            fields = _ACKNOWLEDGE.pack(message.position, message.read_ms)
            return (_head(Kind.ACKNOWLEDGE, message) + fields,)
        case Hello():
            return (_head(Kind.HELLO, message) + _hello(message),)
        case HelloAnswer():
            return (_head(Kind.HELLO_ANSWER, message) + _shape(message.shape),)
        case Refused():
            text = message.text.encode()[:TEXT_BYTES_MAX]
            fields = _REFUSED.pack(message.reason, message.newest_epoch) + text
            return (_head(Kind.REFUSED, message) + fields,)
        case Begin():
            fields = _BEGIN.pack(message.position, message.whole_from)
            return (_head(Kind.BEGIN, message) + fields,)
        case Goodbye():
            return (_head(Kind.GOODBYE, message),)
        case ManifestWanted():
            fields = _MANIFEST_WANTED.pack(message.newest_only)
            return (_head(Kind.MANIFEST_WANTED, message) + fields,)
        case Manifest():
            return _head(Kind.MANIFEST, message), message.encoded
        case BaseBytesWanted():
            fields = _BASE_BYTES_WANTED.pack(message.position, message.bytes_max)
            return (_head(Kind.BASE_BYTES_WANTED, message) + fields,)
        case BaseBytes():
            head = _head(Kind.BASE_BYTES, message) + _POSITION.pack(message.position)
            return head, message.data
        case KeepAlive():
            head = _HEAD.pack(VERSION, Kind.KEEP_ALIVE, 0, -1, -1)
            return (head + _TIME.pack(message.said_ms),)


_OfASet = (
    Hello
    | HelloAnswer
    | Refused
    | Begin
    | LogRun
    | Acknowledge
    | Goodbye
    | ManifestWanted
    | Manifest
    | BaseBytesWanted
    | BaseBytes
)


def _head(kind: Kind, message: _OfASet) -> bytes:
    return _HEAD.pack(VERSION, kind, 0, message.replica_set_id, message.leader_epoch)


def _hello(message: Hello) -> bytes:
    process = message.incarnation.encode()
    assert len(process) <= INCARNATION_BYTES_MAX
    return _REPLICA.pack(message.replica_id, len(process)) + process + _shape(message.shape)


def _shape(shape: LogShape) -> bytes:
    epochs = shape.epochs[-EPOCHS_MAX:]
    fixed = _SHAPE.pack(
        shape.start_position, shape.end_position, shape.confirm_position, len(epochs)
    )
    return fixed + b"".join([_EPOCH.pack(*epoch) for epoch in epochs])


def decode(frame: memoryview) -> HaMessage:
    """Return the message in a frame; its data is a view into the frame.

    Raises:
        InvalidHaMessage: the frame is no message, or one of another version.
    """
    try:
        version, kind, _, replica_set_id, leader_epoch = _HEAD.unpack_from(frame)
        if version != VERSION:
            raise InvalidHaMessage(f"unknown version {version} of replication messages")
        read = _READERS.get(kind)
        if read is None:
            raise InvalidHaMessage(f"unknown message kind {kind}")
        return read(replica_set_id, leader_epoch, frame)
    except StructError as error:
        raise _cut_off(frame) from error


def kind_of(frame: memoryview) -> str:
    """Return the name of a frame's message, for measures."""
    number = frame[1] if len(frame) > 1 else 0
    return Kind(number).name if number in _READERS else "unknown"


def is_long(frame: memoryview) -> bool:
    """Whether the frame should be read by `decode_slices`."""
    return len(frame) > LONG_BYTES and frame[1] in _LONG_KINDS


def decode_slices(frame: memoryview) -> Generator[None, None, HaMessage]:
    """Read a long frame, which must stay as it is, a slice a step; as `decode` else."""
    try:
        version, kind, _, replica_set_id, leader_epoch = _HEAD.unpack_from(frame)
        if version != VERSION:
            return decode(frame)
        if kind == Kind.HELLO_ANSWER:
            shape = yield from _shape_slices(frame, HEAD_BYTES)
            return HelloAnswer(replica_set_id, leader_epoch, shape)
        replica_id, incarnation, at = _read_process(frame)
        shape = yield from _shape_slices(frame, at)
        return Hello(replica_set_id, leader_epoch, replica_id, incarnation, shape)
    except StructError as error:
        raise _cut_off(frame) from error


def _cut_off(frame: memoryview) -> InvalidHaMessage:
    return InvalidHaMessage(f"a replication message of {len(frame)} bytes is cut off")


def _read_run(replica_set_id: ReplicaSetId, leader_epoch: LeaderEpoch, frame: memoryview) -> LogRun:
    _, _, _, _, _, epoch, position, confirmed, base, end = _RUN.unpack_from(frame)
    if min(position, confirmed, base) < 0 or not base <= position <= end:
        raise InvalidHaMessage(f"a run at {position} does not lie in its file [{base}, {end})")
    data = frame[RUN_HEAD_BYTES:]
    if position + len(data) > end:
        raise InvalidHaMessage(f"a run of {len(data)} bytes at {position} ends above {end}")
    return LogRun(replica_set_id, leader_epoch, epoch, position, confirmed, base, end, data)


def _read_shape(frame: memoryview, at: int) -> LogShape:
    slices = _shape_slices(frame, at)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            shape: LogShape = end.value
            return shape


def _shape_slices(frame: memoryview, at: int) -> Generator[None, None, LogShape]:
    start, end, confirmed, count = _SHAPE.unpack_from(frame, at)
    at += _SHAPE.size
    if count > EPOCHS_MAX or len(frame) != at + count * _EPOCH.size:
        raise InvalidHaMessage(f"a list of {count} epochs does not fill its frame")
    if not 0 <= start <= end or confirmed < 0:
        raise InvalidHaMessage(f"invalid log range [{start}, {end})")
    entries: list[EpochStart] = []
    for slice_at in range(at, len(frame), SLICE * _EPOCH.size):
        read = _EPOCH.iter_unpack(frame[slice_at : slice_at + SLICE * _EPOCH.size])
        known = len(entries)
        entries += [EpochStart(LeaderEpoch(epoch), Position(position)) for epoch, position in read]
        _check_epochs(entries[max(known - 1, 0) :])
        yield
    if entries and not 0 <= entries[-1].start_position <= end:
        raise InvalidHaMessage(f"leader epoch {entries[-1].leader_epoch} starts above the end")
    return LogShape(entries, Position(start), Position(end), Position(confirmed))


def _check_epochs(entries: Sequence[EpochStart]) -> None:
    for earlier, later in pairwise(entries):
        if later.leader_epoch <= earlier.leader_epoch:
            raise InvalidHaMessage(f"leader epoch {later.leader_epoch} is out of order")
        if later.start_position < earlier.start_position:
            raise InvalidHaMessage(f"leader epoch {later.leader_epoch} starts too early")


def _read_hello(
    replica_set_id: ReplicaSetId, leader_epoch: LeaderEpoch, frame: memoryview
) -> Hello:
    replica_id, incarnation, at = _read_process(frame)
    return Hello(replica_set_id, leader_epoch, replica_id, incarnation, _read_shape(frame, at))


def _read_process(frame: memoryview) -> tuple[ReplicaId, str, int]:
    """Return replica id and process of a Hello, and where its shape begins."""
    replica_id, length = _REPLICA.unpack_from(frame, HEAD_BYTES)
    at = HEAD_BYTES + _REPLICA.size
    try:
        incarnation = bytes(frame[at : at + length]).decode()
    except UnicodeDecodeError as error:
        raise InvalidHaMessage("the name of a process is not valid UTF-8") from error
    return replica_id, incarnation, at + length


def _read_refused(
    replica_set_id: ReplicaSetId, leader_epoch: LeaderEpoch, frame: memoryview
) -> Refused:
    reason, newest = _REFUSED.unpack_from(frame, HEAD_BYTES)
    text = bytes(frame[HEAD_BYTES + _REFUSED.size :][:TEXT_BYTES_MAX]).decode(errors="replace")
    try:
        return Refused(replica_set_id, leader_epoch, Reason(reason), newest, text)
    except ValueError as error:
        raise InvalidHaMessage(f"unknown refusal reason {reason}") from error


def _read_begin(
    replica_set_id: ReplicaSetId, leader_epoch: LeaderEpoch, frame: memoryview
) -> Begin:
    return Begin(replica_set_id, leader_epoch, *_BEGIN.unpack_from(frame, HEAD_BYTES))


def _read_acknowledge(
    replica_set_id: ReplicaSetId, leader_epoch: LeaderEpoch, frame: memoryview
) -> Acknowledge:
    (position,) = _POSITION.unpack_from(frame, HEAD_BYTES)
    read_ms = _read_time(frame, HEAD_BYTES + _POSITION.size)
    return Acknowledge(replica_set_id, leader_epoch, position, read_ms)


def _read_time(frame: memoryview, at: int) -> int:
    """Return the time at the end of a frame, which earlier releases leave out."""
    if len(frame) == at:
        return NOT_SAID
    (time_ms,) = _TIME.unpack_from(frame, at)
    if time_ms < NOT_SAID:
        raise InvalidHaMessage(f"invalid time {time_ms}")
    return int(time_ms)


def _read_manifest_wanted(
    replica_set_id: ReplicaSetId, leader_epoch: LeaderEpoch, frame: memoryview
) -> ManifestWanted:
    (newest_only,) = _MANIFEST_WANTED.unpack_from(frame, HEAD_BYTES)
    return ManifestWanted(replica_set_id, leader_epoch, bool(newest_only))


def _read_base_bytes_wanted(
    replica_set_id: ReplicaSetId, leader_epoch: LeaderEpoch, frame: memoryview
) -> BaseBytesWanted:
    return BaseBytesWanted(
        replica_set_id, leader_epoch, *_BASE_BYTES_WANTED.unpack_from(frame, HEAD_BYTES)
    )


def _read_base_bytes(
    replica_set_id: ReplicaSetId, leader_epoch: LeaderEpoch, frame: memoryview
) -> BaseBytes:
    (position,) = _POSITION.unpack_from(frame, HEAD_BYTES)
    data = frame[HEAD_BYTES + _POSITION.size :]
    return BaseBytes(replica_set_id, leader_epoch, position, data)


_READERS: dict[int, Callable[[ReplicaSetId, LeaderEpoch, memoryview], HaMessage]] = {
    Kind.HELLO: _read_hello,
    Kind.HELLO_ANSWER: lambda s, e, frame: HelloAnswer(s, e, _read_shape(frame, HEAD_BYTES)),
    Kind.REFUSED: _read_refused,
    Kind.BEGIN: _read_begin,
    Kind.LOG_RUN: _read_run,
    Kind.ACKNOWLEDGE: _read_acknowledge,
    Kind.GOODBYE: lambda s, e, _: Goodbye(s, e),
    Kind.MANIFEST_WANTED: _read_manifest_wanted,
    Kind.MANIFEST: lambda s, e, frame: Manifest(s, e, frame[HEAD_BYTES:]),
    Kind.BASE_BYTES_WANTED: _read_base_bytes_wanted,
    Kind.BASE_BYTES: _read_base_bytes,
    Kind.KEEP_ALIVE: lambda _s, _e, frame: KeepAlive(_read_time(frame, HEAD_BYTES)),
}
_LONG_KINDS = (Kind.HELLO, Kind.HELLO_ANSWER)
assert set(_READERS) == set(Kind), "every kind can be read"
