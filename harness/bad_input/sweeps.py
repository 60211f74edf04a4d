"""Bad frames without gaps: one request of each key and version, wrong in every place in turn.

    cut at each byte     the body ends after 0, 1, 2, ... bytes, with the right size before it
    half at each byte    the connection ends after 1, 2, ... bytes
    each length          every length field is every value of `wrong_lengths` in turn
    each tag             every place for tagged fields has every wrong set of them in turn

The same seed gives the same requests; another seed gives others. A frame's number is its place in
the sweep of all keys.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import count, islice

from harness.advertised import EVERY_VERSION
from harness.bad_input.frame import BadFrame, framed, random_of
from harness.bad_input.generator import (
    WRONG_TAGS,
    replace,
    with_length,
    wrong_lengths,
)
from harness.bad_input.grammar import MarkedRequest, MarkKind, marked_request

SWEPT_BYTES_MAX = 600
"""A larger request is left out, another drawn in its place: its batch is swept by the fuzzer."""


_NEXT_SWEEP = 1_000_003


def swept_frames(seed: int, amount: int, first: int = 0) -> Iterator[BadFrame]:
    """Yield frames `first` to `first + amount` of a seed's sweep, and of more sweeps after it."""
    whole = _whole_sweep(seed)
    if first < len(whole):
        yield from islice(whole, first, first + amount)
    left = first + amount - max(first, len(whole))
    if left > 0:
        yield from swept_frames(seed + _NEXT_SWEEP, left, max(0, first - len(whole)))


@lru_cache(maxsize=2)
def _whole_sweep(seed: int) -> tuple[BadFrame, ...]:
    return tuple(sweep(seed))


def sweep(seed: int) -> Iterator[BadFrame]:
    """Yield all frames of a seed, some tens of thousands."""
    numbers = count()
    for place, (key, version) in enumerate(EVERY_VERSION):
        rng = random_of(seed, place)
        request = marked_request(key, version, rng)
        while len(request.frame) > SWEPT_BYTES_MAX:
            request = marked_request(key, version, rng)
        target = f"{key.name} v{version}"
        for kind, data in _of_one(request):
            yield BadFrame(kind, target, data, False, seed, next(numbers))


def _of_one(request: MarkedRequest) -> Iterator[tuple[str, bytes]]:
    frame = bytes(request.frame)
    whole = framed(frame)
    for end in range(len(frame)):
        yield "cut at each byte", framed(frame[:end])
    for end in range(1, len(whole), 3):
        yield "half at each byte", whole[:end]
    for mark in request.of(MarkKind.LENGTH):
        for value in wrong_lengths(request, mark):
            yield "each length", framed(with_length(request, mark, value))
    for mark in request.of(MarkKind.TAGS):
        for wrong in WRONG_TAGS:
            yield "each tag", framed(replace(request, mark, wrong))
