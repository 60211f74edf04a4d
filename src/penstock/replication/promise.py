"""What a member has promised to the controllers: to confirm nothing more for an old mastership.

    asked before an election, or ready to hand over ─► promised: (leader epoch, who asked)
    told to go on, by the same or a newer asker     ─► released: that leader epoch counts again
    a newer leader epoch is heard of                ─► everything older is over for good

A decision rests on what the members said they hold. It may be recorded at any later time, for as
long as the controller that made it can still commit: no clock here knows how long that is. So a
promise ends by word of a controller that knows, and never by time. What it must know stands in
docs/adr/0016.

Source: Paxos (Lamport 1998), phase 1: an acceptor's promise has no time limit. Departure: it is not
on disk; a process that has forgotten it acknowledges nothing before it is registered anew.
"""

from typing import NamedTuple

NO_EPOCH = -1


class Asker(NamedTuple):
    """Who asked: a controller's term, and its request. Later ones are larger."""

    controller_epoch: int
    request_id: int


NOBODY = Asker(-1, -1)


class Promise:
    """One member's promise about one set."""

    __slots__ = ("_asker", "_is_open", "_leader_epoch")

    def __init__(self) -> None:
        self._leader_epoch = NO_EPOCH
        """The newest mastership that a controller has named; all older ones are over."""
        self._asker = NOBODY
        self._is_open = False

    @property
    def asker(self) -> Asker | None:
        """Who may decide on what was promised, None when nothing is promised."""
        return self._asker if self._is_open else None

    def make(self, leader_epoch: int, asker: Asker) -> None:
        """Promise to confirm nothing more for masterships up to and with `leader_epoch`."""
        if leader_epoch < self._leader_epoch:
            return  # it asks about a mastership that is over
        self._leader_epoch = leader_epoch
        self._asker = max(asker, self._asker)
        self._is_open = True

    def release(self, leader_epoch: int, asker: Asker) -> bool:
        """Nothing that was decided on an earlier word can happen any more. Returns if it counted.

        `leader_epoch` is the set's newest one as that controller knows it. Older masterships stay
        fenced: this member may not have heard yet that they are over.
        """
        if leader_epoch < self._leader_epoch or asker < self._asker:
            return False
        was_open, self._is_open = self._is_open, False
        self._leader_epoch = leader_epoch
        return was_open

    def holds(self, leader_epoch: int) -> bool:
        """Whether nothing may be confirmed for the mastership of that epoch now."""
        if leader_epoch == self._leader_epoch:
            return self._is_open
        return leader_epoch < self._leader_epoch
