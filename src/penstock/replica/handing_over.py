"""Pauses of a master's writes for transfers of its mastership, by who asked for them.

    begin ─► ready      it may be recorded: `end` alone ends it, or the next mastership
        └──► not_ready  no controller goes on with it

A later request does not end what an earlier one may still lead to, even if it fails itself.

Source: Raft thesis 3.10 (leadership transfer); what outlives a failed request is our own.
"""

from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.promise import Asker


class HandingOver:
    """The transfers of one mastership that are prepared or may be recorded."""

    __slots__ = ("_member", "_pauses")

    def __init__(self, member: ReplicaSetMember) -> None:
        self._member = member
        self._pauses: dict[Asker, int] = {}
        """Of those that may be recorded the newest only: who ends it has ended earlier ones."""

    @property
    def is_open(self) -> bool:
        """Whether a transfer is prepared, or may be recorded already."""
        return bool(self._pauses)

    @property
    def asker(self) -> Asker | None:
        """The newest one who asked for a transfer that is open; None without any."""
        return max(self._pauses, default=None)

    def begin(self, asker: Asker) -> int:
        """Accept no writes while a transfer is prepared; returns the number of the pause."""
        self._pauses[asker] = number = self._member.pause_writes()
        return number

    def ready(self, asker: Asker) -> None:
        """Note that the transfer may be recorded from now on."""
        self._pauses = {one: number for one, number in self._pauses.items() if one >= asker}

    def not_ready(self, asker: Asker, number: int) -> None:
        """Accept writes again, unless another pause has begun."""
        if self._pauses.get(asker) == number:
            del self._pauses[asker]
        self._member.resume_writes(number)

    def end(self, asker: Asker) -> None:
        """Accept writes again: nothing that `asker` or an earlier one prepared can be recorded."""
        for ended in [one for one in self._pauses if one <= asker]:
            self._member.resume_writes(self._pauses.pop(ended))
