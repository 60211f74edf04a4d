"""How many seats users have of a table that is for all.

Who proves who he is and has no right at all may still take a seat at some tables. So one user
leaves a quarter of each to others. Clients without a name are not one user.

Source: ours, docs/adr/0203.
"""

from collections import Counter


class Seats:
    """See the module."""

    __slots__ = ("_most", "_of", "_of_user", "count")

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_user = most * 3 // 4
        """Of one user."""
        self._of: Counter[str] = Counter()
        self.count = 0

    def has_free(self, user: str, more: int) -> bool:
        """Whether a user may take so many more; an empty one is nobody in particular."""
        most = self._of_user if user else self._most
        return self.count + more <= self._most and self._of[user] + more <= most

    def change(self, user: str, more: int) -> None:
        """Count seats that are taken, or given back."""
        self.count += more
        self._of[user] += more
        if not self._of[user]:
            del self._of[user]
