"""Who waits for a change of a share: told once, in a later turn, of whatever has changed by then.

    acknowledged, released, timed out, moved, deleted, loaded, given up ──► (later) ──► told

Source: Kafka `DelayedShareFetchKey`, whose purgatory is looked at after each of these.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.coordinator.outbox import Later
from penstock.shares.state import ShareKey


class Watcher(Protocol):
    """Something that waits."""

    def on_share(self) -> None:
        """A share that is watched may have changed. It is not watched any more."""


class Watchers:
    """Of one coordinator. A watcher may watch many shares, and is told of each."""

    __slots__ = ("_due", "_later", "_of")

    def __init__(self, later: Later | None) -> None:
        """Without `later` they are told at once."""
        self._later: Later = later or _at_once
        self._of: dict[ShareKey, dict[Watcher, None]] = {}
        self._due: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._of)

    def watch(self, key: ShareKey, watcher: Watcher) -> None:
        """Tell it of the next change of the share."""
        self._of.setdefault(key, {})[watcher] = None

    def leave(self, key: ShareKey, watcher: Watcher) -> None:
        """Do not tell it any more, or it was told already."""
        watchers = self._of.get(key)
        if watchers is None:
            return
        watchers.pop(watcher, None)
        if not watchers:
            del self._of[key]

    def tell(self, key: ShareKey) -> None:
        """The share has changed."""
        watchers = self._of.pop(key, None)
        if watchers:
            self._put(watchers)

    def tell_all(self) -> None:
        """Any share may have: a partition of the internal topic has come or gone."""
        of, self._of = self._of, {}
        for watchers in of.values():
            self._put(watchers)

    def _put(self, watchers: dict[Watcher, None]) -> None:
        is_first = not self._due
        self._due.update(watchers)
        if is_first:
            self._later(self._run)

    def _run(self) -> None:
        due, self._due = self._due, {}
        for watcher in due:
            watcher.on_share()


def _at_once(run: Callable[[], None]) -> None:
    run()
