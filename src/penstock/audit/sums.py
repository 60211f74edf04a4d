"""Adds rows that were read to sums by a key, with a bound on the keys.

Source: ours; the bound of a reader's memory.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.audit.counts import NUMBERS

KEYS_MAX: Final = 100_000
"""Some 100 MB."""


class Sortable(Hashable, Protocol):
    """What keys are."""

    def __lt__(self, other: Any, /) -> bool: ...


Key = TypeVar("Key", bound=Sortable)


class Sums(Generic[Key]):
    """See the module."""

    def __init__(self, most: int = KEYS_MAX) -> None:
        self._by_key: dict[Key, dict[str, int]] = {}
        self._most = most
        self.left_out = 0
        """Rows whose key found no room."""

    def add(self, key: Key, counts: Mapping[str, int]) -> None:
        """Add the sums of a row; of the longest latency the longer one stays."""
        found = self._by_key.get(key)
        if found is None:
            if len(self._by_key) >= self._most:
                self.left_out += 1
                return
            found = self._by_key[key] = dict.fromkeys(NUMBERS, 0)
        for name, number in counts.items():
            found[name] = max(found[name], number) if name == _LONGEST else found[name] + number

    def __iter__(self) -> Iterator[tuple[Key, Mapping[str, int]]]:
        """Return keys and sums in the order of the keys."""
        return iter(sorted(self._by_key.items(), key=lambda item: item[0]))


_LONGEST: Final = "latency_us_max"
