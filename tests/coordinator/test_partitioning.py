"""Java's String.hashCode, by known values and by a dumb twin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.partitioning import java_string_hash, partition_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
        ("my-consumer-group-0123456789", None),
    ],
)
def test_known_hashes(value: str, expected: int | None) -> None:
    if expected is not None:
        assert java_string_hash(value) == expected


def test_the_smallest_hash_goes_to_partition_zero() -> None:
    assert partition_of("polygenelubricants", 50) == 0


@given(st.text(alphabet=st.characters(max_codepoint=0xD7FF)), st.integers(1, 100))
def test_partition_agrees_with_the_definition(value: str, count: int) -> None:
    total = sum(ord(c) * 31 ** (len(value) - 1 - at) for at, c in enumerate(value)) % 2**32
    signed = total - 2**32 if total >= 2**31 else total
    assert java_string_hash(value) == signed
    assert partition_of(value, count) == (0 if signed == -(2**31) else abs(signed) % count)
