"""Receive memory: one large buffer that all connections read into, and more only for part-frames.

A read, the frames in it and their handling are one uninterrupted step of the loop, so all
connections can read into the same spare buffer: an idle one holds no memory. What is left of an
unfinished frame stays with its connection:

    up to 64 KiB    as bytes of exactly that length, put before the next read in the spare buffer
    more            the spare buffer itself becomes the connection's PartFrame, another the spare
    PartFrame full  it grows, at most to the frame's size: memory follows the bytes that have
                    arrived, never the size that a peer announces

`FrameBudget` bounds the memory of all unfinished frames together. A part of it is not for growing:
a frame that fits the spare buffer finds room however many large ones are on their way.

A grown buffer is a mapping of its own, which is gone from the process when it is let go: in the
allocator's heap the holes that growing leaves took a quarter more than was counted.

Source: CVE-2022-34917 (memory by announced size); the buffer size from our own measurements: a
produce request of Java and librdkafka is by default at most 1 MiB and a little.
"""

import mmap
from collections import deque
from collections.abc import Callable

SPARE_BYTES = (1 << 20) + (128 << 10)
SAVED_BYTES_MAX = 64 << 10
STARVED_BYTES = 4 << 10
"""How much is read at a time while the budget is used up: what a connection can go over it."""

_POOLED_MAX = 8
_GROWING_BYTES_MIN = 32 << 20
"""Of a budget, what large frames may use in any case: two of the default's greatest size."""


SHARE = 4
"""One answer may take this part of what is free: the fuller, the less, and something is left for
whoever comes next."""
ANSWER_BYTES_MIN = 64 << 10
ELSEWHERE_PART = 2
"""What is pinned elsewhere counts up to half of the budget: however large groups are, connections
have the other half."""

UNPROVEN_PART = 8
"""Clients that have not proved who they are may have this part of the budget, looked at once a
second: fetches of others wait from three quarters of it on."""


class FrameBudget:
    """Bytes that clients pin, and who waits for some of them to become free.

    Unfinished frames, frames that are worked on, and answers that their peers do not take, and
    what is told of as pinned elsewhere, by members of groups.
    """

    __slots__ = ("_elsewhere", "_waiting", "answers", "limit", "on_given_back", "peak", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.answers = 0
        """So much of it by answers."""
        self.peak = 0
        """The most that was pinned since memory was given back to the system."""
        self._waiting: deque[Callable[[], None]] = deque()
        self.on_given_back: list[Callable[[], None]] = []
        """Each is called once, when bytes have become free for answers."""
        self._elsewhere = 0

    @property
    def is_starved(self) -> bool:
        """Whether somebody waits for memory."""
        return bool(self._waiting)

    @property
    def answer_bytes_max(self) -> int:
        """How large an answer may be that its peer may not take."""
        return max(ANSWER_BYTES_MIN, (self.limit - self.used) // SHARE)

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes stay within the limit."""
        return self.used + size <= self.limit

    def has_room_to_grow(self, size: int) -> bool:
        """Whether a large frame may have `size` more bytes: a quarter is left for normal ones."""
        most = max(self.limit // 4 * 3, min(self.limit, _GROWING_BYTES_MIN))
        return self.used + size <= most

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when bytes have become free; it checks again whether they suffice."""
        self._waiting.append(wake)

    def count_elsewhere(self, size: int) -> None:
        """Count so much as pinned outside of connections, in place of what was told before."""
        before, self._elsewhere = self._elsewhere, min(size, self.limit // ELSEWHERE_PART)
        self.change(before, self._elsewhere)

    def pin_answer(self, size: int) -> None:
        """Count so much of an answer that can not be written yet."""
        self.used += size
        self.answers += size

    def unpin_answer(self, size: int) -> None:
        """Count it no more."""
        self.answers -= size
        self.give_back(size)

    def change(self, before: int, now: int) -> None:
        """Count `now` bytes in place of `before`; wakes those who wait where it is less."""
        if now >= before:
            self.used += now - before
        else:
            self.give_back(before - now)

    def give_back(self, size: int) -> None:
        """Return bytes; wakes those who wait, longest wait first, while there is room."""
        self.used -= size
        assert self.used >= 0, self.used
        for _ in range(len(self._waiting)):
            if self.used >= self.limit:
                break
            self._waiting.popleft()()
        if self.on_given_back and self.used < self.limit:
            told, self.on_given_back = self.on_given_back, []
            for wake in told:
                wake()


class ReceiveBuffers:
    """The spare buffer, a small pool to replace it from, and the budget."""

    __slots__ = ("_pool", "budget", "spare", "spare_view")

    def __init__(self, budget: FrameBudget) -> None:
        self.budget = budget
        self._pool: list[bytearray] = []
        self.spare = bytearray(SPARE_BYTES)
        self.spare_view = memoryview(self.spare)

    def shrink(self) -> None:
        """Let go of the pool: what it is filled from comes back only in a flood."""
        self._pool.clear()

    def window(self, saved: bytes) -> memoryview:
        """Return where to read next, after putting `saved` at the start of the spare buffer."""
        start = len(saved)
        self.spare_view[:start] = saved
        if self.budget.used < self.budget.limit:
            return self.spare_view[start:]
        return self.spare_view[start : start + STARVED_BYTES]

    def adopt(self, start: int, end: int) -> "PartFrame":
        """Make the spare buffer a PartFrame that holds its bytes [start, end)."""
        part = PartFrame(self, self.spare, end)
        self.spare = self._pool.pop() if self._pool else bytearray(SPARE_BYTES)
        self.spare_view = memoryview(self.spare)
        part.cut(start)
        return part

    def release(self, buffer: bytearray | mmap.mmap) -> None:
        """Take a buffer back into the pool, where it has not grown."""
        if isinstance(buffer, bytearray) and len(self._pool) < _POOLED_MAX:
            self._pool.append(buffer)


class PartFrame:
    """The start of a larger frame: bytes [0, filled) of `view`."""

    __slots__ = ("_buffer", "_buffers", "filled", "view")

    def __init__(self, buffers: ReceiveBuffers, buffer: bytearray, filled: int) -> None:
        self._buffers = buffers
        self._buffer: bytearray | mmap.mmap = buffer
        self.view = memoryview(buffer)
        self.filled = filled
        buffers.budget.used += len(buffer)

    def cut(self, start: int) -> None:
        """Drop bytes [0, start), which have been handled."""
        if start:
            left = self.filled - start
            self.view[:left] = self.view[start : self.filled]
            self.filled = left

    def has_room(self) -> bool:
        """Whether another byte can be read."""
        return self.filled < len(self._buffer)

    def grow(self, frame_bytes: int) -> bool:
        """Make room towards a frame of that size; False while the budget does not allow it."""
        capacity = len(self._buffer)
        size = min(frame_bytes, 2 * capacity)
        assert size > capacity, (size, capacity)
        budget = self._buffers.budget
        if not budget.has_room_to_grow(size - capacity):
            return False
        larger = mmap.mmap(-1, size)
        view = memoryview(larger)
        view[: self.filled] = self.view[: self.filled]
        budget.used += size - capacity
        self._buffers.release(self._buffer)
        self._buffer = larger
        self.view = view
        return True

    def free(self) -> None:
        """Give the memory back; the object must not be used again."""
        self._buffers.release(self._buffer)
        self._buffers.budget.give_back(len(self._buffer))
