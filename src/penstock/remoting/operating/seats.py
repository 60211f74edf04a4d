"""How many seats users have of a table that is for all.

Who proves who he is and has no right at all may still take a seat at some tables. So one user
leaves a quarter of each to others. Clients without a name are not one user.

Source: ours, docs/adr/0207.
"""

from collections import Counter


class Seats:
    """See the module."""

    __slots__ = ("_of", "count", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._of: Counter[str] = Counter()
        self.count = 0

    def has_free(self, user: str, more: int) -> bool:
        """Whether a user may take so many more; an empty one is nobody in particular."""
        of_user = self.most * 3 // 4 if user else self.most
        return self.count + more <= self.most and self._of[user] + more <= of_user

    def change(self, user: str, more: int) -> None:
        """Count seats that are taken, or given back."""
        self.count += more
        self._of[user] += more
        if not self._of[user]:
            del self._of[user]
