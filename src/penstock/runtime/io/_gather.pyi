"""Types of the compiled twin."""

from collections.abc import Callable

def read_places(
    descriptor: int,
    places: list[tuple[int, int]],
    first: int,
    take: Callable[[int], memoryview],
    bytes_max: int,
) -> list[memoryview]: ...
