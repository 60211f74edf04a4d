"""The compiled twin writes the same frames, and nothing outside of them."""

import random

import pytest

from penstock.frames import frames
from penstock.frames.frames import FRAME_HEADER_BYTES
from penstock.storage import compiled


def test_both_twins_write_the_same_frame_and_nothing_else() -> None:
    rng = random.Random(3)
    for _ in range(2000):
        batch = memoryview(rng.randbytes(rng.randrange(61, 400)))
        before, behind = rng.randrange(30), rng.randrange(30)
        space = rng.randbytes(before + FRAME_HEADER_BYTES + len(batch) + behind)
        first, second = bytearray(space), bytearray(space)
        numbers = (
            rng.randrange(1 << 31),
            rng.randrange(1 << 62),
            rng.choice((0, 0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, rng.randrange(1 << 40))),
            rng.randrange(1 << 62),
        )
        key = rng.randbytes(20)
        frames.put_batch_frame(memoryview(first), before, batch, key, *numbers)
        compiled.put_batch_frame(memoryview(second), before, batch, key, *numbers)
        assert first == second
        assert first[:before] == space[:before]
        assert first[len(first) - behind :] == space[len(first) - behind :]
        header = frames.check_header(memoryview(first), before, numbers[1], len(first) - before)
        assert header.frame_bytes == FRAME_HEADER_BYTES + len(batch)


@pytest.mark.parametrize("write", [frames.put_batch_frame, compiled.put_batch_frame])
def test_a_frame_that_does_not_fit_is_refused(write) -> None:
    view = memoryview(bytearray(FRAME_HEADER_BYTES + 99))
    with pytest.raises(ValueError):  # noqa: PT011  the text is Python's own
        write(view, 0, memoryview(bytes(100)), bytes(20), 1, 2, 3, 4)
