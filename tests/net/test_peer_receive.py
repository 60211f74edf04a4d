"""Frame memory against a twin that joins everything and cuts it up."""

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.peer_errors import PeerFrameTooLarge
from penstock.net.peer_receive import FrameMemory

LIMIT = 300_000
sizes = st.one_of(st.integers(0, 40), st.sampled_from([32_764, 65_536, 131_068, 131_072, LIMIT]))


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def opened() -> FrameMemory:
    memory = FrameMemory(512)
    memory.raise_limit(LIMIT)
    return memory


def feed(memory: FrameMemory, data: bytes, reads: list[int]) -> list[bytes]:
    """Read `data` as a transport would, at most so many bytes at a time; return the frames."""
    frames, at, turn = [], 0, 0
    while at < len(data):
        window = memory.window()
        assert len(window) > 0
        count = min(len(window), reads[turn % len(reads)], len(data) - at)
        turn += 1
        window[:count] = data[at : at + count]
        at += count
        memory.added(count)
        while (frame := memory.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


@given(
    st.lists(st.tuples(sizes, st.integers(0, 255)), max_size=12),
    st.lists(st.sampled_from([1, 3, 700, 5_000, 100_000, 1 << 20]), min_size=1, max_size=5),
)
def test_frames_come_out_as_they_went_in(parts: list[tuple[int, int]], reads: list[int]) -> None:
    sent = [bytes([fill]) * size for size, fill in parts]
    if max(reads) < 100:
        sent = [payload[:2_000] for payload in sent]
    memory = opened()
    assert feed(memory, b"".join(map(framed, sent)), reads) == sent
    assert memory.capacity <= LIMIT + 4
    assert len(memory.arrived()) == 0


def test_large_frames_one_after_another_are_never_moved() -> None:
    memory = opened()
    payload = bytes(200_000)
    data = framed(payload) * 5
    feed(memory, data[: len(framed(payload))], [1 << 20])
    starts = []
    at = 0
    while at < len(data):
        window = memory.window()
        count = min(len(window), len(data) - at)
        window[:count] = data[at : at + count]
        at += count
        memory.added(count)
        while (frame := memory.next_frame()) is not None:
            starts.append(len(frame))
            assert len(memory.arrived()) == 0, "the read stopped where the frame ends"
    assert starts == [200_000] * 5


def test_too_large_frame_is_told_before_its_bytes_have_come() -> None:
    memory = opened()
    window = memory.window()
    window[:4] = (LIMIT + 1).to_bytes(4, "big")
    memory.added(4)
    with pytest.raises(PeerFrameTooLarge):
        memory.next_frame()
    assert memory.capacity < LIMIT


def test_an_announced_size_takes_no_memory_before_its_bytes_have_come() -> None:
    memory = FrameMemory(512)
    memory.raise_limit(192 << 20)
    announced, arrived = (150 << 20).to_bytes(4, "big"), 3 << 20
    assert feed(memory, announced + bytes(arrived), [64 << 10]) == []
    assert len(memory.window()) > 0
    assert memory.capacity <= 5 * arrived


def test_memory_before_the_handshake_is_small_and_falls_back_after_a_huge_frame() -> None:
    assert FrameMemory(512).capacity <= 1 << 10
    memory = FrameMemory(512)
    memory.raise_limit(16 << 20)
    feed(memory, framed(bytes(8 << 20)), [1 << 20])
    assert memory.capacity >= 8 << 20
    feed(memory, framed(b"x"), [1 << 20])
    assert memory.capacity == 128 << 10


def test_a_large_frame_lies_in_memory_that_goes_back_to_the_system() -> None:
    memory = FrameMemory(512)
    memory.raise_limit(8 << 20)
    data = framed(bytes(4 << 20))
    assert feed(memory, data[:-1], [1 << 20]) == []
    assert isinstance(memory.arrived().obj, mmap.mmap)
    assert feed(memory, data[-1:], [1]) == [data[4:]]


LARGE = 2 << 20


@pytest.mark.parametrize(("size", "is_copied"), [(LARGE, False), (1_000, True)])
def test_a_large_frame_that_is_kept_takes_its_memory_along(size: int, *, is_copied: bool) -> None:
    memory = FrameMemory(512)
    memory.raise_limit(LARGE)
    kept = []
    for fill in (1, 2):
        data = framed(bytes([fill]) * size)
        while data:
            window = memory.window()
            count = min(len(window), len(data))
            window[:count] = data[:count]
            memory.added(count)
            data = data[count:]
        frame = memory.next_frame()
        assert frame is not None
        kept.append(memory.keep(frame))
    assert [bytes(one) for one in kept] == [bytes([1]) * size, bytes([2]) * size]
    assert all(isinstance(one, bytes) is is_copied for one in kept)


def test_a_large_frame_with_bytes_behind_it_is_copied() -> None:
    memory = FrameMemory(512)
    memory.raise_limit(LARGE + 100)
    feed(memory, framed(bytes(LARGE + 100)), [LARGE])
    data = framed(b"x" * LARGE) + framed(b"next")
    window = memory.window()
    assert len(window) >= len(data), "the memory of the frame before takes two at once"
    window[: len(data)] = data
    memory.added(len(data))
    frame = memory.next_frame()
    assert frame is not None
    kept, behind = memory.keep(frame), memory.next_frame()
    assert kept == b"x" * LARGE
    assert isinstance(kept, bytes)
    assert behind is not None
    assert bytes(behind) == b"next"
