"""Receive memory of one peer link: frames are passed on where they were read, without a copy.

    start          filled              capacity
      │ size | body │ ... free ...       │

While a large frame is incomplete, reads end exactly at its end: the next frame then begins at the
start of the memory, and a stream of large frames is never moved. Small frames arrive many in one
read; only the incomplete last one is moved. The memory grows to the largest frame seen, up to the
limit, and shrinks after an exceptionally large one. It grows with the bytes received: an announced
size alone allocates a megabyte at most. Large memory is a mapping of its own, which goes back to
the system with the link: on the heap, what was freed of several sizes would stay.
"""

import mmap
from struct import Struct

from penstock.base.ports import Buffer
from penstock.net.peer_errors import PeerFrameTooLarge

SIZE_BYTES = 4
_SIZE = Struct(">I")

_FIRST_BYTES = 1 << 10
_USUAL_BYTES = 128 << 10
_KEPT_BYTES_MAX = 4 << 20
_AHEAD_BYTES = 1 << 20
_AHEAD_FACTOR = 4
"""Memory for an incomplete frame: this much, or this multiple of the bytes received."""
_MAPPED_BYTES_MIN = 1 << 20
"""From here on memory is mapped."""
_EXACT_BYTES_MIN = 32 << 10
"""With at least this much missing, a read stops at the end of the frame."""


class FrameMemory:
    """Bytes between `start` and `filled` are received and not passed on yet."""

    __slots__ = ("_filled", "_limit", "_start", "_usual_bytes", "_view")

    def __init__(self, limit: int) -> None:
        """`limit`: largest body of a frame, in bytes."""
        self._limit = limit
        self._usual_bytes = _FIRST_BYTES
        self._view = memoryview(bytearray(max(_FIRST_BYTES, limit + SIZE_BYTES)))
        self._start = self._filled = 0
        assert limit <= _FIRST_BYTES, "a stranger's frames are small"

    def raise_limit(self, limit: int) -> None:
        """Accept larger frames from now on: the peer is authenticated."""
        assert limit >= self._limit
        self._limit = limit
        self._usual_bytes = _USUAL_BYTES

    @property
    def capacity(self) -> int:
        """Bytes of memory held."""
        return len(self._view)

    def arrived(self) -> memoryview:
        """Return the bytes that are not passed on yet."""
        return self._view[self._start : self._filled]

    @property
    def has_several(self) -> bool:
        """Whether a whole frame and bytes of another one after it are there."""
        arrived = self._filled - self._start
        if arrived < SIZE_BYTES:
            return False
        (size,) = _SIZE.unpack_from(self._view, self._start)
        return arrived > SIZE_BYTES + int(size)

    def window(self) -> memoryview:
        """Return memory for the next read; never empty."""
        if self._start == self._filled:
            self._start = self._filled = 0
            if not self._usual_bytes <= len(self._view) <= _KEPT_BYTES_MAX:
                self._view = memoryview(bytearray(self._usual_bytes))
        arrived = self._filled - self._start
        if arrived < SIZE_BYTES:
            self._make_room(SIZE_BYTES)
            return self._view[self._filled :]
        (size,) = _SIZE.unpack_from(self._view, self._start)
        whole = SIZE_BYTES + min(size, self._limit)
        ahead = max(_AHEAD_BYTES, _AHEAD_FACTOR * arrived)
        self._make_room(max(min(whole, ahead), arrived + 1))
        missing = self._start + whole - self._filled
        if missing >= _EXACT_BYTES_MIN:
            return self._view[self._filled : self._filled + missing]
        return self._view[self._filled :]

    def _make_room(self, size: int) -> None:
        """Make room for `size` bytes from `start` on."""
        if self._start + size <= len(self._view):
            return
        arrived = self._filled - self._start
        target = self._view if size <= len(self._view) else _memory(size)
        target[:arrived] = self._view[self._start : self._filled]
        self._view = target
        self._start, self._filled = 0, arrived

    def keep(self, frame: memoryview) -> Buffer:
        """Return the frame that `next_frame` returned last, valid from now on.

        A large one takes its memory along if nothing came behind it, as copying 17 MiB to pages
        that were never touched takes ten milliseconds and more; others are copied.
        """
        if len(frame) < _MAPPED_BYTES_MIN or self._start != self._filled:
            return bytes(frame)
        self._view = memoryview(bytearray(self._usual_bytes))
        self._start = self._filled = 0
        return frame

    def free(self) -> None:
        """Free the memory at once, as the closed link may be referred to for long."""
        self._view = memoryview(bytearray())
        self._start = self._filled = 0

    def added(self, count: int) -> None:
        """Note that `count` bytes were read into the window."""
        self._filled += count
        assert self._filled <= len(self._view)

    def next_frame(self) -> memoryview | None:
        """Return the body of the next whole frame, valid until the next `window`, or None.

        Raises PeerFrameTooLarge as soon as its size is known.
        """
        arrived = self._filled - self._start
        if arrived < SIZE_BYTES:
            return None
        (size,) = _SIZE.unpack_from(self._view, self._start)
        if size > self._limit:
            raise PeerFrameTooLarge(size, self._limit)
        if arrived < SIZE_BYTES + size:
            return None
        body = self._start + SIZE_BYTES
        self._start = body + size
        return self._view[body : self._start]


def _memory(size: int) -> memoryview:
    return memoryview(bytearray(size) if size < _MAPPED_BYTES_MIN else mmap.mmap(-1, size))
