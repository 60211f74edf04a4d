"""Who is asked next: users take turns, and so do the clients of a user.

Everybody can say that he is a producer, as often as he likes. So a question looks at some clients
of each user, and the next one at those behind them: a crowd of one user hides nobody of another.

Source: ours; the round robin of fair queueing (Nagle, RFC 970).
"""

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Final, Generic, TypeVar

LOOKED_MAX: Final = 100
"""Clients that are looked at for one question, of all users. Many that may not be asked do not hold
the loop by their number."""

ClientT = TypeVar("ClientT", bound=Hashable)


class Turns(Generic[ClientT]):
    """The clients of one group or topic; see the module."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[str, dict[ClientT, None]] = {}
        """Clients by user, both in the order of their turns; none is empty."""

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, user: str, client: ClientT) -> None:
        """Add a client behind the others, unless it is there."""
        self._of.setdefault(user, {}).setdefault(client)

    def remove(self, user: str, client: ClientT) -> None:
        """Take out a client that is there."""
        clients = self._of[user]
        del clients[client]
        if not clients:
            del self._of[user]

    def next_of(self, is_fit: Callable[[ClientT], bool]) -> ClientT | None:
        """Return a client that is fit, another one each time; None if none was found."""
        each = max(LOOKED_MAX // max(len(self._of), 1), 1)
        for user in list(islice(self._of, LOOKED_MAX)):
            clients = self._of[user] = self._of.pop(user)
            for client in list(islice(clients, each)):
                clients[client] = clients.pop(client)
                if is_fit(client):
                    return client
        return None
