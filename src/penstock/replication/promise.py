"""A member's promise to the controllers: to confirm nothing more for an old mastership.

    asked before an election, or ready to hand over ─► promised: (leader epoch, who asked)
    told to go on, by the same or a newer asker     ─► released: that leader epoch counts again
    a newer leader epoch is heard of                ─► all older ones are over for good

An election decides by what the members reported. The controller that decided may record the outcome
at any later time, as long as it can still commit; no clock here knows how long that is. So only a
controller's message ends a promise, never time. docs/adr/0016 says what the controller must know.

Source: Paxos (Lamport 1998), phase 1: an acceptor's promise has no time limit. Departure: it is not
on disk; a process that has lost it acknowledges nothing before it has registered again.
"""

from typing import NamedTuple

from penstock.base.ids import ControllerEpoch, LeaderEpoch, RequestId

NO_EPOCH = LeaderEpoch(-1)


class Asker(NamedTuple):
    """Who asked: a controller's term and the number of its request. Later askers are larger."""

    controller_epoch: ControllerEpoch
    request_id: RequestId


NOBODY = Asker(ControllerEpoch(-1), RequestId(-1))


class Promise:
    """One member's promise about one set."""

    __slots__ = ("_asker", "_is_open", "_leader_epoch")

    def __init__(self) -> None:
        self._leader_epoch = NO_EPOCH
        """The newest mastership named by a controller; all older ones are over."""
        self._asker = NOBODY
        self._is_open = False

    @property
    def asker(self) -> Asker | None:
        """Who may decide on what was promised; None if nothing is promised."""
        return self._asker if self._is_open else None

    def make(self, leader_epoch: LeaderEpoch, asker: Asker) -> None:
        """Promise to confirm nothing more for masterships up to `leader_epoch`, inclusive."""
        if leader_epoch < self._leader_epoch:
            return  # it asks about a mastership that is over
        self._leader_epoch = leader_epoch
        self._asker = max(asker, self._asker)
        self._is_open = True

    def release(self, leader_epoch: LeaderEpoch, asker: Asker) -> bool:
        """End the promise: no decision that rests on it can be recorded any more.

        `leader_epoch` is the set's newest one as that controller knows it. Older masterships stay
        fenced: this member may not have heard yet that they are over. Returns whether a promise
        was ended.
        """
        if leader_epoch < self._leader_epoch or asker < self._asker:
            return False
        was_open, self._is_open = self._is_open, False
        self._leader_epoch = leader_epoch
        return was_open

    def holds(self, leader_epoch: LeaderEpoch) -> bool:
        """Whether nothing may be confirmed for the mastership of that epoch now."""
        if leader_epoch == self._leader_epoch:
            return self._is_open
        return leader_epoch < self._leader_epoch
