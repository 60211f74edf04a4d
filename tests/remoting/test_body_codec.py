"""Compressed bodies: what comes out has a bound before it is there."""

import zlib

import pytest

from penstock.record.compression import Bounds
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.wire.body_codec import plain_body

BOUNDS = Bounds(output_bytes_max=1_000, ratio_max=1 << 31)


@pytest.mark.parametrize("flag", [1, 0x301])
def test_a_body_is_inflated_up_to_the_bound_and_no_further(flag: int) -> None:
    assert plain_body(zlib.compress(bytes(1_000)), flag, BOUNDS) == bytes(1_000)
    with pytest.raises(IllegalMessage, match="exceeds 1000 bytes"):
        plain_body(zlib.compress(bytes(1_001)), flag, BOUNDS)


def test_a_body_that_is_not_compressed_is_left_alone() -> None:
    assert plain_body(b"plain", 0x100, BOUNDS) == b"plain"
