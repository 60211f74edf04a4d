"""Checking a run before any of it is written, since the sender's bytes may be damaged.

    frame    header, position, both checksums, length        as recovery checks its own log
    chain    leader epoch, segment, contiguous offsets       must continue the slave's log
    claim    "flushed up to F"                               only once this log is flushed up to F

The claim: recovery treats a frame's claim as proof that bytes were durable (frames.py). So a slave
must not write a frame before its own bytes below the claim are. A run whose claims need more than
SYNCS_MAX syncs, as when an old part of the log is copied, makes the log count as catching up
instead: its frames prove nothing until it has caught up (catching_up.py).

Source: ADR 0009; ADR 0002 for the evidence rule. No I/O.
"""

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import LeaderEpoch, Offset, Position
from penstock.frames.errors import BadRun
from penstock.frames.frames import (
    BATCH_COVERED_BYTES,
    BATCH_HEADER_BYTES,
    BATCH_WORD,
    EPOCH_PAYLOAD,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FRAME_VERSION,
    KIND_END,
    KIND_EPOCH,
    KIND_LOG_START,
    LOG_START_PAYLOAD,
    UNFLUSHED_MAX,
    WHOLE_SET,
)
from penstock.frames.run import Run
from penstock.record.batch import CONTROL, BatchHeader, read_header
from penstock.record.errors import RecordError
from penstock.record.marker import read_marker

SYNCS_MAX = 2
"""More syncs than this for one run cost more than the claims are worth."""

FRAMES_MAX = 1_000
"""Of one turn of the loop; each takes 6 us to check and to apply."""
BYTES_MAX = 4 << 20
"""Of one turn, and the frame in which they end: two checksums and a write, 4 ms."""

FRAME = Struct(">IIIiQI20s")
CONTROL_WORD = FRAME_MAGIC << 16 | FRAME_VERSION << 8
COVERED_END = FRAME_HEADER_BYTES + BATCH_COVERED_BYTES
PAYLOAD_BYTES = {
    KIND_LOG_START: LOG_START_PAYLOAD.size,
    KIND_EPOCH: EPOCH_PAYLOAD.size,
    KIND_END: 0,
}

_unpack = FRAME.unpack_from


class BatchFrame(NamedTuple):
    """A valid batch: frame key of its partition, header, position and size."""

    key: bytes
    header: BatchHeader
    position: Position
    size: int


class ControlFrame(NamedTuple):
    """A valid frame of another kind. `value` is the log start offset, or the epoch's start.

    If an end marker begins an epoch, that started at the marker's position.
    """

    kind: int
    key: bytes
    leader_epoch: LeaderEpoch
    position: Position
    value: int


class Follows(NamedTuple):
    """The state of the log that a run must continue."""

    leader_epoch: LeaderEpoch
    epoch_start: Position
    flushed_position: Position
    trusts_claims: bool
    """False while catching up: claims are not checked."""
    end_offset_of: Callable[[bytes], Offset]
    """Next offset of the partition with that frame key; -1 if any offset may follow."""


class Checked(NamedTuple):
    """The part of a run that may be written now, and its frames."""

    frames: list[BatchFrame | ControlFrame]
    size: int
    """Number of bytes of the run that may be written now: whole frames."""
    syncs: int
    """Number of syncs that the claims of the checked part need."""
    is_cut: bool
    """Whether it ends where it does because it is enough for one turn of the loop."""


def check_run(run: Run, follows: Follows) -> Checked:
    """Check the frames of `run` up to the first whose claim is not true here yet.

    At most FRAMES_MAX of them, and none behind the first BYTES_MAX: the others are left for another
    turn of the loop.

    Raises:
        BadRun: a frame is damaged, or does not continue the log.
    """
    return _RunCheck(run, follows).check()


class _RunCheck:
    """One check; its fields would otherwise be a dozen arguments."""

    __slots__ = (
        "_ends",
        "_epoch",
        "_epoch_start",
        "_follows",
        "_is_ended",
        "_run",
        "frames",
    )

    def __init__(self, run: Run, follows: Follows) -> None:
        self._run = run
        self._follows = follows
        self._epoch = follows.leader_epoch
        self._epoch_start = follows.epoch_start
        self._is_ended = False
        self._ends: dict[bytes, int] = {}
        self.frames: list[BatchFrame | ControlFrame] = []

    def check(self) -> Checked:
        """Check frame after frame. This is the slave's hot path."""
        run = self._run
        view, start, run_epoch = run.data, run.position, run.leader_epoch
        flushed = flushed_then = self._follows.flushed_position
        trusts_claims = self._follows.trusts_claims
        size = len(view)
        at = syncs = 0
        is_cut = False
        while at < size:
            if at >= BYTES_MAX or len(self.frames) == FRAMES_MAX:
                is_cut = True
                break
            if size - at < FRAME_HEADER_BYTES or self._is_ended:
                raise BadRun(start + at, "no frame begins here")
            crc, word, frame_bytes, epoch, position, unflushed, key = _unpack(view, at)
            end = at + frame_bytes
            if position != start + at or end > size or epoch != run_epoch:
                raise BadRun(start + at, "the header is not valid at this position")
            if unflushed != UNFLUSHED_MAX and position - unflushed > flushed_then:
                syncs += 1
                flushed_then = position
                if trusts_claims and position - unflushed > flushed:
                    break
            if word != BATCH_WORD:
                self._check_control(at, (crc, word, frame_bytes, epoch, position, key))
                at = end
                continue
            self._check_batch(at, end, crc, key)
            at = end
        return Checked(self.frames, at, syncs, is_cut)

    def _check_batch(self, at: int, end: int, crc: int, key: bytes) -> None:
        """Check the batch frame [at, end), whose header's magic and position are valid."""
        run, payload, covered = self._run, at + FRAME_HEADER_BYTES, at + COVERED_END
        view, epoch, position = run.data, run.leader_epoch, Position(run.position + at)
        if end - payload < BATCH_HEADER_BYTES or epoch != self._epoch:
            raise BadRun(position, "length or leader epoch of a batch is not valid")
        if crc32c(view[at + 4 : covered]) != crc:
            raise BadRun(position, "frame checksum does not agree")
        header = read_header(view, payload)
        base_offset, length, batch_epoch, magic, batch_crc, _, delta = header[:7]
        if crc32c(view[covered:end]) != batch_crc:
            raise BadRun(position, "batch checksum does not agree")
        if length + 12 != end - payload or batch_epoch != epoch or delta < 0 or magic != 2:
            raise BadRun(position, "the batch's header does not agree with its frame")
        if header.attributes & CONTROL:
            _check_marker(position, view[payload:end])
        expected = self._ends.get(key)
        if expected is None:
            expected = self._follows.end_offset_of(key)
        if base_offset < 0 or (expected >= 0 and base_offset != expected):
            raise BadRun(position, f"offset {base_offset}, expected {expected}")
        self._ends[key] = base_offset + delta + 1
        self.frames.append(BatchFrame(key, header, position, end - payload))

    def _check_control(self, at: int, fields: tuple[int, int, int, int, int, bytes]) -> None:
        crc, word, frame_bytes, named_epoch, named_position, key = fields
        epoch, position = LeaderEpoch(named_epoch), Position(named_position)
        kind = word & 0xFF
        payload_bytes = PAYLOAD_BYTES.get(kind)
        if word & ~0xFF != CONTROL_WORD or payload_bytes is None:
            raise BadRun(position, f"unknown frame kind: 0x{word:08x}")
        if frame_bytes != FRAME_HEADER_BYTES + payload_bytes:
            raise BadRun(position, f"frame of {frame_bytes} bytes, kind {kind}")
        view = self._run.data
        if crc32c(view[at + 4 : at + frame_bytes]) != crc:
            raise BadRun(position, "frame checksum does not agree")
        value: int = 0
        payload = view[at + FRAME_HEADER_BYTES : at + frame_bytes]
        if kind == KIND_EPOCH:
            value = self._check_epoch(epoch, position, payload)
        elif kind == KIND_END:
            value = self._check_end(epoch, position, key)
        elif epoch != self._epoch:
            raise BadRun(position, f"leader epoch {epoch} was not begun")
        else:
            (value,) = LOG_START_PAYLOAD.unpack(payload)
        self.frames.append(ControlFrame(kind, key, epoch, position, value))

    def _check_epoch(self, epoch: LeaderEpoch, position: Position, payload: memoryview) -> Position:
        named: LeaderEpoch
        start: Position
        named, start = EPOCH_PAYLOAD.unpack(payload)
        known = self._epoch
        if named != epoch or epoch < known or not 0 <= start <= position:
            raise BadRun(position, f"epoch frame of {named} starting at {start}, have {known}")
        if epoch == known and start != self._epoch_start:
            raise BadRun(position, f"epoch {epoch} starts at {self._epoch_start}, not {start}")
        if epoch > known >= 0 and start != position:
            raise BadRun(position, f"epoch {epoch} can not have started at {start}")
        self._epoch, self._epoch_start = epoch, start
        return start

    def _check_end(self, epoch: LeaderEpoch, position: Position, key: bytes) -> Position:
        """Check an end marker, which may begin a newer epoch. Return the start of its epoch."""
        if key != WHOLE_SET or epoch < self._epoch:
            raise BadRun(position, f"end marker of epoch {epoch}, have {self._epoch}")
        if epoch > self._epoch:
            self._epoch, self._epoch_start = epoch, position
        self._is_ended = True
        return self._epoch_start


def _check_marker(position: int, batch: memoryview) -> None:
    try:
        read_marker(batch)
    except RecordError as error:
        raise BadRun(position, f"the marker of a transaction can not be read: {error}") from error


def count_syncs(run: Run, flushed_position: int) -> int:
    """Return how many syncs the claims of the whole run need; reads headers only."""
    view, start = run.data, run.position
    at = syncs = 0
    while len(view) - at >= FRAME_HEADER_BYTES:
        _, _, frame_bytes, _, position, unflushed, _ = _unpack(view, at)
        if frame_bytes < FRAME_HEADER_BYTES or position != start + at:
            break
        if unflushed != UNFLUSHED_MAX and position - unflushed > flushed_position:
            syncs += 1
            flushed_position = position
        at += frame_bytes
    return syncs
