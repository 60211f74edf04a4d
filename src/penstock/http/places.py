"""The connections of clients: who has a place, and who gives way where there is none left.

    comes ─► a stranger, the longest there first ─► shows a token ─► one of its connections
    none left ─► the longest there ends: of the strangers; else of a token that has more than
                 three quarters; else nobody does, and who comes is refused

Source: ours, docs/adr/0207.
"""

from typing import Protocol


class Holder(Protocol):
    """A connection."""

    def give_way(self) -> None:
        """End at once: its place is wanted."""


class Places:
    """See the module."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_token = most * 3 // 4
        self._strangers: dict[Holder, None] = {}
        self._known: dict[str, dict[Holder, None]] = {}
        """By the token that they have shown last; none is empty."""
        self._token: dict[Holder, str] = {}

    def __len__(self) -> int:
        """Return how many are taken."""
        return len(self._strangers) + len(self._token)

    def take(self, holder: Holder) -> bool:
        """Give it a place, which may end another connection; False if nobody gives way."""
        if len(self) >= self._most and not self._make_room():
            return False
        self._strangers[holder] = None
        return True

    def shows(self, holder: Holder, token: str) -> None:
        """Note that it has shown a token, which is known; ignored once it has no place."""
        if self._token.get(holder) == token or not self._has(holder):
            return
        self.leave(holder)
        self._token[holder] = token
        self._known.setdefault(token, {})[holder] = None

    def leave(self, holder: Holder) -> None:
        """Free its place, if it has one."""
        self._strangers.pop(holder, None)
        token = self._token.pop(holder, None)
        if token is not None:
            del self._known[token][holder]
            if not self._known[token]:
                del self._known[token]

    def _has(self, holder: Holder) -> bool:
        return holder in self._strangers or holder in self._token

    def _make_room(self) -> bool:
        greedy = (one for one in self._known.values() if len(one) > self._of_token)
        longest = next(iter(self._strangers or next(greedy, {})), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.give_way()
        return True
