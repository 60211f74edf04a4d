"""Buffers that part-frames leave behind are used again, until memory is given back."""

from penstock.net.receive import FrameBudget, ReceiveBuffers


def test_buffers_of_part_frames_are_used_again_and_let_go_when_memory_is_given_back() -> None:
    buffers = ReceiveBuffers(FrameBudget(64 << 20))
    for part in [buffers.adopt(0, 100_000) for _ in range(3)]:
        part.free()
    last = buffers._pool[-1]
    buffers.adopt(0, 100_000)
    assert buffers.spare is last
    assert len(buffers._pool) == 2
    buffers.shrink()
    assert not buffers._pool
    assert buffers.adopt(0, 100_000).filled == 100_000
