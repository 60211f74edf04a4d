"""The compiled check of a batch does what the interpreted one does, also with damaged bytes."""

import random
from typing import Any

import pytest

from penstock.base.errors import PlatformError
from penstock.record import batch, compiled
from penstock.record.build import Record, build_batch


def outcome(function: Any, *arguments: Any) -> tuple[Any, ...]:
    try:
        header = function(*arguments)
    except PlatformError as error:
        return type(error), str(error)
    return type(header), header


def some_batch(rng: random.Random) -> bytearray:
    records = [
        Record(None, rng.randbytes(rng.randrange(50)), (), rng.randrange(1 << 41))
        for _ in range(rng.randrange(1, 5))
    ]
    made = bytearray(build_batch(records, codec=rng.randrange(5)))
    if rng.random() < 0.5:
        producer = (rng.randrange(-1, 3), rng.randrange(-1, 3), rng.randrange(-1, 3))
        batch.stamp_producer(
            memoryview(made),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
    return made


@pytest.mark.parametrize("seed", range(8))
def test_both_twins_say_the_same_of_any_bytes(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(1500):
        made = some_batch(rng)
        for _ in range(rng.randrange(3)):
            made[rng.randrange(len(made))] = rng.choice((0, 1, 2, 255, rng.randrange(256)))
        if rng.random() < 0.3:  # damage that the checksum agrees with
            batch.seal(memoryview(made), 0, len(made))
        before, behind = rng.randrange(4), rng.randrange(4)
        view = memoryview(rng.randbytes(before) + made + rng.randbytes(behind))
        end = rng.choice((len(view), before + len(made), rng.randrange(len(view))))
        expected = outcome(batch.check_batch, view, before, end)
        assert outcome(compiled.check_batch, view, before, end) == expected
