"""A dictionary that notes what it had before it was changed.

So whoever keeps the tier's metadata in a log finds out what a command has changed, and can take it
back when the log does not take it. Values are replaced and never changed in place.

Source: ours; an undo log as databases have it, for one command.
"""

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Noted(dict[K, V]):
    """Changed by assignment, by `del` and by `put_back` only."""

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[K, V | None] = {}

    def __setitem__(self, key: K, value: V) -> None:
        """As in dict."""
        self._note(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        """As in dict."""
        self._note(key)
        super().__delitem__(key)

    def begin(self) -> None:
        """Note anew what is changed from now on."""
        self._before = {}

    @property
    def before(self) -> Mapping[K, V | None]:
        """What was there before the changes since `begin`; None: nothing."""
        return self._before

    def put_back(self, before: Mapping[K, V | None]) -> None:
        """Make it as it was."""
        for key, value in before.items():
            if value is not None:
                self[key] = value
            elif key in self:
                del self[key]

    def _note(self, key: K) -> None:
        if key not in self._before:
            self._before[key] = self.get(key)
