"""Buffers that part-frames leave behind are used again, until memory is given back."""

from dataclasses import dataclass

from penstock.net.receive import SPARE_BYTES, FrameBudget, ReceiveBuffers
from penstock.net.shares import by_share, far_larger


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


@dataclass(eq=False)
class Holding:
    client_host: str
    received_bytes: int


def test_the_largest_share_is_an_address_then_a_connection() -> None:
    lone = Holding("a", 9)
    many = [Holding("b", size) for size in (4, 6, 3)]
    assert by_share([lone, *many])[::-1] == [many[1], many[0], many[2], lone]
    assert far_larger(Holding("c", 0), 4, [lone, *many]) is many[1]


def test_only_who_holds_twice_as_much_gives_way() -> None:
    asker, large = Holding("a", 0), Holding("a", 8)
    assert far_larger(asker, 4, [asker, large]) is large
    assert far_larger(asker, 5, [asker, large]) is None
    other = Holding("b", 3)
    assert far_larger(asker, 5, [other, other, other, other]) is other, "by its address"
    assert far_larger(asker, 5, [asker]) is None


def test_large_frames_leave_a_quarter_to_normal_ones() -> None:
    buffers = ReceiveBuffers(FrameBudget(64 << 20))
    parts = [buffers.adopt(0, SPARE_BYTES) for _ in range(8)]
    while any(part.grow(100 << 20) for part in parts):
        pass
    assert buffers.budget.used <= 48 << 20
    assert buffers.budget.has_room(SPARE_BYTES)
    assert all(part.has_room() for part in parts if len(part.view) > SPARE_BYTES)
    for part in parts:
        part.free()
    assert buffers.budget.used == 0


def test_a_grown_buffer_keeps_what_has_arrived() -> None:
    buffers = ReceiveBuffers(FrameBudget(64 << 20))
    part = buffers.adopt(0, 100_000)
    part.view[:100_000] = b"x" * 100_000
    assert part.grow(16 << 20)
    assert bytes(part.view[: part.filled]) == b"x" * 100_000
